import doctest

import pytest

from zlpr._errors import UserError
from zlpr.data import published
from zlpr.data.published import DECIDING_LOSSES, ENCODERS, RANKING_LOSSES, SETS
from zlpr.metrics import PAPER_METRICS

CHINESE = {"CNIPA-Title", "CNIPA-Abstract", "Toutiao"}


def test_examples_in_the_documentation_hold():
    assert doctest.testmod(published).failed == 0


def test_eleven_sets_are_complete():
    assert len(SETS) == 11
    for name in SETS:
        for encoder in ENCODERS:
            expected = set(DECIDING_LOSSES) | (set(RANKING_LOSSES) if name in CHINESE else set())
            assert set(published.losses(name, encoder)) == expected
            for loss in DECIDING_LOSSES:
                for metric in PAPER_METRICS:
                    value = published.result(name, encoder, loss, metric)
                    assert value is not None
                    assert 0 <= value <= 100


@pytest.mark.parametrize("name", SETS)
def test_parts_add_up_to_the_whole(name):
    whole = published.statistics(name)
    parts = [published.statistics(name, part) for part in ("train", "validation", "test")]
    assert sum(part.instances for part in parts) == whole.instances
    assert max(part.categories for part in parts) <= whole.categories
    labels = sum(part.instances * part.cardinality for part in parts)
    assert labels / whole.instances == pytest.approx(whole.cardinality, abs=2e-3)


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("part", published.PARTS)
def test_density_is_cardinality_over_categories_that_occur(name, part):
    row = published.statistics(name, part)
    assert row.density == pytest.approx(row.cardinality / row.categories, abs=1e-3)


def test_rankers_have_no_decisions():
    assert published.result("Toutiao", "bert", "lsep", "average_precision") == 81.19
    assert published.result("Toutiao", "bert", "lsep", "micro_f1") is None
    assert published.result("Toxic", "bert", "lsep", "ranking_loss") is None


def test_names_are_found_in_any_case_and_unknown_ones_refused():
    assert published.set_name("toutiao") == "Toutiao"
    with pytest.raises(UserError, match=r"no data set 'reuters'.*CNIPA-Title.*Toxic"):
        published.statistics("reuters")
