import warnings

import numpy as np
import pytest

from zlpr.data import demo, plots
from zlpr.data.dataset import Dataset

SMALL = Dataset.from_label_sets(
    [{"a", "b"}, {"a"}, {"a", "b", "c"}, set()], texts=["1", "2", "3", "4"], name="small"
)


def test_co_occurrence_is_a_share_of_the_rows_samples():
    shown, shares = plots.co_occurrence(SMALL)
    assert [SMALL.label_names[i] for i in shown] == ["a", "b", "c"]
    np.testing.assert_allclose(shares, [[1, 2 / 3, 1 / 3], [1, 1, 1 / 2], [1, 1, 1]])


def test_co_occurrence_takes_the_most_frequent_labels():
    data = demo.make(500)
    shown, shares = plots.co_occurrence(data, most=4)
    counts = plots.label_counts(data)
    assert counts[shown].tolist() == sorted(counts.tolist(), reverse=True)[:4]
    assert shares.shape == (4, 4)
    dense = data.labels.toarray()[:, shown].astype(float)
    np.testing.assert_allclose(shares, (dense.T @ dense) / dense.sum(axis=0)[:, None])


def test_set_sizes_are_shares_of_the_samples():
    figure = plots.plot(SMALL)
    bars = figure.axes[1].patches
    assert [bar.get_height() for bar in bars] == [25, 25, 25, 25]


def test_few_labels_are_named_and_many_ranked():
    named = plots.plot(SMALL).axes[0]
    assert [tick.get_text() for tick in named.get_yticklabels()] == ["a", "b", "c"]
    assert [bar.get_width() for bar in named.patches] == [3, 2, 1]
    many = Dataset.from_label_sets(
        [{f"label {n}", "label 0"} for n in range(90)], texts=["x"] * 90, name="many"
    )
    ranked = plots.plot(many).axes[0]
    assert ranked.get_lines()[0].get_ydata()[:2].tolist() == [90, 1]


@pytest.mark.parametrize(
    ("installed", "expected"), [([], ["label 0", "label 1"]), (["SimHei"], ["体育", "财经"])]
)
def test_chinese_names_are_drawn_only_where_a_font_can(installed, expected, monkeypatch):
    data = Dataset.from_label_sets([{"体育"}, {"财经"}], texts=["x", "y"])
    monkeypatch.setattr(plots, "fonts", lambda: ["DejaVu Sans", *installed])
    assert plots.tick_names(data, [0, 1]) == expected


def test_drawing_warns_of_nothing(tmp_path):
    data = Dataset.from_label_sets([{"体育"}, {"财经", "体育"}], texts=["x", "y"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plots.plot(data).savefig(tmp_path / "a.png")


@pytest.mark.parametrize("sets", [[set()], [{"only"}]])
def test_the_smallest_data_can_be_drawn(sets, tmp_path):
    data = Dataset.from_label_sets(sets, label_names=["only"], texts=["x"])
    plots.plot(data).savefig(tmp_path / "a.png")
    assert (tmp_path / "a.png").stat().st_size > 0


def test_names_are_drawn_as_they_stand(tmp_path):
    data = Dataset.from_label_sets([{"$\\frac{$"}, {"a\nb\x1b"}], texts=["x", "y"], name="$x_{$")
    figure = plots.plot(data)
    figure.savefig(tmp_path / "a.png")
    names = [tick.get_text() for tick in figure.axes[0].get_yticklabels()]
    assert set(names) == {"$\\frac{$", "a\\nb\\x1b"}


def test_forty_two_labels_are_all_named_and_the_diagonal_is_left_out():
    sets = [{f"label {n:02}", "label 00"} for n in range(42)]
    figure = plots.plot(Dataset.from_label_sets(sets, texts=["x"] * 42, name="many"))
    frequency, _, together, *_ = figure.axes
    assert len(frequency.get_yticklabels()) == 42
    shares = together.images[0].get_array().filled(np.nan)
    assert np.isnan(np.diag(shares)).all()
    assert together.images[0].get_clim()[1] == np.nanmax(shares)
