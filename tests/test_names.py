"""A wrong name is the same kind of error in every registry."""

import pytest

from zlpr import UserError, losses
from zlpr._names import find, make, unknown


def test_a_wrong_name_says_the_nearest_and_all() -> None:
    with pytest.raises(
        UserError, match=r"no loss 'zplr'; did you mean 'zlpr'\? There are: zlpr, b"
    ):
        find("loss", "zplr", {"zlpr": 1, "bce": 2})
    with pytest.raises(UserError, match=r"no loss 'entirely else'; there are: zlpr$"):
        find("loss", "entirely else", {"zlpr": 1})


def test_of_very_many_names_a_few_are_said() -> None:
    names = [f"label {number}" for number in range(2000)]
    assert str(unknown("label", "lable 7", names)) == (
        "no label 'lable 7'; did you mean 'label 7'? There are 2,000, such as label 0, label 1, "
        "label 2, label 3, label 4"
    )
    assert str(unknown("label", "", names)).startswith("no label ''; there are 2,000, such as")
    assert "There are: label 0" in str(unknown("label", "lable 7", names[:50]))


def test_case_is_no_reason_to_be_silent() -> None:
    assert "did you mean 'Movie-Name'?" in str(unknown("data set", "MOVIE-NAME", ["Movie-Name"]))


@pytest.mark.parametrize("name", [None, 3, ["zlpr"], {}])
def test_what_is_no_name_is_the_same_error(name: object) -> None:
    with pytest.raises(UserError, match="no loss "):
        find("loss", name, {"zlpr": 1})  # type: ignore[arg-type]


def test_wrong_and_missing_parameters() -> None:
    def rule(*, k: int, smoothing: float = 1.0) -> float:
        return k * smoothing

    assert make("rule", "top", rule, {"k": 2}) == 2.0
    with pytest.raises(UserError, match=r"the rule top has no parameter 'smoothin'; did you mean"):
        make("rule", "top", rule, {"k": 2, "smoothin": 1.0})
    with pytest.raises(UserError, match=r"the rule top needs k$"):
        make("rule", "top", rule, {})


def test_a_fault_within_is_not_mistaken_for_a_wrong_parameter() -> None:
    def rule() -> None:
        raise TypeError("inside")

    with pytest.raises(TypeError, match="inside"):
        make("rule", "top", rule, {})


@pytest.mark.parametrize("lookup", [losses.info, losses.create])
def test_losses(lookup) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(UserError, match=r"no loss 'zplr'; did you mean 'zlpr'\? There are: zlpr, "):
        lookup("zplr")
    with pytest.raises(UserError, match=r"the loss focal has no parameter 'gama'; did you mean 'g"):
        losses.create("focal", gama=1.0)
