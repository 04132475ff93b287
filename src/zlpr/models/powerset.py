"""Label powerset: softmax over the label sets seen in training, whole or of random subsets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from zlpr._errors import UserError
from zlpr.models.base import TrainingRecord
from zlpr.models.by_features import FeatureModel, Tensors, check_shape

SetScores = Literal["mode", "marginal"]
SET_SCORES: tuple[SetScores, ...] = get_args(SetScores)
_BLOCK = 1 << 22  # cells of scores of sets that are looked at together


@dataclass(frozen=True)
class SetSoftmax:
    """A softmax over the label sets of some labels.

    Attributes:
        labels: which labels the sets are of, ascending, shape (labels of the subset,).
        sets: which of them each set holds, bool of shape (sets, labels of the subset).
        weight: of shape (features, sets).
        bias: of shape (sets,).
    """

    labels: NDArray[np.int64]
    sets: NDArray[np.bool_]
    weight: NDArray[np.float32]
    bias: NDArray[np.float32]

    def label_scores(self, read: Any, kind: SetScores) -> NDArray[np.float32]:
        """Scores of the subset's labels, shape (samples, labels of the subset)."""
        logits = np.asarray(read @ self.weight + self.bias, dtype=np.float32)
        return scores_of_labels(logits, self.sets, kind)


def scores_of_labels(
    logits: NDArray[np.float32], sets: NDArray[np.bool_], kind: SetScores
) -> NDArray[np.float32]:
    r"""Scores of labels from the scores of label sets, cut at 0.

    "mode": $\max_{S \ni l} z_S - \max_{S \not\ni l} z_S$, above 0 exactly for the labels of the
    most probable set. "marginal": the same with log-sum-exps, the log-odds of
    $P(l) = \sum_{S \ni l} P(S)$. A side without any set counts as one below the lowest score.

    Args:
        logits: shape (samples, sets).
        sets: shape (sets, labels).
        kind: "mode" or "marginal".

    Examples:
        >>> logits = np.log(np.array([[0.4, 0.3, 0.3]], dtype=np.float32))
        >>> sets = np.array([[0, 0], [1, 0], [1, 1]], dtype=bool)
        >>> scores_of_labels(logits, sets, "mode").round(2).tolist()
        [[-0.29, -0.29]]
        >>> scores_of_labels(logits, sets, "marginal").round(2).tolist()
        [[0.41, -0.85]]
    """
    found = np.empty((len(logits), sets.shape[1]), dtype=np.float32)
    rows = max(1, _BLOCK // max(logits.shape[1], 1))
    for first in range(0, len(logits), rows):
        block = logits[first : first + rows].astype(np.float64)
        lowest = block.min(axis=1) - 1
        for label in range(sets.shape[1]):
            inside = _joined(block[:, sets[:, label]], lowest, kind)
            outside = _joined(block[:, ~sets[:, label]], lowest, kind)
            found[first : first + rows, label] = inside - outside
    return found


def _joined(block: NDArray[Any], lowest: NDArray[Any], kind: SetScores) -> NDArray[Any]:
    """The largest score of each row, or the log-sum-exp; the lowest where there is none."""
    if block.shape[1] == 0:
        return lowest
    top = block.max(axis=1)
    if kind == "mode":
        return np.asarray(top)
    return np.asarray(top + np.log(np.exp(block - top[:, None]).sum(axis=1)))


class PowersetModel(FeatureModel):
    """The mean of the scores that set softmaxes give a label; one of all labels, or several.

    Attributes:
        softmaxes: which together know every label.
        set_scores: how a softmax scores labels, see `scores_of_labels`.
    """

    kind = "zlpr_powerset"

    def __init__(
        self,
        label_names: Sequence[str],
        softmaxes: Sequence[SetSoftmax],
        set_scores: SetScores,
        *,
        record: TrainingRecord,
        **reading: Any,
    ) -> None:
        super().__init__(label_names, record=record, **reading)
        self.softmaxes = tuple(softmaxes)
        self.set_scores = set_scores

    def score(self, read: Any) -> NDArray[np.float32]:
        """Scores of shape (samples, labels)."""
        return mean_scores(self.softmaxes, read, self.set_scores, len(self.label_names))

    def save_parts(self, folder: Path) -> dict[str, Any]:
        """Write the softmaxes and the vocabulary."""
        tensors: Tensors = {}
        for number, part in enumerate(self.softmaxes):
            tensors[f"{number}.labels"] = part.labels
            tensors[f"{number}.sets"] = part.sets.astype(np.uint8)
            tensors[f"{number}.weight"], tensors[f"{number}.bias"] = part.weight, part.bias
        saved = self.save_tensors(folder, tensors)
        return {**saved, "softmaxes": len(self.softmaxes), "set_scores": self.set_scores}

    @classmethod
    def load_parts(
        cls, folder: Path, config: Mapping[str, Any], shared: Mapping[str, Any]
    ) -> "PowersetModel":
        """Read what `save_parts` wrote."""
        tensors, reading = cls.load_tensors(folder, config)
        if config["set_scores"] not in SET_SCORES:
            raise UserError(f"set_scores {config['set_scores']!r}: no such way to score labels")
        num_labels = len(shared["label_names"])
        held = len({name.partition(".")[0] for name in tensors if name.endswith(".sets")})
        if config["softmaxes"] != held:
            raise UserError(f"softmaxes: {config['softmaxes']!r}, and the weights are of {held}")
        softmaxes = []
        for number in range(held):
            labels, sets, weight, bias = (
                tensors[f"{number}.{name}"] for name in ("labels", "sets", "weight", "bias")
            )
            check_shape(folder, f"{number}.labels", labels, (labels.size,))
            check_shape(folder, f"{number}.bias", bias, (bias.size,))
            check_shape(folder, f"{number}.sets", sets, (len(bias), len(labels)))
            check_shape(folder, f"{number}.weight", weight, (config["num_features"], len(bias)))
            _check_sets(number, labels, sets, num_labels)
            softmaxes.append(SetSoftmax(labels, sets.astype(bool), weight, bias))
        known = np.unique(np.concatenate([part.labels for part in softmaxes]))
        if len(known) < num_labels:
            raise UserError(f"softmaxes: they know {len(known)} of {num_labels} labels")
        return cls(softmaxes=softmaxes, set_scores=config["set_scores"], **reading, **shared)


def _check_sets(number: int, labels: NDArray[Any], sets: NDArray[Any], num_labels: int) -> None:
    """Refuse sets that no softmax can be over."""
    if not np.isin(np.arange(num_labels), labels).sum() == len(labels):
        raise UserError(f"{number}.labels: expected labels of 0 to {num_labels - 1}, each once")
    if len(sets) == 0:
        raise UserError(f"{number}.sets: expected at least one label set")
    if not np.isin(sets, (0, 1)).all():
        raise UserError(f"{number}.sets: expected 1 for each label that a set holds, 0 for others")
    if len(np.unique(np.packbits(sets, axis=1), axis=0)) < len(sets):
        raise UserError(f"{number}.sets: expected each label set once")


def mean_scores(
    parts: Sequence[SetSoftmax], read: Any, kind: SetScores, num_labels: int
) -> NDArray[np.float32]:
    """The mean of the scores that the softmaxes with a label give it, (samples, labels)."""
    total = np.zeros((read.shape[0], num_labels), dtype=np.float32)
    votes = np.zeros(num_labels, dtype=np.float32)
    for part in parts:
        total[:, part.labels] += part.label_scores(read, kind)
        votes[part.labels] += 1
    return np.asarray(total / np.maximum(votes, 1), dtype=np.float32)
