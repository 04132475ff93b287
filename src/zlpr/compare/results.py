"""Figures lined up for counting: by data set and model, loss, column and seed."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from zlpr.compare.records import RunRecord
from zlpr.data import published
from zlpr.metrics import PAPER_METRICS, Empty, MetricInfo, info

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


Key = tuple[Contest, str, str, DecodingName]


@dataclass(frozen=True)
class Results:
    """Values by contest, loss, metric and decoding; each is a mapping from seed to figure.

    Attributes:
        contests: data sets and models, in the order of the grid.
        losses: the losses' labels, in the order of the grid.
        values: the figures, as fractions.
        test_shares: per contest, test size over training size where seeds redraw the split,
            None where every seed saw the same parts.
        empty: what empty cases count in the figures, in one or both of the two ways.
    """

    contests: tuple[Contest, ...]
    losses: tuple[str, ...]
    values: Mapping[Key, Mapping[int, float]]
    test_shares: Mapping[Contest, float | None]
    empty: tuple[Empty, ...] = ("paper",)

    def get(self, contest: Contest, loss: str, column: Column) -> Mapping[int, float]:
        """Figure by seed; empty where the loss has none."""
        key = (contest, loss, column.metric.name, column.decoding)
        return self.values.get(key, {})

    def judged(self, contest: Contest, column: Column) -> tuple[str, ...]:
        """The losses that have a figure there."""
        return tuple(loss for loss in self.losses if self.get(contest, loss, column))

    @property
    def datasets(self) -> tuple[str, ...]:
        """The data sets' names, in order."""
        return tuple(dict.fromkeys(contest.data for contest in self.contests))

    @classmethod
    def from_records(cls, records: Iterable[RunRecord]) -> "Results":
        """Line up the finished records; the order of first appearance is kept."""
        done = [record for record in records if record.outcome is not None]
        values: dict[Key, dict[int, float]] = {}
        shares: dict[Contest, float | None] = {}
        for record in done:
            settings, data = record.settings, record.done.data
            contest = Contest(settings.data, settings.model)
            redrawn = settings.split != "published"
            shares[contest] = data.test / data.train if redrawn and data.train else None
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
        return cls(contests, losses, values, dict.fromkeys(contests, 0.125))


def _figures(record: RunRecord) -> Iterator[tuple[str, DecodingName, float]]:
    test = record.done.evaluation.test
    for metric in METRICS:
        if metric.name in test.own:
            yield metric.name, "own", test.own[metric.name]
        if metric.needs_decision and metric.name in test.fitted:
            yield metric.name, "fitted", test.fitted[metric.name]
        if metric.needs_decision and metric.name in test.threshold:
            yield metric.name, "threshold", test.threshold[metric.name]
