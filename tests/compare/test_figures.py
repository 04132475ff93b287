import xml.etree.ElementTree as ET
from dataclasses import replace

import matplotlib as mpl
import numpy as np
import pytest

from tests.compare.synthetic import DECIDING, grid, record
from zlpr._palette import look_of
from zlpr.compare import figures
from zlpr.compare.results import Contest, Results
from zlpr.models.registry import NO_LOSS

RECORDS = grid()
RESULTS = Results.from_records(RECORDS)
TOY = Contest("toy", "linear")


def words(figure) -> list[str]:
    """The text of a figure; parsing proves that it is well-formed."""
    tree = ET.fromstring(figure.svg)  # noqa: S314 - our own output
    return [element.text for element in tree.iter("{http://www.w3.org/2000/svg}text")]


def test_a_dot_plot_per_metric_names_every_loss():
    plots = figures.dot_plots(RESULTS, TOY)
    assert [words(plot)[-1] for plot in plots] == [
        "Subset accuracy",
        "Example F1",
        "Micro-F1",
        "Macro-F1",
        "Average precision",
        "Ranking loss",
    ]
    for plot in plots:
        assert set(RESULTS.losses) <= set(words(plot))


def test_differences_from_zlpr_lead_the_report():
    plot = figures.hero(RESULTS)
    assert set(RESULTS.losses) - {"zlpr"} <= set(words(plot))
    assert "How far each loss is from zlpr" in words(plot)
    assert figures.hero(Results.from_records([record(loss="zlpr")])) is None
    # A model without a loss has a table in which nothing is compared.
    beside = Results.from_records([*RECORDS, record(model="knn", loss=NO_LOSS)])
    assert figures.hero(beside).description == plot.description


def test_truly_empty_samples_stand_beside_empty_predictions():
    made = record(loss="bce")
    facts = replace(made.outcome.data, empty=0.125)
    known = replace(made, outcome=replace(made.outcome, data=facts))
    assert "truly empty: 12.5 %" in words(figures.empty_predictions([known], TOY))
    assert "truly" not in " ".join(words(figures.empty_predictions([made], TOY)))


def test_a_loss_has_one_colour_in_all_figures():
    plots = [figures.hero(RESULTS), *figures.dot_plots(RESULTS, TOY)]
    plots += figures.label_frequency_plots(RECORDS, TOY)
    for plot in plots:
        for loss in ("bce", "focal", "dice1"):
            assert f"var(--c{look_of(loss).colour})" in plot.svg


@pytest.mark.parametrize(
    "draw",
    [
        figures.training_curves,
        figures.label_frequency_plots,
        figures.reliability_plots,
        lambda *a: [figures.time_against_quality(*a), figures.empty_predictions(*a)],
    ],
)
def test_the_other_plots_come_in_pairs_and_name_the_losses(draw):
    first, second = draw(RECORDS, TOY)
    for plot in (first, second):
        assert set(DECIDING) <= set(words(plot))
        assert plot.title
        assert plot.description


def test_reliability_is_told_in_numbers_as_well():
    raw, calibrated = figures.reliability_plots([record(loss="bce")], TOY)
    assert raw.description.endswith("near 0: bce 31.0\xa0% (8.0\xa0%).")
    assert calibrated.description.endswith("near 0: bce 12.0\xa0% (2.0\xa0%).")


def test_reliability_of_older_records_is_told_as_far_as_they_know_it():
    made = record(loss="bce")
    older = replace(made.done.reliability, raw_label_error=None, calibrated_label_error=None)
    made = replace(made, outcome=replace(made.done, reliability=older))
    raw, _ = figures.reliability_plots([made], TOY)
    assert raw.description.endswith("near 0: bce –\xa0% (8.0\xa0%).")


def test_what_was_not_recorded_is_not_drawn():
    other = Contest("other", "linear")
    assert figures.training_curves(RECORDS, other) == []
    assert figures.time_against_quality(RECORDS, other) is None
    assert figures.empty_predictions(RECORDS, other) is None
    assert figures.reliability_plots(RECORDS, other) == []
    assert figures.empty_predictions([record(loss="lsep")], TOY) is not None
    only_ranks = figures.label_frequency_plots([record(loss="lsep")], TOY)
    assert [plot.title for plot in only_ranks] == ["F1 by label frequency on toy, linear, fitted"]


def test_the_rank_diagram_needs_enough_data_sets():
    assert figures.critical_difference_diagrams(RESULTS) == []
    many = Results.from_records(grid([f"set{i}" for i in range(6)]))
    diagrams = figures.critical_difference_diagrams(many)
    assert len(diagrams) == 10
    text = " ".join(words(diagrams[0]))
    assert all(loss in text for loss in DECIDING)
    assert "lsep" not in text


def test_drawing_leaves_matplotlib_as_it_was():
    before = dict(mpl.rcParams)
    figures.dot_plots(RESULTS, TOY)
    assert dict(mpl.rcParams) == before


def test_labels_are_grouped_from_rare_to_frequent():
    counts = np.array([0, 1, 1, 10, 10, 100, 100])
    f1 = np.array([1.0, 0.1, 0.3, 0.4, 0.6, 0.8, 1.0])
    centres, means = figures.f1_by_frequency(counts, f1, groups=3)
    assert centres == pytest.approx([1, 10, 100])
    assert means == pytest.approx([0.2, 0.5, 0.9])
    assert figures.f1_by_frequency(np.zeros(3), np.ones(3))[0].size == 0
