"""The static page in a real browser, opened as a file: its numbers are the package's."""

import re

import numpy as np
import pytest
import torch

from tests.browsing import IN_A_BROWSER, contrast
from tests.code_blocks import ROOT
from tests.models import fitted
from tests.serving.static_pages import model_and_review
from zlpr.data import demo
from zlpr.metrics import empty_share, macro_f1, micro_f1, subset_accuracy
from zlpr.serving.static_page import write_static_page
from zlpr.theory import risk_minimiser

pytestmark = IN_A_BROWSER
TABS = ["try", "threshold", "dependence"]
EXAMPLE = "The parcel came late, the box was broken and I want my money back"
STRANGE = [
    "",
    "zzz qqq",
    "REFUND refund Refund!",
    "İ want a refund, ΣΑΣ ΟΔΟΣ, naïve cafe\u0301 ²³ ½ x_1",
    "𝒳𝒴 broken🎁box the\u2028parcel\x1ewas\tlate",
    "refund" * 40,
]
HOME = """<!doctype html><body data-md-color-scheme="default" style="margin:0">
<iframe id="playground" src="page/index.html" style="width:100%"></iframe>
<script src="playground.js" defer></script>"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    target = tmp_path_factory.mktemp("site")
    model, found = model_and_review()
    write_static_page(model, found, target / "page", name="tickets", example=EXAMPLE)
    script = (ROOT / "docs" / "javascripts" / "playground.js").read_bytes()
    (target / "playground.js").write_bytes(script)
    (target / "index.html").write_text(HOME, encoding="utf-8")
    return target


@pytest.fixture
def open_page(new_page, folder):
    def opened(name="page/index.html", **options):
        return new_page((folder / name).as_uri(), **options)

    return opened


def settle(page, tab):
    page.click(f"#tab-{tab}")
    ready = {"try": "#why:not([hidden])", "threshold": "td.now", "dependence": "#toy-point-ZLPR"}
    page.locator(f"#{tab} {ready[tab]}, #{tab} {ready[tab]}").first.wait_for()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_every_tab_fits_can_be_read_and_asks_nobody(open_page, folder, width, scheme):
    page = open_page(width=width, scheme=scheme)
    assert page.locator("[role=tab]").all_inner_texts() == ["Try", "Threshold", "Dependence"]
    read = {"try": "#facts", "threshold": "td.once", "dependence": "#toy-lesson"}
    for tab in TABS:
        settle(page, tab)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, tab
        assert contrast(page, read[tab]) >= 4.5, tab
    assert page.faults == []
    assert all(url.startswith((folder.as_uri(), "data:")) for url in page.requested)
    assert "never leaves this page" in page.inner_text("#privacy")
    assert not page.locator("footer a").count()
    dark = "rgb(20, 23, 26)" if scheme == "dark" else "rgb(247, 247, 244)"
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == dark


def test_scores_probabilities_labels_and_words_are_the_packages(open_page):
    model, _ = model_and_review()
    between = EXAMPLE.replace(" ", " 🙂 ")  # no two words of it are neighbours
    texts = [*demo.make(60, seed=77).texts, EXAMPLE, between, *STRANGE]
    page = open_page()
    answers = page.evaluate(
        "async texts => (await zlprBackend.json('predict', { texts })).answers", texts
    )
    by_name = [
        [list(one[kind].values()) for one in answers] for kind in ("scores", "probabilities")
    ]
    np.testing.assert_allclose(by_name[0], model.predict_scores(texts), rtol=0, atol=1e-5)
    np.testing.assert_allclose(by_name[1], model.predict_proba(texts), rtol=0, atol=1e-5)
    assert [tuple(one["labels"]) for one in answers] == [tuple(x) for x in model.predict(texts)]
    assert list(answers[0]["scores"]) == list(model.label_names)
    for text in texts[-10:]:
        (own,) = model.explain(text, "refund", top=8)
        said = page.evaluate(
            """async text => (await zlprBackend.json('explain',
            { text, label: 'refund', top: 8 })).explanations[0]""",
            text,
        )
        assert [one["value"] for one in said["contributions"]] == pytest.approx(
            [one.value for one in own.contributions], abs=1e-5
        )
        assert [(one["start"], one["end"]) for one in said["words"]] == [
            (one.start, one.end) for one in own.words
        ]
        assert [one["value"] for one in said["words"]] == pytest.approx(
            [one.value for one in own.words], abs=1e-5
        )
        assert said["bias"] == pytest.approx(own.bias)
        assert said["predicted"] == own.predicted


def test_what_is_typed_is_answered_on_the_page(open_page):
    model, _ = model_and_review()
    page = open_page()
    page.wait_for_selector("#why:not([hidden])")
    assert page.input_value("#text") == EXAMPLE
    text = demo.make(1, seed=5).texts[0]
    page.fill("#text", text)
    expected = {f"✓ {name}" for name in model.predict([text])[0]}
    page.wait_for_function(
        "names => { const shown = [...document.querySelectorAll('#bars .predicted .name')]"
        ".map(one => one.textContent); return shown.sort().join() === names.sort().join(); }",
        arg=list(expected),
    )
    said = page.inner_text("#why-sum").replace("−", "-")
    score, bias, added = map(float, re.findall(r"[+-]?\d+\.\d+", said))
    assert score == pytest.approx(bias + added, abs=0.002)
    assert text[:10] not in page.url


def test_figures_move_with_the_cut_and_are_those_of_the_metrics(open_page):
    model, found = model_and_review()
    part = fitted.parts()[1]
    true, scores = part.labels.toarray().astype(bool), model.predict_scores(part.texts)
    page = open_page()
    settle(page, "threshold")
    own = page.locator("#figures td:nth-child(3)").all_inner_texts()
    assert page.locator("#figures td.now").all_inner_texts() == own
    assert float(own[2]) == pytest.approx(found.own["micro_f1"], abs=6e-4)
    for place in (0.3, 0.5, 0.6):
        page.evaluate(
            """place => { const slider = document.getElementById('cut');
            slider.value = Number(slider.min) + place * (slider.max - slider.min);
            slider.dispatchEvent(new Event('input')); }""",
            place,
        )
        page.wait_for_timeout(50)
        predicted = scores > np.float32(re.search(r"t=([-\d.]+)", page.url)[1])
        hits = (true & predicted).sum()
        expected = [
            hits / max(predicted.sum(), 1),
            hits / true.sum(),
            micro_f1(true, predicted, empty="sklearn"),
            macro_f1(true, predicted, empty="sklearn"),
            subset_accuracy(true, predicted),
            empty_share(predicted),
        ]
        shown: list[float] = []
        for _ in range(100):  # a busy machine draws late
            shown = [float(text) for text in page.locator("#figures td.now").all_inner_texts()]
            if shown == pytest.approx(expected, abs=6e-4):
                break
            page.wait_for_timeout(50)
        assert shown == pytest.approx(expected, abs=6e-4), place


def toy_scores(page):
    cells = page.locator("#toy-scores td.now").all_inner_texts()
    return [float(text.replace("−", "-")) for text in cells]


def set_toy(page, name, value):
    page.locator(f"#toy-{name}").evaluate(
        "(input, value) => { input.value = value; input.dispatchEvent(new Event('input')); }", value
    )


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.8])
def test_the_toy_moves_zlpr_and_not_bce_as_the_theory_says(open_page, share):
    page = open_page()
    settle(page, "dependence")
    set_toy(page, "share", share)
    least = -min(share, 1 - share) / max(share, 1 - share)
    seen, heights = [], []
    for correlation in (least, 0.0, 0.4, 1.0):
        set_toy(page, "tie", correlation)
        both = share**2 + correlation * share * (1 - share)
        rows = [[1 - 2 * share + both, share - both], [share - both, both]]
        joint = torch.tensor(rows, dtype=torch.float64).clamp(min=0)
        expected = [risk_minimiser(loss, joint)[0].item() for loss in ("bce", "zlpr")]
        seen.append(toy_scores(page))
        assert seen[-1] == pytest.approx(expected, abs=6e-4), correlation
        points = [page.get_attribute(f"#toy-point-{loss}", "cy") for loss in ("BCE", "ZLPR")]
        heights.append([float(point) for point in points])
    (bce, zlpr), (bce_heights, zlpr_heights) = zip(*seen, strict=True), zip(*heights, strict=True)
    assert len(set(bce)) == 1
    assert np.ptp(bce_heights) < 1e-6
    if share == 0.5:
        assert set(zlpr) == {0.0}
        assert "Choose another share" in page.inner_text("#toy-lesson")
    else:
        assert len(set(zlpr)) == 4
        assert np.ptp(zlpr_heights) > 20


def test_the_toy_goes_by_keyboard_and_says_its_numbers(open_page):
    page = open_page()
    page.focus("#tab-try")
    page.keyboard.press("End")
    assert page.evaluate("document.activeElement.id") == "tab-dependence"
    before = toy_scores(page)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "toy-tie"
    page.keyboard.press("End")
    after = toy_scores(page)
    assert after[0] == before[0]
    assert after[1] < before[1] - 0.2
    said = page.get_attribute("#toy-tie", "aria-valuetext").replace("−", "-")
    assert [float(text) for text in re.findall(r"-\d\.\d+", said)] == pytest.approx(after, abs=6e-3)
    assert page.locator("#toy-tie").evaluate("input => input.labels.length") == 1
    page.reload()
    page.wait_for_selector("#dependence:not([hidden])")


@pytest.mark.parametrize("width", [1280, 390])
def test_within_the_home_page_it_has_its_height_and_the_colours_around_it(open_page, width):
    page = open_page("index.html", width=width)
    frame = page.frame(url="**/page/index.html*")
    for tab in TABS:
        settle(frame, tab)
        page.wait_for_timeout(100)
        tall, held, wide = frame.evaluate(
            "[innerHeight, document.documentElement.scrollHeight, "
            "document.documentElement.scrollWidth - innerWidth]"
        )
        assert held <= tall <= held + 4, tab
        assert wide <= 0, tab
    colour = "getComputedStyle(document.body).backgroundColor"
    assert frame.evaluate(colour) == "rgb(247, 247, 244)"
    page.evaluate("document.body.dataset.mdColorScheme = 'slate'")
    frame.wait_for_function(f"{colour} === 'rgb(20, 23, 26)'")
    assert page.faults == []
