import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import precision_recall_fscore_support

from tests.test_ancestors import naive, random_parents
from zlpr.metrics import hierarchical_f1, hierarchical_precision, hierarchical_recall


@pytest.mark.parametrize("seed", range(4))
def test_they_are_the_micro_metrics_of_sets_with_their_ancestors(seed):
    parents = random_parents(12, seed)
    generator = np.random.default_rng(seed)
    true, predicted = (generator.random((2, 40, 12)) < 0.15).astype(int)

    def closed(sets):
        full = sets.copy()
        for row, label in zip(*np.nonzero(sets), strict=True):
            full[row, list(naive(parents, label))] = 1
        return full

    expected = precision_recall_fscore_support(closed(true), closed(predicted), average="micro")
    functions = (hierarchical_precision, hierarchical_recall, hierarchical_f1)
    for form in (np.asarray, sparse.csr_array):
        figures = [f(form(true), form(predicted), parents=parents) for f in functions]
        assert figures == pytest.approx(expected[:3])


def test_a_label_in_the_place_of_a_cousin_is_right_in_what_they_share():
    """G stands below E, E below B and C; F below C: of {F, C} and {G, E, B, C} only C is both."""
    names, above = "BCEFG", {"E": "BC", "F": "C", "G": "E"}
    parents = [[names.index(parent) for parent in above.get(name, "")] for name in names]
    true, predicted = ([[int(name == wanted) for name in names]] for wanted in "GF")
    assert hierarchical_precision(true, predicted, parents=parents) == 1 / 2
    assert hierarchical_recall(true, predicted, parents=parents) == 1 / 4


def test_nothing_true_and_nothing_predicted():
    nothing = [[0, 0]]
    for function in (hierarchical_precision, hierarchical_recall, hierarchical_f1):
        assert function(nothing, nothing, parents=[[], [0]]) == 1.0
