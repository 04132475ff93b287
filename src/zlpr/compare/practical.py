r"""Whether two losses differ by enough to matter, and how probable that is.

A test of significance asks whether a difference of exactly nothing could have made the figures, and
with sets enough the answer is no for any two losses. Here differences below a bound, the region of
practical equivalence (ROPE), count as none, and what comes out are probabilities that one is
better, that the other is, or that neither is in practice (Benavoli, Corani, Demšar and Zaffalon,
Time for a change: a tutorial for comparing multiple classifiers through Bayesian analysis, JMLR
18(77), 2017).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from zlpr.compare.statistics import paired_differences, standard_error

ROPE = 0.005
"""Half a point: differences below it count as none."""

DRAWS = 20_000
PRIOR = 0.5
"""How many data sets without a difference the signed-rank test has seen before any."""


@dataclass(frozen=True)
class Verdict:
    """Probabilities of three cases, which sum to 1.

    Attributes:
        worse: than the other by more than the ROPE.
        alike: within the ROPE.
        better: than the other by more than the ROPE.
    """

    worse: float
    alike: float
    better: float


def on_one_set(
    a: Mapping[int, float],
    b: Mapping[int, float],
    test_share: float | None,
    *,
    sign: int = 1,
    rope: float = ROPE,
) -> Verdict | None:
    r"""How `a` stands to `b` on one data set, by the correlated Bayesian t-test.

    The mean difference has, with an uninformative prior, Student's distribution on $n - 1$ degrees
    of freedom around the mean of the paired differences, scaled by $\sqrt{v (1/n + r)}$ with
    the overlap $r$ of `paired_p_value` (Corani and Benavoli, Machine Learning 100, 2015).

    Args:
        a: figure by seed.
        b: likewise.
        test_share: test size over training size where seeds redraw the split, or None.
        sign: 1 where larger is better, -1 where smaller is.
        rope: differences within it count as none.

    Returns:
        None with fewer than two seeds in common, and where the differences are all the same.

    Examples:
        >>> found = on_one_set({0: 0.58, 1: 0.55, 2: 0.61}, {0: 0.5, 1: 0.5, 2: 0.5}, 0.125)
        >>> round(found.better, 3)
        0.967
    """
    from scipy import stats

    differences = sign * paired_differences(a, b)
    if len(differences) < 2:
        return None
    scale = standard_error(differences, test_share)
    if scale == 0:
        return None
    posterior = stats.t(len(differences) - 1, float(differences.mean()), scale)
    worse, better = float(posterior.cdf(-rope)), float(posterior.sf(rope))
    return Verdict(worse, 1.0 - worse - better, better)


def over_sets(
    differences: Sequence[float], *, rope: float = ROPE, draws: int = DRAWS, seed: int = 0
) -> Verdict:
    r"""How a loss stands to another over data sets, by the Bayesian signed-rank test.

    The distribution of differences over data sets is a Dirichlet process around what was seen, with
    `PRIOR` of its mass at 0: weights $w \sim \mathrm{Dir}(s, 1, \dots, 1)$ on $0, d_1, \dots, d_n$.
    A draw of weights gives the probability that the mean of two differences drawn by them (the
    Walsh averages of Wilcoxon's test) is above the ROPE, within it or below; the verdict is how
    often each of the three is the largest.

    Args:
        differences: one for each data set, above 0 where the loss is better.
        rope: differences within it count as none.
        draws: of the weights.
        seed: of the draws.

    Examples:
        >>> over_sets([0.03, 0.02, 0.04, 0.01, 0.03, 0.05, 0.02, 0.03]).better > 0.99
        True
    """
    seen = np.array([0.0, *differences])
    pairs = (seen[:, None] + seen[None, :]) / 2.0
    above, below = (pairs > rope).astype(float), (pairs < -rope).astype(float)
    alpha = np.array([PRIOR, *[1.0] * len(differences)])
    weights = np.random.default_rng(seed).dirichlet(alpha, size=draws)
    better = np.einsum("ki,ij,kj->k", weights, above, weights, optimize=True)
    worse = np.einsum("ki,ij,kj->k", weights, below, weights, optimize=True)
    shares = np.stack([worse, 1.0 - worse - better, better], axis=1)
    won = np.bincount(shares.argmax(axis=1), minlength=3) / draws
    return Verdict(*won.tolist())


@dataclass(frozen=True)
class Effect:
    """How large a difference over data sets is.

    Attributes:
        mean: of the sets' differences, as a fraction.
        half: half the length of its 95 % interval over sets; None with one set.
        standardised: the mean over the standard deviation of the sets' differences, Cohen's d of
            paired figures; None where that is 0 or there is one set.
        rank_biserial: from -1 to 1, the share of all ranks of absolute differences that speaks for
            the loss, less the share that speaks against it (Kerby, 2014).
    """

    mean: float
    half: float | None
    standardised: float | None
    rank_biserial: float


def effect(differences: Sequence[float]) -> Effect:
    """The size of a difference, over data sets.

    Examples:
        >>> found = effect([0.01, 0.03, -0.01, 0.05])
        >>> round(found.mean, 3), round(found.rank_biserial, 2)
        (0.02, 0.7)
    """
    from scipy import stats

    values = np.asarray(differences, dtype=np.float64)
    ranks = stats.rankdata(np.abs(values))
    rank_biserial = float((ranks * np.sign(values)).sum() / ranks.sum())
    deviation = float(values.std(ddof=1)) if len(values) > 1 else 0.0
    half = None
    if len(values) > 1:
        quantile = float(stats.t.isf(0.025, len(values) - 1))
        half = quantile * deviation / float(np.sqrt(len(values)))
    mean = float(values.mean())
    return Effect(mean, half, mean / deviation if deviation else None, rank_biserial)
