"""Classifier chains: settings and trainer."""

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
    from zlpr.models.chain import Chain
    from zlpr.training.linear_features import ExtractedFeatures

Order = Literal["frequency", "random", "given"]


@dataclass(frozen=True, kw_only=True)
class ChainConfig(TrainingConfig):
    """Settings of classifier chains.

    Attributes:
        regularisation: `r` in `sum of losses + r/2 |W|^2` of each link; None chooses on validation.
        order: of the labels; None is by frequency for one chain, at random for several.
        chains: whose mean is the model.
        beam: beginnings of label sets that the search for the most probable set keeps.
        features: how text is read.
    """

    loss: str = NO_LOSS
    regularisation: float | None = regularisation_setting()
    order: Order | None = setting(
        None, "order of the labels: the most frequent first, random, or as the data lists them"
    )
    chains: int = setting(
        1, "how many chains, in random orders, the model is the mean of", metavar="N"
    )
    beam: int = setting(
        1,
        "how many label sets the search for the most probable one keeps; 1 searches none",
        metavar="N",
    )
    features: FeatureConfig = field(default_factory=FeatureConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_above_zero(self, ("regularisation", "chains", "beam"))
        if self.order is not None and self.order not in get_args(Order):
            raise UserError(f"order {self.order!r}: expected one of {', '.join(get_args(Order))}")
        if self.chains > 1 and self.order not in (None, "random"):
            raise UserError(f"order {self.order!r} makes {self.chains} chains the same; leave it")


class ChainTrainer(FeatureTrainer):
    """Fits logistic links, one label after another, by the linear model's solver."""

    def memory(self, train: "Dataset", config: ChainConfig, inputs: "ExtractedFeatures") -> int:
        """The weights of all links of all chains, at the best regularisation so far and now."""
        width = int(inputs.train.shape[1]) + train.num_labels + 1
        return 2 * 4 * config.chains * width * train.num_labels

    def train(
        self,
        train: "Dataset",
        validation: "Dataset",
        config: ChainConfig,
        inputs: "ExtractedFeatures",
        *,
        run: Mapping[str, Any],
        checkpoint: Path | None = None,
        progress: ProgressCallback | None = None,
        tried: TriedCallback | None = None,
    ) -> Trained:
        """Fit the chains at one regularisation, or at the best that validation finds."""
        from zlpr.models.base import TrainingRecord
        from zlpr.models.chain import ChainModel, mean_scores
        from zlpr.training.climb import Climb
        from zlpr.training.judging import ancestors_of
        from zlpr.training.linear import LinearConfig
        from zlpr.training.solvers import choose_solver

        orders = draw_orders(train.labels, config)

        def balance() -> float:
            first = train.labels[:, orders[0][:1]]
            return choose_solver(inputs.train, first, LinearConfig(loss="bce")).balance()

        def fit(regularisation: float) -> "tuple[list[Chain], NDArray[np.float32]]":
            chains = [
                fit_chain(inputs.train, train.labels, order, regularisation) for order in orders
            ]
            return chains, mean_scores(chains, inputs.validation, config.beam)

        ancestors = ancestors_of(train)
        climb = Climb(config, validation.labels, fit, progress, ancestors=ancestors)
        best = climb.best(balance, config.regularisation)
        model = ChainModel(
            train.label_names,
            [inputs.for_given(chain) for chain in best.model],
            config.beam,
            record=TrainingRecord(loss=config.loss),
            num_features=inputs.train.shape[1],
            text_features=inputs.text_features,
            means=inputs.means,
        )
        return Trained(
            model,
            tuple(climb.history),
            {"regularisation": best.regularisation},
            best.scores,
            inputs.train.shape[1],
            inputs.validation_as_given(validation.inputs),
            trainings=len(climb.history),
        )


def draw_orders(labels: Any, config: ChainConfig) -> "list[NDArray[np.int64]]":
    """The order of labels of each chain."""
    import numpy as np

    num_labels = labels.shape[1]
    order = config.order or ("frequency" if config.chains == 1 else "random")
    if order == "given":
        return [np.arange(num_labels)]
    if order == "frequency":
        counts = np.asarray(labels.sum(axis=0)).ravel()
        return [np.argsort(-counts, kind="stable").astype(np.int64)]
    random = np.random.default_rng(config.seed)
    return [random.permutation(num_labels) for _ in range(config.chains)]


def fit_chain(
    features: Any,
    labels: Any,
    order: "NDArray[np.int64]",
    regularisation: float,
    *,
    tolerance: float | None = None,
) -> "Chain":
    """Logistic links in an order, each fitted to the features and the true labels before it.

    Args:
        features: of shape (samples, features), dense or CSR.
        labels: of shape (samples, labels), CSR.
        order: of the labels.
        regularisation: `r` in `sum of losses + r/2 |w|^2` of each link, biases free.
        tolerance: of L-BFGS; None takes the linear model's.
    """
    import numpy as np
    from scipy import sparse

    from zlpr.models.chain import Chain
    from zlpr.training.linear import LinearConfig
    from zlpr.training.solvers import TOLERANCE, choose_solver

    width, num_labels = features.shape[1], len(order)
    weight = np.zeros((width, num_labels), dtype=np.float32)
    before = np.zeros((num_labels, num_labels), dtype=np.float32)
    bias = np.zeros(num_labels, dtype=np.float32)
    truth: Any = sparse.csr_array(labels)[:, order].astype(np.float32)
    for place in range(num_labels):
        earlier = truth[:, :place]
        if sparse.issparse(features):
            parts: list[Any] = [features, earlier]
            both: Any = sparse.csr_array(sparse.hstack(parts))
        else:
            both = np.hstack([features, earlier.toarray()])
        target = sparse.csr_array(truth[:, [place]])
        settings = LinearConfig(loss="bce")
        solver = choose_solver(both, target, settings, tolerance=tolerance or TOLERANCE)
        link, offset = solver.model(solver.solve(solver.start(), regularisation).parameters)
        weight[:, place], before[:place, place] = link[:width, 0], link[width:, 0]
        bias[place] = offset[0]
    return Chain(np.asarray(order, dtype=np.int64), weight, before, bias)
