"""Sentences with figures of the study that stand on other pages, which a test holds to it."""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from bench import study
from bench.study_numbers import CHOSEN, Part, duel, mean_of, read_part
from bench.study_page import points

from zlpr import metrics
from zlpr.compare.results import Column, DecodingName

TUNED = ("zlpr" + CHOSEN, "bce" + CHOSEN)
LSEP = ("zlpr" + CHOSEN, "lsep" + CHOSEN)


def quotes(tables: Path = study.TABLES) -> Iterator[tuple[str, str]]:
    """Pages, and what they say."""
    part = read_part("linear", tables, study.protocol())
    sets = len(part.sets)
    leads = [
        f"{_lead(part, 'subset_accuracy', decision)} points of subset accuracy and "
        f"{_lead(part, 'micro_f1', decision)} of Micro-F1"
        for decision in ("threshold", "fitted")
    ]
    yield (
        "README.md",
        f"ZLPR minus BCE over {sets} sets, both with the best of five weights for their positives: "
        f"{leads[0]} with one fitted threshold, {leads[1]} with the chosen rule",
    )
    yield (
        "docs/why-not-bce.md",
        f"ZLPR and BCE have {_pair(part, 'micro_f1', 'threshold')} % Micro-F1, "
        f"{_pair(part, 'example_f1', 'threshold')} % example F1, "
        f"{_pair(part, 'macro_f1', 'threshold')} % Macro-F1 and "
        f"{_pair(part, 'subset_accuracy', 'threshold')} % subset accuracy on average over {sets} "
        "public data sets",
    )
    yield (
        "docs/why-not-bce.md",
        f"Cut at zero they differ by {_lead(part, 'subset_accuracy', 'own')} points of subset "
        f"accuracy, by one fitted threshold by {_lead(part, 'subset_accuracy', 'threshold')}, by "
        f"the chosen rule by {_lead(part, 'subset_accuracy', 'fitted')}",
    )
    with_one, with_rule = (_lead(part, "subset_accuracy", x) for x in ("threshold", "fitted"))
    powerset = _lead(part, "subset_accuracy", "own", ("powerset", TUNED[0]))
    yield (
        "docs/guides/choosing.md",
        f"on {sets} data sets ZLPR minus BCE is {with_one} points with one threshold and "
        f"{with_rule} with the chosen rule; cut at their own bounds, powerset minus ZLPR is "
        f"{powerset}",
    )
    bce, lsep = (_lead(part, "average_precision", "own", x) for x in (TUNED, LSEP))
    yield (
        "docs/guides/choosing.md",
        f"on {sets} data sets ZLPR minus BCE is {bce} points of average precision, ZLPR minus LSEP "
        f"{lsep}",
    )
    empty = _empty(tables, part)
    yield (
        "docs/troubleshooting.md",
        f"cut at zero, ZLPR left {empty['zlpr']:.1f} % of the samples of {sets} public data sets "
        f"without a label, BCE {empty['bce']:.1f} %",
    )
    yield (
        "docs/guides/choosing.md",
        f"at its own bound a chosen `pos_weight` adds to plain `zlpr`, over {sets} data sets, "
        f"{_gains(part, 'zlpr')}; to plain `bce`, {_gains(part, 'bce')}",
    )


def _gains(part: Part, loss: str) -> str:
    """What its chosen parameter adds to a loss at its own bound."""
    names = ("example_f1", "micro_f1", "macro_f1", "subset_accuracy")
    told = [
        f"{_lead(part, name, 'own', (loss + CHOSEN, loss))} of {metrics.info(name).words}"
        for name in names
    ]
    return ", ".join(told)


def _pair(part: Part, metric: str, decision: DecodingName) -> str:
    """The means of both losses in per cent."""
    means = [mean_of(part, loss, Column(metrics.info(metric), decision)) for loss in TUNED]
    return " and ".join("–" if mean is None else f"{100 * mean:.1f}" for mean in means)


def _lead(part: Part, metric: str, decision: DecodingName, losses: tuple[str, str] = TUNED) -> str:
    """The first's lead in points with its interval."""
    made = duel(part, *losses, Column(metrics.info(metric), decision))
    if made is None or made.size.half is None:
        return "–"
    return f"{points(made.size.mean, 1)} ± {100 * made.size.half:.1f}"


def _empty(tables: Path, part: Part) -> dict[str, float]:
    """Per cent of samples without a label at the own bound of the plain losses, mean over sets."""
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row in study.read_table(study.tables_of("linear", tables)[0]):
        plain = (row["version"], row["decision"]) == ("plain", "own bound")
        if plain and row["data"] in part.sets and row["loss"] in ("zlpr", "bce"):
            found[row["loss"], row["data"]].append(float(row["empty_predictions"]))
    return {
        loss: float(
            np.mean([np.mean(values) for (name, _), values in found.items() if name == loss])
        )
        for loss in ("zlpr", "bce")
    }
