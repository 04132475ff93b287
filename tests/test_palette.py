import doctest

from zlpr import _palette
from zlpr._palette import COLOURS, ON_DARK, look_of
from zlpr.losses import available


def test_examples_in_the_documentation_hold():
    assert doctest.testmod(_palette).failed == 0


def test_no_two_losses_look_alike():
    looks = [(look_of(name).colour, look_of(name).dash) for name in available()]
    assert len(set(looks)) == len(available())
    assert len(ON_DARK) == len(COLOURS)
    first = [look_of(name).colour for name in available()[: len(COLOURS)]]
    assert sorted(first) == list(range(len(COLOURS)))


def test_names_that_are_no_losses_keep_their_look():
    assert look_of("my loss") == look_of("my loss")


def test_a_label_of_any_name_has_a_look():
    looks = [look_of(f"run {number}") for number in range(500)]
    assert {look.colour for look in looks} == set(range(len(COLOURS)))
