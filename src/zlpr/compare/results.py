"""Figures lined up for counting: by data set and model, loss, column and seed."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from statistics import fmean
from typing import Literal, TypeVar

from zlpr.compare.records import RunRecord
from zlpr.data import published
from zlpr.metrics import PAPER_METRICS, Empty, MetricInfo, info

T = TypeVar("T", bound=Hashable)
DecodingName = Literal["own", "threshold", "fitted"]
_WORDS = {"own": "own bound", "threshold": "one threshold", "fitted": "chosen rule"}


METRICS = tuple(info(name) for name in PAPER_METRICS)
"""What a comparison is judged by."""


@dataclass(frozen=True)
class Column:
    """A metric as judged at the loss's own bound, at one threshold or with the chosen rule."""

    metric: MetricInfo
    decoding: DecodingName

    @property
    def title(self) -> str:
        """The column's heading where the decodings stand side by side."""
        if not self.metric.needs_decision:
            return self.metric.title
        return f"{self.metric.title} ({_WORDS[self.decoding]})"


OWN = tuple(Column(metric, "own") for metric in METRICS)
"""The paper's six columns."""

FITTED = tuple(Column(metric, "fitted") for metric in METRICS if metric.needs_decision)
"""The four columns that a decoding changes, with the rule chosen on validation."""

THRESHOLD = tuple(Column(metric, "threshold") for metric in METRICS if metric.needs_decision)
"""The same with one threshold fitted on validation: the same rule for every loss."""

COLUMNS = tuple(
    column
    for metric in METRICS
    for column in (*OWN, *THRESHOLD, *FITTED)
    if column.metric is metric
)
"""All fourteen, each metric's three ways side by side."""


@dataclass(frozen=True, order=True)
class Contest:
    """What the losses compete on, one table of the comparison: a data set and a model."""

    data: str
    model: str

    def __str__(self) -> str:
        return f"{self.data}, {self.model}"


@dataclass(frozen=True)
class Matched:
    """Figures of one column that may be compared, for they are of the same seeds.

    Attributes:
        figures: by loss, then by seed; every loss has the same seeds.
        withheld: likewise, of the losses that lack some of these seeds, with all they have.
        unfinished: whether a figure that one of the losses has is missing of another.
    """

    figures: Mapping[str, Mapping[int, float]]
    withheld: Mapping[str, Mapping[int, float]]
    unfinished: bool

    def get(self, loss: str) -> Mapping[int, float]:
        """The figures to print: those compared, or those that are there; empty without any."""
        return self.figures.get(loss) or self.withheld.get(loss, {})


Key = tuple[Contest, str, str, DecodingName]


@dataclass(frozen=True)
class Results:
    """Values by contest, loss, metric and decoding; each is a mapping from seed to figure.

    Attributes:
        contests: data sets and models, in the order of the grid.
        losses: the losses' labels, in the order of the grid.
        values: the figures, as fractions.
        test_shares: per contest, test size over training size by seed, where seeds redraw the
            parts; empty where every seed saw the same ones.
        empty: what empty cases count in the figures, in one or both of the two ways.
    """

    contests: tuple[Contest, ...]
    losses: tuple[str, ...]
    values: Mapping[Key, Mapping[int, float]]
    test_shares: Mapping[Contest, Mapping[int, float]]
    empty: tuple[Empty, ...] = ("paper",)

    def get(self, contest: Contest, loss: str, column: Column) -> Mapping[int, float]:
        """Figure by seed; empty where the loss has none."""
        key = (contest, loss, column.metric.name, column.decoding)
        return self.values.get(key, {})

    def test_share(self, contest: Contest, seeds: Iterable[int]) -> float | None:
        """Test size over training size, the mean over these seeds; None where they share parts."""
        shares = self.test_shares.get(contest, {})
        return fmean(shares[seed] for seed in seeds) if shares else None

    def judged(self, contest: Contest, column: Column) -> tuple[str, ...]:
        """The losses that have a figure there."""
        return tuple(loss for loss in self.losses if self.get(contest, loss, column))

    def matched(
        self, contest: Contest, column: Column, losses: Sequence[str] | None = None
    ) -> Matched:
        """What of a column can be compared, among all losses or the given ones.

        Where a grid is not finished, losses have figures of different seeds, and a mean over easy
        splits would beat one over hard ones. Compared are the losses and seeds of the largest
        block of runs without a gap.
        """
        every = {x: self.get(contest, x, column) for x in losses or self.losses}
        judged = {loss: figures for loss, figures in every.items() if figures}
        shared = largest_block({loss: set(figures) for loss, figures in judged.items()})
        compared = {
            loss: {seed: value for seed, value in figures.items() if seed in shared}
            for loss, figures in judged.items()
            if shared <= set(figures)
        }
        withheld = {loss: figures for loss, figures in judged.items() if loss not in compared}
        unfinished = len({frozenset(figures) for figures in judged.values()}) > 1
        return Matched(compared, withheld, unfinished)

    @property
    def unfinished(self) -> bool:
        """Whether losses have figures of different seeds anywhere."""
        return any(self.matched(c, column).unfinished for c in self.contests for column in COLUMNS)

    @property
    def datasets(self) -> tuple[str, ...]:
        """The data sets' names, in order."""
        return tuple(dict.fromkeys(contest.data for contest in self.contests))

    @classmethod
    def from_records(cls, records: Iterable[RunRecord]) -> "Results":
        """Line up the finished records; the order of first appearance is kept."""
        done = [record for record in records if record.outcome is not None]
        values: dict[Key, dict[int, float]] = {}
        shares: dict[Contest, dict[int, float]] = {}
        for record in done:
            settings, data = record.settings, record.done.data
            contest = Contest(settings.data, settings.model)
            share = shares.setdefault(contest, {})
            if record.redrawn and data.train:
                share[settings.seed] = data.test / data.train
            for metric, decoding, value in _figures(record):
                key: Key = (contest, settings.loss.label, metric, decoding)
                values.setdefault(key, {})[settings.seed] = value
        losses = tuple(dict.fromkeys(record.settings.loss.label for record in done))
        empty = tuple(dict.fromkeys(record.settings.empty for record in done))
        return cls(tuple(shares), losses, values, shares, empty)

    @classmethod
    def from_paper(cls) -> "Results":
        """The paper's printed tables: eleven sets, two encoders, one run each."""
        values: dict[Key, dict[int, float]] = {}
        for name in published.SETS:
            for encoder in published.ENCODERS:
                for loss in published.losses(name, encoder):
                    for metric in METRICS:
                        value = published.result(name, encoder, loss, metric.name)
                        if value is not None:
                            key: Key = (Contest(name, encoder), loss, metric.name, "own")
                            values[key] = {0: value / 100}
        contests = tuple(dict.fromkeys(key[0] for key in values))
        losses = (*published.DECIDING_LOSSES, *published.RANKING_LOSSES)
        shares = {contest: {0: 0.125} for contest in contests}
        return cls(contests, losses, values, shares)


def largest_block(runs: Mapping[str, AbstractSet[T]]) -> AbstractSet[T]:
    """The seeds of the block of losses and seeds without a gap that has the most runs.

    Of blocks with equally many runs, the one with more losses.

    Examples:
        >>> sorted(largest_block({"zlpr": {0, 1, 2}, "bce": {0, 1}, "focal": {0, 1}}))
        [0, 1]
        >>> sorted(largest_block({"zlpr": {0, 1, 2}, "bce": {0, 1, 2}, "focal": {2}}))
        [0, 1, 2]
    """
    if not runs:
        return frozenset()
    own = [frozenset(seeds) for seeds in runs.values()]
    candidates = dict.fromkeys([*own, frozenset.intersection(*own)])

    def size(seeds: frozenset[T]) -> tuple[int, int]:
        losses = sum(seeds <= others for others in own)
        return losses * len(seeds), losses if seeds else 0

    return max(candidates, key=size)


def _figures(record: RunRecord) -> Iterator[tuple[str, DecodingName, float]]:
    test = record.done.evaluation.test
    for metric in METRICS:
        if metric.name in test.own:
            yield metric.name, "own", test.own[metric.name]
        if metric.needs_decision and metric.name in test.fitted:
            yield metric.name, "fitted", test.fitted[metric.name]
        if metric.needs_decision and metric.name in test.threshold:
            yield metric.name, "threshold", test.threshold[metric.name]
