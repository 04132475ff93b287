"""Label powerset: settings and trainer."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from zlpr._errors import UserError
from zlpr.models.feature_config import FeatureConfig
from zlpr.models.registry import NO_LOSS
from zlpr.training.base import FeatureTrainer, ProgressCallback, Trained, TriedCallback
from zlpr.training.config import (
    TrainingConfig,
    check_above_zero,
    regularisation_setting,
    setting,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from zlpr.data import Dataset
    from zlpr.models.powerset import SetSoftmax
    from zlpr.training.linear_features import ExtractedFeatures

SetScores = Literal["mode", "marginal"]
# Weights of so many bytes are trained; beyond, subsets of the labels are the way.
MOST_BYTES = 4 << 30


@dataclass(frozen=True, kw_only=True)
class PowersetConfig(TrainingConfig):
    """Settings of the label powerset.

    Attributes:
        regularisation: `r` in `sum of losses + r/2 |W|^2`; None chooses on validation.
        subset_size: learn the sets of random subsets of so many labels (RAkEL), not of all.
        subsets: how many of these; None takes twice as many as it takes to have every label once.
        set_scores: "mode": cut at 0, scores give the most probable set; "marginal": they are the
            log-odds of the labels.
        features: how text is read.
    """

    loss: str = NO_LOSS
    regularisation: float | None = regularisation_setting()
    subset_size: int | None = setting(
        None, "learn the label sets of random subsets of K labels (RAkEL)", metavar="K"
    )
    subsets: int | None = setting(None, "how many random subsets to draw", metavar="M")
    set_scores: SetScores = setting(
        "mode",
        "what a cut at 0 predicts: the most probable set (mode), or each label that is likelier "
        "than not (marginal)",
    )
    features: FeatureConfig = field(default_factory=FeatureConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_above_zero(self, ("regularisation", "subset_size", "subsets"))
        if self.set_scores not in get_args(SetScores):
            raise UserError(f"set_scores {self.set_scores!r}: expected one of mode, marginal")
        if self.subsets is not None and self.subset_size is None:
            raise UserError("subsets: of how many labels? Give subset_size, too")


class PowersetTrainer(FeatureTrainer):
    """Fits a softmax over label sets by the linear model's solver."""

    def memory(self, train: "Dataset", config: PowersetConfig, inputs: "ExtractedFeatures") -> int:
        """As for a linear model with a label for each label set, the most of any subset."""
        from zlpr.training.solvers import memory_of_fit

        sets = max(
            len(label_sets(train.labels, labels)[0])
            for labels in draw_subsets(train.num_labels, config)
        )
        return memory_of_fit(inputs.train, sets)

    def train(
        self,
        train: "Dataset",
        validation: "Dataset",
        config: PowersetConfig,
        inputs: "ExtractedFeatures",
        *,
        run: Mapping[str, Any],
        checkpoint: Path | None = None,
        progress: ProgressCallback | None = None,
        tried: TriedCallback | None = None,
    ) -> Trained:
        """Fit the softmaxes, each at the regularisation that is best for its labels."""
        from zlpr.models.base import TrainingRecord
        from zlpr.models.powerset import PowersetModel, mean_scores

        parts: list[SetSoftmax] = []
        chosen: list[float] = []
        history: list[Any] = []
        subsets = draw_subsets(train.num_labels, config)
        for number, labels in enumerate(subsets, start=1):
            what = f"subset {number} of {len(subsets)}, " if len(subsets) > 1 else ""
            part, regularisation, lines = _fit_softmax(
                train, validation, config, inputs, labels, progress, what
            )
            parts.append(part)
            chosen.append(regularisation)
            history += lines
        scores = mean_scores(parts, inputs.validation, config.set_scores, train.num_labels)
        model = PowersetModel(
            train.label_names,
            [inputs.for_given(part) for part in parts],
            config.set_scores,
            record=TrainingRecord(loss=config.loss),
            num_features=inputs.train.shape[1],
            text_features=inputs.text_features,
            means=inputs.means,
        )
        return Trained(
            model,
            tuple(history),
            {
                "regularisation": sum(chosen) / len(chosen),
                "label_sets": max(len(part.bias) for part in parts),
                "unseen_share": unseen_share(train.labels, validation.labels),
            },
            scores,
            inputs.train.shape[1],
            inputs.validation_as_given(validation.inputs),
            trainings=len(history),
        )


def draw_subsets(num_labels: int, config: PowersetConfig) -> "list[NDArray[np.int64]]":
    """The labels of each softmax: all, or random subsets in which every label occurs.

    Raises:
        UserError: too few subsets to have every label.
    """
    import numpy as np

    size = config.subset_size
    if size is None or size >= num_labels:
        return [np.arange(num_labels)]
    least = -(-num_labels // size)
    number = config.subsets or 2 * least
    if number < least:
        raise UserError(
            f"subsets {number}: {num_labels} labels, {size} at a time, need at least {least}"
        )
    random = np.random.default_rng(config.seed)
    found: list[NDArray[np.int64]] = []
    while len(found) < number:
        order = random.permutation(num_labels)
        order = np.append(order, order[: -num_labels % size])  # the last is filled up
        found += [np.sort(part) for part in order.reshape(-1, size)]
    return found[:number]


def _fit_softmax(
    train: "Dataset",
    validation: "Dataset",
    config: PowersetConfig,
    inputs: "ExtractedFeatures",
    labels: "NDArray[np.int64]",
    progress: ProgressCallback | None,
    what: str,
) -> "tuple[SetSoftmax, float, list[Any]]":
    """A softmax over the sets of some labels, its regularisation, and how it was found."""
    import numpy as np
    from scipy import sparse

    from zlpr.models.powerset import SetSoftmax, scores_of_labels
    from zlpr.training.climb import Climb
    from zlpr.training.judging import ancestors_of
    from zlpr.training.linear import LinearConfig
    from zlpr.training.solvers import choose_solver

    sets, which = label_sets(train.labels, labels)
    if 4 * inputs.train.shape[1] * len(sets) > MOST_BYTES:
        raise UserError(
            f"{len(sets):,} label sets of {inputs.train.shape[1]:,} features are more weights than "
            "fit; subset_size learns the sets of few labels at a time"
        )
    places = np.arange(len(which) + 1)
    one_hot: Any = sparse.csr_array(
        (np.ones(len(which), dtype=np.int8), which, places), shape=(len(which), len(sets))
    )
    settings = LinearConfig(loss="cross_entropy", seed=config.seed)
    solver = choose_solver(inputs.train, one_hot, settings, bases=inputs.bases)
    warmest = solver.start()

    def fit(regularisation: float) -> "tuple[SetSoftmax, NDArray[np.float32]]":
        nonlocal warmest
        solution = solver.solve(warmest, regularisation)
        warmest = solution.parameters
        weight, bias = solver.model(solution.parameters)
        logits = np.asarray(inputs.validation @ weight + bias, dtype=np.float32)
        scores = scores_of_labels(logits, sets, config.set_scores)
        return SetSoftmax(labels, sets, weight, bias), scores

    above = ancestors_of(train)
    above = None if above is None else above.among(labels)
    climb = Climb(config, validation.labels[:, labels], fit, progress, what, above)
    best = climb.best(solver.balance, config.regularisation)
    return best.model, best.regularisation, climb.history


def label_sets(
    labels: Any, columns: "NDArray[np.int64]"
) -> "tuple[NDArray[np.bool_], NDArray[np.int64]]":
    """The different label sets, bool (sets, columns), and which of them each sample has."""
    import numpy as np

    cells = np.asarray(labels[:, columns].toarray(), dtype=bool)
    packed = np.packbits(cells, axis=1)
    _, first, which = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    return cells[first], which.ravel()


def unseen_share(train: Any, labels: Any) -> float:
    """The share of samples whose label set is in no training sample: none can be predicted."""
    seen = {tuple(row) for row in _sets(train)}
    sets = _sets(labels)
    return sum(tuple(row) not in seen for row in sets) / max(len(sets), 1)


def _sets(labels: Any) -> "list[list[int]]":
    starts = labels.indptr.tolist()
    return [
        sorted(labels.indices[first:last].tolist()) for first, last in itertools.pairwise(starts)
    ]
