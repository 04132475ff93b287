import copy
import re
from dataclasses import replace

from markdown_it import MarkdownIt

from tests.models import fitted
from zlpr.decoding import Threshold, by_hand
from zlpr.models.card import model_card


def test_the_card_shows_data_figures_decoding_and_limits():
    result = fitted.result()
    result.model.record.metrics["test"] = {"micro_f1": 0.75, "empty_predictions": 0.125}
    card = model_card(result.model)
    assert re.search(r"\| Micro-F1 \|.* 75\.0 % \|", card)
    assert re.search(r"\| empty predictions \|.* 12\.5 % \|", card)
    assert f"train samples: {len(fitted.parts()[0])}" in card
    threshold = result.model.decoder.to_config()["threshold"]
    assert f"By the rule `threshold` (threshold = {threshold:.4g}), fitted on validation" in card
    assert "the loss's own bound" in model_card(fitted.result(decode="zero").model)
    assert "## Limits" in card
    counts, report = result.model.record.frequencies.counts, result.model.record.by_label[1]
    for i, name in enumerate(result.model.label_names):
        row = f"| {name} | {counts[i]:,} | {report.support[i]:,} | {100 * report.f1[i]:.1f} % |"
        assert row in card
    assert "## Intended use" in card
    assert re.search(r"^license: unknown", card, flags=re.M)
    answer = re.search(r'model.predict\(\["a short text"\]\)  # (.*)', card)[1]
    (chosen,) = result.model.predict(["a short text"])
    assert answer == (", ".join(map(repr, chosen)) or "no label")


def test_the_card_says_what_was_set_by_hand():
    model = copy.copy(fitted.result().model)
    made = model.record
    model.decoder = by_hand(Threshold(0.25), model.calibrator, min_probability=0.3)
    assert "(threshold = 0.25), fitted on validation data. No label below a probability of 0.3" in (
        model_card(model)
    )
    for changed in (
        replace(made, settings={**made.settings, "threshold": 0.25}),
        replace(made, decision={"rule": "threshold", "by": "hand"}),
    ):
        model.record = changed
        assert "By the rule `threshold` (threshold = 0.25), set by hand." in model_card(model)


def test_the_card_says_where_probabilities_come_from():
    card = model_card(fitted.result().model)  # too little data to compare with label sets
    assert "Probabilities are those of a calibrator per label.\n" in card


def test_names_of_labels_and_data_are_text():
    hostile = "<script>x</script> **b** | `c`\n\n# h \x1b[2J"
    model = copy.copy(fitted.result().model)
    model.label_names = (hostile, *model.label_names[1:])
    figures = {hostile: {"micro_f1": 0.5}}
    model.record = replace(model.record, data={"name": hostile, hostile: hostile}, metrics=figures)
    card = model_card(model)
    assert "\x1b" not in card
    page = MarkdownIt("commonmark").enable("table").render(card.split("---\n", 2)[2])
    assert re.findall(r"<h1>", page) == ["<h1>"]
    assert page.count("<table>") == 2  # figures, and the labels
    assert "<script>" not in page
    assert "<strong>" not in page
    assert (
        page.count("&lt;script&gt;x&lt;/script&gt; **b** | `c` # h \\x1b[2J") == 6
    )  # title, data, labels, column
