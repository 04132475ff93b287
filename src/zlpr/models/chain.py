"""Classifier chains: one label after another, each given the features and the labels before it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zlpr._errors import UserError
from zlpr.models.base import TrainingRecord
from zlpr.models.by_features import FeatureModel, check_shape

_ROWS = 4096  # samples that go through a chain together


@dataclass(frozen=True)
class Chain:
    """Links of a chain: label `order[t]` scores `x w_t + b_t + sum_{u<t} y_u c_ut`.

    Attributes:
        order: a permutation of the labels, shape (labels,).
        weight: of shape (features, labels), a column per link.
        before: c, of shape (labels, labels); what label u at place u adds to link t, 0 for u >= t.
        bias: of shape (labels,), by link.
    """

    order: NDArray[np.int64]
    weight: NDArray[np.float32]
    before: NDArray[np.float32]
    bias: NDArray[np.float32]

    def label_scores(self, read: Any, beam: int) -> NDArray[np.float32]:
        """Scores of labels, shape (samples, labels), in the data's order of labels."""
        found = np.empty((read.shape[0], len(self.order)), dtype=np.float32)
        for first in range(0, read.shape[0], _ROWS):
            rows = slice(first, first + _ROWS)
            by_features = np.asarray(read[rows] @ self.weight + self.bias, dtype=np.float64)
            search = search_sets(by_features, self.before.astype(np.float64), beam)
            found[rows, self.order] = search.scores()
        return found


@dataclass(frozen=True)
class Found:
    """The label sets that a beam search ends with, the most probable first.

    Attributes:
        sets: bool of shape (samples, beam, labels), by link.
        log_chances: of shape (samples, beam).
        links: log-odds of each link on the way to the first set, (samples, labels).
    """

    sets: NDArray[np.bool_]
    log_chances: NDArray[np.float64]
    links: NDArray[np.float64]

    def scores(self) -> NDArray[np.float64]:
        """Scores that, cut at 0, are the most probable set found.

        Of a label on which the sets disagree, the log ratio of the best sets with and without
        it; of any other, more than that, and the more the surer its link was.
        """
        if self.sets.shape[1] == 1:
            return self.links
        chances = self.log_chances[:, :, None]
        inside = np.where(self.sets, chances, -np.inf).max(axis=1)
        outside = np.where(self.sets, -np.inf, chances).max(axis=1)
        finite = self.log_chances > -np.inf
        lowest = np.where(finite, self.log_chances, np.inf).min(axis=1)
        span = (self.log_chances[:, 0] - lowest)[:, None]
        sign = np.where(self.sets[:, 0], 1.0, -1.0)
        agreed = sign * (span + np.logaddexp(0.0, sign * self.links))
        with np.errstate(invalid="ignore"):
            ratio = inside - outside
        return np.asarray(np.where(np.isfinite(ratio), ratio, agreed))


def search_sets(by_features: NDArray[Any], before: NDArray[Any], beam: int) -> Found:
    """Follow the links of a chain with the most probable beginnings of label sets.

    A beam of 1 takes each label where its link is above 0, as a chain without search does; one of
    2^L would find the most probable set for certain.

    Args:
        by_features: scores of the links without the labels before them, (samples, labels).
        before: what label u adds to link t, (labels, labels).
        beam: how many beginnings to keep.
    """
    samples, num_labels = by_features.shape
    sets = np.zeros((samples, 1, num_labels), dtype=bool)
    links = np.zeros((samples, 1, num_labels))
    log_chances = np.zeros((samples, 1))
    for place in range(num_labels):
        odds = by_features[:, place, None] + sets[:, :, :place] @ before[:place, place]
        links[:, :, place] = odds
        # Both ways on from each beginning: without the label, then with it.
        grown = np.concatenate(
            [log_chances - np.logaddexp(0, odds), log_chances - np.logaddexp(0, -odds)], axis=1
        )
        kept = np.argsort(-grown, axis=1, kind="stable")[:, :beam]
        parent = (kept % odds.shape[1])[:, :, None]
        sets = np.take_along_axis(sets, parent, axis=1)
        links = np.take_along_axis(links, parent, axis=1)
        sets[:, :, place] = kept >= odds.shape[1]
        log_chances = np.take_along_axis(grown, kept, axis=1)
    return Found(sets, log_chances, links[:, 0])


class ChainModel(FeatureModel):
    """The mean of the scores of one or more classifier chains.

    Attributes:
        chains: each over all labels, in an order of its own.
        beam: how many beginnings of label sets the search keeps; 1 does not search.
    """

    kind = "zlpr_chain"

    def __init__(
        self,
        label_names: Sequence[str],
        chains: Sequence[Chain],
        beam: int,
        *,
        record: TrainingRecord,
        **reading: Any,
    ) -> None:
        super().__init__(label_names, record=record, **reading)
        self.chains = tuple(chains)
        self.beam = beam

    def score(self, read: Any) -> NDArray[np.float32]:
        """Scores of shape (samples, labels)."""
        return mean_scores(self.chains, read, self.beam)

    def save_parts(self, folder: Path) -> dict[str, Any]:
        """Write the chains and the vocabulary."""
        tensors = {
            f"{number}.{name}": getattr(chain, name)
            for number, chain in enumerate(self.chains)
            for name in ("order", "weight", "before", "bias")
        }
        saved = self.save_tensors(folder, tensors)
        return {**saved, "chains": len(self.chains), "beam": self.beam}

    @classmethod
    def load_parts(
        cls, folder: Path, config: Mapping[str, Any], shared: Mapping[str, Any]
    ) -> "ChainModel":
        """Read what `save_parts` wrote."""
        tensors, reading = cls.load_tensors(folder, config)
        num_labels = len(shared["label_names"])
        shapes = {
            "order": (num_labels,),
            "weight": (config["num_features"], num_labels),
            "before": (num_labels, num_labels),
            "bias": (num_labels,),
        }
        if not (isinstance(config["beam"], int) and config["beam"] > 0 and config["chains"] > 0):
            raise UserError("chains and beam must be numbers above 0")
        chains = []
        for number in range(config["chains"]):
            parts = {name: tensors[f"{number}.{name}"] for name in shapes}
            for name, shape in shapes.items():
                check_shape(folder, f"{number}.{name}", parts[name], shape)
            if sorted(parts["order"].tolist()) != list(range(num_labels)):
                raise UserError(f"{number}.order is not an order of the labels")
            chains.append(Chain(**parts))
        return cls(chains=chains, beam=config["beam"], **reading, **shared)


def mean_scores(chains: Sequence[Chain], read: Any, beam: int) -> NDArray[np.float32]:
    """The mean of the scores that the chains give the labels, (samples, labels)."""
    total = sum(chain.label_scores(read, beam) for chain in chains)
    return np.asarray(total / len(chains), dtype=np.float32)
