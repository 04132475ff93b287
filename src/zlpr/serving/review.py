"""What the page shows of a model on data: computed once, in a form that a browser moves over.

A threshold that moves changes the decision on the cells (a sample and a label) whose scores it
passes, and on no others. So the browser gets, label by label, the cells in the order of their
scores, each with its sample and whether it is true; to move a cut is to walk along that order.
Where labels have a hierarchy the browser gets their ancestors, too, and every true label: a label
is then predicted where its own cell is above its cut, or that of one below it. Of many samples and
labels only the highest cells are kept, `MOST_CELLS` of them, with the cut that no threshold may go
below: everything above it is exact.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from zlpr import decoding, metrics
from zlpr._ancestors import Ancestors
from zlpr.data import Dataset
from zlpr.decoding.with_ancestors import bare
from zlpr.metrics import Empty, LabelLists, TopScores
from zlpr.models.base import FittedModel
from zlpr.models.card import empty_of

MOST_CELLS = 2_000_000
BLOCK_CELLS = 4_000_000
BLOCK_SAMPLES = 2_000
CONFUSED = 3
"""Labels that are named of those predicted in the place of another."""
LEAST = 1e-6
"""Where a probability is held off 0 and 1, so that one sure mistake does not rank alone."""
Matrix: TypeAlias = Any  # scipy's CSR of booleans
Progress: TypeAlias = Callable[[int], None]


@dataclass(frozen=True)
class Cells:
    """Cells by label, the highest score first.

    Attributes:
        starts: where each label's begin, (labels + 1,).
        samples: of each cell, (cells,).
        scores: of each, float32.
        true: whether each is true.
    """

    starts: NDArray[np.uint32]
    samples: NDArray[np.uint32]
    scores: NDArray[np.float32]
    true: NDArray[np.bool_]

    def to_bytes(self) -> bytes:
        """All of them, little-endian, one array behind the other."""
        arrays = (
            self.starts.astype("<u4"),
            self.samples.astype("<u4"),
            self.scores.astype("<f4"),
            self.true.astype("u1"),
        )
        return b"".join(array.tobytes() for array in arrays)


@dataclass(frozen=True)
class Errors:
    """Wrong decisions of the model's own rule, those first that it is surest of.

    Attributes:
        samples: (errors,).
        labels: (errors,).
        scores: float32.
        probabilities: float32.
        spurious: whether a label was predicted that is not true; else a true one was missed.
    """

    samples: NDArray[np.uint32]
    labels: NDArray[np.uint32]
    scores: NDArray[np.float32]
    probabilities: NDArray[np.float32]
    spurious: NDArray[np.bool_]

    def to_bytes(self) -> bytes:
        """All of them, little-endian, one array behind the other."""
        arrays = (
            self.samples.astype("<u4"),
            self.labels.astype("<u4"),
            self.scores.astype("<f4"),
            self.probabilities.astype("<f4"),
            self.spurious.astype("u1"),
        )
        return b"".join(array.tobytes() for array in arrays)


@dataclass(frozen=True)
class Review:
    """A model on one part of data.

    Attributes:
        data: the part, in the model's labels.
        part: what to call it.
        notes: what must be said of it.
        empty: what empty cases count.
        decided: the label sets by the model's own rule, CSR.
        own: their figures.
        test: the figures on the test part, once; None where there is none.
        test_samples: of it.
        cells: what thresholds move over.
        floors: the lowest threshold of each label that the cells are exact for.
        errors: of the model's own rule.
        surprise: of each sample, -log of the probability of the labels that it was given.
        thresholds: of the model's own rule where it is one of thresholds.
        test_data: the test part, for a rule that is saved.
        ancestors: of the labels, which come with them in every label set; None without.
    """

    data: Dataset
    part: str
    notes: tuple[str, ...]
    empty: Empty
    decided: Matrix
    own: dict[str, float]
    test: dict[str, float] | None
    test_samples: int
    cells: Cells
    floors: NDArray[np.float64]
    errors: Errors
    surprise: NDArray[np.float32]
    thresholds: list[float] | None
    test_data: Dataset | None = None
    ancestors: Ancestors | None = None

    def figures_with(self, model: FittedModel, rule: decoding.Rule) -> dict[str, dict[str, float]]:
        """Every figure of another rule, by part, as a model's record has them."""
        parts = {self.part: self.data, "test": self.test_data}
        return {
            name: _measured(model, part, rule, self.empty)
            for name, part in parts.items()
            if part is not None and len(part)
        }

    def cells_to_bytes(self) -> bytes:
        """The cells, behind them how many labels each sample has, as uint16, and which, as uint32.

        Which they are is told where labels have ancestors, whose cells may not be among those kept.
        """
        truth = self.data.labels.tocsr().sorted_indices()
        parts = [self.cells.to_bytes(), np.diff(truth.indptr).astype("<u2").tobytes()]
        if self.ancestors is not None:
            parts.append(truth.indices.astype("<u4").tobytes())
        return b"".join(parts)

    def to_json(self) -> dict[str, Any]:
        """What the page is told beside the arrays."""
        hits = _counts(self.decided.multiply(self.data.labels))
        shown = self.cells.scores
        highest = float(shown.max()) if len(shown) else 1.0
        lowest = float(shown.min()) if len(shown) else -1.0
        return {
            "data": self.data.name,
            "part": self.part,
            "notes": list(self.notes),
            "empty": self.empty,
            "samples": len(self.data),
            "has_texts": self.data.texts is not None,
            "own": self.own,
            "test": self.test,
            "test_samples": self.test_samples,
            "lowest": lowest,
            "highest": highest,
            "floors": [None if floor == -np.inf else floor for floor in self.floors.tolist()],
            "thresholds": self.thresholds,
            "support": _counts(self.data.labels),
            "predicted": _counts(self.decided),
            "hits": hits,
            "confused": confused(self.data.labels, self.decided),
            "cells": len(self.cells.scores),
            "errors": len(self.errors.samples),
            "ancestors": None if self.ancestors is None else self.ancestors.to_lists(),
        }


def review(
    model: FittedModel,
    data: Dataset,
    test: Dataset | None = None,
    *,
    part: str = "validation",
    notes: Sequence[str] = (),
    most_cells: int = MOST_CELLS,
    progress: Progress = lambda count: None,
) -> Review:
    """Score data once and keep what the page shows.

    Args:
        model: what decides.
        data: the part that thresholds are moved on, in the model's labels.
        test: the part that is shown once.
        part: what the first is called.
        notes: what must be said of it.
        most_cells: to keep.
        progress: called with each number of samples that are done.
    """
    thresholds = thresholds_of(model.decoder, len(model.label_names))
    rule = model.decoder
    ancestors = rule.ancestors if isinstance(rule, decoding.WithAncestors) else None
    collected = _Collected(thresholds, most_cells, len(data) * model.num_scored, ancestors)
    for start, block in _blocks(model, data, progress):
        collected.add(start, block, data.labels[start : start + len(block.scores)])
    collected.settle()
    empty = empty_of(model.record)
    decided = _stack(collected.decided, len(model.label_names))
    return Review(
        data=data,
        part=part,
        notes=tuple(notes),
        empty=empty,
        decided=decided,
        own=figures(data.labels, decided, empty),
        test=None if test is None else _test_figures(model, test, empty, progress),
        test_samples=0 if test is None else len(test),
        cells=collected.cells(len(model.label_names)),
        floors=collected.floors(len(model.label_names)),
        errors=collected.errors(),
        surprise=np.concatenate([*collected.surprise, np.zeros(0, dtype=np.float32)]),
        thresholds=thresholds,
        test_data=test,
        ancestors=ancestors,
    )


def describe(
    model: FittedModel, name: str, *, reads_texts: bool, reviewed: bool, may_save: bool
) -> dict[str, Any]:
    """What the page is told of a model.

    Args:
        model: what it asks.
        name: what it calls it.
        reads_texts: whether a text can be given, or only features.
        reviewed: whether there is a review of it.
        may_save: whether the page may save a rule in a copy of it.
    """
    cuts = thresholds_of(model.decoder, len(model.label_names))
    at_cut = None
    if cuts is not None and isinstance(model.calibrator, decoding.Calibrator):
        at_cut = model.calibrator(np.array([cuts])).ravel().tolist()
    return {
        "name": name,
        "kind": model.kind,
        "labels": list(model.label_names),
        "reads_texts": reads_texts,
        "rule": bare(model.decoder).name,
        "adds_ancestors": model.hierarchy is not None,
        "cuts": cuts,
        "probabilities_at_cuts": at_cut,
        "reviewed": reviewed,
        "may_save": may_save,
    }


def _measured(
    model: FittedModel, data: Dataset, rule: decoding.Rule, empty: Empty
) -> dict[str, float]:
    measured = metrics.MetricSet(data.num_labels, empty=empty)
    for start, block in _blocks(model, data, lambda count: None, rule):
        truth = data.labels[start : start + len(block.scores)]
        measured.update(truth, block.scores, block.decided)
    return measured.compute()


def figures(truth: Matrix, decided: Matrix, empty: Empty) -> dict[str, float]:
    """The figures that the page shows, by name."""
    hits = decided.multiply(truth).nnz
    return {
        "precision": hits / max(decided.nnz, 1),
        "recall": hits / max(truth.nnz, 1),
        "micro_f1": metrics.micro_f1(truth, decided, empty=empty),
        "macro_f1": metrics.macro_f1(truth, decided, empty=empty),
        "subset_accuracy": metrics.subset_accuracy(truth, decided),
        "empty_share": metrics.empty_share(decided),
    }


def thresholds_of(rule: decoding.Rule, num_labels: int) -> list[float] | None:
    """A threshold per label where the rule is one of thresholds; None where it is not.

    Ancestors that a rule adds have nothing to do with it.

    Examples:
        >>> thresholds_of(decoding.Threshold(0.5), 2), thresholds_of(decoding.TopK(1), 2)
        ([0.5, 0.5], None)
    """
    rule = bare(rule)
    if isinstance(rule, decoding.ZeroBound):
        return [0.0] * num_labels
    if isinstance(rule, decoding.Threshold):
        return [float(rule.threshold)] * num_labels
    if isinstance(rule, decoding.PerLabelThreshold):
        return list(map(float, rule.thresholds))
    return None


def confused(truth: Matrix, decided: Matrix) -> list[list[tuple[int, int]]]:
    """Of each label, those predicted wrongly where it was missed: (label, samples), most first."""
    wrong = (decided.astype(np.int32) - truth.astype(np.int32)).tocsr()
    missed, spurious = (wrong < 0).astype(np.int32), (wrong > 0).astype(np.int32)
    together = (missed.T @ spurious).tocsr()
    rows = []
    for first, last in zip(together.indptr[:-1], together.indptr[1:], strict=True):
        order = np.argsort(-together.data[first:last], kind="stable")[:CONFUSED] + first
        rows.append([(int(together.indices[i]), int(together.data[i])) for i in order])
    return rows


def _counts(matrix: Matrix) -> list[int]:
    """How many samples have each label."""
    counts: list[int] = np.bincount(matrix.tocoo().col, minlength=matrix.shape[1]).tolist()
    return counts


@dataclass(frozen=True)
class _Block:
    """Some samples: scores and probabilities of cells, and the label sets by the own rule."""

    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    values: NDArray[np.float32]
    shares: NDArray[np.float32]
    scores: NDArray[np.float32] | TopScores
    decided: Matrix


def _blocks(
    model: FittedModel, data: Dataset, progress: Progress, rule: decoding.Rule | None = None
) -> Iterator[tuple[int, _Block]]:
    """The data in blocks, scored and decided by a rule, or by the model's own."""
    step = max(1, min(BLOCK_SAMPLES, BLOCK_CELLS // max(1, len(model.label_names))))
    for start in range(0, len(data), step):
        read = model.read(data.inputs[start : start + step])
        scores = model.score(read)
        decided = (rule or model.decoder)(scores, features=model.features(read))
        yield start, _block(scores, model.calibrator(scores), decided)
        progress(len(scores))


def _block(scores: Any, shares: Any, decided: Any) -> _Block:
    if isinstance(scores, TopScores):
        own, chances = scores.by_label(), shares.by_label()
        rows, places = np.nonzero(own.labels >= 0)
        columns = own.labels[rows, places].astype(np.int64)
        values, likely = own.scores[rows, places], chances.scores[rows, places]
    else:
        rows, columns = (index.ravel() for index in np.indices(scores.shape))
        values, likely = scores.ravel(), np.asarray(shares).ravel()
    return _Block(
        rows.astype(np.int64),
        columns.astype(np.int64),
        values.astype(np.float32),
        likely.astype(np.float32),
        scores,
        _as_matrix(decided),
    )


def _as_matrix(decided: NDArray[np.bool_] | LabelLists) -> Matrix:
    if isinstance(decided, LabelLists):
        parts = (decided.data, decided.indices, decided.indptr)
        return sparse.csr_array(parts, shape=decided.shape)
    return sparse.csr_array(decided)


class _Collected:
    """What is kept of the blocks as they pass."""

    def __init__(
        self,
        thresholds: list[float] | None,
        most_cells: int,
        cells: int,
        ancestors: Ancestors | None,
    ) -> None:
        # Twice as many as wanted from each block, for the common floor is the highest of them.
        self.share = 1.0 if cells <= most_cells else min(1.0, 2 * most_cells / cells)
        self.most_cells, self.ancestors = most_cells, ancestors
        self.lowest = None if thresholds is None else np.array(thresholds, dtype=np.float32)
        self.floor = -np.inf
        self.decided: list[Matrix] = []
        self.surprise: list[NDArray[np.float32]] = []
        self._cells: list[tuple[NDArray[Any], ...]] = []
        self._errors: list[tuple[NDArray[Any], ...]] = []

    def add(self, start: int, block: _Block, truth: Matrix) -> None:
        """Keep the high cells and the wrong ones of a block."""
        rows, columns, values, shares = self._judged(block, truth)
        true, chosen = (_at(matrix, rows, columns) for matrix in (truth, block.decided))
        self.decided.append(block.decided)
        floor = -np.inf
        if self.share < 1 and len(block.values):
            floor = float(np.quantile(block.values, 1 - self.share, method="higher"))
            self.floor = max(self.floor, floor)
        kept = block.values > (floor if self.lowest is None else self._at_most(floor, block))
        self._cells.append(
            (
                block.columns[kept],
                block.rows[kept] + start,
                block.values[kept],
                true[: len(kept)][kept],
            )
        )
        wrong = true != chosen
        self._errors.append(
            (rows[wrong] + start, columns[wrong], values[wrong], shares[wrong], chosen[wrong])
        )
        given = np.where(true, shares, 1 - shares).clip(LEAST, 1)
        summed = np.bincount(rows, -np.log(given), minlength=truth.shape[0])
        self.surprise.append(summed.astype(np.float32))

    def _at_most(self, floor: float, block: _Block) -> NDArray[Any]:
        assert self.lowest is not None  # noqa: S101 - for mypy
        return np.minimum(np.float32(floor), self.lowest)[block.columns]

    def _judged(self, block: _Block, truth: Matrix) -> tuple[NDArray[Any], ...]:
        """Rows, columns, scores and probabilities of the cells, and of what was no candidate.

        That is what is true or decided on beside the candidates: ancestors with the figures of the
        likeliest label below, as in an answer; all others at no score and no probability.
        """
        cells = block.rows, block.columns, block.values, block.shares
        if not isinstance(block.scores, TopScores):
            return cells
        return tuple(_joined([cells, self._others(block, truth)], ()))

    def _others(self, block: _Block, truth: Matrix) -> tuple[NDArray[Any], ...]:
        true, chosen = (_places(matrix) for matrix in (truth, block.decided))
        own = block.rows * truth.shape[1] + block.columns
        others = np.setdiff1d(np.union1d(true, chosen), own)
        is_chosen, decided = np.isin(others, chosen), np.isin(own, chosen)
        rows, columns = np.divmod(others, truth.shape[1])
        scores = np.full(len(others), np.finfo(np.float32).min, dtype=np.float32)
        shares = np.zeros(len(others), dtype=np.float32)
        for place in range(len(others) if self.ancestors is not None else 0):
            cells = np.arange(*np.searchsorted(block.rows, [rows[place], rows[place] + 1]))
            alike = cells[decided[cells] == is_chosen[place]]  # none below what was missed was
            below = [i for i in alike if self._is_above(columns[place], i, block)]
            scores[place] = block.values[below].max(initial=scores[place])
            shares[place] = block.shares[below].max(initial=0)
        return rows, columns, scores, shares

    def _is_above(self, label: int, cell: int, block: _Block) -> bool:
        above = self.ancestors
        return above is not None and label in above[int(block.columns[cell])]

    def settle(self) -> None:
        """Raise the common floor until no more cells are above it than are wanted."""
        values = np.concatenate([part[2] for part in self._cells]) if self._cells else np.zeros(0)
        if self.share < 1 and len(values) > self.most_cells:
            wanted = float(np.partition(values, -self.most_cells)[-self.most_cells])
            self.floor = max(self.floor, wanted)

    def floors(self, num_labels: int) -> NDArray[np.float64]:
        """The lowest threshold of each label that the cells are exact for."""
        floors = np.full(num_labels, self.floor, dtype=np.float64)
        return floors if self.lowest is None else np.minimum(floors, self.lowest)

    def cells(self, num_labels: int) -> Cells:
        """By label, the highest score first."""
        columns, samples, scores, true = _joined(self._cells, (np.int64, np.int64, "f4", bool))
        kept = scores > self.floors(num_labels)[columns]
        order = np.lexsort((samples[kept], -scores[kept], columns[kept]))
        columns = columns[kept][order]
        return Cells(
            np.searchsorted(columns, np.arange(num_labels + 1)).astype(np.uint32),
            samples[kept][order].astype(np.uint32),
            scores[kept][order],
            true[kept][order],
        )

    def errors(self) -> Errors:
        """Those first whose label the model holds for wrong with the most certainty."""
        kinds = (np.int64, np.int64, "f4", "f4", bool)
        samples, labels, scores, shares, spurious = _joined(self._errors, kinds)
        order = np.argsort(-np.where(spurious, shares, 1 - shares), kind="stable")
        return Errors(
            samples[order].astype(np.uint32),
            labels[order].astype(np.uint32),
            scores[order],
            shares[order],
            spurious[order],
        )


def _joined(parts: Sequence[tuple[NDArray[Any], ...]], kinds: Sequence[Any]) -> list[NDArray[Any]]:
    if not parts:
        return [np.zeros(0, dtype=kind) for kind in kinds]
    return [np.concatenate(part) for part in zip(*parts, strict=True)]


def _at(matrix: Matrix, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which of these cells are set."""
    dense: NDArray[np.bool_] = np.zeros(matrix.shape, dtype=bool)
    set_rows, set_columns = matrix.nonzero()
    dense[set_rows, set_columns] = True
    return dense[rows, columns]


def _places(matrix: Matrix) -> NDArray[np.int64]:
    """Positions of what is set in the flattened matrix."""
    rows, columns = matrix.nonzero()
    places: NDArray[np.int64] = np.asarray(rows, dtype=np.int64) * matrix.shape[1] + columns
    return places


def _stack(blocks: Sequence[Matrix], num_labels: int) -> Matrix:
    if not blocks:
        return sparse.csr_array((0, num_labels), dtype=bool)
    return sparse.vstack(blocks, format="csr")


def _test_figures(
    model: FittedModel, test: Dataset, empty: Empty, progress: Progress
) -> dict[str, float]:
    decided = [block.decided for _, block in _blocks(model, test, progress)]
    return figures(test.labels, _stack(decided, len(model.label_names)), empty)
