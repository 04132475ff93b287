"""The figures of `zlpr evaluate --plot`, and where those of any command may go."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from zlpr._atomic import is_special, replacing
from zlpr._counted import counted
from zlpr._errors import UserError
from zlpr._palette import BLUE, GREY, VERMILION
from zlpr.data.plots import fonts, tick_names

if TYPE_CHECKING:
    from zlpr.data import Dataset
    from zlpr.decoding import ReliabilityCurve
    from zlpr.metrics import LabelReport

MOST_BARS = 60
FAILING = 0.1
"""Labels with an F1 below this fail: they are drawn in another colour, and named."""

MOST_NAMED = 15


def check_picture(path: str, *, overwrite: bool) -> None:
    """Refuse to replace a picture that is there, before anything is computed for it."""
    if not overwrite and Path(path).exists() and not is_special(path):
        raise UserError(f"{path}: is there already; choose another name, or --overwrite")


def plot_evaluation(
    curve: "ReliabilityCurve", report: "LabelReport", data: "Dataset", path: Path
) -> None:
    """Draw reliability and F1 per label side by side, into a file of the kind its ending says."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    kinds = sorted(FigureCanvasAgg(Figure()).get_supported_filetypes())
    if path.suffix[1:].lower() not in kinds:
        raise UserError(f"--plot {path}: the ending must be one of {', '.join(kinds)}")
    with mpl.rc_context({"text.parse_math": False}):  # a label's name may hold dollars
        figure = _draw(curve, report, data)
    with replacing(path) as beside:
        figure.savefig(beside, format=path.suffix[1:].lower(), dpi=150)


def _draw(curve: "ReliabilityCurve", report: "LabelReport", data: "Dataset") -> Any:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    bars = data.num_labels if data.num_labels <= MOST_BARS else 20
    figure = Figure(figsize=(12, max(4.5, 1.2 + 0.24 * bars)), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.2))
    _draw_reliability(left, curve)
    if data.num_labels <= MOST_BARS:
        _draw_bars(right, report, data)
    else:
        _draw_by_frequency(right, report, data)
    return figure


def _draw_reliability(axes: Any, curve: "ReliabilityCurve") -> None:
    seen = curve.count > 0
    largest = np.sqrt(curve.count[seen] / curve.count.max())
    axes.plot([0, 1], [0, 1], color=GREY, linewidth=1, linestyle="--")
    axes.plot(curve.predicted[seen], curve.observed[seen], color=BLUE, linewidth=1.5)
    axes.scatter(
        curve.predicted[seen],
        curve.observed[seen],
        s=12 + 90 * largest,
        color=BLUE,
        zorder=3,
    )
    axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="predicted probability", ylabel="observed share")
    axes.set_aspect("equal")
    error = 100 * curve.label_calibration_error
    axes.set_title(f"Reliability, error by label {error:.1f} %\n(area: number of decisions)")
    axes.annotate(
        "perfectly calibrated", (0.98, 0.98), ha="right", va="top", rotation=45, color=GREY
    )
    axes.spines[["top", "right"]].set_visible(False)


def _draw_bars(axes: Any, report: "LabelReport", data: "Dataset") -> None:
    order = np.argsort(report.f1, kind="stable")
    counts = report.support[order].tolist()
    names = zip(tick_names(data, order), counts, strict=True)
    colours = [VERMILION if f1 < FAILING else BLUE for f1 in report.f1[order]]
    axes.barh(range(len(order)), 100 * report.f1[order], color=colours, height=0.7)
    ticks = [f"{name}  ({count:,})" for name, count in names]
    axes.set_yticks(range(len(order)), ticks, family=fonts())
    axes.set(xlim=(0, 100), xlabel="F1, %")
    axes.margins(y=0.01)
    axes.set_title("F1 per label (number of true samples)")
    axes.spines[["top", "right"]].set_visible(False)


def _draw_by_frequency(axes: Any, report: "LabelReport", data: "Dataset") -> None:
    """F1 against frequency; the labels that fail are listed, the most frequent first."""
    failing = (report.f1 < FAILING) & (report.support > 0)
    for chosen, colour in ((~failing, BLUE), (failing, VERMILION)):
        support = np.maximum(report.support[chosen], 0.5)
        axes.scatter(support, 100 * report.f1[chosen], s=14, color=colour, alpha=0.6)
    axes.set_xscale("log")
    axes.set(ylim=(-2, 102), xlabel="true samples of the label", ylabel="F1, %")
    axes.set_title(f"F1 of {counted(len(report.f1), 'label')} by frequency")
    axes.spines[["top", "right"]].set_visible(False)
    columns = np.flatnonzero(failing)
    columns = columns[np.argsort(-report.support[columns], kind="stable")]
    if not len(columns):
        return
    shown = columns[:MOST_NAMED]
    names = zip(tick_names(data, shown), report.support[shown].tolist(), strict=True)
    lines = [f"{name}  ({count:,})" for name, count in names]
    lines += [f"and {len(columns) - len(shown):,} more"] if len(columns) > len(shown) else []
    head = f"{counted(len(columns), 'label')} below {100 * FAILING:.0f} %\n(true samples):"
    axes.text(
        1.03, 1, "\n".join([head, *lines]), transform=axes.transAxes, va="top", color=VERMILION,
        fontsize=9, family=fonts(),
    )  # fmt: skip
