import matplotlib as mpl
import numpy as np

from zlpr.cli._plots import plot_evaluation
from zlpr.data import Dataset
from zlpr.decoding import reliability_curve
from zlpr.metrics import label_report


def test_names_are_drawn_as_they_stand(tmp_path):
    data = Dataset.from_label_sets([{"$\\frac{$"}, {"a\nb\x1b"}], texts=["x", "y"])
    predicted = np.ones(data.labels.shape, dtype=bool)
    curve = reliability_curve(data.labels, np.full(data.labels.shape, 0.5))
    path = tmp_path / "evaluation.svg"
    plot_evaluation(curve, label_report(data.labels, predicted), data, path)
    assert "\x1b" not in path.read_text(encoding="utf-8")


def test_of_many_labels_those_that_fail_are_named(tmp_path):
    sets = [{f"label {n}"} for n in range(70)]
    data = Dataset.from_label_sets(sets, texts=["x"] * 70)
    predicted = data.labels.toarray().astype(bool)
    predicted[7, :] = False
    failing = data.label_names[int(np.flatnonzero(data.labels.toarray()[7])[0])]
    curve = reliability_curve(data.labels, np.full(data.labels.shape, 0.5))
    path = tmp_path / "evaluation.svg"
    with mpl.rc_context({"svg.fonttype": "none"}):
        plot_evaluation(curve, label_report(data.labels, predicted), data, path)
    drawn = path.read_text(encoding="utf-8")
    assert "1 label below 10 %" in drawn
    assert f"{failing}  (1)" in drawn
