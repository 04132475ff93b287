"""The report in a real browser: no errors, nothing missing, good on a phone and by keyboard."""

import shutil

import pytest

from tests.compare.synthetic import grid, record
from zlpr.compare.folder import Selection
from zlpr.compare.report import write_report

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright drives the browser")
CHROMIUM = next(
    (
        path
        for name in ("chromium", "chromium-browser", "google-chrome")
        if (path := shutil.which(name))
    ),
    None,
)
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here; .ci/chromium installs it"),
]


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        made = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield made
        made.close()


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    records = [*grid(datasets=("toy",)), record(loss="hill", fault="ValueError: no")]
    paths = write_report(Selection(tuple(records), 1, ()), tmp_path_factory.mktemp("report"))
    return paths["html"].as_uri()


@pytest.fixture
def open_page(browser, address):
    pages = []

    def opened(width=1280, scheme="light"):
        page = browser.new_page(viewport={"width": width, "height": 844}, color_scheme=scheme)
        page.faults, page.requested = [], []
        page.on("console", lambda message: page.faults.append(message.text))
        page.on("pageerror", lambda error: page.faults.append(str(error)))
        page.on("request", lambda request: page.requested.append(request.url))
        page.goto(address)
        pages.append(page)
        return page

    yield opened
    for page in pages:
        page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_errors_and_nothing_fetched(open_page, address, scheme):
    page = open_page(scheme=scheme)
    assert page.faults == []
    assert [url for url in page.requested if not url.startswith("data:")] == [address]


def test_every_figure_is_there_and_drawn(open_page):
    page = open_page()
    boxes = page.evaluate(
        """[...document.querySelectorAll('figure svg')].map(svg => {
          const box = svg.getBoundingClientRect();
          return [box.width, box.height, svg.querySelectorAll('path, use').length];
        })"""
    )
    assert len(boxes) == 14
    assert all(width > 200 and height > 100 and marks > 10 for width, height, marks in boxes)
    broken = "[...document.images].filter(image => !image.naturalWidth).length"
    assert page.evaluate(broken) == 0


@pytest.mark.parametrize("width", [390, 320, 1280])
def test_the_page_never_scrolls_sideways(open_page, width):
    page = open_page(width=width)
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def contrast(page, selector):
    """The WCAG contrast of an element's text with the card or page behind it."""
    return page.evaluate(
        """selector => {
          const parse = c => c.match(/[\\d.]+/g).slice(0, 3).map(v => v / 255)
            .map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
          const light = c => { const [r, g, b] = parse(c); return .2126*r + .7152*g + .0722*b; };
          const element = document.querySelector(selector), style = getComputedStyle(element);
          let back = element;
          while (/rgba\\(.*, 0\\)|transparent/.test(getComputedStyle(back).backgroundColor))
            back = back.parentElement;
          const ink = element instanceof SVGElement ? style.fill : style.color;
          const [a, b] = [light(ink), light(getComputedStyle(back).backgroundColor)];
          return (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
        }""",
        selector,
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("selector", ["p.lead", ".note", "td.best strong", "figure svg text"])
def test_words_can_be_read_in_light_and_dark(open_page, scheme, selector):
    assert contrast(open_page(scheme=scheme), selector) >= 4.5


def column(page, place):
    cells = page.locator(f"#toy-linear table tbody tr > *:nth-child({place})")
    return [text.partition(" ")[0] for text in cells.all_inner_texts()]


def test_tables_sort_by_keyboard(open_page):
    page = open_page()
    heads = page.locator("#toy-linear table thead th")
    heads.nth(9).locator("button").focus()
    page.keyboard.press("Enter")
    values = [float(text) for text in column(page, 10)]
    assert values == sorted(values, reverse=True)
    assert heads.nth(9).get_attribute("aria-sort") == "descending"
    page.keyboard.press("Space")
    values = [float(text) for text in column(page, 10)]
    assert values == sorted(values)
    assert heads.nth(9).get_attribute("aria-sort") == "ascending"
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Enter")
    assert heads.nth(9).get_attribute("aria-sort") == "none"
    assert heads.nth(8).get_attribute("aria-sort") == "descending"


def test_rows_without_a_figure_stay_last(open_page):
    page = open_page()
    button = page.locator("#toy-linear table thead th").nth(1).locator("button")
    for _ in range(2):
        button.press("Enter")
        assert column(page, 2)[-4:] == ["–"] * 4


def test_printing_opens_every_section(open_page):
    page = open_page()
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = false)")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate("[...document.querySelectorAll('details')].every(d => d.open)")
    assert len(page.pdf()) > 10_000
