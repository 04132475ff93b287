"""The figures of the study's page: leads on each set, ranks over sets, and what moves a metric."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

from bench.study_numbers import (
    CODES,
    DECIDED,
    DECISION,
    LOSS,
    PARAMETER,
    Moved,
    Part,
    duel,
    lead_on,
    tuned,
)

from zlpr import losses, metrics
from zlpr.compare.practical import ROPE
from zlpr.compare.results import Column
from zlpr.compare.statistics import RankTest, rank_test

MOST_POINTS = 4.0
"""As far as a forest plot reaches to either side; what is farther ends in an arrow."""


def forest(part: Part, rival: str, path: Path) -> None:
    """ZLPR's lead over a rival on each set with its interval, a panel per decision."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    from zlpr._palette import BLUE, GREY, VERMILION

    names = ("subset_accuracy", "micro_f1")
    ours, theirs = tuned(part, "zlpr"), tuned(part, rival)
    sets = list(part.sets)
    lines = [*sets, "all sets"] if len(sets) > 1 else sets
    height = 1.6 + 0.28 * len(lines)
    drawing, panels = plt.subplots(
        1, 2 * len(CODES), figsize=(13, height), sharey=True, sharex=True, layout="constrained"
    )
    for axis, (name, words) in zip(
        panels, [(name, words) for name in names for words in CODES], strict=True
    ):
        column = Column(metrics.info(name), CODES[words])
        for place, contest in enumerate(part.results.contests):
            if lead := lead_on(part, contest, ours, theirs, column):
                _interval(axis, place, *lead, marker="o", size=4, colour=BLUE)
        made = duel(part, ours, theirs, column)
        if made is not None and len(sets) > 1:
            size = made.size
            _interval(axis, len(sets), size.mean, size.half, marker="|", size=14, colour=VERMILION)
        axis.axvspan(-100 * ROPE, 100 * ROPE, color=GREY, alpha=0.2, linewidth=0)
        axis.axvline(0, color="black", linewidth=0.8)
        axis.set_title(f"{metrics.info(name).title}\n{words}", fontsize=10)
        axis.set_xlabel("points")
    panels[0].set_xlim(-MOST_POINTS, MOST_POINTS)
    panels[0].set_yticks(range(len(lines)), lines)
    panels[0].set_ylim(len(lines) - 0.5, -0.5)
    path.parent.mkdir(parents=True, exist_ok=True)
    drawing.savefig(path, dpi=110, metadata={"Software": None})
    plt.close(drawing)


def _interval(
    axis: Any, place: int, mean: float, half: float | None, *, marker: str, size: float, colour: str
) -> None:
    """A lead in points with its interval, cut where the plot ends."""
    middle, reach = 100 * mean, 100 * (half or 0.0)
    low, high = max(middle - reach, -MOST_POINTS), min(middle + reach, MOST_POINTS)
    axis.hlines(place, low, high, color=colour, linewidth=1.2)
    if abs(middle) <= MOST_POINTS:
        axis.plot(middle, place, marker, color=colour, markersize=size)
    for beyond, end, arrow in (
        (middle - reach < -MOST_POINTS, -MOST_POINTS, "<"),
        (middle + reach > MOST_POINTS, MOST_POINTS, ">"),
    ):
        if beyond:
            axis.plot(end, place, arrow, color=colour, markersize=6, clip_on=False)


def effects_chart(
    moved: Sequence[Moved], features: Mapping[str, Mapping[str, float]], path: Path
) -> None:
    """Points that hang on the loss, its parameter, the decision and the features, by metric.

    Args:
        moved: each with what is held meanwhile.
        features: what embeddings add to each metric on each set; nothing where they have not run.
        path: to write to.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    from zlpr._palette import BLUE, GREEN, GREY, ORANGE

    colours = {LOSS: GREY, PARAMETER: BLUE, DECISION: ORANGE}
    bars = [(f"{one.cause}: {one.held}", colours[one.cause], one.by_metric) for one in moved]
    if features:
        gained = {name: fmean(by_set.values()) for name, by_set in features.items()}
        bars.append(("an encoder's features: chosen rule", GREEN, gained))
    drawing, panels = plt.subplots(
        1, len(DECIDED), figsize=(13, 0.9 + 0.3 * len(bars)), sharey=True, sharex=True,
        layout="constrained",
    )  # fmt: skip
    for axis, metric in zip(panels, DECIDED, strict=True):
        heights = [100 * values[metric.name] for _, _, values in bars]
        drawn = axis.barh(
            [title for title, *_ in bars], heights, color=[colour for _, colour, _ in bars]
        )
        axis.bar_label(drawn, [f"{height:.1f}" for height in heights], padding=3, fontsize=9)
        axis.set_title(metric.title, fontsize=10)
        axis.set_xlabel("points")
        axis.margins(x=0.2)
        axis.spines[["top", "right"]].set_visible(False)
    panels[0].invert_yaxis()
    path.parent.mkdir(parents=True, exist_ok=True)
    drawing.savefig(path, dpi=110, metadata={"Software": None})
    plt.close(drawing)


def deciding(part: Part) -> tuple[str, ...]:
    """The losses that have a bound of their own, with their parameters chosen."""
    known = [loss for loss in part.losses if loss in losses.available()]
    return tuple(tuned(part, loss) for loss in known if losses.info(loss).decides)


def rank_diagram(part: Part, column: Column, path: Path) -> RankTest | None:
    """A critical difference diagram of the losses that decide."""
    import matplotlib

    matplotlib.use("Agg")
    import pandas as pd
    import scikit_posthocs
    from matplotlib import pyplot as plt

    from zlpr._palette import BLACK, BLUE, VERMILION

    test = rank_test(replace(part.results, losses=deciding(part)), column)
    if test is None:
        return None
    names = list(test.losses)
    shown = {tuned(part, "zlpr"): BLUE, tuned(part, "bce"): VERMILION}
    drawing, axes = plt.subplots(figsize=(9, 1.2 + 0.22 * len(names)), layout="constrained")
    drawn = scikit_posthocs.critical_difference_diagram(
        dict(zip(names, test.ranks, strict=True)),
        pd.DataFrame(test.verdicts, index=names, columns=names),
        ax=axes,
        label_fmt_left="{label} ({rank:.1f})",
        label_fmt_right="({rank:.1f}) {label}",
        label_props={"fontsize": 9},
        color_palette={name: shown.get(name, BLACK) for name in names},
    )
    for (bar,) in drawn["crossbars"]:  # made of a set of names, which each process orders anew
        bar.set_xdata(sorted(bar.get_xdata()))
    axes.set_title(f"{column.title}: average rank", loc="left")
    drawing.savefig(path, dpi=110, metadata={"Software": None})
    plt.close(drawing)
    return test
