r"""The chances of whole label sets, given scores.

For candidate sets $Y$ of a sample (see `_candidates`) the posterior is log-linear,

$$P(Y \mid s, Y \in C) \propto \exp(w \cdot \phi(s, Y)),$$

with $\phi$ from the scores (the calibrated log odds of the set, ZLPR's two sides) and from the
training part (how often the set, its size, its labels and their pairs were seen). That the true
set is none of the candidates has a chance of its own, $1 - \pi(s)$, learned from how much of an
independent model's probability the candidates hold; there the labels are taken as independent.
"""

import hashlib
import json
from collections import OrderedDict
from collections.abc import Iterator
from copy import copy, deepcopy
from dataclasses import dataclass, field
from typing import Any, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from zlpr._counted import counted
from zlpr._errors import UserError
from zlpr.decoding._candidates import Candidates, propose
from zlpr.decoding._logistic import conditional_regression, logistic_regression
from zlpr.decoding._rule import (
    Array,
    BoolArray,
    Config,
    FloatArray,
    Validation,
    check_all_labels,
    check_numbers,
    check_scores,
    check_width,
)
from zlpr.decoding._score_cells import ScoreCells, learn_cells
from zlpr.decoding._seen_sets import SeenSets
from zlpr.decoding._shortlist import Shortlist
from zlpr.decoding.calibration import Calibrator
from zlpr.metrics import TopScores
from zlpr.metrics._inputs import SampleLabels

__all__ = ["SetPosterior"]

TERMS = (
    "log_odds",
    "positive_side",
    "negative_side",
    "size",
    "size_frequency",
    "set_frequency",
    "set_seen",
    "label_frequency",
    "pair_attraction",
)
BLOCK_CELLS = 1 << 19
"""Cells of candidate sets that are worked on at once: what a processor's cache holds."""
CELLS_PER_SAMPLE = 1024
MOST_SAMPLES = 8192
"""A handful of weights need no more; a larger validation part is thinned evenly."""
STEEPEST = 20.0
REMEMBERED = 6
"""What was learned last: of five folds and of all samples. The rule and the probabilities are
chosen on the same ones, one after the other, and to learn is most of the time that either takes."""
_remembered: "OrderedDict[bytes, SetPosterior]" = OrderedDict()


@dataclass(frozen=True)
class Posterior:
    """Chances of label sets for some samples.

    Attributes:
        candidates: the sets.
        chances: of each set given that one of them is true, shape (samples, C), rows sum to 1.
        inside: the chance that one of them is true, shape (samples,).
        outside: the chance of each label in play if none of them is, shape (samples, M).
        independent: calibrated chances of all labels, shape (samples, L).
    """

    candidates: Candidates
    chances: Tensor
    inside: Tensor
    outside: Tensor
    independent: Tensor

    def marginals(self) -> Tensor:
        """The chance of each label, shape (samples, L)."""
        inside = self.inside[:, None]
        found = (self.chances[:, None] @ self.candidates.sets).squeeze(1)
        mixed = inside * found + (1 - inside) * self.outside
        return ((1 - inside) * self.independent).scatter(1, self.candidates.labels, mixed)


@dataclass
class SetPosterior:
    """A posterior over label sets, fitted by maximum likelihood on validation data.

    Args:
        calibrator: makes log odds from scores.
        seen: label sets of the training part.
        weights: w, one for each of `TERMS`.
        inside: slope and intercept of the log odds that the true set is a candidate.
        cells: corrections for parts of the space of scores, where there is data for them.
    """

    calibrator: Calibrator = field(default_factory=Calibrator)
    seen: SeenSets | None = None
    weights: list[float] = field(default_factory=list)
    inside: list[float] = field(default_factory=lambda: [0.0, 0.0])
    cells: ScoreCells | None = None

    def __post_init__(self) -> None:
        for name, length in (("weights", len(TERMS)), ("inside", 2)):
            values = getattr(self, name)
            check_numbers(name, values)
            if values and len(values) != length:
                raise UserError(f"{name} of label sets must be {length} numbers, got {len(values)}")
            for value in values:
                if abs(value) > 1e9:
                    raise UserError(f"{name} of label sets must lie within 1e9, got {value:g}")
        if bool(self.weights) != (self.seen is not None) or (self.cells and not self.seen):
            raise UserError("label sets need both weights and seen sets, or neither and no cells")
        slopes = self.calibrator.temperature
        if self.seen and isinstance(slopes, list) and len(slopes) != self.seen.num_labels:
            raise UserError(
                f"the calibrator has {counted(len(slopes), 'label')}, the seen sets "
                f"{self.seen.num_labels}"
            )

    def learn(self, data: Validation) -> None:
        """Learn from validation scores; without training labels, sets are counted there too.

        A sample's own set is then not counted for it, so that the weights are those for fresh
        samples.
        """
        check_all_labels("the posterior of label sets", data.shortlist)
        key = _digest(self.calibrator, data)
        learned = _remembered.get(key)
        if learned is None:
            learned = copy(self)
            learned.calibrator = deepcopy(self.calibrator)  # whose owner may fit it to other data
            learned._learn(data)
            _remembered[key] = learned
            while len(_remembered) > REMEMBERED:
                _remembered.popitem(last=False)
        self.calibrator = deepcopy(learned.calibrator)
        self.weights, self.inside = list(learned.weights), list(learned.inside)
        self.seen, self.cells = learned.seen, learned.cells

    def _learn(self, data: Validation) -> None:
        self.calibrator.learn(data)
        counted = data.train_labels
        seen = SeenSets.of(_as_sample_labels(data.true) if counted is None else counted)
        stride = -(-len(data.true) // MOST_SAMPLES)
        scores, true = data.scores[::stride], data.true[::stride]
        parts = [
            self._learned_from(seen, scores[rows], true[rows], leave_out=counted is None)
            for rows in _blocks(*scores.shape)
        ]
        terms, valid, hit, held, places = (
            np.concatenate(part) for part in zip(*parts, strict=True)
        )
        found: BoolArray = np.any(hit, axis=1)
        self.seen = seen
        self.weights = conditional_regression(terms[found], valid[found], hit[found]).tolist()
        self.inside = logistic_regression(held[:, None], found, ridge=0.1).tolist()
        # Corrections are learned from samples whose true set was seen and is a candidate.
        found = np.any(hit & (places >= 0), axis=1)
        values = np.where(valid[found], terms[found] @ self.weights, -np.inf)
        chances, hit = torch.from_numpy(values).softmax(1), hit[found]
        self.cells = learn_cells(
            self._log_odds(scores[found]),
            torch.from_numpy(places[found][hit]),
            chances[torch.from_numpy(hit)],
            len(seen.sets),
        )

    @overload
    def __call__(self, y_score: TopScores) -> TopScores: ...
    @overload
    def __call__(self, y_score: Array) -> Array: ...
    def __call__(self, y_score: Any) -> Any:
        """The labels' chances, of the same shape and kind as the scores, float32 or float64.

        `TopScores` are refused: the posterior reads the scores of all labels.
        """
        scores = check_scores(y_score)
        return scores.like(y_score, self.probabilities(scores.values, scores.shortlist))

    def probabilities(self, scores: FloatArray, shortlist: Shortlist | None = None) -> FloatArray:
        """The chance of each label, of the shape and type of checked scores."""
        check_all_labels("the posterior of label sets", shortlist)
        chances = np.empty_like(scores)
        for rows, posterior in self.posteriors(scores):
            chances[rows] = posterior.marginals().numpy()
        return chances

    def posteriors(self, scores: FloatArray) -> Iterator[tuple[slice, Posterior]]:
        """The posterior of checked scores, a block of samples at a time."""
        if self.seen is None:
            raise UserError("label_sets has learned nothing yet: call fit first")
        check_width(scores, self.seen.num_labels)
        for rows in _blocks(*scores.shape):
            yield rows, self._posterior(self.seen, scores[rows])

    def _posterior(self, seen: SeenSets, block: FloatArray) -> Posterior:
        candidates, logits, terms = self._terms(seen, block)
        weights = torch.tensor(self.weights, dtype=torch.float64)
        values = (terms @ weights).masked_fill(~candidates.valid, -torch.inf)
        held, independent_sets = _held_mass(candidates, logits, terms[:, :, 0])
        chance = logits.sigmoid()
        taken = (independent_sets[:, None] @ candidates.sets).squeeze(1)
        outside = (candidates.in_play(chance) - taken) / (1 - held)[:, None]
        slope, intercept = self.inside
        inside = (slope * held.logit() + intercept).sigmoid()
        chances = values.softmax(1)
        if self.cells is not None:
            places, valid = candidates.places, candidates.valid
            chances = self.cells.blend(logits, chances, places, valid)
        return Posterior(candidates, chances, inside, outside.clamp(0, 1), chance)

    def _log_odds(self, block: FloatArray) -> Tensor:
        """Finite log odds, shape (samples, L)."""
        return torch.from_numpy(self.calibrator.log_odds(block)).double().clamp(-30, 30)

    def _terms(
        self, seen: SeenSets, block: FloatArray, own: Tensor | None = None
    ) -> tuple[Candidates, Tensor, Tensor]:
        """Candidates, log odds of all labels, and the sets' terms (samples, C, TERMS)."""
        scores = torch.from_numpy(np.ascontiguousarray(block)).double()
        logits = self._log_odds(block)
        candidates = propose(scores, logits, seen)
        return candidates, logits, set_terms(candidates, scores, logits, seen, own)

    def _learned_from(
        self, seen: SeenSets, block: FloatArray, true: BoolArray, *, leave_out: bool
    ) -> tuple[NDArray[Any], ...]:
        """Terms, which sets are valid, which is the true one, how much they hold, their places."""
        own = torch.from_numpy(true).double() @ seen.keys
        candidates, logits, terms = self._terms(seen, block, own if leave_out else None)
        # A set of other labels than those in play has another key.
        hit = (candidates.keys == own[:, None]) & candidates.valid
        held, _ = _held_mass(candidates, logits, terms[:, :, 0])
        found = (terms, candidates.valid, hit, held.logit(), candidates.places)
        return tuple(part.numpy() for part in found)

    def to_config(self) -> Config:
        """The posterior as plain JSON."""
        return {
            "calibrator": self.calibrator.to_config(),
            "seen": None if self.seen is None else self.seen.to_config(),
            "weights": self.weights,
            "inside": self.inside,
            "cells": None if self.cells is None else self.cells.to_config(),
        }

    @classmethod
    def from_config(cls, config: Any) -> "SetPosterior":
        """The posterior that `to_config` described."""
        known = {"calibrator", "seen", "weights", "inside", "cells"}
        if not isinstance(config, dict) or config.keys() != known:
            raise UserError(f"a posterior of label sets needs {', '.join(sorted(known))}")
        seen = None if config["seen"] is None else SeenSets.from_config(config["seen"])
        calibrator = Calibrator.from_config(config["calibrator"])
        cells = config["cells"]
        if cells is not None and seen is not None:
            cells = ScoreCells.from_config(cells, seen.num_labels, len(seen.sets))
        return cls(calibrator, seen, config["weights"], config["inside"], cells)


def _digest(calibrator: Calibrator, data: Validation) -> bytes:
    """Of all that a posterior is learned from."""
    whole = hashlib.blake2b(json.dumps(calibrator.to_config()).encode())
    counted = data.train_labels
    parts = () if counted is None else (counted.columns, counted.counts, counted.num_labels)
    for part in (data.scores, data.true, *parts):
        array = np.ascontiguousarray(part)
        whole.update(f"{array.dtype} {array.shape} ".encode())
        whole.update(array.data)
    return whole.digest()


def set_terms(
    candidates: Candidates, scores: Tensor, logits: Tensor, seen: SeenSets, own: Tensor | None
) -> Tensor:
    """What the posterior weighs, shape (samples, C, TERMS).

    Args:
        candidates: the sets.
        scores: shape (samples, L).
        logits: calibrated log odds, shape (samples, L).
        seen: label sets of the training part.
        own: keys of the samples' true sets, where these are among those counted.
    """
    # Beyond this a score is as sure as can be, and the difference below stays exact enough.
    limited = scores.clamp(-STEEPEST, STEEPEST)
    up, down = limited.exp(), (-limited).exp()
    odds = seen.label_log_odds.expand_as(up)
    columns = [candidates.in_play(values) for values in (logits, down, up, odds)]
    columns.append(torch.ones_like(columns[0]))
    log_odds, inside_down, inside_up, prior, size = (
        candidates.sets @ torch.stack(columns, 2)
    ).unbind(2)
    counts = candidates.counts
    if own is not None:
        counts = counts - (candidates.keys == own[:, None]).double()
    terms = (
        log_odds,
        -inside_down.log1p(),
        -(up.sum(1, keepdim=True) - inside_up).clamp(min=0).log1p(),
        size,
        seen.size_log_chances[size.long()],
        counts.log1p(),
        (counts > 0).double(),
        prior,
        candidates.attraction,
    )
    return torch.stack(terms, 2)


def _held_mass(candidates: Candidates, logits: Tensor, odds: Tensor) -> tuple[Tensor, Tensor]:
    """What independent labels give to all candidates, (samples,), and to each, (samples, C)."""
    none = -torch.nn.functional.softplus(logits).sum(1, keepdim=True)
    each = (odds + none).exp()
    each = each.masked_fill(~candidates.valid, 0.0)
    return each.sum(1).clamp(1e-4, 1 - 1e-4), each


def _blocks(samples: int, labels: int) -> Iterator[slice]:
    """Slices of samples whose candidates fit into bounded memory."""
    step = max(1, min(BLOCK_CELLS // CELLS_PER_SAMPLE, BLOCK_CELLS // labels))
    for start in range(0, samples, step):
        yield slice(start, start + step)


def _as_sample_labels(true: BoolArray) -> SampleLabels:
    return SampleLabels.from_cells(np.flatnonzero(true), *true.shape)
