"""The figures of `zlpr evaluate --plot`."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from zlpr._atomic import replacing
from zlpr._counted import counted
from zlpr._errors import UserError
from zlpr.data.plots import fonts, tick_names

if TYPE_CHECKING:
    from zlpr.data import Dataset
    from zlpr.decoding import ReliabilityCurve
    from zlpr.metrics import LabelReport

MOST_BARS = 40
BLUE, GREY = "#2f6db3", "#9aa5b1"


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

    bars = min(data.num_labels, MOST_BARS)
    figure = Figure(figsize=(12, max(4.5, 1.2 + 0.24 * bars)), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.2))
    _draw_reliability(left, curve)
    if data.num_labels <= MOST_BARS:
        _draw_bars(right, report, data)
    else:
        _draw_by_frequency(right, report)
    return figure


def _draw_reliability(axes: Any, curve: "ReliabilityCurve") -> None:
    seen = curve.count > 0
    largest = np.sqrt(curve.count[seen] / curve.count.max())
    axes.plot([0, 1], [0, 1], color=GREY, linewidth=1, linestyle="--", label="perfectly calibrated")
    axes.plot(curve.predicted[seen], curve.observed[seen], color=BLUE, linewidth=1.5)
    axes.scatter(
        curve.predicted[seen],
        curve.observed[seen],
        s=12 + 90 * largest,
        color=BLUE,
        zorder=3,
        label="share that is true (area: number of cells)",
    )
    axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="predicted probability", ylabel="observed share")
    axes.set_aspect("equal")
    axes.set_title(f"Reliability, calibration error {curve.expected_calibration_error:.4f}")
    axes.legend(loc="lower right", frameon=False, fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)


def _draw_bars(axes: Any, report: "LabelReport", data: "Dataset") -> None:
    order = np.argsort(report.f1, kind="stable")
    counts = report.support[order].tolist()
    names = zip(tick_names(data, order), counts, strict=True)
    axes.barh(range(len(order)), report.f1[order], color=BLUE, height=0.7)
    ticks = [f"{name}  ({count:,})" for name, count in names]
    axes.set_yticks(range(len(order)), ticks, family=fonts())
    axes.set(xlim=(0, 1), xlabel="F1")
    axes.margins(y=0.01)
    axes.set_title("F1 per label (number of true samples)")
    axes.spines[["top", "right"]].set_visible(False)


def _draw_by_frequency(axes: Any, report: "LabelReport") -> None:
    axes.scatter(np.maximum(report.support, 0.5), report.f1, s=14, color=BLUE, alpha=0.6)
    axes.set_xscale("log")
    axes.set(ylim=(-0.02, 1.02), xlabel="true samples of the label", ylabel="F1")
    axes.set_title(f"F1 of {counted(len(report.f1), 'label')} by frequency")
    axes.spines[["top", "right"]].set_visible(False)
