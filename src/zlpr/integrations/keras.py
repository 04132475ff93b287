"""The paper's losses and metrics for Keras 3, on any of its backends.

    model.compile(optimizer="adam", loss=ZLPRLoss(), metrics=[MicroF1(), ExampleF1()])

The last layer gives scores (logits), without an activation; a label is predicted where its score
is above 0. The numbers are those of `zlpr.losses` and `zlpr.metrics`. Masks and sample weights are
Keras's own; a label that is unknown in some samples is told by a value of its own among the
targets, `ZLPRLoss(ignore_value=-1)`. All is computed in float32. Losses and metrics are saved with
a model and loaded with it.

Targets are 0 or 1, or between in the losses that take soft ones. Others are an error, or, where a
backend compiles the step and numbers cannot be looked at, a loss of NaN.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypedDict, Unpack

import keras
import torch
from keras import ops

from zlpr.integrations import _formulas
from zlpr.integrations._formulas import Framework, Weights
from zlpr.metrics import Empty
from zlpr.metrics._inputs import check_empty

__all__ = [
    "AveragePrecision",
    "BCELoss",
    "BPMLLLoss",
    "CrossEntropyLoss",
    "Dice1Loss",
    "Dice2Loss",
    "ExampleF1",
    "FocalLoss",
    "LSEPLoss",
    "MacroF1",
    "MicroF1",
    "RankingLoss",
    "RankingLossMetric",
    "SubsetAccuracy",
    "WARPLoss",
    "ZLPRLoss",
]

PRECISION = "float32"
"""What is computed in: Keras takes a logarithm of sums, or a smaller of two, in no other."""

_register = keras.saving.register_keras_serializable(package="zlpr")


def _can_look_at(values: Any) -> bool:
    backend = keras.backend.backend()
    if backend == "torch":
        return not torch.compiler.is_compiling()
    if backend == "jax":
        import jax

        return not isinstance(values, jax.core.Tracer)
    return hasattr(values, "numpy")  # as only eager tensors of TensorFlow have


def _hold(values: Any, low: float, high: float) -> Any:
    @ops.custom_gradient  # type: ignore[untyped-decorator]
    def held(inside: Any) -> tuple[Any, Callable[..., Any]]:
        def gradient(*upstreams: Any, upstream: Any = None) -> Any:
            return upstreams[0] if upstream is None else upstream

        return ops.clip(inside, low, high), gradient

    return held(values)


_KERAS = Framework(
    numpy=ops,
    cast=ops.cast,
    dtype_name=lambda values: str(keras.backend.standardize_dtype(values.dtype)),
    sigmoid=ops.sigmoid,
    no_gradient=ops.stop_gradient,
    hold=_hold,
    can_look_at=_can_look_at,
)


class Shared(TypedDict, total=False):
    """What every loss takes beside its own parameters.

    Attributes:
        label_weight: a number, or one per label.
        pos_weight: the same for positive labels alone; not for cross entropy and dice 2.
        ignore_value: targets with this value are unknown and count for nothing.
        reduction: Keras's, "sum_over_batch_size" unless given.
        name: of the loss.
        dtype: of its computations.
    """

    label_weight: float | Sequence[float] | None
    pos_weight: float | Sequence[float] | None
    ignore_value: float | None
    reduction: str | None
    name: str | None
    dtype: Any


class MultiLabelLoss(keras.losses.Loss):  # type: ignore[misc]
    """A loss of `zlpr.losses` as a `keras.losses.Loss`; its subclasses name the formula."""

    formula: ClassVar[Callable[..., Any]]
    has_pos_weight: ClassVar[bool] = True

    def __init__(
        self,
        parameters: dict[str, Any],
        *,
        label_weight: float | Sequence[float] | None = None,
        pos_weight: float | Sequence[float] | None = None,
        ignore_value: float | None = None,
        reduction: str | None = "sum_over_batch_size",
        name: str | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(name=name, reduction=reduction, dtype=dtype)
        if pos_weight is not None and not self.has_pos_weight:
            raise ValueError(f"{type(self).__name__} has no pos_weight")
        if ignore_value is not None and math.isnan(ignore_value):
            raise ValueError("ignore_value is NaN, which no target equals; give unknown ones as -1")
        self.parameters = parameters
        self.label_weight, self.pos_weight = _plain(label_weight), _plain(pos_weight)
        self.ignore_value = ignore_value

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """One value per sample: targets and scores (..., L) give (...)."""
        scores = ops.cast(y_pred, PRECISION)
        return type(self).formula(_KERAS, scores, y_true, self._weights(y_true), **self.parameters)

    def _weights(self, y_true: Any) -> Weights:
        known = None if self.ignore_value is None else ops.not_equal(y_true, self.ignore_value)
        label_weight, pos_weight = (
            None if weight is None else ops.convert_to_tensor(weight, dtype=PRECISION)
            for weight in (self.label_weight, self.pos_weight)
        )
        return Weights(known, label_weight, pos_weight)

    def get_config(self) -> dict[str, Any]:
        """Everything that the constructor takes, as plain values."""
        config: dict[str, Any] = {**super().get_config(), **self.parameters, "dtype": self.dtype}
        config |= {"label_weight": self.label_weight, "ignore_value": self.ignore_value}
        return config | ({"pos_weight": self.pos_weight} if self.has_pos_weight else {})


def _plain(weight: Any) -> Any:
    """A weight as a number or a list of numbers, as a configuration holds it."""
    if weight is None or isinstance(weight, float | int):
        return weight
    return [float(value) for value in weight]


@_register
class ZLPRLoss(MultiLabelLoss):
    """`zlpr.losses.zlpr_loss`: two log-sum-exps about a bound.

    Args:
        threshold: the bound that scores are compared with.
        **shared: see `Shared`.

    Examples:
        >>> scores = ops.array([[2.0, -1.0, -3.0]])
        >>> round(float(ZLPRLoss()(ops.array([[1, 0, 0]]), scores)), 4)
        0.4759
    """

    formula = staticmethod(_formulas.zlpr)

    def __init__(self, *, threshold: float = 0.0, **shared: Unpack[Shared]) -> None:
        super().__init__({"threshold": threshold}, **shared)


@_register
class BCELoss(MultiLabelLoss):
    """`zlpr.losses.bce_loss`: binary cross entropy, summed over the labels.

    Args:
        **shared: see `Shared`.
    """

    formula = staticmethod(_formulas.bce)

    def __init__(self, **shared: Unpack[Shared]) -> None:
        super().__init__({}, **shared)


@_register
class FocalLoss(MultiLabelLoss):
    """`zlpr.losses.focal_loss`.

    Args:
        gamma: how strongly to look away from labels that are right already.
        **shared: see `Shared`.
    """

    formula = staticmethod(_formulas.focal)

    def __init__(self, *, gamma: float = 2.0, **shared: Unpack[Shared]) -> None:
        super().__init__({"gamma": gamma}, **shared)


@_register
class Dice1Loss(MultiLabelLoss):
    """`zlpr.losses.dice1_loss`: dice, label by label.

    Args:
        smoothing: g, above 0.
        **shared: see `Shared`.
    """

    formula = staticmethod(_formulas.dice1)

    def __init__(self, *, smoothing: float = 1.0, **shared: Unpack[Shared]) -> None:
        super().__init__({"smoothing": smoothing}, **shared)


@_register
class Dice2Loss(MultiLabelLoss):
    """`zlpr.losses.dice2_loss`: dice of each label over the batch, summed over the labels.

    A sample weight, and the mask of a sample, multiplies the sample's part of each sum.

    Args:
        smoothing: g, above 0.
        **shared: see `Shared`; any reduction but None gives the sum, the paper's loss of a batch.
    """

    formula = staticmethod(_formulas.dice2)
    has_pos_weight = False

    def __init__(self, *, smoothing: float = 1.0, **shared: Unpack[Shared]) -> None:
        super().__init__({"smoothing": smoothing}, **shared)

    def __call__(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        """The loss of a batch."""
        mask = keras.src.backend.get_keras_mask(y_pred)
        y_true, y_pred = (ops.convert_to_tensor(x, dtype=PRECISION) for x in (y_true, y_pred))
        weight = _of_samples(y_pred, sample_weight, mask)
        terms = _formulas.dice2(
            _KERAS, y_pred, y_true, self._weights(y_true), **self.parameters, sample_weight=weight
        )
        return terms if self.reduction in (None, "none") else ops.sum(terms)


def _of_samples(scores: Any, sample_weight: Any, mask: Any) -> Any:
    """A weight per sample, shape (...), of sample weights and a mask; None where both are."""
    weight = None
    for part in (sample_weight, mask):
        if part is not None:
            part = ops.reshape(ops.cast(part, scores.dtype), ops.shape(scores)[:-1])
            weight = part if weight is None else weight * part
    return weight


@_register
class CrossEntropyLoss(MultiLabelLoss):
    """`zlpr.losses.cross_entropy_loss`: softmax, the positive labels sharing the target.

    Args:
        **shared: see `Shared`.
    """

    formula = staticmethod(_formulas.cross_entropy)
    has_pos_weight = False

    def __init__(self, **shared: Unpack[Shared]) -> None:
        super().__init__({}, **shared)


@_register
class LSEPLoss(MultiLabelLoss):
    """`zlpr.losses.lsep_loss`, over all pairs.

    Args:
        **shared: see `Shared`.
    """

    formula = staticmethod(_formulas.lsep)

    def __init__(self, **shared: Unpack[Shared]) -> None:
        super().__init__({}, **shared)


@_register
class BPMLLLoss(MultiLabelLoss):
    """`zlpr.losses.bp_mll_loss`.

    Args:
        log: the log form; False for the plain sum.
        **shared: see `Shared`.
    """

    formula = staticmethod(_formulas.bp_mll)

    def __init__(self, *, log: bool = True, **shared: Unpack[Shared]) -> None:
        super().__init__({"log": log}, **shared)


@_register
class RankingLoss(MultiLabelLoss):
    """`zlpr.losses.ranking_loss`: a hinge for each pair of labels.

    Args:
        margin: by how much a positive label is to lead.
        **shared: see `Shared`.
    """

    formula = staticmethod(_formulas.ranking)

    def __init__(self, *, margin: float = 1.0, **shared: Unpack[Shared]) -> None:
        super().__init__({"margin": margin}, **shared)


@_register
class WARPLoss(MultiLabelLoss):
    """`zlpr.losses.warp_loss`: the ranking loss, weighted by rank.

    Args:
        margin: by how much a positive label is to lead.
        **shared: see `Shared`.
    """

    formula = staticmethod(_formulas.warp)

    def __init__(self, *, margin: float = 1.0, **shared: Unpack[Shared]) -> None:
        super().__init__({"margin": margin}, **shared)


class MultiLabelMetric(keras.metrics.Metric):  # type: ignore[misc]
    """What the metrics share: sums over samples, each weighted by its sample weight.

    Args:
        threshold: a label is predicted where its score is above it.
        empty: what empty cases count, see `zlpr.metrics`.
        name: of the metric.
        dtype: of its sums.
    """

    title: ClassVar[str]
    totals: ClassVar[tuple[str, ...]]
    per_label: ClassVar[bool] = False

    def __init__(
        self,
        *,
        threshold: float = 0.0,
        empty: Empty = "paper",
        name: str | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(name=name or self.title, dtype=dtype)
        check_empty(empty)
        self.threshold, self.empty = threshold, empty
        self._built = False
        if not self.per_label:
            self._build(())

    def _build(self, shape: tuple[int, ...]) -> None:
        self._sums = {
            name: self.add_weight(shape=shape, initializer="zeros", name=name)
            for name in self.totals
        }
        self._built = True

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Add a batch: targets of 0 and 1 and scores, both (..., L)."""
        scores = ops.convert_to_tensor(y_pred, dtype=self.dtype)
        labels = ops.convert_to_tensor(y_true, dtype=self.dtype)
        _formulas.check_shape("y_true", labels, tuple(scores.shape))
        if not self._built:
            self._build((scores.shape[-1],))
        flat = (-1, scores.shape[-1])
        weight = ops.ones_like(scores[..., 0])
        if sample_weight is not None:
            weight = _of_samples(scores, sample_weight, None)
        wrong = ops.logical_not(_formulas.are_labels(ops, labels, True))
        _formulas.check_labels(_KERAS, labels, wrong, True)
        wrong = ops.logical_or(wrong, ops.isnan(scores))  # the figure is then NaN too
        weight = ops.where(ops.any(wrong, axis=-1), float("nan"), weight)
        sums = self.sums(ops.reshape(labels, flat), ops.reshape(scores, flat))
        for name, values in sums.items():  # one value per sample, or one per sample and label
            spread = ops.reshape(weight, (-1, *[1] * (len(values.shape) - 1)))
            self._sums[name].assign(
                self._sums[name] + ops.sum(ops.cast(values, self.dtype) * spread, axis=0)
            )

    def sums(self, truth: Any, scores: Any) -> dict[str, Any]:
        """What each sample adds to each of `totals`, of targets and scores (samples, L)."""
        raise NotImplementedError

    def predicted(self, scores: Any) -> Any:
        """The predicted labels as numbers."""
        return ops.cast(scores > self.threshold, self.dtype)

    def mean(self, empty_counts: float) -> Any:
        """The sum over the samples, and `empty_counts` for each that is empty, per sample."""
        total = self._sums["value"] + empty_counts * self._sums["empty"]
        return ops.divide_no_nan(total, self._sums["samples"])

    def get_config(self) -> dict[str, Any]:
        """Everything that the constructor takes."""
        shared: dict[str, Any] = super().get_config()
        return {**shared, "threshold": self.threshold, "empty": self.empty}


def _share(numerator: Any, denominator: Any) -> Any:
    return ops.divide_no_nan(numerator, denominator)


@_register
class SubsetAccuracy(MultiLabelMetric):
    """`zlpr.metrics.subset_accuracy`."""

    title, totals = "subset_accuracy", ("value", "empty", "samples")

    def sums(self, truth: Any, scores: Any) -> dict[str, Any]:
        """Whether the whole set is right."""
        right = ops.all(ops.equal(self.predicted(scores), truth), axis=-1)
        ones = ops.ones_like(truth[:, 0])
        return {"value": right, "empty": ops.zeros_like(ones), "samples": ones}

    def result(self) -> Any:
        """The share of samples whose whole set is right."""
        return self.mean(0.0)


@_register
class ExampleF1(MultiLabelMetric):
    """`zlpr.metrics.example_f1`."""

    title, totals = "example_f1", ("value", "empty", "samples")

    def sums(self, truth: Any, scores: Any) -> dict[str, Any]:
        """The sample's F1, and whether it has neither a true nor a predicted label."""
        predicted = self.predicted(scores)
        together = ops.sum(truth, axis=-1) + ops.sum(predicted, axis=-1)
        f1 = _share(2 * ops.sum(truth * predicted, axis=-1), together)
        return {"value": f1, "empty": together == 0, "samples": ops.ones_like(f1)}

    def result(self) -> Any:
        """The mean over the samples."""
        return self.mean(1.0 if self.empty == "paper" else 0.0)


class _CountedF1(MultiLabelMetric):
    """F1 of counts over the samples."""

    totals = ("hits", "together")

    def sums(self, truth: Any, scores: Any) -> dict[str, Any]:
        """Labels that are both, and labels that are true plus labels that are predicted."""
        predicted = self.predicted(scores)
        counts = {"hits": truth * predicted, "together": truth + predicted}
        if self.per_label:
            return counts
        return {name: ops.sum(values, axis=-1) for name, values in counts.items()}

    def result(self) -> Any:
        """F1, the mean over the labels where they are counted apart."""
        hits, together = self._sums["hits"].value, self._sums["together"].value
        absent = 1.0 if self.empty == "paper" else 0.0
        return ops.mean(ops.where(together == 0, absent, _share(2 * hits, together)))


@_register
class MicroF1(_CountedF1):
    """`zlpr.metrics.micro_f1`."""

    title = "micro_f1"


@_register
class MacroF1(_CountedF1):
    """`zlpr.metrics.macro_f1`."""

    title, per_label = "macro_f1", True

    def result(self) -> Any:
        """The mean of the labels' F1; 0 before the first batch."""
        return super().result() if self._built else 0.0


class _RankingMetric(MultiLabelMetric):
    """A mean over the samples of a figure that is made from ranks."""

    totals = ("value", "empty", "samples")

    def sums(self, truth: Any, scores: Any) -> dict[str, Any]:
        """The sample's figure, and whether it has no label."""
        order = ops.argsort(-scores, axis=-1)
        truth = ops.take_along_axis(truth, order, axis=-1)
        _, last = _formulas.ties(_KERAS, ops.take_along_axis(scores, order, axis=-1))
        above = ops.cast(last + 1, self.dtype)  # at or above, each at the worst rank of its tie
        true_above = ops.take_along_axis(ops.cumsum(truth, axis=-1), last, axis=-1)
        positives = ops.sum(truth, axis=-1)
        value = self.figure(truth, above, true_above)
        return {"value": value, "empty": positives == 0, "samples": ops.ones_like(positives)}

    def figure(self, truth: Any, above: Any, true_above: Any) -> Any:
        """Of each sample, shape (samples,); 0 for one without labels."""
        raise NotImplementedError


@_register
class AveragePrecision(_RankingMetric):
    """`zlpr.metrics.average_precision`."""

    title = "average_precision"

    def figure(self, truth: Any, above: Any, true_above: Any) -> Any:
        """The mean, over the true labels, of the share of true labels at or above each."""
        return _share(ops.sum(truth * true_above / above, axis=-1), ops.sum(truth, axis=-1))

    def result(self) -> Any:
        """The mean over the samples."""
        return self.mean(1.0 if self.empty == "sklearn" else 0.0)


@_register
class RankingLossMetric(_RankingMetric):
    """`zlpr.metrics.ranking_loss`."""

    title = "ranking_loss"

    def figure(self, truth: Any, above: Any, true_above: Any) -> Any:
        """The share of pairs of a true and another label in the wrong order."""
        positives = ops.sum(truth, axis=-1)
        pairs = positives * ops.sum(1 - truth, axis=-1)
        return _share(ops.sum(truth * (above - true_above), axis=-1), pairs)

    def result(self) -> Any:
        """The mean over the samples."""
        return self.mean(0.0)
