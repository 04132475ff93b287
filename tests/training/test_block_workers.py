import numpy as np
import pytest

from tests import many_labels
from zlpr.training import TrainingConfig, fit
from zlpr.training.block_workers import InProcess, cut
from zlpr.training.linear import LinearConfig


@pytest.mark.parametrize("count", [1, 2, 3, 7, 50])
def test_ranges_are_whole_rows_of_nearly_as_many_entries_each(count):
    lengths = np.random.default_rng(0).integers(0, 9, 40)
    before = np.concatenate([[0], np.cumsum(lengths)])
    ranges = cut(before, count)
    assert len(ranges) <= count
    assert [row for rows in ranges for row in range(*rows)] == list(range(40))
    assert all(first < last for first, last in ranges)
    entries = [int(before[last] - before[first]) for first, last in ranges]
    assert max(entries) <= before[-1] / count + lengths.max()


def test_rows_without_entries_belong_to_some_range_all_the_same():
    assert cut(np.array([0, 0, 4, 4, 8, 8]), 2) == [(0, 2), (2, 5)]
    assert cut(np.array([0, 0, 0]), 4) == [(0, 2)]


def test_a_model_of_many_labels_has_the_same_bits_however_it_is_divided():
    data = many_labels.make()
    train, validation = data.select(np.arange(200)), data.select(np.arange(200, 240))
    config = TrainingConfig(model="shortlist", regularisation=0.1)
    results = [
        fit(train, validation, config, workers=workers)
        for workers in (None, InProcess(2), InProcess(5))
    ]
    assert len({many_labels.bits(result) for result in results}) == 1


def test_a_model_that_does_not_divide_refuses_workers():
    data = many_labels.make(20, 4)
    with pytest.raises(ValueError, match=r"linear is trained by one process; .* model shortlist$"):
        fit(data, data, LinearConfig(), workers=InProcess())
