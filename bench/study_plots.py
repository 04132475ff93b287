"""The figures of the study's page: leads on each set, and ranks over sets."""

from dataclasses import replace
from pathlib import Path

import numpy as np
from bench.study_numbers import CODES, Part, duel, tuned

from zlpr import metrics
from zlpr.compare.practical import ROPE
from zlpr.compare.results import Column, Contest
from zlpr.compare.statistics import RankTest, rank_test, smallest_lead


def forest(part: Part, rival: str, path: Path) -> None:
    """ZLPR's lead over a rival on each set with its interval, a panel per decision."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    from zlpr._palette import BLUE, GREY, VERMILION

    names = ("subset_accuracy", "micro_f1")
    ours, theirs = tuned(part, "zlpr"), tuned(part, rival)
    sets = list(part.sets)
    height = 1.6 + 0.28 * (len(sets) + 1)
    drawing, panels = plt.subplots(
        1, 2 * len(CODES), figsize=(13, height), sharey=True, layout="constrained"
    )
    for axis, (name, words) in zip(
        panels, [(name, words) for name in names for words in CODES], strict=True
    ):
        column = Column(metrics.info(name), CODES[words])
        for place, contest in enumerate(part.results.contests):
            if lead := _lead(part, contest, ours, theirs, column):
                mean, half = lead
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
    panels[0].set_yticks(range(len(sets) + 1), [*sets, "all sets"])
    panels[0].invert_yaxis()
    path.parent.mkdir(parents=True, exist_ok=True)
    drawing.savefig(path, dpi=110, metadata={"Software": None})
    plt.close(drawing)


def _lead(
    part: Part, contest: Contest, ours: str, theirs: str, column: Column
) -> tuple[float, float] | None:
    """The mean difference on one set in points, and half of its interval; None without pairs."""
    a, b = (part.results.get(contest, loss, column) for loss in (ours, theirs))
    shared = sorted(set(a) & set(b))
    if not shared:
        return None
    half = smallest_lead(a, b, part.results.test_share(contest, shared))
    mean = float(np.mean([a[seed] - b[seed] for seed in shared]))
    return 100 * mean, 0.0 if half is None else 100 * half


def _limits(part: Part, name: str, ours: str, theirs: str) -> tuple[float, float]:
    """The same for all decisions of a metric, wide enough for every interval."""
    ends = [-100 * ROPE, 100 * ROPE]
    for code in CODES.values():
        column = Column(metrics.info(name), code)
        for contest in part.results.contests:
            if lead := _lead(part, contest, ours, theirs, column):
                mean, half = lead
                ends += [mean - half, mean + half]
    return 1.05 * min(ends), 1.05 * max(ends)


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
    scikit_posthocs.critical_difference_diagram(
        dict(zip(names, test.ranks, strict=True)),
        pd.DataFrame(test.verdicts, index=names, columns=names),
        ax=axes,
        label_props={"fontsize": 9},
        color_palette={name: look_of(name).hex for name in names},
    )
    axes.set_title(f"{column.title}: average rank", loc="left")
    drawing.savefig(path, dpi=110, metadata={"Software": None})
    plt.close(drawing)
    return test
