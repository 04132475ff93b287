"""The report in a real browser: no errors, nothing missing, good on a phone and by keyboard."""

import functools

import pytest

from tests.browsing import COLOURS_ALONE, IN_A_BROWSER, contrast, serious_findings
from tests.compare.synthetic import grid, record
from zlpr.compare.folder import Selection
from zlpr.compare.report import write_report

pytestmark = IN_A_BROWSER


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    records = [*grid(datasets=("toy",)), record(loss="hill", fault="ValueError: no")]
    paths = write_report(Selection(tuple(records), 1, ()), tmp_path_factory.mktemp("report"))
    return paths["html"].as_uri()


@pytest.fixture
def open_page(new_page, address):
    return functools.partial(new_page, address)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_errors_and_nothing_fetched(open_page, address, scheme):
    page = open_page(scheme=scheme)
    assert page.faults == []
    assert [url for url in page.requested if not url.startswith("data:")] == [address]


def test_every_figure_is_there_and_drawn(open_page):
    page = open_page()
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    boxes = page.evaluate(
        """[...document.querySelectorAll('figure svg')].map(svg => {
          const box = svg.getBoundingClientRect();
          return [box.width, box.height, svg.querySelectorAll('path, use').length];
        })"""
    )
    assert len(boxes) == 15
    assert all(width > 200 and height > 100 and marks > 10 for width, height, marks in boxes)
    broken = "[...document.images].filter(image => !image.naturalWidth).length"
    assert page.evaluate(broken) == 0


def test_the_page_never_scrolls_sideways(open_page):
    page = open_page()
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    for width in (390, 320, 1280):
        page.set_viewport_size({"width": width, "height": 844})
        assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_can_be_read_in_light_and_dark(open_page, scheme):
    page = open_page(scheme=scheme)
    for selector in ("p.lead", ".note", "td.best strong", "figure svg text"):
        assert contrast(page, selector) >= 4.5, selector


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


@pytest.mark.parametrize("width", [1280, 390])
def test_nobody_is_shut_out(open_page, width):
    page = open_page(width=width)
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert serious_findings(page) == []
    page.emulate_media(color_scheme="dark")
    assert page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
    assert serious_findings(page, COLOURS_ALONE) == []


def test_one_data_set_begins_with_a_verdict_and_has_no_wins(open_page):
    page = open_page()
    assert page.locator("p.lead").inner_text().startswith("On toy the loss ")
    assert page.locator("#wins").count() == 0
    assert page.locator(".hero svg").is_visible()
    assert not page.locator(".more svg").first.is_visible()  # the rest is in folds
