import json

import numpy as np
import pytest
import torch

from zlpr._errors import UserError
from zlpr.decoding._score_cells import ScoreCells, learn_cells


def test_blending_written_out():
    cells = ScoreCells([[0.0], [10.0]], [[0, 1, 3], [1, 0, 5]], strength=2.0, num_sets=2)
    logits = torch.tensor([[1.0], [9.0]], dtype=torch.float64)
    chances = torch.tensor([[0.5, 0.25, 0.25], [0.5, 0.25, 0.25]], dtype=torch.float64)
    places = torch.tensor([[0, 1, -1], [0, 1, 0]])
    valid = torch.tensor([[True, True, True], [True, True, False]])
    blended = cells.blend(logits, chances, places, valid)
    expected = [[1 / 5, 3.5 / 5, 0.5 / 5], [6 / 7, 0.5 / 7, 0.5 / 7]]
    np.testing.assert_allclose(blended, expected)


def test_cells_are_learned_where_chances_are_wrong_in_places():
    generator = np.random.default_rng(0)
    side = generator.integers(2, size=600)
    logits = torch.from_numpy(np.where(side, 4.0, -4.0) + generator.normal(size=600))[:, None]
    own = torch.from_numpy(np.where(generator.random(600) < 0.9, side, 1 - side))
    cells = learn_cells(logits, own, torch.full((600,), 0.5).double(), num_sets=2)
    assert cells is not None
    half = torch.full((2, 2), 0.5).double()
    places = torch.tensor([[0, 1], [0, 1]])
    ends = torch.tensor([[-4.0], [4.0]], dtype=torch.float64)
    blended = cells.blend(ends, half, places, torch.ones(2, 2, dtype=torch.bool))
    np.testing.assert_allclose(blended, [[0.9, 0.1], [0.1, 0.9]], atol=0.12)


def test_none_are_learned_where_chances_are_right_or_samples_few():
    generator = np.random.default_rng(1)
    logits = torch.from_numpy(generator.normal(size=(600, 3)))
    own = torch.from_numpy(generator.integers(2, size=600))
    assert learn_cells(logits, own, torch.full((600,), 0.5).double(), num_sets=2) is None
    few = slice(0, 50)
    wrong = torch.full((50,), 0.01).double()
    assert learn_cells(logits[few], own[few], wrong, num_sets=2) is None


def test_distinct_scores_are_their_own_cells():
    logits = torch.tensor([[0.0], [1.0], [1.0001]], dtype=torch.float64).repeat(100, 1)
    own = torch.tensor([0, 1, 2]).repeat(100)
    cells = learn_cells(logits, own, torch.full((300,), 1 / 3).double(), num_sets=3)
    assert cells.centres == [[0.0], [1.0], [1.0001]]
    assert cells.counts == [[0, 0, 100], [1, 1, 100], [2, 2, 100]]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"strength": 0.0}, "strength of cells must lie within 1e9 above 0"),
        ({"strength": None}, "strength of cells must be a finite number"),
        ({"centres": []}, "expected 1 to 64 cells"),
        ({"centres": [[0.0]] * 65}, "expected 1 to 64 cells"),
        ({"centres": [[0.0, 1.0]]}, "centre has 2 labels, expected 1"),
        ({"centres": ["0"]}, "centre of a cell must be a list of numbers"),
        ({"counts": [[0, 9, 1]]}, r"must be \[cell, set, times\]"),
        ({"counts": [[0, 0, 1.5]]}, r"must be \[cell, set, times\]"),
        ({"counts": [[0, 0, 1]] * 9}, "one entry for a cell and set"),
        ({"size": 3}, "cells of scores need centres, counts and strength"),
    ],
)
def test_damaged_configurations_are_refused(change, words):
    config = ScoreCells([[0.0], [1.0]], [[0, 1, 3]], 2.0, num_sets=2).to_config()
    again = ScoreCells.from_config(json.loads(json.dumps(config)), 1, 2)
    assert again.to_config() == config
    with pytest.raises(UserError, match=words):
        ScoreCells.from_config(config | change, 1, 2)
