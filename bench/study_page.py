"""Makes docs/study.md and its figures of the study's CSV, and of nothing else.

`python bench/study.py page` writes the page; `tests/compare/test_study_page.py` makes it again and
compares, and works its tables out a second time by other means. What a part has not run yet is said
so; a set counts with the seeds for which every loss has its figures.
"""

import string
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from bench import study
from bench.study_numbers import (
    CLAIMS,
    CODES,
    DECIDED,
    FIVE,
    METRICS,
    PARTS,
    SURE,
    Part,
    detectable,
    duel,
    effects,
    features_gain,
    judge_claim,
    lead_on,
    losses_wanted,
    mean_of,
    read_part,
    sets_of_both,
    title_of,
    tuned,
)
from bench.study_plots import effects_chart, forest, rank_diagram

from zlpr import metrics
from zlpr._atomic import write_text
from zlpr.compare.practical import Effect, Verdict
from zlpr.compare.results import Column, Contest, DecodingName
from zlpr.compare.statistics import MIN_DATASETS, rank_test
from zlpr.metrics import PAPER_METRICS

METHODS = Path(__file__).parent / "study_methods.md"
DETECTABLE = (
    "Sizes of the parts, seeds, and the smallest difference from ZLPR, in points at one threshold, "
    "that the seeds of the set could tell from chance (median over the other losses, 5 %, no "
    "correction for several comparisons)."
)

# --- words --------------------------------------------------------------------------------------


def points(value: float, digits: int = 2) -> str:
    """A fraction in points, with its sign."""
    text = f"{100 * value:+.{digits}f}"
    return (f"{0:.{digits}f}" if float(text) == 0 else text).replace("-", "−")


def with_interval(size: Effect) -> str:
    """Points and their interval over sets."""
    return points(size.mean) + ("" if size.half is None else f" ± {100 * size.half:.2f}")


def in_words(verdict: Verdict | None) -> str:
    """Probabilities of a verdict, worse / alike / better."""
    if verdict is None:
        return "–"
    return " / ".join(f"{x:.2f}" for x in (verdict.worse, verdict.alike, verdict.better))


def table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """In Markdown, the first column left."""
    lines = ["| " + " | ".join(titles) + " |", "|---|" + "--:|" * (len(titles) - 1)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def folded(title: str, body: str) -> str:
    """A table that is opened by who wants it."""
    return f'<details markdown="1"><summary>{title}</summary>\n\n{body}\n\n</details>'


def columns_for(decision: DecodingName) -> tuple[Column, ...]:
    """All six at the own bound, the four that a decision changes otherwise."""
    return tuple(Column(metric, decision) for metric in (METRICS if decision == "own" else DECIDED))


def duel_table(part: Part, rival: str, decision: DecodingName, *, chosen: bool) -> str:
    """ZLPR against one rival: mean difference with its interval over sets, and the verdict."""
    rows = []
    for column in columns_for(decision):
        names = [tuned(part, x) if chosen else x for x in ("zlpr", rival)]
        made = duel(part, names[0], names[1], column)
        if made is not None:
            ahead = sum(x > 0 for x in made.by_set.values())
            rows.append(
                [
                    column.metric.title,
                    with_interval(made.size),
                    f"{ahead} of {len(made.by_set)}",
                    f"{made.size.rank_biserial:+.2f}".replace("-", "−"),
                    in_words(made.verdict),
                ]
            )
    titles = ["metric", "points", "sets ahead", "rank-biserial", "worse / alike / better"]
    return table(titles, rows)


def sets_table(plan: Mapping[str, Any], part: Part) -> str:
    """Data, sizes, seeds and the smallest difference that could be told."""
    sizes = {entry["name"]: entry["samples"] for entry in plan["data"]}
    rows = []
    for contest in part.results.contests:
        cell = next(row for row in part.cells if row["data"] == contest.data)
        told = [
            detectable(part, contest, Column(metrics.info(name), "threshold"))
            for name in ("subset_accuracy", "micro_f1", "macro_f1")
        ]
        done, asked = part.seeds[contest.data]
        rows.append(
            [
                contest.data,
                f"{sizes[contest.data]:,}",
                cell["labels"],
                f"{cell['train']} + {cell['validation']} + {cell['test']}",
                f"{done}" if done == asked else f"{done} of {asked}",
                *("–" if x is None else f"{100 * x:.1f}" for x in told),
            ]
        )
    titles = ["set", "samples", "labels", "train + validation + test", "seeds"]
    return table([*titles, "subset accuracy", "Micro-F1", "Macro-F1"], rows)


def means_table(part: Part, decision: DecodingName) -> str:
    """Every loss, plain and with its parameter chosen: the mean over the sets, in per cent."""
    rows = []
    columns = columns_for(decision)
    for label in part.results.losses:
        values = [mean_of(part, label, column) for column in columns]
        if any(value is not None for value in values):
            rows.append([label, *("–" if x is None else f"{100 * x:.2f}" for x in values)])
    return table(["loss", *(column.metric.title for column in columns)], rows)


def set_table(part: Part, contest: Contest) -> str:
    """One set: every loss, mean over seeds under each decision."""
    columns = [
        Column(metrics.info(name), code)
        for name in ("subset_accuracy", "micro_f1", "macro_f1")
        for code in CODES.values()
    ] + [Column(metrics.info("average_precision"), "own")]
    rows = []
    for label in part.results.losses:
        values = [part.results.get(contest, label, column) for column in columns]
        if any(values):
            cells = (f"{100 * np.mean(list(x.values())):.1f}" if x else "–" for x in values)
            rows.append([label, *cells])
    titles = ["loss", "subset accuracy: own bound", "one threshold", "chosen rule"]
    titles += ["Micro-F1: own bound", "one threshold", "chosen rule"]
    titles += ["Macro-F1: own bound", "one threshold", "chosen rule", "average precision"]
    return table(titles, rows)


def unsettled(part: Part) -> tuple[int, int, str]:
    """Cells that are marked, of how many, and a table of them by loss."""
    known = [row for row in part.cells if row["settled"]]
    marked = [row for row in known if row["settled"] == "no"]
    rows = []
    for loss in part.losses:
        own = [row for row in known if title_of(row) == loss]
        if own:
            bad = [row for row in own if row["settled"] == "no"]
            rows.append(
                [
                    loss,
                    f"{len(bad)} of {len(own)}",
                    f"{100 * max(float(row['objective'] or 0) for row in own):.2f} %",
                    f"{100 * max(float(row['metric'] or 0) for row in own):.2f}",
                ]
            )
    titles = ["loss", "cells marked", "most of the objective", "most points of the metric"]
    return len(marked), len(known), table(titles, rows)


def choices_table(part: Part, figures: Sequence[Mapping[str, str]]) -> str:
    """How often each value was chosen for Micro-F1, at the own bound and at one threshold."""
    place = PAPER_METRICS.index("micro_f1")
    counts: dict[tuple[str, str], dict[str, int]] = {}
    for row in figures:
        chosen = row["version"] == "chosen" and row["decision"] != "chosen rule"
        if chosen and row["values"] and row["data"] in part.sets:
            value = row["values"].split(";")[place]
            if value:
                found = counts.setdefault((row["loss"], row["decision"]), {})
                found[value] = found.get(value, 0) + 1
    rows = [
        [loss, decision, ", ".join(f"{v}: {n}" for v, n in sorted(found.items(), key=_by_value))]
        for (loss, decision), found in sorted(counts.items())
    ]
    return table(["loss", "decision", "value: cells"], rows)


def _by_value(item: tuple[str, int]) -> float:
    return float(item[0])


def parameters_table(plan: Mapping[str, Any]) -> str:
    """What each loss may choose."""
    rows = []
    for entry in plan["loss"]:
        choose = entry.get("choose", {})
        name = next(iter(choose), "–")
        values = ", ".join(f"{x:g}" for x in choose.get(name, [])) or entry["why"]
        rows.append([f"`{entry['name']}`", f"`{name}`" if choose else "none", values])
    return table(["loss", "parameter", "values, the default first"], rows)


# --- the page -----------------------------------------------------------------------------------


def write(docs: Path, tables: Path = study.TABLES) -> None:
    """The page and its figures."""
    plan = tomllib.loads(study.PROTOCOL.read_text(encoding="utf-8"))
    parts = {name: read_part(name, tables, plan) for name in PARTS if name != "extras"}
    if parts["linear"].sets:
        gains = features_gain(parts["linear"], parts["frozen"])
        effects_chart(effects(parts["linear"]), gains, docs / "figures" / "study-effects.png")
    for name, part in parts.items():
        if part.sets:
            forest(part, "bce", docs / "figures" / f"study-{name}-bce.png")
        if len(part.sets) >= MIN_DATASETS and name != "fine-tuned":
            for metric in ("subset_accuracy", "micro_f1"):
                column = Column(metrics.info(metric), "fitted")
                rank_diagram(part, column, docs / "figures" / f"study-{name}-{metric}.png")
    write_text(docs / "study.md", page(tables))


def page(tables: Path = study.TABLES) -> str:
    """The text of docs/study.md."""
    plan = tomllib.loads(study.PROTOCOL.read_text(encoding="utf-8"))
    parts = {name: read_part(name, tables, plan) for name in PARTS}
    sections = ["# The study: which loss, decided how", *_opening(parts, plan)]
    for name in ("linear", "frozen"):
        if parts[name].sets:
            sections += _findings(parts[name])
    sections += _fine_tuned(parts["fine-tuned"], plan, study.chosen_rates(tables))
    sections += _extras(parts["extras"], plan)
    sections += _features(parts)
    sections += _claims(parts)
    for name in ("linear", "frozen"):
        if parts[name].sets:
            rows = study.read_table(study.tables_of(name, tables)[0])
            sections += _tables(parts[name], plan, rows)
    sections += _methods(parts, plan)
    return "\n\n".join(sections) + "\n"


def _opening(parts: Mapping[str, Part], plan: Mapping[str, Any]) -> Iterator[str]:
    yield _answer(parts["linear"])
    told = []
    for name, words in PARTS.items():
        part = parts[name]
        asked = len(losses_wanted(name, plan))
        if not part.sets:
            told.append(f"- **{name}** ({words}): not run yet.")
            continue
        partial = [data for data, (done, all_) in part.seeds.items() if 1 < done < all_]
        line = f"- **{name}** ({words}): {len(part.sets)} of {asked} sets: {', '.join(part.sets)}."
        if partial:
            line += f" Not all seeds yet: {', '.join(partial)}."
        told.append(line)
    yield (
        "**What this page covers.** It is made of the tables beside it, whatever they hold, by "
        "`python bench/study.py page`. Of the protocol, which is `bench/study.toml`, has run:\n\n"
        + "\n".join(told)
    )


def _answer(part: Part) -> str:
    """The first paragraph: whether ZLPR is better than an equally tuned BCE."""
    if not part.sets:
        return "Nothing has been run yet by this protocol, so that this page has no finding."
    sentences = []
    for decision, words in (("own", "own bound"), ("fitted", "chosen rule")):
        told = []
        for name in ("subset_accuracy", "micro_f1"):
            column = Column(metrics.info(name), CODES[words])
            made = duel(part, tuned(part, "zlpr"), tuned(part, "bce"), column)
            if made is not None:
                told.append(f"{with_interval(made.size)} points of {column.metric.words}")
        where = "decided at its own bound" if decision == "own" else "decided by the chosen rule"
        sentences.append(f"{where}, {' and '.join(told)}")
    sets = len(part.sets)
    few = (
        ""
        if sets >= MIN_DATASETS
        else f" Fewer than {MIN_DATASETS} sets have run, too few for any statement over sets."
    )
    of = "one set" if sets == 1 else f"{sets} sets"
    return (
        f"**Is ZLPR better than an equally tuned BCE?** On {of} with a linear model, each loss "
        f"with "
        f"the best of five weights for its positives: {'; '.join(sentences)} (mean difference over "
        f"sets, ± its 95 % interval).{few} {_summary(part)}"
    ).rstrip()


def _summary(part: Part) -> str:
    column = Column(metrics.info("subset_accuracy"), "own")
    made = duel(part, tuned(part, "zlpr"), tuned(part, "bce"), column)
    if made is None or made.verdict is None:
        return ""
    told: dict[str, list[str]] = {side: [] for side in ("better", "alike", "worse", "")}
    for metric in DECIDED:
        sides: dict[str, list[str]] = {}
        for words, code in CODES.items():
            found = duel(part, tuned(part, "zlpr"), tuned(part, "bce"), Column(metric, code))
            if found is not None:
                sides.setdefault(sure_of(found.verdict), []).append(words)
        for side, decisions in sides.items():
            told[side].append(f"{metric.words} ({', '.join(decisions)})")
    words_of = {
        "better": "It is better by more than half a point, with a probability of at least 95 %, on",
        "alike": "The two are alike within half a point, with a probability of at least 95 %, on",
        "worse": "It is worse by more than half a point, with a probability of at least 95 %, on",
        "": "The sets do not decide",
    }
    return " ".join(
        f"{words} {'; '.join(told[side])}." for side, words in words_of.items() if told[side]
    )


def sure_of(verdict: Verdict | None) -> str:
    """Which side the sets are sure of; nothing where they are of none."""
    sides = ("better", "alike", "worse")
    return next((s for s in sides if verdict is not None and getattr(verdict, s) >= SURE), "")


def _findings(part: Part) -> Iterator[str]:
    yield f"## Findings, {PARTS[part.name]}"
    yield (
        "![ZLPR's lead over BCE on each set, both with their weight chosen, in points with 95 % "
        f"intervals](figures/study-{part.name}-bce.png)\n\nZLPR against BCE, both with "
        "`pos_weight` chosen: paired differences with intervals corrected for overlapping splits; "
        "below, the mean over sets. Grey: half a point, which counts as no difference."
    )
    yield from _what_moves(part)
    yield from _ranks(part)
    for words, code in CODES.items():
        yield folded(
            f"ZLPR against BCE in figures, both chosen: {words}",
            duel_table(part, "bce", code, chosen=True),
        )


def _what_moves(part: Part) -> Iterator[str]:
    """What the loss, its parameter and the decision come to."""
    if part.name == "linear":
        yield (
            "![Points of four metrics that hang on the loss, its parameter, the decision and the "
            "features](figures/study-effects.png)"
        )
    yield _effects_table(part)


def _effects_table(part: Part) -> str:
    sizes = effects(part)
    causes = list(next(iter(sizes.values())))
    rows = [
        [cause, *(points(sizes[metric.name][cause], 1) for metric in DECIDED)] for cause in causes
    ]
    if "its parameter chosen" in causes:
        explained = (
            "the distance between two of the paper's five losses, chosen and cut at one threshold; "
            "what choosing the parameter adds at the own bound; what the chosen rule adds to the "
            "own bound of the plain loss"
        )
    else:
        explained = (
            "the distance between two of the losses that decide, cut at one threshold; what the "
            "chosen rule adds to the own bound"
        )
    return f"**What moves the figures.** Points, mean over sets: {explained}.\n\n" + table(
        ["", *(metric.title for metric in DECIDED)], rows
    )


def _ranks(part: Part) -> Iterator[str]:
    """Critical differences, where there are sets enough."""
    if len(part.sets) < MIN_DATASETS:
        return
    losses = tuple(dict.fromkeys(tuned(part, loss) for loss in part.losses))
    for metric in ("subset_accuracy", "micro_f1"):
        column = Column(metrics.info(metric), "fitted")
        test = rank_test(replace(part.results, losses=losses), column)
        if test is not None:
            yield (
                f"![Average ranks by {column.title}](figures/study-{part.name}-{metric}.png)\n\n"
                f"Average ranks over {len(test.datasets)} sets, {column.title}; bars join what "
                f"Nemenyi's test does not tell apart (critical difference "
                f"{test.critical_difference:.2f}; Friedman p {test.p_value:.3g})."
            )


def _features(parts: Mapping[str, Part]) -> Iterator[str]:
    """What an encoder adds, on the sets that have run with and without it on the same draws."""
    titles, columns = ["metric"], []
    for name, of, words in (
        ("frozen", "linear", "a frozen encoder beside TF-IDF"),
        ("fine-tuned", "frozen", "the same encoder fine-tuned, without TF-IDF"),
    ):
        gains = features_gain(parts[of], parts[name])
        if gains:
            sets = len(sets_of_both(parts[of], parts[name]))
            titles.append(f"{words} ({sets} {'set' if sets == 1 else 'sets'})")
            columns.append(gains)
    if columns:
        rows = [
            [metric.title, *(points(gains[metric.name]) for gains in columns)] for metric in METRICS
        ]
        yield "## What an encoder adds"
        yield (
            "Points that each gains over what stands left of it, at first TF-IDF alone: by the "
            "chosen rule, on the same draws, mean over the sets and those of the paper's five "
            "losses that both have.\n\n" + table(titles, rows)
        )


def _fine_tuned(
    part: Part, plan: Mapping[str, Any], rates: Mapping[tuple[str, str], float]
) -> Iterator[str]:
    """ZLPR against BCE, what moves the figures, and every set's table."""
    if not part.sets:
        return
    settings = plan["part"][part.name]
    tried = ", ".join(f"{rate:g}" for rate in settings["learning_rates"])
    yield f"## Findings, {PARTS[part.name]}"
    yield (
        "![ZLPR's lead over BCE on each set, in points with 95 % intervals]"
        f"(figures/study-{part.name}-bce.png)\n\nZLPR against BCE, each with its learning rate "
        f"chosen from {tried} by Micro-F1 at one threshold on the validation part of the first "
        "seed; drawn as above."
    )
    yield _effects_table(part)
    for words, code in CODES.items():
        yield folded(
            f"ZLPR against BCE in figures: {words}", duel_table(part, "bce", code, chosen=False)
        )
    for contest in part.results.contests:
        yield folded(f"{contest.data}: every loss", set_table(part, contest))
    yield folded("Sizes and smallest differences", f"{DETECTABLE}\n\n{sets_table(plan, part)}")
    chosen = [
        [data, *(f"{rates[data, loss]:g}" for loss in settings["losses"])] for data in part.sets
    ]
    yield folded("Learning rates chosen", table(["set", *settings["losses"]], chosen))
    marked, known, by_loss = unsettled(part)
    moved = max(float(row["metric"]) for row in part.cells if row["metric"])
    yield folded(
        f"How far training had settled: {marked} of {known} cells are marked",
        "The last of the epochs stands for the last tenth. A network's training loss falls for as "
        "long as it is trained, down to nothing, so that no end of it can be waited for; what is "
        "kept is the epoch that validation finds best. The last epoch moved Micro-F1 on "
        f"validation by {100 * moved:.1f} points at most.\n\n{by_loss}",
    )


def _extras(part: Part, plan: Mapping[str, Any]) -> Iterator[str]:
    """What label smoothing and the like add to a loss, on each set."""
    if not part.sets:
        return
    rows = []
    columns = [Column(metric, "threshold") for metric in DECIDED]
    columns.append(Column(metrics.info("average_precision"), "own"))
    values = {name: x for one in plan["part"][part.name]["beside"] for name, x in one.items()}
    for label in part.losses:
        loss, plus, extra = label.partition("+")
        for contest in part.results.contests if plus else ():
            found = [lead_on(part, contest, label, loss, column) for column in columns]
            told = [
                "–" if lead is None else f"{points(lead[0], 1)} ± {100 * lead[1]:.1f}"
                for lead in found
            ]
            rows.append([contest.data, loss, f"{extra} = {values[extra]:g}", *told])
    yield f"## Findings, {PARTS[part.name]}"
    yield (
        "What each adds to the loss without it, all else alike: points at one threshold, and "
        "half of a 95 % interval over "
        f"{plan['part'][part.name]['seeds']} seeds, corrected for overlapping splits.\n\n"
        + table(["set", "loss", "with", *(column.metric.title for column in columns)], sorted(rows))
    )


def _claims(parts: Mapping[str, Part]) -> Iterator[str]:
    yield "## The paper's claims"
    rows = []
    for words, metric, champion in CLAIMS:
        found = [
            judge_claim(parts[name], metric, champion, chosen=chosen)
            for name in ("linear", "frozen")
            for chosen in (False, True)
        ]
        found.append(judge_claim(parts["fine-tuned"], metric, champion, chosen=False))
        rows.append([words, *found])
    yield (
        "At the own bound, as the paper decides; with the losses as they are (plain), and with the "
        f"parameter of each chosen. *Holds*: ahead of each other of the five with a probability "
        f"of at "
        f"least {100 * SURE:.0f} % by more than half a point; *in direction*: ahead of each on "
        f"average; "
        f"*contradicted*: behind one as surely. Fewer than {MIN_DATASETS} sets can show no more "
        "than a direction, and are counted.\n\n"
        + table(
            [
                "claim", "linear, plain", "linear, chosen", "frozen, plain", "frozen, chosen",
                "fine-tuned",
            ],
            rows,
        )
    )  # fmt: skip


def _tables(
    part: Part, plan: Mapping[str, Any], figures: Sequence[Mapping[str, str]]
) -> Iterator[str]:
    yield f"## Tables, {part.name}"
    yield f"{DETECTABLE}\n\n{sets_table(plan, part)}"
    for words, code in CODES.items():
        yield folded(
            f"Means over {len(part.sets)} sets: {words} (* : the parameter was chosen)",
            means_table(part, code),
        )
    for contest in part.results.contests:
        yield folded(f"{contest.data}: every loss", set_table(part, contest))
    for rival in FIVE[1:]:
        for words, code in CODES.items():
            yield folded(
                f"ZLPR against {rival}, both plain, {words}",
                duel_table(part, rival, code, chosen=False),
            )
    for rival in FIVE[2:]:
        for words, code in CODES.items():
            yield folded(
                f"ZLPR against {rival}, both chosen, {words}",
                duel_table(part, rival, code, chosen=True),
            )
    yield folded("Which values were chosen for Micro-F1", choices_table(part, figures))
    marked, known, by_loss = unsettled(part)
    yield folded(f"How far training had settled: {marked} of {known} cells are marked", by_loss)


def _methods(parts: Mapping[str, Part], plan: Mapping[str, Any]) -> Iterator[str]:
    codes = sorted({row["code"] for part in parts.values() for row in part.cells})
    tuned_on = plan["part"]["fine-tuned"]["data"]
    told = {
        "codes": ", ".join(codes) or "none yet",
        "parameters": parameters_table(plan),
        "min_sets": str(MIN_DATASETS),
        "goemotions": f"{tuned_on['goemotions']:,}",
        "titles": f"{tuned_on['arxiv6-title']:,}",
        "chinese": f"{tuned_on['duee']:,}",
        "extras": f"{max(plan['part']['extras']['data'].values()):,}",
        **{name: f"{plan[name]:,}" for name in ("max_samples", "seeds_of_small", "small", "seeds")},
    }
    text = METHODS.read_text(encoding="utf-8")
    yield string.Template(text).substitute(told).replace("&dollar;", "$").strip()
