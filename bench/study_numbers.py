"""What the study's CSV says: what has run of each part, who leads by how much, and how surely."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from bench import study

from zlpr import metrics
from zlpr.compare.practical import Effect, Verdict, effect, over_sets
from zlpr.compare.results import Column, Contest, DecodingName, Results
from zlpr.compare.statistics import MIN_DATASETS, smallest_lead
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
SURE = 0.95
"""From here on a verdict is called clear."""

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
) -> tuple[float, float] | None:
    """The mean lead on one set, and half of its interval over seeds; None without pairs."""
    a, b = (part.results.get(contest, loss, column) for loss in (ours, theirs))
    shared = sorted(set(a) & set(b))
    if not shared:
        return None
    half = smallest_lead(a, b, part.results.test_share(contest, shared))
    mean = float(np.mean([a[seed] - b[seed] for seed in shared]))
    return column.metric.sign * mean, 0.0 if half is None else half


def tuned(part: Part, loss: str) -> str:
    """The loss with its parameter chosen, or as it is where it has none."""
    return loss + CHOSEN if loss + CHOSEN in part.results.losses else loss


def detectable(part: Part, contest: Contest, column: Column) -> float | None:
    """The smallest difference from ZLPR that a set's seeds could tell, a median over losses."""
    ours = part.results.get(contest, tuned(part, "zlpr"), column)
    leads = []
    for loss in part.losses:
        theirs = part.results.get(contest, tuned(part, loss), column)
        if loss != "zlpr" and set(ours) & set(theirs):
            share = part.results.test_share(contest, sorted(set(ours) & set(theirs)))
            lead = smallest_lead(ours, theirs, share)
            if lead is not None:
                leads.append(lead)
    return float(np.median(leads)) if leads else None


def mean_of(part: Part, loss: str, column: Column) -> float | None:
    """Mean over sets of the mean over seeds; None where a set has no figure."""
    found = [part.results.get(contest, loss, column) for contest in part.results.contests]
    if not found or not all(found):
        return None
    return float(np.mean([np.mean(list(values.values())) for values in found]))


def effects(part: Part) -> dict[str, dict[str, float]]:
    """Points of each metric that hang on the loss, on its parameter, and on the decision.

    Loss: the mean distance between two of the paper's five, with their parameters chosen and one
    threshold. Parameter: what choosing it adds at the own bound, mean over the five. Decision: what
    the chosen rule adds to the own bound, mean over the five without a choice. What a part has not
    run is left out.
    """
    found: dict[str, dict[str, float]] = {}
    for metric in DECIDED:
        own, cut, rule = (Column(metric, code) for code in CODES.values())
        five = [loss for loss in FIVE if loss in part.losses]
        pairs = [
            abs(difference)
            for i, one in enumerate(five)
            for other in five[i + 1 :]
            if (made := duel(part, tuned(part, one), tuned(part, other), cut)) is not None
            for difference in made.by_set.values()
        ]
        parameter = [_gain(part, loss, loss + CHOSEN, own, own) for loss in five]
        decision = [_gain(part, loss, loss, own, rule) for loss in five]
        causes = {
            "another loss": pairs,
            "its parameter chosen": [x for x in parameter if x is not None],
            "another decision": [x for x in decision if x is not None],
        }
        found[metric.name] = {cause: float(np.mean(xs)) for cause, xs in causes.items() if xs}
    return found


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


def features_gain(before: Part, after: Part) -> dict[str, float]:
    """What another model adds to each metric by the chosen rule, mean over the five and the sets.

    The losses have their parameters chosen where they do in both parts.
    """
    found = {}
    for metric in METRICS:
        column = Column(metric, "fitted" if metric.needs_decision else "own")
        gains = []
        for data in sets_of_both(before, after):
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
            found[metric.name] = float(np.mean(gains))
    return found


CLAIMS = (
    ("ZLPR has the best subset accuracy of the five losses that decide", "subset_accuracy", "zlpr"),
    ("ZLPR has the best average precision of the five", "average_precision", "zlpr"),
    ("ZLPR has the best ranking loss of the five", "ranking_loss", "zlpr"),
    ("DL2 (dice2) has the best example F1 of the five", "example_f1", "dice2"),
    ("DL2 (dice2) has the best Micro-F1 of the five", "micro_f1", "dice2"),
    ("DL2 (dice2) has the best Macro-F1 of the five", "macro_f1", "dice2"),
)
"""What the paper's tables say, at the own bound and with the losses as they are."""


def judge_claim(part: Part, metric: str, champion: str, *, chosen: bool) -> str:
    """What becomes of a claim that one of the five is best at the own bound.

    Where a part does not have all of them, which ones it lacks.
    """
    if not part.sets or champion not in part.losses:
        return "not run"
    lacking = ", ".join(loss for loss in FIVE if loss not in part.losses)
    found = _judge_among_those_run(part, metric, champion, chosen=chosen)
    return f"{found}, without {lacking}" if lacking else found


def _judge_among_those_run(part: Part, metric: str, champion: str, *, chosen: bool) -> str:
    column = Column(metrics.info(metric), "own")
    name = tuned(part, champion) if chosen else champion
    duels = [
        duel(part, name, tuned(part, rival) if chosen else rival, column)
        for rival in FIVE
        if rival != champion and rival in part.losses
    ]
    known = [made for made in duels if made is not None]
    if any(made.verdict is not None and made.verdict.worse >= SURE for made in known):
        return "contradicted"
    if all(made.verdict is not None and made.verdict.better >= SURE for made in known):
        return "holds"
    found = "holds in direction" if all(made.size.mean > 0 for made in known) else "not seen"
    if len(part.sets) >= MIN_DATASETS:
        return found
    first = sum(all(made.by_set.get(data, 0.0) > 0 for made in known) for data in part.sets)
    return f"{found}: first on {first} of {len(part.sets)} sets"
