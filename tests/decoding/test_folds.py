from dataclasses import replace

import numpy as np
import pytest

from tests.metrics.cases import random_case
from zlpr.decoding import _folds
from zlpr.decoding._rule import Validation

CASE = random_case(samples=52, labels=4, density=0.3, seed=75)
DATA = Validation.check(CASE.true, CASE.scores, "micro_f1", "paper", features=CASE.scores)


def test_every_sample_is_held_out_once_and_the_same_each_time():
    folds = list(_folds.folds_of(DATA))
    places = np.concatenate([fold for fold, _, _ in folds])
    np.testing.assert_array_equal(np.sort(places), np.arange(52))
    assert [len(fold) for fold, _, _ in folds] == [11, 11, 10, 10, 10]
    again = np.concatenate([fold for fold, _, _ in _folds.folds_of(DATA)])
    np.testing.assert_array_equal(places, again)


def test_a_fold_and_the_rest_are_the_data():
    for fold, rest, held in _folds.folds_of(DATA):
        np.testing.assert_array_equal(held.true, DATA.true[fold])
        np.testing.assert_array_equal(rest.scores, np.delete(DATA.scores, fold, axis=0))
        np.testing.assert_array_equal(rest.features, np.delete(DATA.features, fold, axis=0))


def test_large_data_is_thinned_evenly(monkeypatch):
    assert len(_folds.thinned(DATA).true) == 52
    monkeypatch.setattr(_folds, "MOST_SAMPLES", 20)
    np.testing.assert_array_equal(_folds.thinned(DATA).true, DATA.true[::3])


def test_copies_of_a_sample_say_nothing_more_about_a_mean():
    values = CASE.scores[:, 0].astype(np.float64)
    once = values.std(ddof=1) / np.sqrt(52)
    assert _folds.error_of_mean(values, DATA) == pytest.approx(once)
    copies = np.tile(np.arange(52), 3)
    copied = replace(DATA.select(copies), groups=copies)
    assert _folds.error_of_mean(values[copies], copied) == pytest.approx(once)
    for fold, rest, _ in _folds.folds_of(copied):
        assert not np.intersect1d(copies[fold], rest.groups).size
