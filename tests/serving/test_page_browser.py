"""The page in a real browser: every tab, by keyboard, on a phone, in the dark, and with faults."""

import copy
import re

import numpy as np
import pytest
from playwright import sync_api

from tests.browsing import COLOURS_ALONE, IN_A_BROWSER, contrast, serious_findings
from tests.models import fitted
from tests.serving import words
from tests.serving.running import running
from zlpr import load
from zlpr.decoding import WithAncestors
from zlpr.decoding.with_ancestors import bare, close
from zlpr.metrics import empty_share, macro_f1, micro_f1, subset_accuracy
from zlpr.serving import Access, Limits, Service, create_app
from zlpr.serving.review import review

pytestmark = IN_A_BROWSER
TABS = ["try", "threshold", "errors", "labels", "compare"]
SEEN = "the model was trained on them"
TEXT = "The parcel came late, the box was broken and I want my money back"


@pytest.fixture(scope="module")
def models():
    first, second = fitted.result(decode="threshold").model, fitted.result("bce").model
    return {"first": first, "second": second, "many": words.WordModel()}


@pytest.fixture(scope="module")
def reviews(models):
    part, test = fitted.parts()[2], fitted.parts()[1]
    made = {
        name: review(models[name], part, test, notes=notes)
        for name, notes in (("first", []), ("second", [SEEN]))
    }
    return {**made, "many": review(models["many"], words.data(models["many"]))}


@pytest.fixture(scope="module")
def folder(tmp_path_factory, models):
    target = tmp_path_factory.mktemp("models") / "first"
    models["first"].save(target)
    return target


@pytest.fixture(scope="module")
def address(models, reviews, folder):
    limits = Limits()
    service = Service(models, limits, {"first": folder})
    app = create_app(service, reviews=reviews, may_save=True)
    with running(app, limits) as (_, port):
        yield f"http://127.0.0.1:{port}/"


@pytest.fixture
def open_page(new_page, address):
    def opened(hash_="", where=address, **options):
        return new_page(where + hash_, **options)

    return opened


def settle(page, tab):
    """Open a tab and wait for what it shows."""
    page.click(f"#tab-{tab}")
    ready = {
        "try": "#facts:not(:empty)",
        "threshold": "#figures td.now",
        "errors": "#error-rows .clamp:not(:text('…'))",
        "labels": "#label-rows .row",
        "compare": "#compare-rows .row, #compare-needs:visible",
    }
    page.locator(ready[tab]).first.wait_for()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_tab_works_and_nothing_comes_from_elsewhere(open_page, address, scheme):
    page = open_page(scheme=scheme)
    for tab in TABS:
        settle(page, tab)
    assert page.faults == []
    assert all(url.startswith((address, "data:")) for url in page.requested)
    assert "never leaves this machine" in page.inner_text("#privacy")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_can_be_read_in_light_and_dark(open_page, scheme):
    page = open_page(scheme=scheme)
    settle(page, "threshold")
    for selector in ("#facts", "td.once", "#tab-errors", ".legend"):
        assert contrast(page, selector) >= 4.5, selector
    settle(page, "errors")
    for selector in (".badge", ".clamp"):
        assert contrast(page, selector) >= 4.5, selector


@pytest.mark.parametrize("model", ["first", "many"])
def test_nothing_scrolls_sideways_on_a_phone(open_page, model):
    page = open_page(f"#model={model}", width=390)
    page.fill("#text", TEXT)
    page.wait_for_selector("#why:not([hidden])")
    for tab in TABS[:4]:
        settle(page, tab)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, tab
    box = page.locator("#tab-compare").bounding_box()
    assert box["x"] + box["width"] <= 390


def test_labels_of_a_text_are_the_models_and_words_add_up(open_page, models):
    page = open_page()
    page.fill("#text", TEXT)
    page.wait_for_selector("#why:not([hidden])")
    shown = page.locator("#bars .predicted .name").all_inner_texts()
    assert {name.removeprefix("✓ ") for name in shown} == set(models["first"].predict([TEXT])[0])
    assert len(page.locator("#bars li").all()) == 12
    said = page.inner_text("#why-sum").replace("−", "-")
    score, bias, added = map(float, re.findall(r"[+-]?\d+\.\d+", said))
    assert score == pytest.approx(bias + added, abs=0.002)
    marks = page.locator("#why-words mark").all_inner_texts()
    assert marks == TEXT.split()
    assert "parcel" not in page.url


def test_another_label_is_explained_by_keyboard(open_page):
    page = open_page()
    page.fill("#text", TEXT)
    page.wait_for_selector("#why:not([hidden])")
    second = page.locator("#bars button").nth(1).get_attribute("data-label")
    page.locator("#bars button").first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_function(
        "name => document.getElementById('why-title').textContent.includes(name)", arg=second
    )
    pressed = page.locator("#bars [aria-pressed=true]")
    assert pressed.get_attribute("data-label") == second


def test_a_link_with_the_text_fills_it_in_and_leaves_the_address(open_page):
    page = open_page("#tab=try&text=money%20back")
    page.wait_for_selector("#why:not([hidden])")
    assert page.input_value("#text") == "money back"
    assert "money" not in page.url


def test_tabs_move_by_keyboard_and_stand_in_the_address(open_page, address):
    page = open_page()
    page.wait_for_selector("#facts:not(:empty)")
    page.focus("#tab-try")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("#figures td.now")
    assert "tab=threshold" in page.url
    page.keyboard.press("End")
    assert page.evaluate("document.activeElement.id") == "tab-compare"
    page.goto(f"{address}#tab=labels&sort=support-down")
    page.wait_for_selector("#label-rows .row")
    assert page.get_attribute("#tab-labels", "aria-selected") == "true"
    page.reload()
    page.wait_for_selector("#label-rows .row")
    assert page.get_attribute("#label-heads .support", "aria-sort") == "descending"


def shown_figures(page):
    return [float(text) for text in page.locator("#figures td.now").all_inner_texts()]


def decided(model, part, cuts):
    predicted = model.predict_scores(part.texts) > np.asarray(cuts, dtype=np.float32)
    if isinstance(model.decoder, WithAncestors):
        predicted = close(predicted, model.decoder.ancestors)
    return predicted


def f1_of_labels(part, predicted):
    true = part.labels.toarray().astype(bool)
    return 2 * (true & predicted).sum(0) / np.maximum(true.sum(0) + predicted.sum(0), 1)


def figures(model, part, cuts):
    true, predicted = part.labels.toarray().astype(bool), decided(model, part, cuts)
    hits = (true & predicted).sum()
    return [
        hits / max(predicted.sum(), 1),
        hits / true.sum(),
        micro_f1(true, predicted, empty="sklearn"),
        macro_f1(true, predicted, empty="sklearn"),
        subset_accuracy(true, predicted),
        empty_share(predicted),
    ]


def test_figures_move_with_the_cut_and_are_those_of_the_metrics(open_page, models, reviews):
    page = open_page()
    settle(page, "threshold")
    own, test = (page.locator(f"#figures td:nth-child({n})").all_inner_texts() for n in (3, 4))
    assert shown_figures(page) == [float(text) for text in own]
    for cut in (2.5, -1.25, 0.75, -100.0, 100.0):
        page.evaluate(
            """cut => { const slider = document.getElementById('cut'); slider.value = cut;
            slider.dispatchEvent(new Event('input')); }""",
            cut,
        )
        page.wait_for_timeout(50)
        set_ = float(re.search(r"t=([-\d.]+)", page.url)[1])
        expected = figures(models["first"], fitted.parts()[2], set_)
        assert shown_figures(page) == pytest.approx(expected, abs=6e-4), cut
    assert page.locator("#figures td:nth-child(4)").all_inner_texts() == test  # shown once
    assert float(test[2]) == pytest.approx(reviews["first"].test["micro_f1"], abs=6e-4)
    page.get_by_label("A label is predicted where its score is above").focus()
    before = page.url
    page.keyboard.press("ArrowLeft")
    page.wait_for_timeout(50)
    assert page.url != before


def test_figures_are_of_label_sets_with_ancestors_where_the_model_adds_them(open_page, models):
    above, parents = copy.copy(models["first"]), [[], [0], [1], [1], *[[]] * 8]
    above.decoder = WithAncestors(above.decoder, parents)
    data = fitted.parts()[2].with_ancestors(above.hierarchy)
    app = create_app({"above": above}, reviews={"above": review(above, data)})
    with running(app, Limits()) as (_, port):
        page = open_page(where=f"http://127.0.0.1:{port}/")
        settle(page, "threshold")
        own = page.locator("#figures td:nth-child(3)").all_inner_texts()
        assert shown_figures(page) == [float(text) for text in own]
        page.check("input[value=each]")
        cuts = [bare(above.decoder).threshold] * 12
        for label, cut in ((0, 3.0), (2, -1.0), (3, -0.5), (2, 2.0)):
            slider = page.locator("#each-rows input").nth(label)
            slider.evaluate(
                "(input, cut) => { input.value = cut; input.dispatchEvent(new Event('input')); }",
                cut,
            )
            cuts[label] = float(slider.evaluate("input => input.value"))
            expected = figures(above, data, cuts)
            assert shown_figures(page) == pytest.approx(expected, abs=6e-4), label
            shown = page.locator("#each-rows .note").all_inner_texts()
            f1 = [float(re.match(r"F1 ([\d.]+)", text)[1]) for text in shown]
            predicted = decided(above, data, cuts)
            assert f1 == pytest.approx(f1_of_labels(data, predicted)[: len(f1)], abs=6e-3), label


def test_a_cut_per_label_moves_alone_and_is_saved_in_a_copy(open_page, models, folder):
    page = open_page()
    settle(page, "threshold")
    page.check("input[value=each]")
    slider = page.locator("#each-rows input").nth(2)
    slider.evaluate("input => { input.value = 3; input.dispatchEvent(new Event('input')); }")
    own = models["first"].decoder.threshold
    moved = float(slider.evaluate("input => input.value"))
    cuts = [own, own, moved, *[own] * 9]
    expected = figures(models["first"], fitted.parts()[2], cuts)
    assert shown_figures(page) == pytest.approx(expected, abs=6e-4)
    page.fill("#save-name", "by-hand")
    page.click("#save button")
    page.locator("#save-said:has-text('Saved')").wait_for()
    saved = load(folder.parent / "by-hand").decoder
    np.testing.assert_allclose(saved.thresholds, cuts, rtol=1e-6)
    page.click("#save button")
    page.locator("#save-said:has-text('is there already')").wait_for()


def move_one_cut(page, cut):
    page.locator("#cut").evaluate(
        "(input, cut) => { input.value = cut; input.dispatchEvent(new Event('input')); }", cut
    )
    page.wait_for_timeout(50)


def test_another_model_and_back_begins_at_the_models_own_cuts(open_page):
    page = open_page()
    settle(page, "threshold")
    own, cut = shown_figures(page), page.inner_text("#cut-value")
    move_one_cut(page, 2.5)
    assert shown_figures(page) != own
    for name in ("second", "first"):
        page.select_option("#model", name)
        page.wait_for_timeout(200)
    assert page.inner_text("#cut-value") == cut
    assert shown_figures(page) == own


def test_a_link_without_a_cut_shows_the_models_own(open_page):
    page = open_page("#tab=threshold&t=2.5")
    page.locator("#figures td.now").first.wait_for()
    moved = shown_figures(page)
    page.evaluate("location.hash = '#tab=threshold'")
    page.wait_for_timeout(200)
    own = page.locator("#figures td:nth-child(3)").all_inner_texts()
    assert shown_figures(page) == [float(text) for text in own] != moved


def test_cuts_per_label_outlast_a_look_at_another_tab(open_page):
    page = open_page()
    settle(page, "threshold")
    move_one_cut(page, 0.5)
    page.check("input[value=each]")
    page.locator("#each-rows input").nth(2).evaluate(
        "input => { input.value = input.min; input.dispatchEvent(new Event('input')); }"
    )
    moved = shown_figures(page)
    settle(page, "errors")
    settle(page, "threshold")
    page.wait_for_timeout(200)
    assert shown_figures(page) == moved


def test_errors_are_filtered_opened_tried_and_downloaded(open_page, reviews, models):
    page = open_page()
    settle(page, "errors")
    errors, names = reviews["first"].errors, models["first"].label_names
    label = int(np.bincount(errors.labels).argmax())
    page.fill("#error-label", names[label])
    page.select_option("#error-kind", "missed")
    expected = int(((errors.labels == label) & ~errors.spurious).sum())
    assert page.inner_text("#error-count").startswith(f"{expected} error")
    page.select_option("#error-kind", "")
    with page.expect_download() as download:
        page.click("#error-csv")
    lines = download.value.path().read_text(encoding="utf-8").splitlines()
    assert len(lines) == 1 + int((errors.labels == label).sum())
    page.locator("#error-rows .clamp:not(:text('…'))").first.wait_for()
    page.locator("#error-rows .row").first.press("Enter")
    text = page.inner_text("#sample-text")
    assert text in fitted.parts()[2].texts
    page.keyboard.press("Escape")
    assert not page.is_visible("#sample")
    page.locator("#error-rows .row").first.click()
    page.click("#sample-try")
    assert page.input_value("#text") == text
    page.click("#tab-errors")
    page.select_option("#error-view", "doubtful")
    page.locator("#error-rows strong").first.wait_for()
    surest = int(reviews["first"].surprise.argmax())
    assert fitted.parts()[2].texts[surest] == page.locator("#error-rows .clamp").first.inner_text()


def test_labels_sort_by_keyboard_and_lead_to_their_errors(open_page, reviews, models):
    page = open_page()
    settle(page, "labels")
    page.locator("#label-heads .support button").press("Enter")
    page.locator("#label-heads .support button").press("Enter")
    shown = [int(text) for text in page.locator("#label-rows .support").all_inner_texts()]
    assert shown == sorted(reviews["first"].to_json()["support"], reverse=True)
    name = page.locator("#label-rows .label").first.inner_text()
    page.locator("#label-rows .label button").first.press("Enter")
    page.wait_for_selector("#errors:not([hidden])")
    assert page.input_value("#error-label") == name


def test_two_models_stand_side_by_side(open_page, models):
    page = open_page("#tab=compare&other=second")
    page.locator("#compare-rows .row").first.wait_for()
    part = fitted.parts()[2]
    first, second = (models[name].predict(part.texts) for name in ("first", "second"))
    differ = sum(set(a) != set(b) for a, b in zip(first, second, strict=True))
    assert f"disagree on {differ} sample" in page.inner_text("#compare-count")
    assert page.inner_text("#compare-notes") == f"second: {SEEN}."
    page.fill("#compare-text", TEXT)
    page.locator("#compare-answers .bars").nth(1).wait_for()
    for place, name in enumerate(("first", "second")):
        column = page.locator("#compare-answers > div").nth(place)
        shown = column.locator(".predicted .name").all_inner_texts()
        assert {label.removeprefix("✓ ") for label in shown} == set(models[name].predict([TEXT])[0])


def test_a_thousand_labels_and_one_called_script(open_page, models):
    page = open_page("#model=many")
    page.fill("#text", "w0 w7")
    page.wait_for_selector("#why:not([hidden])")
    shown = page.locator("#bars .predicted .name").all_inner_texts()
    assert f"✓ {words.STRANGE}" in shown
    for tab in TABS[:4]:
        settle(page, tab)
        assert page.evaluate("window.hacked") is None
    settle(page, "labels")
    assert page.locator("#label-rows .row").count() < 60
    page.locator("#label-heads .label button").press("Enter")
    page.locator("#label-rows").press("End")
    page.locator("#label-rows button:text-is('label 999')").wait_for()
    page.fill("#label-filter", "script")
    sync_api.expect(page.locator("#label-rows .row")).to_have_count(1)
    page.locator("#label-rows .label button").press("Enter")
    page.locator("#error-rows .clamp:not(:text('…'))").first.wait_for()
    settle(page, "threshold")
    page.check("input[value=each]")
    assert page.locator("#each-rows input").count() < 60
    assert page.evaluate("window.hacked") is None
    assert page.faults == []


def test_there_may_be_more_labels_than_a_call_takes_arguments(open_page):
    page = open_page()
    settle(page, "threshold")
    page.evaluate(
        """async () => {
          const labels = Array.from({ length: 200000 }, (_, place) => `label ${place}`);
          models = [{ ...model(), labels }];
          drawModel();
          (await review("first")).floors = labels.map((_, place) => -3 + place / 200000);
          cuts = null;
          await drawThreshold();
        }"""
    )
    assert page.evaluate("document.getElementById('label-list').childElementCount") == 200_000
    assert float(page.get_attribute("#cut", "min")) == pytest.approx(-2, abs=1e-4)
    assert page.faults == []


def test_rows_hold_what_stands_in_them(open_page, address):
    page = open_page()
    for tab in ("errors", "compare"):
        settle(page, tab)
        page.locator(f"#{tab.removesuffix('s')}-rows .clamp:not(:text('…'))").first.wait_for()
        over = "rows => rows.map(row => row.scrollHeight - row.clientHeight)"
        assert max(page.locator(f"#{tab} .sample-row").evaluate_all(over)) <= 1, tab
    page.goto(f"{address}docs")
    assert "POST /predict" in page.inner_text("main")
    assert page.faults == []


def test_a_list_that_is_taller_than_an_element_can_be_is_reached_to_its_end(open_page):
    page = open_page()
    settle(page, "labels")
    last, below = page.evaluate(
        """() => {
          labelOrder = Array.from({ length: 1000000 }, (_, place) => place % 12);
          labelRows.show(1000000);
          const box = document.getElementById('label-rows');
          box.scrollTop = box.scrollHeight;
          labelRows.draw();
          const last = Math.max(...labelRows.made.keys()), row = labelRows.made.get(last);
          return [last, row.getBoundingClientRect().bottom - box.getBoundingClientRect().bottom];
        }"""
    )
    assert last == 999_999
    assert abs(below) < 3


def test_a_server_that_goes_away_is_said_and_its_return_noticed(open_page, models):
    limits = Limits()
    with running(create_app({"first": models["first"]}, limits=limits), limits) as (_, port):
        page = open_page(where=f"http://127.0.0.1:{port}/")
        page.wait_for_selector("#facts:not(:empty)")
    page.fill("#text", TEXT)
    page.wait_for_selector("#banner:not([hidden])")
    assert "does not answer" in page.inner_text("#banner")
    again = create_app({"first": models["first"]}, limits=limits)
    with running(again, limits, port=port):
        page.wait_for_selector("#banner", state="hidden")
        page.wait_for_selector("#bars .predicted")


def test_a_token_is_asked_for_and_not_kept_in_the_address(open_page, models):
    limits, token = Limits(), "a-token-of-some-length"
    app = create_app({"first": models["first"]}, access=Access(token), limits=limits)
    with running(app, limits) as (_, port):
        page = open_page(where=f"http://127.0.0.1:{port}/")
        page.fill("#banner input", "wrong-token-altogether")
        page.keyboard.press("Enter")
        page.locator("#banner input").wait_for()
        page.fill("#banner input", token)
        page.keyboard.press("Enter")
        page.wait_for_selector("#facts:not(:empty)")
        assert token not in page.url
        page.close()


def test_without_data_or_a_second_model_the_tabs_say_what_to_do(open_page, models):
    limits = Limits()
    with running(create_app({"first": models["first"]}, limits=limits), limits) as (_, port):
        page = open_page(where=f"http://127.0.0.1:{port}/")
        for tab in TABS[1:]:
            page.click(f"#tab-{tab}")
            page.locator(f"#{tab} code:visible").first.wait_for()
            assert "zlpr serve first" in page.locator(f"#{tab} code:visible").first.inner_text()
        page.close()


@pytest.mark.parametrize("width", [1280, 390])
def test_nobody_is_shut_out(open_page, width):
    page = open_page(width=width)
    for tab in ("try", "threshold", "errors", "labels"):
        page.emulate_media(color_scheme="light")
        settle(page, tab)
        assert serious_findings(page) == []
        page.emulate_media(color_scheme="dark")
        assert page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
        assert serious_findings(page, COLOURS_ALONE) == []
