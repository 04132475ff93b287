"""The comparison in words that a newcomer understands, made from the figures alone."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from zlpr._counted import counted
from zlpr.compare.records import RunRecord
from zlpr.compare.results import (
    FITTED,
    METRICS,
    OWN,
    Column,
    Matched,
    Results,
    largest_block,
)
from zlpr.compare.statistics import Spread, Standing, count_wins, standing
from zlpr.compare.wording import listed, percent
from zlpr.metrics import MetricInfo
from zlpr.models.registry import NO_LOSS


@dataclass(frozen=True)
class Finding:
    """One thing to take away: what was asked, and what the figures answer."""

    question: str
    answer: str


def overview(records: Sequence[RunRecord], missing: int = 0) -> str:
    """What was compared, in one or two sentences."""
    done = [record for record in records if record.outcome is not None]
    losses = {record.settings.loss.label for record in records} - {NO_LOSS}
    datasets = {record.settings.data for record in records}
    models = sorted({record.settings.model for record in records})
    seeds = {record.settings.seed for record in records}
    redrawn = any(record.settings.split != "published" for record in records)
    repeats = f"{counted(len(seeds), 'random split')}" if redrawn else counted(len(seeds), "seed")
    what = f"{counted(len(losses), 'loss', 'losses')} on " if losses else ""
    text = (
        f"{what}{counted(len(datasets), 'data set')} with "
        f"{listed([f'the model {model}' for model in models])}, {repeats} each: "
        f"{len(done)} of {counted(len(records) + missing, 'run')} finished."
    )
    return text if len(done) == len(records) + missing else text + " The rest is listed below."


MATTERS = 1.0
"""Points of Micro-F1 between losses, or for a decision, below which they hardly matter."""


def verdict(results: Results) -> str:
    """The comparison in one sentence: what the loss is worth here, and what the decision is.

    Measured by Micro-F1: the losses by the rule that validation chose for each, the decision by
    what that rule gains over the losses' own bounds.
    """
    fitted = next(column for column in FITTED if column.metric.name == "micro_f1")
    own = next(column for column in OWN if column.metric.name == "micro_f1")
    names = results.datasets
    where = f"On {names[0]}" if len(names) == 1 else f"On these {len(names)} data sets"
    parts = [_loss_worth(results, fitted), _decision_worth(results, own, fitted)]
    parts = [text for text in parts if text]
    return f"{where} {'; '.join(parts)}." if parts else ""


def _loss_worth(results: Results, column: Column) -> str:
    gaps, undecided, leaders = [], 0, []
    for contest in results.contests:
        stand, matched = standing(results, contest, column), results.matched(contest, column)
        if stand is None or not stand.p_values:
            continue
        means = [100 * float(np.mean(list(row.values()))) for row in matched.figures.values()]
        gaps.append(max(means) - min(means))
        undecided += len(stand.within_noise) >= len(stand.p_values)
        leaders.append(stand)
    if not gaps:
        return ""
    gap = float(np.mean(gaps))
    size = f"{gap:.1f} points of Micro-F1 between the best and the worst"
    over = "" if len(gaps) == 1 else f" on average over {len(gaps)} tables"
    if len(gaps) > 1:
        chance = f"in {undecided} of {len(gaps)} no loss is told from the best"
    elif undecided:
        chance = "no lead beyond chance"
    else:
        beaten = [x for x in leaders[0].p_values if x not in leaders[0].within_noise]
        chance = f"{listed(leaders[0].best)} ahead of {listed(beaten)} beyond chance"
    # A lead may hide behind the spread of few seeds on one table, hardly on each of several.
    shows = leaders[0].lead_that_shows
    may_hide = len(gaps) == 1 and undecided and (shows is None or 100 * shows > MATTERS)
    if gap < MATTERS and not may_hide:
        matters = "the loss hardly matters"
    elif undecided == len(gaps):
        matters = "these seeds do not tell whether the loss matters"
    else:
        matters = "the loss matters"
    return f"{matters} ({size}{over}, {chance})"


def _decision_worth(results: Results, own: Column, fitted: Column) -> str:
    """What the chosen rule gains over the own bound, the mean over losses that have one."""
    gains = []
    for contest in results.contests:
        first, second = (results.matched(contest, column).figures for column in (own, fitted))
        for loss in first:
            seeds = set(first[loss]) & set(second.get(loss, {}))
            gains += [100 * (second[loss][seed] - first[loss][seed]) for seed in seeds]
    if not gains:
        return ""
    gain = float(np.mean(gains))
    if abs(gain) < 0.05:
        return "choosing the decision on validation changes nothing"
    verb = "gains" if gain > 0 else "loses"
    return (
        f"choosing the decision on validation {verb} {abs(gain):.1f} points over their own bounds"
    )


def findings(results: Results, records: Sequence[RunRecord]) -> list[Finding]:
    """The answers, most important first."""
    answers = [_best(results, metric) for metric in METRICS]
    others = (_decoding_effect(results), _rankers(results), _emptiness(records))
    return [finding for finding in (*answers, *others) if finding is not None]


def _best(results: Results, metric: MetricInfo) -> Finding | None:
    question = f"{metric.full_title}: {metric.meaning}"
    parts = []
    for column in (*OWN, *FITTED):
        if column.metric is metric:
            one = len(results.contests) == 1
            text = _best_in_one(results, column) if one else _best_over_all(results, column)
            if text:
                parts.append(_where(column) + text)
    return Finding(question, " ".join(parts)) if parts else None


def _best_in_one(results: Results, column: Column) -> str:
    contest = results.contests[0]
    stand, matched = standing(results, contest, column), results.matched(contest, column)
    if stand is None:
        return ""
    if not stand.best:
        return "no two losses have the same seeds yet, and nothing can be compared."
    spread = Spread.of(matched.figures[stand.best[0]])
    figure, seeds = (
        ("", 0) if spread is None else (f" with {percent(spread.mean, 1)} %", spread.seeds)
    )
    if not stand.p_values:
        return f"only {stand.best[0]} is judged,{figure}, and there is nothing to compare it with."
    text = f"{listed(stand.best)} {'is' if len(stand.best) == 1 else 'are'} ahead{figure}"
    return text + _how_sure(stand, seeds) + _withheld(matched)


def _how_sure(stand: Standing, seeds: int) -> str:
    """Whether the lead is beyond chance, as the end of a sentence."""
    rivals = [loss for loss in stand.within_noise if loss not in stand.best]
    if not rivals:
        return "." if len(stand.best) > 1 else ", beyond what chance explains."
    if all(stand.p_values.get(loss) is None for loss in rivals):
        if seeds == 1:
            return "; one seed cannot tell this from chance."
        return f", by the same with all {seeds} seeds: they changed nothing and cannot show chance."
    beaten = [loss for loss in stand.p_values if loss not in (*rivals, *stand.best)]
    if not beaten and len(rivals) > 1:
        told = "these seeds tell no loss from it"
    elif 0 < len(beaten) < len(rivals):
        told = f"the lead is beyond chance only over {listed(beaten)}"
    else:
        told = f"{listed(rivals)} cannot be told apart from it"
    return f"; {told}{_what_seeds_tell(stand, rivals, seeds)}."


def _withheld(matched: Matched) -> str:
    """A sentence on the losses that lack seeds, where there are any."""
    names = list(matched.withheld)
    if not names:
        return ""
    verbs = "lacks seeds and is" if len(names) == 1 else "lack seeds and are"
    return f" ({listed(names)} {verbs} not compared.)"


def _what_seeds_tell(stand: Standing, rivals: Sequence[str], seeds: int) -> str:
    """How far ahead a loss would have to be: a lead that does not show may yet be there."""
    leads = [100 * lead for loss in rivals if (lead := stand.leads[loss]) is not None]
    if not leads:
        return ""
    if min(leads) >= 100:
        return f" ({counted(seeds, 'seed')} could not have shown a lead of any size)"
    low, high = f"{min(leads):.1f}", f"{max(leads):.1f}"
    points = low if low == high else f"{low} to {high}"
    return f" ({counted(seeds, 'seed')} could only show a lead of {points} points or more)"


def _best_over_all(results: Results, column: Column) -> str:
    wins = count_wins(results, column)
    top = max(entry.total for entry in wins.values())
    if top == 0:
        return ""
    leaders = [loss for loss, entry in wins.items() if entry.total == top]
    clear = sum(wins[loss].clear for loss in leaders)
    noise = "all beyond chance" if clear == top * len(leaders) else f"{clear} beyond chance"
    verb = "is" if len(leaders) == 1 else "are each"
    total = sum(len(results.matched(c, column).figures) > 1 for c in results.contests)
    return f"{listed(leaders)} {verb} best in {top} of {counted(total, 'table')} ({noise})."


def _decoding_effect(results: Results) -> Finding | None:
    """How far apart the losses stand on Micro-F1 before and after fitting the decoding."""
    own, fitted = (
        column
        for column in (*OWN, *FITTED)
        if column.metric.name == "micro_f1" and column.decoding in {"own", "fitted"}
    )
    gaps = []
    for contest in results.contests:
        first, second = (results.matched(contest, column).figures for column in (own, fitted))
        losses = [loss for loss in first if loss in second]
        if len(losses) < 2 or len(losses) < len(first):
            continue
        means = [
            [np.mean(list(figures[loss].values())) for loss in losses]
            for figures in (first, second)
        ]
        gaps.append([100 * (max(row) - min(row)) for row in means])
    if not gaps:
        return None
    before, after = np.mean(gaps, axis=0)
    over = "" if len(gaps) == 1 else f", on average over {len(gaps)} tables"
    return Finding(
        "What the decision rule changes",
        f"On Micro-F1 the best and the worst deciding loss are {before:.1f} points apart at their "
        f"own bounds and {after:.1f} points once each has its decoding fitted on validation{over}. "
        + _verdict(before, after),
    )


def _verdict(before: float, after: float) -> str:
    if max(before, after) < 0.05:  # both print as 0.0
        return "There is no difference to explain."
    if after < 0.5 * before:
        return "Most of the difference was the threshold, not the scores."
    if after < 0.9 * before:
        return "Part of the difference was the threshold, not the scores."
    return "The difference lies in the scores, not in the threshold."


def _rankers(results: Results) -> Finding | None:
    decide = OWN[0]
    rankers = [
        loss
        for loss in results.losses
        if not any(results.get(contest, loss, decide) for contest in results.contests)
    ]
    if not rankers:
        return None
    return Finding(
        "Losses that only rank",
        f"{listed(rankers)} put labels in order but draw no line between yes and no. At their own "
        "bound they have the two ranking metrics; for the others, a second stage fitted on "
        "validation decides how many labels to take.",
    )


def _emptiness(records: Sequence[RunRecord]) -> Finding | None:
    shares: dict[str, dict[tuple[str, str, int], float]] = {}
    truly: dict[tuple[str, str, int], float | None] = {}
    for record in records:
        value = None
        if record.outcome is not None:
            value = record.outcome.evaluation.test.own.get("empty_predictions")
        if value is not None:
            of = record.settings
            run = (of.data, of.model, of.seed)
            shares.setdefault(of.loss.label, {})[run] = 100 * value
            truly[run] = record.done.data.empty
    runs = largest_block({loss: set(values) for loss, values in shares.items()})
    compared = {loss: values for loss, values in shares.items() if runs <= set(values)}
    if not compared:
        return None
    means = {x: float(np.mean([values[run] for run in runs])) for x, values in compared.items()}
    low, high = min(means, key=means.__getitem__), max(means, key=means.__getitem__)
    text = f"At its own bound, {high} gives no label at all to {means[high]:.1f} % of the samples"
    if low != high:
        text += f", {low} to {means[low]:.1f} %"
    known = [share for run in sorted(runs) if (share := truly[run]) is not None]
    if known:
        text += f"; truly without any are {percent(float(np.mean(known)), 1)}\N{NO-BREAK SPACE}%"
    return Finding("Samples left without a label", text + ".")


def _where(column: Column) -> str:
    if not column.metric.needs_decision:
        return ""
    return "At the own bound, " if column.decoding == "own" else "With fitted decoding, "
