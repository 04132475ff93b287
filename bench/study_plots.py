"""The figures of the study's page: leads on each set, ranks over sets, and what moves a metric."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from bench.study_numbers import CODES, Part, duel, lead_on, tuned

from zlpr import metrics
from zlpr.compare.practical import ROPE
from zlpr.compare.results import Column
from zlpr.compare.statistics import RankTest, rank_test


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
        1, 2 * len(CODES), figsize=(13, height), sharey=True, layout="constrained"
    )
    for axis, (name, words) in zip(
        panels, [(name, words) for name in names for words in CODES], strict=True
    ):
        column = Column(metrics.info(name), CODES[words])
        for place, contest in enumerate(part.results.contests):
            if lead := lead_on(part, contest, ours, theirs, column):
                mean, half = (100 * value for value in lead)
                axis.errorbar(
                    mean, place, xerr=half, fmt="o", color=BLUE, markersize=4, linewidth=1
                )
        made = duel(part, ours, theirs, column)
        if made is not None and made.size.half is not None:
            axis.errorbar(
                100 * made.size.mean, len(sets), xerr=100 * made.size.half, fmt="D",
                color=VERMILION, markersize=5, linewidth=1.5,
            )  # fmt: skip
        axis.set_xlim(*_limits(part, name, ours, theirs))
        axis.axvspan(-100 * ROPE, 100 * ROPE, color=GREY, alpha=0.2, linewidth=0)
        axis.axvline(0, color="black", linewidth=0.8)
        axis.set_title(f"{metrics.info(name).title}\n{words}", fontsize=10)
        axis.set_xlabel("points")
    panels[0].set_yticks(range(len(lines)), lines)
    panels[0].set_ylim(len(lines) - 0.5, -0.5)
    path.parent.mkdir(parents=True, exist_ok=True)
    drawing.savefig(path, dpi=110, metadata={"Software": None})
    plt.close(drawing)


def _limits(part: Part, name: str, ours: str, theirs: str) -> tuple[float, float]:
    """The same for all decisions of a metric, wide enough for every interval."""
    ends = [-100 * ROPE, 100 * ROPE]
    for code in CODES.values():
        column = Column(metrics.info(name), code)
        for contest in part.results.contests:
            if lead := lead_on(part, contest, ours, theirs, column):
                mean, half = (100 * value for value in lead)
                ends += [mean - half, mean + half]
    return 1.05 * min(ends), 1.05 * max(ends)


def effects_chart(
    sizes: Mapping[str, Mapping[str, float]], features: Mapping[str, float], path: Path
) -> None:
    """Points that hang on the loss, its parameter, the decision and the features, by metric.

    Args:
        sizes: by metric and by what moves it, as fractions.
        features: what embeddings add to each metric; nothing where they have not run.
        path: to write to.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    from zlpr._palette import BLUE, GREEN, GREY, ORANGE

    moved = {
        name: dict(of_metric) | ({"an encoder's features": features[name]} if features else {})
        for name, of_metric in sizes.items()
    }
    causes = list(next(iter(moved.values())))
    drawing, panels = plt.subplots(1, len(moved), figsize=(11, 2.2), sharey=True, sharex=True,
                                   layout="constrained")  # fmt: skip
    for axis, (name, values) in zip(panels, moved.items(), strict=True):
        heights = [100 * values[cause] for cause in causes]
        bars = axis.barh(causes, heights, color=[GREY, BLUE, ORANGE, GREEN][: len(causes)])
        axis.bar_label(bars, [f"{height:.1f}" for height in heights], padding=3, fontsize=9)
        axis.set_title(metrics.info(name).title, fontsize=10)
        axis.set_xlabel("points")
        axis.margins(x=0.2)
        axis.spines[["top", "right"]].set_visible(False)
    panels[0].invert_yaxis()
    path.parent.mkdir(parents=True, exist_ok=True)
    drawing.savefig(path, dpi=110, metadata={"Software": None})
    plt.close(drawing)


def rank_diagram(part: Part, column: Column, path: Path) -> RankTest | None:
    """A critical difference diagram of the losses with their parameters chosen."""
    import matplotlib

    matplotlib.use("Agg")
    import pandas as pd
    import scikit_posthocs
    from matplotlib import pyplot as plt

    from zlpr._palette import look_of

    losses = tuple(dict.fromkeys(tuned(part, loss) for loss in part.losses))
    test = rank_test(replace(part.results, losses=losses), column)
    if test is None:
        return None
    names = list(test.losses)
    drawing, axes = plt.subplots(figsize=(9, 1.2 + 0.22 * len(names)), layout="constrained")
    drawn = scikit_posthocs.critical_difference_diagram(
        dict(zip(names, test.ranks, strict=True)),
        pd.DataFrame(test.verdicts, index=names, columns=names),
        ax=axes,
        label_props={"fontsize": 9},
        color_palette={name: look_of(name).hex for name in names},
    )
    for (bar,) in drawn["crossbars"]:  # made of a set of names, which each process orders anew
        bar.set_xdata(sorted(bar.get_xdata()))
    axes.set_title(f"{column.title}: average rank", loc="left")
    drawing.savefig(path, dpi=110, metadata={"Software": None})
    plt.close(drawing)
    return test
