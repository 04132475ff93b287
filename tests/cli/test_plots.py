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
