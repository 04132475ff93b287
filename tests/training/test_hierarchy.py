"""Where labels stand below others, training chooses by the sets that are judged: with ancestors."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests import many_labels
from zlpr._ancestors import Ancestors
from zlpr.data import Dataset, Hierarchy
from zlpr.decoding import TopK
from zlpr.decoding.with_ancestors import close
from zlpr.metrics import evaluate
from zlpr.training import TrainingConfig, fit
from zlpr.training.fitting import fit_parts
from zlpr.training.parts import combine
from zlpr.training.selection import validation_metric

if TYPE_CHECKING:
    from zlpr.training.base import Trained

ENCODER = "an encoder"
AGAINST_FREQUENT = {"loss_params": {"tau": 3.0}}


def made(labels: int = 12) -> tuple[Dataset, Dataset]:
    """Labels in four groups that only their descendants tell, two of them one more level up."""
    data = many_labels.make(labels=labels)
    links = {name: (f"group {int(name) % 4}",) for name in data.label_names}
    hierarchy = Hierarchy(links | {f"group {i}": ("top",) for i in range(2)})
    closed = data.with_ancestors(hierarchy)
    return closed.select(np.arange(160)), closed.select(np.arange(160, 240))


@pytest.mark.parametrize(
    ("model", "settings"),
    [
        ("linear", {"loss": "bce"}),
        ("linear", {"loss": "logit_adjusted", **AGAINST_FREQUENT, "mixup": 0.2, "epochs": 30}),
        ("mmp", {}),
        ("chain", {}),
        ("powerset", {}),
        ("powerset", {"subset_size": 5}),
        ("shortlist", {}),
        (f"embed:{ENCODER}", {"loss": "bce", "folds": 2}),
        (f"embed-shortlist:{ENCODER}", {"embedding_scale": 1.0}),
        (f"hf:{ENCODER}", {"loss": "logit_adjusted", "epochs": 3, "learning_rate": 1e-3}),
    ],
)
@pytest.mark.usefixtures("own_cache")
def test_what_training_chooses_by_is_the_figure_with_ancestors(
    model: str, settings: dict[str, Any], bert: Path
) -> None:
    train, validation = made()
    settings = settings | ({"regularisation": 0.1} if model not in ("mmp",) else {})
    if model.startswith("hf:"):
        del settings["regularisation"]
    config = TrainingConfig(model=model.replace(ENCODER, str(bert)), top=1, **settings)
    seen = []
    result = fit(train, validation, config, progress=lambda line: seen.append(line.metric))
    metrics = [metric for metric in seen if metric is not None]
    figure = result.figures["validation"]["micro_f1"]
    if "subset_size" in settings:  # each metric is of its own labels
        assert figure > 0
    else:
        assert max(metrics) == pytest.approx(figure, abs=1e-6)
    plain = validation_metric(config, result.validation.truth, result.validation.scores)
    assert plain != pytest.approx(figure, abs=1e-3), "the ancestors change nothing here"


@pytest.mark.usefixtures("own_cache")
def test_the_parameter_of_a_loss_is_chosen_by_sets_with_ancestors(bert: Path) -> None:
    """A model without a path of its own is trained at each value; at 3 it names deep labels."""
    train, validation = made()
    config = TrainingConfig(
        model=f"hf:{bert}", loss="logit_adjusted", top=1, epochs=12, learning_rate=3e-3,
        choose={"tau": (0.0, 3.0)},
    )  # fmt: skip
    tried: list[Trained] = []
    found = fit_parts(combine(train, validation, None), config, tried=tried.append)
    above = found.validation.ancestors
    truth = found.validation.truth
    figures = [
        [validation_metric(config, truth, one.validation_scores, known) for one in tried]
        for known in (None, above)
    ]
    assert np.argmax(figures[0]) != np.argmax(figures[1]), "the ancestors change nothing here"
    assert found.chosen["tau"] == tried[int(np.argmax(figures[1]))].chosen["tau"]


def test_a_set_is_judged_with_its_ancestors() -> None:
    truth = close(np.eye(4, dtype=bool)[[3, 3, 3, 1]], Ancestors.of([[], [0], [1], [2]]))
    deep, shallow = np.array([[0.0, 1, 2, 3]] * 4), np.array([[3.0, 2, 1, 0]] * 4)
    config = TrainingConfig(top=1)
    above = Ancestors.of([[], [0], [1], [2]])
    by_itself = [validation_metric(config, truth, scores) for scores in (deep, shallow)]
    with_them = [validation_metric(config, truth, scores, above) for scores in (deep, shallow)]
    assert by_itself[0] < by_itself[1]
    assert with_them[0] > with_them[1]
    expected = evaluate(truth, y_pred=close(TopK(1)(deep), above), empty="sklearn")
    assert with_them[0] == pytest.approx(expected["micro_f1"])
