"""What the study's CSV says: what has run of each part, who leads by how much, and how surely."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from bench import study

from zlpr import metrics
from zlpr.compare.practical import Effect, Verdict, effect, over_sets
from zlpr.compare.results import Column, Contest, DecodingName, Results
from zlpr.compare.statistics import ALPHA, MIN_DATASETS, holm, printed, smallest_lead
from zlpr.metrics import PAPER_METRICS, MetricInfo

PARTS = {
    "linear": "linear model over TF-IDF or given features",
    "frozen": "linear model with a frozen encoder's embeddings beside TF-IDF",
    "fine-tuned": "fine-tuned encoders",
    "extras": "label smoothing, R-Drop, VAT and more epochs in fine-tuning",
}
CODES: dict[str, DecodingName] = {
    "own bound": "own",
    "one threshold": "threshold",
    "chosen rule": "fitted",
}
CHOSEN = "*"
"""Behind the name of a loss whose parameter was chosen."""

FIVE = ("zlpr", "bce", "focal", "dice1", "dice2")
METRICS: tuple[MetricInfo, ...] = tuple(metrics.info(name) for name in PAPER_METRICS)
DECIDED = tuple(metric for metric in METRICS if metric.needs_decision)


@dataclass(frozen=True)
class Part:
    """The figures of a part, by set and loss, and what its cells were.

    Attributes:
        name: of the part.
        results: of the sets and seeds that are whole; a loss with a star chose its parameter.
        seeds: by set, how many are whole, and how many the protocol asks for.
        cells: rows of the CSV of cells.
        losses: names without a star, in the protocol's order, modes last.
    """

    name: str
    results: Results
    seeds: Mapping[str, tuple[int, int]]
    cells: Sequence[Mapping[str, str]]
    losses: tuple[str, ...]

    @property
    def sets(self) -> tuple[str, ...]:
        """Those with at least two whole seeds, fewer tell nothing of chance."""
        return self.results.datasets


def read_part(name: str, folder: Path, plan: Mapping[str, Any]) -> Part:
    """A part as far as it has run."""
    figures, cells = (
        _named(name, study.read_table(p), folder) for p in study.tables_of(name, folder)
    )
    wanted = losses_wanted(name, plan)
    whole: dict[str, set[str]] = {}
    for data, losses in wanted.items():
        found: dict[str, set[str]] = {loss: set() for loss in losses}
        for row in cells:
            if row["data"] == data and title_of(row) in found:
                found[title_of(row)].add(row["seed"])
        whole[data] = set.intersection(*found.values()) if found else set()
    sizes = {entry["name"]: entry for entry in plan["data"]}
    asked = {data: _seeds_asked(name, plan, sizes[data]) for data in wanted}
    seeds = {data: (len(whole[data]), asked[data]) for data in wanted if whole[data]}
    counted = {data: kept for data, kept in whole.items() if len(kept) > 1}
    order = [entry["name"] for entry in plan["data"] if entry["name"] in counted]
    values: dict[Any, dict[int, float]] = {}
    for row in figures:
        if row["seed"] in counted.get(row["data"], ()):
            label = title_of(row) + (CHOSEN if row["version"] == "chosen" else "")
            for metric in PAPER_METRICS:
                if row[metric]:
                    key = (Contest(row["data"], name), label, metric, CODES[row["decision"]])
                    values.setdefault(key, {})[int(row["seed"])] = float(row[metric]) / 100
    shares: dict[Contest, dict[int, float]] = {Contest(data, name): {} for data in order}
    for row in cells:
        if row["seed"] in counted.get(row["data"], ()):
            share = int(row["test"]) / int(row["train"])
            shares[Contest(row["data"], name)][int(row["seed"])] = share
    base = tuple(dict.fromkeys(label for data in wanted for label in wanted[data]))
    labels = tuple(
        label
        for loss in base
        for label in (loss, loss + CHOSEN)
        if any(key[1] == label for key in values)
    )
    results = Results(tuple(shares), labels, values, shares, ("sklearn",))
    return Part(name, results, seeds, cells, base)


def _named(name: str, rows: list[dict[str, str]], folder: Path) -> list[dict[str, str]]:
    """Rows of fine-tuning at the learning rate that was chosen, under the names of their losses."""
    if name not in ("fine-tuned", "extras"):
        return rows
    rates, kept = study.chosen_rates(folder), []
    for row in rows:
        trained, *beside = row["loss"].split("+")
        loss, _, rate = trained.partition("@")
        if rates.get((row["data"], loss)) == float(rate):
            kept.append({**row, "loss": "+".join([loss, *beside])})
    return kept


def title_of(row: Mapping[str, str]) -> str:
    """A mode goes by its own name, for it has no loss."""
    return row["model"] if row["loss"] == "none" else row["loss"]


def losses_wanted(name: str, plan: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """The losses and modes that each set of a part is to have."""
    settings = plan["part"][name]
    losses = tuple(entry["name"] for entry in plan["loss"])
    if settings["model"] == "hf":
        beside = settings.get("beside", [{}])
        named = tuple("+".join([x, *y]) for x in settings["losses"] for y in beside)
        return dict.fromkeys(settings["data"], named)
    entries = plan["data"]
    if settings["model"] == "embed":
        entries = [entry for entry in entries if "encoder" in entry]
    return {entry["name"]: losses + tuple(settings["modes"]) for entry in entries}


def _seeds_asked(name: str, plan: Mapping[str, Any], entry: Mapping[str, Any]) -> int:
    if plan["part"][name]["model"] == "embed":
        return int(plan["seeds"])
    if plan["part"][name]["model"] == "hf":
        return int(plan["part"][name]["seeds"])
    return len(study.seeds_of(plan, entry))


# --- what is worked out of a part ---------------------------------------------------------------


@dataclass(frozen=True)
class Duel:
    """One loss against another over the sets of a part, in one column.

    Attributes:
        by_set: mean differences as fractions, above 0 where the first is better.
        size: how large that is.
        verdict: over sets; None below `MIN_DATASETS` of them.
    """

    by_set: Mapping[str, float]
    size: Effect
    verdict: Verdict | None


def duel(part: Part, ours: str, theirs: str, column: Column) -> Duel | None:
    """How the first stands to the second; None where no set has both."""
    by_set = {}
    for contest in part.results.contests:
        a, b = (part.results.get(contest, x, column) for x in (ours, theirs))
        shared = sorted(set(a) & set(b))
        if shared:
            mean = np.mean([a[seed] - b[seed] for seed in shared])
            by_set[contest.data] = column.metric.sign * float(mean)
    if not by_set:
        return None
    differences = list(by_set.values())
    verdict = over_sets(differences) if len(differences) >= MIN_DATASETS else None
    return Duel(by_set, effect(differences), verdict)


def lead_on(
    part: Part, contest: Contest, ours: str, theirs: str, column: Column
) -> tuple[float, float | None] | None:
    """The mean lead on one set, and half of its interval over seeds; None without pairs.

    The half is None where all seeds differ alike, which leaves nothing to measure chance by.
    """
    a, b = (part.results.get(contest, loss, column) for loss in (ours, theirs))
    shared = sorted(set(a) & set(b))
    if not shared:
        return None
    half = smallest_lead(a, b, part.results.test_share(contest, shared))
    mean = float(np.mean([a[seed] - b[seed] for seed in shared]))
    return column.metric.sign * mean, half


def tuned(part: Part, loss: str) -> str:
    """The loss with its parameter chosen, or as it is where it has none."""
    return loss + CHOSEN if loss + CHOSEN in part.results.losses else loss


def mean_of(part: Part, loss: str, column: Column) -> float | None:
    """Mean over sets of the mean over seeds; None where a set has no figure."""
    found = [part.results.get(contest, loss, column) for contest in part.results.contests]
    if not found or not all(found):
        return None
    return float(np.mean([np.mean(list(values.values())) for values in found]))


@dataclass(frozen=True)
class Moved:
    """What one choice comes to while all others are held.

    Attributes:
        cause: what is chosen otherwise.
        held: how the sets are decided meanwhile, or from which decision to which.
        by_metric: fractions, by the metric's name.
    """

    cause: str
    held: str
    by_metric: Mapping[str, float]


LOSS, PARAMETER, DECISION = "another loss", "its parameter chosen", "another decision"


def effects(part: Part) -> list[Moved]:
    """What the loss, its parameter and the decision come to, each with the others held.

    Loss: the mean distance between two of the paper's five, with their parameters chosen, chance
    and all. Parameter: what choosing it adds, mean over the five. Decision: what the next one adds
    to the one before it, mean over the five with their parameters chosen. What a part has not run
    is left out.
    """
    five = [loss for loss in FIVE if loss in part.losses]
    pairs = [(one, other) for i, one in enumerate(five) for other in five[i + 1 :]]
    moved = []
    for words, code in CODES.items():
        columns = [Column(metric, code) for metric in DECIDED]
        apart = [
            [_distance(part, tuned(part, one), tuned(part, other), column) for one, other in pairs]
            for column in columns
        ]
        moved.append(Moved(LOSS, words, _means(columns, apart)))
    for words, code in CODES.items():
        columns = [Column(metric, code) for metric in DECIDED]
        gains = [
            [_gain(part, loss, loss + CHOSEN, column, column) for loss in five]
            for column in columns
        ]
        moved.append(Moved(PARAMETER, words, _means(columns, gains)))
    for (before, one), (after, other) in pairwise(CODES.items()):
        columns = [Column(metric, one) for metric in DECIDED]
        gains = [
            [
                _gain(
                    part,
                    tuned(part, loss),
                    tuned(part, loss),
                    column,
                    replace(column, decoding=other),
                )
                for loss in five
            ]
            for column in columns
        ]
        moved.append(Moved(DECISION, f"{before} → {after}", _means(columns, gains)))
    return [one for one in moved if len(one.by_metric) == len(DECIDED)]


def _means(columns: Sequence[Column], values: Sequence[Sequence[float | None]]) -> dict[str, float]:
    """The mean of what is known, for each metric of which something is."""
    known = [[x for x in of_column if x is not None] for of_column in values]
    return {
        column.metric.name: float(np.mean(found))
        for column, found in zip(columns, known, strict=True)
        if found
    }


def _distance(part: Part, one: str, other: str, column: Column) -> float | None:
    """How far two losses are apart, mean over the sets."""
    made = duel(part, one, other, column)
    return None if made is None else float(np.mean(np.abs(list(made.by_set.values()))))


def _gain(part: Part, before: str, after: str, one: Column, other: Column) -> float | None:
    gains = []
    for contest in part.results.contests:
        a, b = part.results.get(contest, before, one), part.results.get(contest, after, other)
        shared = set(a) & set(b)
        if shared:
            gains.append(np.mean([b[seed] - a[seed] for seed in sorted(shared)]))
    return float(np.mean(gains)) if gains else None


def sets_of_both(before: Part, after: Part) -> tuple[str, ...]:
    """Those that two parts have run on the same draws."""
    sizes = [
        {(row["data"], row["seed"]): (row["train"], row["test"]) for row in part.cells}
        for part in (before, after)
    ]
    other = {key[0] for key in sizes[0].keys() & sizes[1].keys() if sizes[0][key] != sizes[1][key]}
    return tuple(data for data in after.sets if data in before.sets and data not in other)


def features_gain(before: Part, after: Part) -> dict[str, dict[str, float]]:
    """What another model adds on each set to each metric by the chosen rule, mean over the five.

    The losses have their parameters chosen where they do in both parts.
    """
    found: dict[str, dict[str, float]] = {}
    for metric in METRICS:
        column = Column(metric, "fitted" if metric.needs_decision else "own")
        for data in sets_of_both(before, after):
            gains = []
            for loss in FIVE:
                alike = tuned(before, loss) == tuned(after, loss)
                a, b = (
                    part.results.get(
                        Contest(data, part.name), tuned(part, loss) if alike else loss, column
                    )
                    for part in (before, after)
                )
                shared = sorted(set(a) & set(b))
                if shared:
                    gains.append(metric.sign * np.mean([b[seed] - a[seed] for seed in shared]))
            if gains:
                found.setdefault(metric.name, {})[data] = float(np.mean(gains))
    return found


@dataclass(frozen=True)
class Tally:
    """How often the intervals of single sets leave out 0, of how many."""

    ahead: int
    behind: int
    of: int


def tally_on_sets(part: Part, ours: str, theirs: str) -> Tally:
    """Over all sets, decided metrics and decisions; chance alone leaves out 0 once in twenty."""
    leads = [
        lead_on(part, contest, ours, theirs, Column(metric, code))
        for contest in part.results.contests
        for metric in DECIDED
        for code in CODES.values()
    ]
    known = [(mean, half) for mean, half in filter(None, leads) if half is not None]
    ahead = sum(mean > half for mean, half in known)
    behind = sum(mean < -half for mean, half in known)
    return Tally(ahead, behind, len(known))


def sources(part: Part, plan: Mapping[str, Any]) -> dict[str, list[str]]:
    """The sets by where they come from: those of one source are no independent evidence."""
    found: dict[str, list[str]] = {}
    for entry in plan["data"]:
        if entry["name"] in part.sets:
            found.setdefault(entry.get("source", entry["name"]), []).append(entry["name"])
    return found


def by_source(made: Duel, plan: Mapping[str, Any], part: Part) -> Effect:
    """How large a difference is where the sets of one source count as one, their mean."""
    found = sources(part, plan).values()
    means = [float(np.mean([made.by_set[x] for x in sets if x in made.by_set])) for sets in found]
    return effect(means)


def told_after_correction(duels: Sequence[Duel]) -> int:
    """How many mean differences over sets differ from 0 with Holm's correction for all of them."""
    from scipy import stats

    p_values = [
        float(stats.ttest_1samp(list(made.by_set.values()), 0).pvalue)
        for made in duels
        if len(made.by_set) > 1
    ]
    return sum(p <= ALPHA for p in holm(p_values))


@dataclass(frozen=True)
class Claim:
    """That a loss is the most often best by a metric, as the paper's summary counts.

    Attributes:
        words: of the claim.
        metric: by its name.
        champion: the loss that is said to be best.
        rivals: what it is compared with.
        published: how often it is best in the paper's tables, of how many.
    """

    words: str
    metric: str
    champion: str
    rivals: tuple[str, ...]
    published: str


RANKING = ("ranking", "warp", "bp_mll", "lsep")
"""Losses that only rank, which the paper compares on its Chinese sets."""

CLAIMS = (
    Claim("ZLPR: subset accuracy", "subset_accuracy", "zlpr", FIVE, "16 of 22"),
    Claim("ZLPR: average precision", "average_precision", "zlpr", FIVE, "13 of 22"),
    Claim("ZLPR: ranking loss", "ranking_loss", "zlpr", FIVE, "18 of 22"),
    Claim("DL2 (dice2): example F1", "example_f1", "dice2", FIVE, "10 of 22"),
    Claim("DL2 (dice2): Micro-F1", "micro_f1", "dice2", FIVE, "13 of 22"),
    Claim(
        "ZLPR: average precision, losses that only rank beside the five",
        *("average_precision", "zlpr", FIVE + RANKING, "6 of 6"),
    ),
    Claim(
        "ZLPR: ranking loss, losses that only rank beside the five",
        *("ranking_loss", "zlpr", FIVE + RANKING, "4 of 6"),
    ),
)
"""What the paper's summary says, at the own bound and with the losses as they are."""


@dataclass(frozen=True)
class Judged:
    """What became of a claim.

    Attributes:
        verdict: holds, in direction, contradicted or not seen.
        firsts: on how many sets each loss is best, as printed; a tie counts for each.
        sets: how many there are.
    """

    verdict: str
    firsts: Mapping[str, int]
    sets: int


def judge_claim(part: Part, claim: Claim, *, chosen: bool) -> Judged | None:
    """What becomes of a claim, among its losses that the part has; None without the champion.

    It holds where the champion is best on the most sets and ahead of every rival by more than
    chance, over sets; is contradicted where another is best on the most and one is ahead of it by
    more than chance; holds in direction where the champion is best on the most sets and no rival
    is so ahead. Fewer than `MIN_DATASETS` sets show no more than a direction.
    """
    losses = [loss for loss in claim.rivals if loss in part.losses]
    if not part.sets or claim.champion not in losses:
        return None
    column = Column(metrics.info(claim.metric), "own")
    named = {loss: tuned(part, loss) if chosen else loss for loss in losses}
    firsts = _firsts(part, named, column)
    most = all(firsts[claim.champion] > firsts[loss] for loss in losses if loss != claim.champion)
    leads = [
        made.size
        for loss in losses
        if loss != claim.champion
        and (made := duel(part, named[claim.champion], named[loss], column)) is not None
    ]
    if len(part.sets) < MIN_DATASETS:
        return Judged("in direction" if most else "not seen", firsts, len(part.sets))
    ahead = all(size.half is not None and size.mean > size.half for size in leads)
    behind = any(size.half is not None and size.mean < -size.half for size in leads)
    if most and not behind:
        verdict = "holds" if ahead else "in direction"
    else:
        verdict = "contradicted" if behind and not most else "not seen"
    return Judged(verdict, firsts, len(part.sets))


def _firsts(part: Part, named: Mapping[str, str], column: Column) -> dict[str, int]:
    """On how many sets each loss has the best mean, to the decimals that a table prints."""
    firsts = dict.fromkeys(named, 0)
    for contest in part.results.contests:
        found = {x: part.results.get(contest, label, column) for x, label in named.items()}
        means = {
            loss: column.metric.sign * printed(float(np.mean(list(values.values()))))
            for loss, values in found.items()
            if values
        }
        for loss, mean in means.items():
            firsts[loss] += mean == max(means.values())
    return firsts
