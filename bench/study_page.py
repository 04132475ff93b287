"""Makes docs/study.md and its figures of the study's CSV, and of nothing else.

`python bench/study.py page` writes the page and, by `bench/study_tables.py`, the one with every
table; `tests/compare/test_study_page.py` makes both again, and `test_study_recomputed.py` works
their numbers out a second time by other means. What a part has not run yet is said so; a set counts
with the seeds for which every loss has its figures.
"""

import string
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench import study, study_tables
from bench.study_numbers import (
    CLAIMS,
    CODES,
    DECIDED,
    LOSS,
    PARAMETER,
    PARTS,
    RANKING,
    Claim,
    Duel,
    Judged,
    Moved,
    Part,
    by_source,
    duel,
    effects,
    features_gain,
    judge_claim,
    lead_on,
    losses_wanted,
    read_part,
    sets_of_both,
    sources,
    tally_on_sets,
    told_after_correction,
    tuned,
)
from bench.study_plots import deciding, effects_chart, forest, rank_diagram
from bench.study_words import folded, interval, listed, points, shown_by, table, with_interval

from zlpr import metrics
from zlpr._atomic import write_text
from zlpr.compare.practical import ROPE
from zlpr.compare.results import Column, DecodingName
from zlpr.compare.statistics import MIN_DATASETS, rank_test
from zlpr.metrics import PAPER_METRICS, MetricInfo

METHODS = Path(__file__).parent / "study_methods.md"
RANKED = ("subset_accuracy", "micro_f1")
"""The metrics of the rank diagrams and of the forest plots."""

DECISIONS_EXPLAINED = (
    "*Own bound*: cut where the loss puts its bound, at 0; losses that only rank have none. *One "
    "threshold*: one cut for all labels, fitted on validation for the metric in question. *Chosen "
    "rule*: the one of the package's [rules](decision.md) that cross-validation on the validation "
    "part finds best for the metric. The *parameter* of a loss, such as the weight of its "
    "positives, is the best of five values on validation; a star behind a loss says so."
)


def write(docs: Path, tables: Path = study.TABLES) -> None:
    """The page, the one of its tables, and the figures."""
    parts = {name: read_part(name, tables, study.protocol()) for name in PARTS if name != "extras"}
    figures = docs / "figures"
    if parts["linear"].sets:
        gains = features_gain(parts["linear"], parts["frozen"])
        effects_chart(effects(parts["linear"]), gains, figures / "study-effects.png")
    for name, part in parts.items():
        if part.sets:
            forest(part, "bce", figures / f"study-{name}-bce.png")
        if len(part.sets) >= MIN_DATASETS:
            for metric in RANKED:
                column = Column(metrics.info(metric), "fitted")
                rank_diagram(part, column, figures / f"study-{name}-{metric}.png")
    write_text(docs / "study.md", page(tables))
    write_text(docs / "study-tables.md", study_tables.page(tables))


def page(tables: Path = study.TABLES) -> str:
    """The text of docs/study.md."""
    plan = study.protocol()
    parts = {name: read_part(name, tables, plan) for name in PARTS}
    sections = ["# The study: which loss, decided how", *_opening(parts, plan)]
    for name in ("linear", "frozen"):
        if parts[name].sets:
            sections += _findings(parts[name], plan)
    sections += _fine_tuned(parts["fine-tuned"], plan, study.chosen_rates(tables))
    sections += _extras(parts["extras"], plan)
    sections += _features(parts)
    sections += _claims(parts)
    sections += _methods(parts, plan, tables)
    return "\n\n".join(sections) + "\n"


# --- the first paragraphs -----------------------------------------------------------------------


def _opening(parts: Mapping[str, Part], plan: Mapping[str, Any]) -> Iterator[str]:
    yield _answer(parts)
    if parts["linear"].sets:
        yield grid(parts["linear"])
        yield DECISIONS_EXPLAINED
    told = []
    for name, words in PARTS.items():
        part = parts[name]
        asked = len(losses_wanted(name, plan))
        line = f"**{name}** ({words}) on {len(part.sets)} of {asked} sets"
        partial = [data for data, (done, all_) in part.seeds.items() if done < all_]
        line += f", not yet with all seeds on {listed(partial)}" if partial else ""
        told.append(line)
    yield (
        f"So much of the protocol has run: {'; '.join(told)}. [Every table](study-tables.md) is on "
        "a page of its own."
    )


@dataclass(frozen=True)
class Cell:
    """ZLPR against BCE by one metric and decision, both with their parameter chosen."""

    metric: MetricInfo
    decision: str
    made: Duel


def cells(part: Part, decided: Sequence[MetricInfo] = DECIDED) -> list[Cell]:
    """All of them that a part has, metric by metric."""
    return [
        Cell(metric, words, made)
        for metric in decided
        for words, code in CODES.items()
        if (made := _bce(part, metric, code)) is not None
    ]


def _bce(part: Part, metric: MetricInfo, code: DecodingName) -> Duel | None:
    return duel(part, tuned(part, "zlpr"), tuned(part, "bce"), Column(metric, code))


def grid(part: Part) -> str:
    """ZLPR minus BCE: a row for each metric, a column for each decision."""
    found = {(cell.metric.name, cell.decision): cell.made.size for cell in cells(part)}
    rows = []
    for metric in DECIDED:
        sizes = [found.get((metric.name, words)) for words in CODES]
        rows.append(
            [
                metric.title,
                *("–" if x is None else f"{with_interval(x)}, {shown_by(x)}" for x in sizes),
            ]
        )
    return (
        f"ZLPR minus BCE, points, mean over {_sets(part)} ± its 95 % interval. *Ahead*, *behind*: "
        "the interval leaves out 0; *alike*: it stays within half a point; *open*: neither.\n\n"
        + table(["", *CODES], rows)
    )


def _answer(parts: Mapping[str, Part]) -> str:
    """The first paragraph: whether ZLPR is better than an equally tuned BCE."""
    part = parts["linear"]
    found = cells(part)
    if not found:
        return "Nothing has been run yet by this protocol, so that this page has no finding."
    asked = "Is ZLPR better than an equally tuned BCE?"
    where = f"On {_sets(part)} with a linear model, both with the best of five weights"
    if len(part.sets) < MIN_DATASETS:
        return (
            f"**{asked}** {where}, the differences are below. Fewer than {MIN_DATASETS} sets have "
            "run, too few for any statement over sets."
        )
    answer, told = _verdict(found)
    rest = (_elsewhere(parts[name], words) for name, words in _ELSEWHERE.items())
    return " ".join(
        [
            *(f"**{asked} {answer}** {where}, {told}", _more_than_nothing(found)),
            *(_correction(found), _on_sets(part), *filter(None, rest)),
        ]
    )


_ELSEWHERE = {
    "frozen": "With a frozen encoder's embeddings beside TF-IDF",
    "fine-tuned": "With fine-tuned encoders",
}


def _verdict(found: Sequence[Cell]) -> tuple[str, str]:
    """The answer in a word or two, and which of the differences it rests on."""
    beyond = [x for x in found if _half(x) < abs(x.made.size.mean) - ROPE]
    if not beyond:
        return "Not by half a point.", f"none of {len(found)} differences is shown to be as much."
    ours = sum(x.made.size.mean > 0 for x in beyond)
    answer = "In part." if 0 < ours < len(beyond) else "Yes." if ours else "No, it is worse."
    told = [f"{points(x.made.size.mean, 1)} {x.metric.words} ({x.decision})" for x in beyond]
    return answer, (
        f"{len(beyond)} of {len(found)} differences are shown to be more than half a point: "
        f"{listed(told)}."
    )


def _half(cell: Cell) -> float:
    return float("inf") if cell.made.size.half is None else cell.made.size.half


def _more_than_nothing(found: Sequence[Cell]) -> str:
    some = [x.made.size.mean > 0 for x in found if _half(x) < abs(x.made.size.mean)]
    if not some:
        return f"None of the {len(found)} intervals leaves out 0."
    whose = "all for ZLPR" if all(some) else f"{sum(some)} for ZLPR"
    return f"{len(some)} of the {len(found)} intervals leave out 0, {whose}."


def _on_sets(part: Part) -> str:
    tally = tally_on_sets(part, tuned(part, "zlpr"), tuned(part, "bce"))
    return (
        f"Of {tally.of} differences on single sets {tally.ahead + tally.behind} have an interval "
        f"that leaves out 0, {tally.ahead} for ZLPR, where chance alone would give "
        f"{tally.of * 0.05:.0f}."
    )


def _correction(found: Sequence[Cell]) -> str:
    kept = told_after_correction([cell.made for cell in found])
    verb = "does" if kept < 2 else "do"
    return f"Corrected for their number (Holm), {kept or 'none'} {verb}."


def _elsewhere(part: Part, words: str) -> str:
    """The same of another part, in two figures."""
    told = [
        f"{with_interval(made.size, 1)} points of {metric.words}"
        for metric in map(metrics.info, RANKED)
        if (made := _bce(part, metric, "fitted")) is not None
    ]
    if not told:
        return ""
    few = "" if len(part.sets) >= MIN_DATASETS else ", too few to tell"
    return f"{words}: {listed(told)} by the chosen rule ({_sets(part)}{few})."


def _sets(part: Part) -> str:
    return "one set" if len(part.sets) == 1 else f"{len(part.sets)} sets"


# --- linear and frozen --------------------------------------------------------------------------


def _findings(part: Part, plan: Mapping[str, Any]) -> Iterator[str]:
    yield f"## Findings, {PARTS[part.name]}"
    if len(part.sets) >= MIN_DATASETS:
        yield f"### ZLPR and BCE: {_range(cells(part))}"
    yield _forest(part, "both with their weight chosen")
    if len(part.sets) >= MIN_DATASETS:
        yield _of_one_source(part, plan)
    if part.name != "linear":
        yield folded("ZLPR minus BCE, by metric and decision", grid(part))
    yield from _what_moves(part)
    yield from _ranks(part)


def _range(found: Sequence[Cell]) -> str:
    """The least and the most of the mean differences once a decision is fitted."""
    fitted = [x.made.size.mean for x in found if x.decision != "own bound"]
    return f"{points(min(fitted), 1)} to {points(max(fitted), 1)} points once a decision is fitted"


def _forest(part: Part, how: str) -> str:
    return (
        f"![ZLPR's lead over BCE on each set, {how}, in points with 95 % "
        f"intervals](figures/study-{part.name}-bce.png)\n\nZLPR against BCE, {how}: paired "
        "differences with intervals corrected for overlapping splits; below, the mean over sets. "
        "Grey: half a point, which counts as no difference; an arrow: the interval goes on."
    )


def _of_one_source(part: Part, plan: Mapping[str, Any]) -> str:
    """The same with sets of one source counted as one, for those are no independent evidence."""
    told = []
    for words, code in CODES.items():
        made = _bce(part, metrics.info("subset_accuracy"), code)
        if made is not None:
            told.append(f"{with_interval(by_source(made, plan, part))} ({words})")
    return (
        f"With sets of one source counted as one ({len(sources(part, plan))} sources) ZLPR's lead "
        f"in subset accuracy is {listed(told)}."
    )


def _what_moves(part: Part) -> Iterator[str]:
    """What the loss, its parameter and the decision come to."""
    moved = effects(part)
    yield f"### {_headline_of_effects(moved)}"
    if part.name == "linear":
        yield (
            "![Points of four metrics that hang on the loss, its parameter, the decision and the "
            "features](figures/study-effects.png)"
        )
    yield _effects_table(moved)


def _headline_of_effects(moved: Sequence[Moved]) -> str:
    """The loss against the decision, by Micro-F1 and subset accuracy."""
    loss = next(x for x in reversed(moved) if x.cause == LOSS)
    told = [
        f"{100 * loss.by_metric[name]:.1f} against {100 * moved[-1].by_metric[name]:.1f} points "
        f"of {metrics.info(name).words}"
        for name in RANKED
    ]
    return f"Another loss or another decision: {listed(told)}"


def _effects_table(moved: Sequence[Moved]) -> str:
    rows = []
    for one in moved:
        values = [one.by_metric[metric.name] for metric in DECIDED]
        told = (f"{100 * x:.1f}" if one.cause == LOSS else points(x, 1) for x in values)
        rows.append([one.cause, one.held, *told])
    parameter = (
        "what choosing its parameter adds at the same decision; "
        if any(one.cause == PARAMETER for one in moved)
        else ""
    )
    return (
        "Points, means over the sets and the paper's losses that decide, with their parameters "
        "chosen where they have one: how far two losses are apart, whichever is ahead and chance "
        f"included; {parameter}what one decision adds to the one before.\n\n"
        + table(["", "decision", *(metric.title for metric in DECIDED)], rows)
    )


def _ranks(part: Part) -> Iterator[str]:
    """Which loss of all, and critical differences where there are sets enough."""
    if len(part.sets) < MIN_DATASETS:
        return
    yield f"### All losses{_headline_of_ranks(part)}"
    for metric in RANKED:
        column = Column(metrics.info(metric), "fitted")
        test = rank_test(replace(part.results, losses=deciding(part)), column)
        everything = tuple(dict.fromkeys(tuned(part, loss) for loss in part.losses))
        wide = rank_test(replace(part.results, losses=everything), column)
        if test is not None and wide is not None:
            yield (
                f"![Average ranks by {column.title}](figures/study-{part.name}-{metric}.png)\n\n"
                f"Average ranks of the losses that decide over {len(test.datasets)} sets, "
                f"{column.title}; bars join what Nemenyi's test does not tell apart (critical "
                f"difference {test.critical_difference:.2f}; Friedman p {test.p_value:.2g}; with "
                f"all {len(everything)} losses and modes {wide.p_value:.2g})."
            )
    yield _others(part)


def _headline_of_ranks(part: Part) -> str:
    tests = [
        rank_test(
            replace(part.results, losses=deciding(part)), Column(metrics.info(metric), "fitted")
        )
        for metric in RANKED
    ]
    known = [test.p_value for test in tests if test is not None]
    if known and min(known) > 0.05:
        return ": those that decide are not told apart"
    return ""


_PAIRS = (
    ("hbm", "bce", "HBM against BCE"),
    ("lsep", "zlpr", "LSEP, which only ranks, against ZLPR"),
    ("powerset", "zlpr", "powerset against ZLPR"),
    ("chain", "zlpr", "chains against ZLPR"),
    ("dice2", "zlpr", "DL2 against ZLPR"),
)
"""Of all the others, what has more to say than a rank; the mean of each loss is in the tables."""


def _others(part: Part) -> str:
    rows = []
    for one, other, words in _PAIRS:
        sizes = {
            (name, code): made.size
            for name in RANKED
            for code in CODES.values()
            if one in part.losses
            and (
                made := duel(
                    part, tuned(part, one), tuned(part, other), Column(metrics.info(name), code)
                )
            )
        }
        if sizes:
            rows.append(
                [
                    words,
                    *(
                        with_interval(sizes[name, code], 1) if (name, code) in sizes else "–"
                        for name in RANKED
                        for code in CODES.values()
                    ),
                ]
            )
    titles = [
        f"{metrics.info(name).title + ': ' if place == 0 else ''}{words}"
        for name in RANKED
        for place, words in enumerate(CODES)
    ]
    return "Others, points ± their 95 % interval over sets, parameters chosen:\n\n" + table(
        ["", *titles], rows
    )


# --- fine-tuning --------------------------------------------------------------------------------


def _fine_tuned(
    part: Part, plan: Mapping[str, Any], rates: Mapping[tuple[str, str], float]
) -> Iterator[str]:
    """ZLPR against BCE, and how far training was from its end."""
    if not part.sets:
        return
    settings = plan["part"][part.name]
    tried = ", ".join(f"{rate:g}" for rate in settings["learning_rates"])
    yield f"## Findings, {PARTS[part.name]}"
    yield (
        f"Each loss has its learning rate chosen from {tried}, by Micro-F1 at one threshold on the "
        f"validation part of the first seed. "
        f"{_short_training(part, settings['training']['epochs'])}"
    )
    yield _forest(part, "at the rates chosen")
    yield grid(part)
    if len(part.sets) < MIN_DATASETS:
        yield (
            f"Intervals over {_sets(part)} rest on so few figures that they are wide by "
            f"construction, and those of single sets on {settings['seeds']} seeds: three that "
            "agree by chance make a short one."
        )
    yield _effects_table(effects(part))
    chosen = [
        [data, *(f"{rates[data, loss]:g}" for loss in settings["losses"])] for data in part.sets
    ]
    yield folded("Learning rates chosen", table(["set", *settings["losses"]], chosen))


def _short_training(part: Part, epochs: int) -> str:
    """How far the last epoch still moved what is trained."""
    known = [row for row in part.cells if row["objective"] and row["metric"]]
    if not known:
        return ""
    gained = sorted(float(row["objective"]) for row in known)
    moved = max(float(row["metric"]) for row in known)
    return (
        f"**Training is short**: the last of {epochs} epochs still brought {100 * gained[0]:.0f} "
        f"to {100 * gained[-1]:.0f} % of what the training loss gained in all, and moved Micro-F1 "
        f"on validation by up to {100 * moved:.1f} points, so that no cell counts as settled. "
        f"The paper trains for 20 epochs; what is found here is found of {epochs}."
    )


def _extras(part: Part, plan: Mapping[str, Any]) -> Iterator[str]:
    """What label smoothing and the like add to a loss, on each set."""
    if not part.sets:
        return
    rows = []
    columns = [Column(metric, "threshold") for metric in DECIDED]
    columns.append(Column(metrics.info("average_precision"), "own"))
    values = {name: x for one in plan["part"][part.name]["beside"] for name, x in one.items()}
    shown = 0
    for label in part.losses:
        loss, plus, extra = label.partition("+")
        for contest in part.results.contests if plus else ():
            found = [lead_on(part, contest, label, loss, column) for column in columns]
            told = ["–" if lead is None else interval(*lead, digits=1) for lead in found]
            shown += sum(
                lead is not None and lead[1] is not None and abs(lead[0]) > lead[1]
                for lead in found
            )
            rows.append([contest.data, loss, f"{extra} = {values[extra]:g}", *told])
    seeds = listed(
        list(dict.fromkeys(str(part.seeds[contest.data][0]) for contest in part.results.contests))
    )
    yield f"## Findings, {PARTS[part.name]}"
    yield (
        f"What each adds to the loss without it, all else alike: points at one threshold, ± a 95 % "
        f"interval over {seeds} seeds, corrected for overlapping splits. Of "
        f"{len(rows) * len(columns)} intervals {shown} leave out 0, where chance alone would give "
        f"{len(rows) * len(columns) * 0.05:.0f}.\n\n"
        + table(["set", "loss", "with", *(column.metric.title for column in columns)], sorted(rows))
    )


# --- what is over the parts ---------------------------------------------------------------------


def _features(parts: Mapping[str, Part]) -> Iterator[str]:
    """What an encoder adds, on the sets that have run with and without it on the same draws."""
    titles: list[str] = []
    columns = []
    for name, of, words in (
        ("frozen", "linear", "a frozen encoder beside TF-IDF"),
        ("fine-tuned", "frozen", "the same encoder fine-tuned, and no TF-IDF"),
    ):
        gains = features_gain(parts[of], parts[name])
        if gains:
            sets = len(sets_of_both(parts[of], parts[name]))
            titles.append(f"{words} ({sets} {'set' if sets == 1 else 'sets'})")
            columns.append({metric: _mean_and_range(found) for metric, found in gains.items()})
    if columns:
        rows = [
            [metrics.info(name).title, *(gains[name] for gains in columns)]
            for name in PAPER_METRICS
        ]
        yield "## What an encoder adds"
        yield (
            "Points that each gains over what stands left of it, at first TF-IDF alone, and the "
            "range over the sets; above 0 is better throughout. By the chosen rule, on the same "
            "draws, mean over those of the paper's five losses that both have.\n\n"
            + table(["metric", *titles], rows)
        )


def _mean_and_range(by_set: Mapping[str, float]) -> str:
    values = list(by_set.values())
    mean = points(sum(values) / len(values))
    return f"{mean} ({points(min(values), 1)} to {points(max(values), 1)})"


def _claims(parts: Mapping[str, Part]) -> Iterator[str]:
    judged = [
        ("linear, plain", "linear", False),
        ("linear, chosen", "linear", True),
        ("frozen, plain", "frozen", False),
        ("frozen, chosen", "frozen", True),
        ("fine-tuned", "fine-tuned", False),
    ]
    rows = [
        [
            claim.words,
            claim.published,
            *(
                _in_a_cell(claim, judge_claim(parts[part], claim, chosen=chosen))
                for _, part, chosen in judged
            ),
        ]
        for claim in CLAIMS
    ]
    yield "## The paper's claims"
    yield (
        "The paper counts how often each loss is the best of those that decide, cut at its own "
        "bound, as it is. Here is on how many sets it is, and which loss is on most where it is "
        "another; ties count for each. *Holds*: best on the most sets, and over sets ahead of each "
        "other by more than chance (95 %). *In direction*: best on the most, and none ahead of it "
        "by more than chance. *Contradicted*: another is best on the most, and one is ahead of it "
        f"by more than chance. *Not seen*: none of these. Fewer than {MIN_DATASETS} sets can show "
        "no more than a direction.\n\n"
        + table(["best by", "in the paper", *(title for title, *_ in judged)], rows)
    )
    yield (
        "Plain losses stand where the paper's do; *chosen* gives each its parameter. That of ZLPR, "
        "BCE and focal loss moves their bound, those of the dice losses do not, so that at the own "
        "bound the choice helps the former and leaves the latter where they were: a lead of DL2 "
        "that goes with it was one of its bound, not of its scores. "
        f"The losses that only rank are {listed(RANKING)}; of them fine-tuning has LSEP alone, and "
        "of the five all but DL1."
    )


def _in_a_cell(claim: Claim, judged: Judged | None) -> str:
    """The verdict, how often the champion is best, and which is where another is on most sets."""
    if judged is None:
        return "–"
    own = judged.firsts[claim.champion]
    others = {loss: n for loss, n in judged.firsts.items() if loss != claim.champion}
    most = max(others.values())
    leaders = [loss for loss, n in others.items() if n == most]
    instead = f" ({', '.join(leaders)} {most})" if most >= own and most else ""
    return f"{judged.verdict}: {own} of {judged.sets}{instead}"


def _methods(parts: Mapping[str, Part], plan: Mapping[str, Any], tables: Path) -> Iterator[str]:
    codes = sorted({row["code"] for part in parts.values() for row in part.cells})
    tuned_on = plan["part"]["fine-tuned"]["data"]
    hours = {
        name: sum(float(row["seconds"] or 0) for row in parts[name].cells) / 3600 for name in parts
    }
    told = {
        "codes": ", ".join(codes) or "none yet",
        "parameters": _parameters(plan),
        "linear_hours": f"{hours['linear']:.1f}",
        "frozen_hours": f"{hours['frozen']:.1f}",
        "ends": _ends(
            parts["linear"], plan, study.read_table(study.tables_of("linear", tables)[0])
        ),
        "goemotions": f"{tuned_on['goemotions']:,}",
        "titles": f"{tuned_on['arxiv6-title']:,}",
        "chinese": f"{tuned_on['duee']:,}",
        "extras": f"{max(plan['part']['extras']['data'].values()):,}",
        **{name: f"{plan[name]:,}" for name in ("max_samples", "seeds_of_small", "small", "seeds")},
    }
    text = METHODS.read_text(encoding="utf-8")
    yield string.Template(text).substitute(told).replace("&dollar;", "$").strip()


def _parameters(plan: Mapping[str, Any]) -> str:
    """What each loss may choose."""
    rows = []
    for entry in plan["loss"]:
        choose = entry.get("choose", {})
        name = next(iter(choose), "–")
        values = ", ".join(f"{x:g}" for x in choose.get(name, [])) or entry["why"]
        rows.append([f"`{entry['name']}`", f"`{name}`" if choose else "none", values])
    return table(["loss", "parameter", "values, the default first"], rows)


def _ends(part: Part, plan: Mapping[str, Any], figures: Sequence[Mapping[str, str]]) -> str:
    """How often each loss took the largest value there was, for Micro-F1 at its own bound."""
    told = []
    for entry in plan["loss"]:
        for values in entry.get("choose", {}).values():
            share = study_tables.share_at_the_end(part, figures, entry["name"], "micro_f1", values)
            if share:
                told.append(f"{entry['name']} {100 * share:.0f} %")
    return ", ".join(told) or "none"
