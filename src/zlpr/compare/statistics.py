"""What the figures allow one to say: spread, wins, and whether chance could have made them.

Within a data set, seeds are compared in pairs. A seed redraws the split, so that the runs share
training samples and the plain paired t-test finds too much; Nadeau and Bengio's correction is
used (Inference for the generalization error, Machine Learning 52, 2003), and Holm's over the
losses compared. Over data sets, Friedman's test on ranks with Nemenyi's post-hoc test follows
Demšar (Statistical comparisons of classifiers over multiple data sets, JMLR 7, 2006).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from zlpr.compare.results import Column, Contest, Results
from zlpr.models.registry import NO_LOSS

ALPHA = 0.05
MIN_DATASETS = 6
"""Below this, ranks over data sets can hardly differ beyond chance, and no test is made."""

PRINTED_DECIMALS = 2
"""Decimals of a percentage in tables; losses that agree to these are tied, as in the paper."""


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation over seeds; one seed has no deviation."""

    mean: float
    deviation: float | None
    seeds: int

    @classmethod
    def of(cls, values: Mapping[int, float]) -> "Spread | None":
        """None where there is no value."""
        if not values:
            return None
        numbers = list(values.values())
        deviation = float(np.std(numbers, ddof=1)) if len(numbers) > 1 else None
        return cls(float(np.mean(numbers)), deviation, len(numbers))


@dataclass(frozen=True)
class Standing:
    """Who is best in one column of one table, and who cannot be told from the best.

    Attributes:
        best: the losses with the best mean as printed; more than one on a tie, none where no two
            losses have seeds in common.
        within_noise: losses that these seeds do not tell from the best.
        p_values: Holm-corrected, per loss other than the best; None with a single seed, and with
            seeds that change nothing.
        leads: per loss other than the best, the smallest lead over it that these seeds could have
            told from chance, as a fraction; see `smallest_lead`. None where the p-value is.
    """

    best: tuple[str, ...]
    within_noise: tuple[str, ...]
    p_values: Mapping[str, float | None]
    leads: Mapping[str, float | None]

    @property
    def clear(self) -> bool:
        """Whether one loss is ahead of all others beyond chance."""
        return len(self.best) == 1 and not self.within_noise

    @property
    def lead_that_shows(self) -> float | None:
        """The median of `leads`: about how far ahead a loss must be for it to show."""
        known = [lead for lead in self.leads.values() if lead is not None]
        middle = float(np.median(known)) if known else math.inf
        return middle if middle < 1 else None  # no lead is longer than the whole scale


@dataclass(frozen=True)
class Wins:
    """How often a loss is best, and how often beyond chance."""

    total: int
    clear: int


@dataclass(frozen=True)
class RankTest:
    """Friedman's test over data sets, with Nemenyi's comparison of every pair.

    Attributes:
        losses: the losses that have a figure on every data set counted.
        datasets: the data sets counted.
        ranks: average rank per loss, 1 = best.
        p_value: of the hypothesis that all losses rank alike.
        pairwise: Nemenyi's p-values, shape (losses, losses).
        critical_difference: ranks further apart than this differ at `ALPHA`.
    """

    losses: tuple[str, ...]
    datasets: tuple[str, ...]
    ranks: tuple[float, ...]
    p_value: float
    pairwise: NDArray[np.float64]
    critical_difference: float

    @property
    def verdicts(self) -> NDArray[np.float64]:
        """The p-values to judge pairs by: where Friedman finds no difference, no pair differs."""
        return self.pairwise if self.p_value <= ALPHA else np.ones_like(self.pairwise)

    def tells_apart(self, one: int, other: int) -> bool:
        """Whether two losses, by their places, rank differently beyond chance."""
        return bool(self.verdicts[one, other] <= ALPHA)


def printed(value: float) -> float:
    """A fraction as the percentage that a table prints."""
    return round(100 * value, PRINTED_DECIMALS)


def paired_p_value(
    a: Mapping[int, float], b: Mapping[int, float], test_share: float | None
) -> float | None:
    r"""Two-sided p-value that the runs `a` and `b` differ by chance, paired by seed.

    With differences $d$ over $n$ seeds of mean $m$ and variance $v$,
    $t = m / \sqrt{v (1/n + r)}$ on $n - 1$ degrees of freedom, where $r$ is the test part's size
    over the training part's, a mean over the runs, if seeds redraw the split, and 0 if they do not.

    Returns:
        The p-value, or None where fewer than two seeds are shared or where all differences are
        the same, which leaves nothing to measure chance by (seeds that change nothing).

    Examples:
        >>> round(paired_p_value({0: 0.5, 1: 0.6}, {0: 0.4, 1: 0.4}, None), 3)
        0.205
    """
    from scipy import stats

    differences = paired_differences(a, b)
    if len(differences) < 2:
        return None
    mean, scale = abs(float(differences.mean())), standard_error(differences, test_share)
    if scale == 0:
        return 1.0 if mean < 1e-12 else None
    return float(2 * stats.t.sf(mean / scale, len(differences) - 1))


def smallest_lead(
    a: Mapping[int, float], b: Mapping[int, float], test_share: float | None, comparisons: int = 1
) -> float | None:
    r"""The smallest mean difference of `a` and `b` that the seeds could have told from chance.

    $t_{1 - \alpha / 2k,\ n - 1} \sqrt{v (1/n + r)}$ in the notation of `paired_p_value`, with
    $\alpha$ = 5 % shared by $k$ comparisons: the spread of the paired differences is taken from the
    runs, their mean is not. With few seeds the quantile is large (12.7 for two, 4.3 for three, 2.8
    for five, more with several comparisons), so that even a lead in every run may not show.

    Returns:
        The difference as a fraction; None where the spread cannot be measured.

    Examples:
        >>> a, b = {0: 0.58, 1: 0.55, 2: 0.61}, {0: 0.50, 1: 0.50, 2: 0.50}
        >>> round(smallest_lead(a, b, 0.125), 3), round(smallest_lead(a, b, 0.125, 8), 3)
        (0.087, 0.256)
    """
    from scipy import stats

    differences = paired_differences(a, b)
    if len(differences) < 2 or standard_error(differences, test_share) == 0:
        return None
    quantile = stats.t.isf(ALPHA / (2 * comparisons), len(differences) - 1)
    return float(quantile) * standard_error(differences, test_share)


@dataclass(frozen=True)
class Difference:
    """How far a loss is ahead of another, with its 95 % interval where one can be told.

    Attributes:
        mean: of the paired differences, as a fraction; above 0 where the loss is better.
        half: half the length of the interval; None with one run.
    """

    mean: float
    half: float | None


def differences_from(
    results: Results, column: Column, reference: str, losses: Sequence[str] | None = None
) -> dict[str, Difference]:
    """Every loss's paired differences from a reference, over seeds or, with several tables, tables.

    With one table the interval is that of the test, `smallest_lead`, around the mean; with several
    it is Student's over the tables' mean differences.
    """
    found = {}
    for loss in losses or results.losses:
        means, halves = [], []
        for contest in results.contests:
            figures = results.matched(contest, column).figures
            if loss == reference or loss not in figures or reference not in figures:
                continue
            a, b = figures[loss], figures[reference]
            share = results.test_share(contest, a)
            means.append(column.metric.sign * float(paired_differences(a, b).mean()))
            halves.append(smallest_lead(a, b, share))
        if len(means) == 1:
            found[loss] = Difference(means[0], halves[0])
        elif means:
            of_tables = dict(enumerate(means))
            half = smallest_lead(of_tables, dict.fromkeys(of_tables, 0.0), None)
            found[loss] = Difference(float(np.mean(means)), half)
    return found


def paired_differences(a: Mapping[int, float], b: Mapping[int, float]) -> NDArray[np.float64]:
    """Of the seeds that both have, in their order."""
    return np.array([a[seed] - b[seed] for seed in sorted(set(a) & set(b))])


def standard_error(differences: NDArray[np.float64], test_share: float | None) -> float:
    """That of the mean of paired differences, corrected for the overlap of splits.

    0 where all differences are the same.
    """
    variance = float(np.var(differences, ddof=1))
    return math.sqrt(variance * (1 / len(differences) + (test_share or 0.0))) * (variance > 1e-24)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down correction.

    Examples:
        >>> holm([0.01, 0.04, 0.03])
        [0.03, 0.06, 0.06]
    """
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    corrected = [0.0] * len(p_values)
    largest = 0.0
    for position, index in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - position) * p_values[index]))
        corrected[index] = largest
    return corrected


def standing(
    results: Results, contest: Contest, column: Column, losses: Sequence[str] | None = None
) -> Standing | None:
    """Best losses of one column of one table, None where no loss has a figure.

    Compared are the figures of `Results.matched`; where that leaves one loss of several, none is
    best.
    """
    matched = results.matched(contest, column, losses)
    if not matched.figures:
        return None
    if matched.withheld and len(matched.figures) == 1:  # ahead of nobody
        return Standing((), (), {}, {})
    figures = matched.figures
    means = {x: float(np.mean(list(values.values()))) for x, values in figures.items()}
    first = max(means, key=lambda x: column.metric.sign * means[x])
    best = tuple(x for x in means if printed(means[x]) == printed(means[first]))
    share = results.test_share(contest, next(iter(figures.values())))  # all have the same seeds
    rivals = [x for x in figures if x != first]
    raw = {x: paired_p_value(figures[first], figures[x], share) for x in rivals}
    tested = {x: p for x, p in raw.items() if p is not None}
    corrected = dict(zip(tested, holm(list(tested.values())), strict=True))
    p_values = {x: corrected.get(x) for x in rivals}
    noise = tuple(x for x, p in p_values.items() if p is None or p > ALPHA)
    leads = {x: smallest_lead(figures[first], figures[x], share, len(rivals)) for x in rivals}
    return Standing(best, noise, p_values, leads)


def count_wins(
    results: Results, column: Column, losses: Sequence[str] | None = None
) -> dict[str, Wins]:
    """Per loss, the contests where it is best in this column; a tie counts for each.

    A win is clear where the loss is ahead of every other one beyond chance, so a tie is not.
    """
    totals = dict.fromkeys(losses or results.losses, 0)
    clears = dict.fromkeys(totals, 0)
    for contest in results.contests:
        stand = standing(results, contest, column, losses)
        if stand is None or not stand.p_values:  # nobody to win against
            continue
        for loss in stand.best:
            totals[loss] += 1
            clears[loss] += stand.clear
    return {loss: Wins(totals[loss], clears[loss]) for loss in totals}


def rank_test(results: Results, column: Column) -> RankTest | None:
    """Friedman and Nemenyi over data sets, None where there are too few.

    A data set is one block: with several models, each loss's figure is the mean over them, for
    two models on the same data are no independent evidence. A loss with figures on fewer than
    `MIN_DATASETS` sets is left out, and then any set that lacks a figure, rather than guessed.
    """
    import pandas as pd
    import scikit_posthocs
    from scipy import stats

    table = _block_table(results, column)
    counts = {x: sum(x in row for row in table.values()) for x in results.losses}
    losses = [x for x in results.losses if counts[x] >= MIN_DATASETS]
    complete = {data: row for data, row in table.items() if set(losses) <= set(row)}
    if len(complete) < MIN_DATASETS or len(losses) < 3:
        return None
    matrix = np.array(
        [[-column.metric.sign * printed(row[x]) for x in losses] for row in complete.values()]
    )
    ranks = stats.rankdata(matrix, axis=1).mean(axis=0)
    alike = not np.ptp(matrix, axis=1).any()  # Friedman's statistic is 0/0 then
    p_value = 1.0 if alike else float(stats.friedmanchisquare(*matrix.T).pvalue)
    frame = scikit_posthocs.posthoc_nemenyi_friedman(pd.DataFrame(matrix, columns=losses))
    quantile = float(stats.studentized_range.ppf(1 - ALPHA, len(losses), np.inf)) / math.sqrt(2)
    count = len(losses)
    return RankTest(
        losses=tuple(losses),
        datasets=tuple(complete),
        ranks=tuple(float(rank) for rank in ranks),
        p_value=p_value,
        pairwise=frame.loc[losses, losses].to_numpy(dtype=np.float64),
        critical_difference=quantile * math.sqrt(count * (count + 1) / (6 * len(complete))),
    )


def _block_table(results: Results, column: Column) -> dict[str, dict[str, float]]:
    """Mean over matched seeds and models, by data set and loss; only where every model has it."""
    table: dict[str, dict[str, float]] = {}
    for data in results.datasets:
        contests = [contest for contest in results.contests if contest.data == data]
        row: dict[str, float] = {}
        matched = [results.matched(contest, column).figures for contest in contests]
        # A model that is not trained with a loss has none to rank.
        matched = [of_contest for of_contest in matched if of_contest.keys() != {NO_LOSS}]
        for loss in results.losses:
            figures = [of_contest.get(loss) for of_contest in matched]
            if figures and all(figures):
                row[loss] = float(np.mean([np.mean(list(f.values())) for f in figures if f]))
        table[data] = row
    return table
