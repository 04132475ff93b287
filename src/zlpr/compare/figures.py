"""The report's figures: small SVG panels that take their colours from the page.

Matplotlib draws with placeholder colours, which are then replaced by CSS variables; the page
gives these for light and dark, so that one figure is right in both. Text stays text: it can be
searched and read aloud, and is set in the page's own typeface. Panels are narrow, so that a
phone shows them at full size, and the page lays several side by side where there is room.
"""

import functools
import io
import itertools
import math
import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from zlpr._escape import for_terminal
from zlpr._palette import COLOURS, look_of
from zlpr.compare.records import Curve, ReliabilityBin, RunRecord
from zlpr.compare.results import (
    FITTED,
    METRICS,
    OWN,
    Column,
    Contest,
    Results,
    largest_block,
)
from zlpr.compare.statistics import ALPHA, Difference, RankTest, Spread, differences_from, rank_test
from zlpr.compare.wording import listed
from zlpr.metrics import MetricInfo, info

WIDTH = 4.1
"""Inches; 72 CSS pixels each, so that a panel is about 295 px and scales up to its place."""

INK, SOFT, FAINT, ACCENT, PAPER = "#010101", "#020202", "#030303", "#040404", "#050505"
_VARIABLES = {
    INK: "--ink",
    SOFT: "--soft",
    FAINT: "--line",
    ACCENT: "--accent",
    PAPER: "--card",
} | {f"#0{i:x}0600": f"--c{i}" for i in range(len(COLOURS))}
LINE_COLOURS = tuple(f"#0{i:x}0600" for i in range(len(COLOURS)))


@dataclass(frozen=True)
class Figure:
    """An SVG with the words that stand in for it."""

    svg: str
    title: str
    description: str


_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "zlpr",
    "text.parse_math": False,  # a name may hold dollars
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": SOFT,
    "axes.edgecolor": FAINT,
    "axes.titlesize": 11,
    "axes.titlecolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": FAINT,
    "grid.linewidth": 0.6,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": SOFT,
    "ytick.labelcolor": INK,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
}


def _drawing(function: Callable[..., Figure | None]) -> Callable[..., Figure | None]:
    """Draw under the report's style and leave matplotlib as it was."""

    @functools.wraps(function)
    def drawn(*arguments: Any, **options: Any) -> Figure | None:
        import matplotlib as mpl

        with mpl.rc_context(_STYLE):
            return function(*arguments, **options)

    return drawn


def dot_plots(results: Results, contest: Contest) -> list[Figure]:
    """Per metric, the losses' means with their spread: own bound filled, chosen rule open."""
    figures = (_dot_plot(results, contest, metric) for metric in METRICS)
    return [figure for figure in figures if figure is not None]


@_drawing
def _dot_plot(results: Results, contest: Contest, metric: MetricInfo) -> Figure | None:
    rows = list(reversed(results.losses))
    figure, axes = _axes(0.75 + 0.24 * len(rows))
    for decoding, offset in (("own", 0.13), ("fitted", -0.13)):
        if decoding == "fitted" and not metric.needs_decision:
            continue
        column = Column(metric, "own" if decoding == "own" else "fitted")
        for y, loss in enumerate(rows):
            spread = Spread.of(results.matched(contest, column).get(loss))
            if spread is not None:
                height = y + (offset if metric.needs_decision else 0)
                _dot(axes, spread, height, decoding == "own", loss)
    axes.set_yticks(range(len(rows)), rows)
    axes.set_ylim(-0.7, len(rows) - 0.3)
    axes.margins(x=0.08)
    axes.grid(axis="y", visible=False)
    arrow = "→" if metric.larger_is_better else "←"
    axes.set_xlabel(f"%, better {arrow}")
    axes.set_title(metric.title, loc="left", fontweight="bold")
    meaning = metric.meaning[0].upper() + metric.meaning[1:] + "."
    withheld = listed([*results.matched(contest, Column(metric, "own")).withheld])
    meaning += f" Means over fewer seeds, not to be compared: {withheld}." if withheld else ""
    return _finish(figure, f"{metric.title} on {contest}, mean and spread over seeds", meaning)


def _dot(axes: Any, spread: Spread, height: float, filled: bool, loss: str) -> None:
    colour = _colour(loss)
    mean, deviation = 100 * spread.mean, 100 * (spread.deviation or 0.0)
    axes.plot([mean - deviation, mean + deviation], [height, height], color=colour, lw=1.1)
    axes.plot(
        mean,
        height,
        look_of(loss).marker,
        ms=5.2,
        mec=colour,
        mfc=colour if filled else PAPER,
        mew=1.3,
    )


def critical_difference_diagrams(results: Results) -> list[Figure]:
    """One diagram per column, where there are enough data sets."""
    tests = ((column, rank_test(results, column)) for column in (*OWN, *FITTED))
    figures = (_rank_diagram(column, test) for column, test in tests if test is not None)
    return [figure for figure in figures if figure is not None]


@_drawing
def _rank_diagram(column: Column, test: RankTest) -> Figure | None:
    import pandas as pd
    import scikit_posthocs

    names = list(test.losses)
    figure, axes = _axes(1.0 + 0.21 * len(names))
    scikit_posthocs.critical_difference_diagram(
        dict(zip(names, test.ranks, strict=True)),
        pd.DataFrame(test.verdicts, index=names, columns=names),
        ax=axes,
        label_fmt_left="{label} {rank:.1f} ",
        label_fmt_right=" {rank:.1f} {label}",
        label_props={"fontsize": 9},
        color_palette={name: _colour(name) for name in names},
        elbow_props={"linewidth": 0.8},
        marker_props={"s": 12},
        crossbar_props={"color": SOFT, "linewidth": 2.4},
    )
    axes.grid(visible=False)
    margin = 0.22 * (max(test.ranks) - min(test.ranks) + 1)
    axes.set_xlim(min(test.ranks) - margin, max(test.ranks) + margin)
    axes.spines["top"].set_visible(True)
    low, high = math.ceil(min(test.ranks)), math.floor(max(test.ranks))
    axes.set_xticks(range(low, high + 1, max(1, math.ceil((high - low) / 6))))
    axes.set_title(f"{column.title}: average rank", loc="left", fontweight="bold", pad=16)
    verdict = "differ" if test.p_value <= ALPHA else "cannot be told apart"
    return _finish(
        figure,
        f"Ranks by {column.title}",
        f"Over {len(test.datasets)} data sets, left is better; losses joined by a bar are not "
        f"told apart. Friedman's test: the losses {verdict} (p = {test.p_value:.2g}).",
    )


def training_curves(records: Sequence[RunRecord], contest: Contest) -> list[Figure]:
    """How the training loss fell, and what validation said, a line per loss, first seed."""
    loss, validation = (
        _curve_plot(records, contest, kind) for kind in ("training loss", "validation")
    )
    return [figure for figure in (loss, validation) if figure is not None]


@_drawing
def _curve_plot(records: Sequence[RunRecord], contest: Contest, kind: str) -> Figure | None:
    lines = {
        record.settings.loss.label: curve
        for record in _of_first_seed(records, contest)
        for curve in record.done.curves
        if curve.name.startswith(kind) and len(curve.steps) > 1
    }
    if not lines:
        return None
    figure, axes = _axes(3.1)
    of_loss = kind == "training loss"
    for loss, curve in lines.items():
        values = _left_to_fall(curve) if of_loss else [100 * value for value in curve.values]
        axes.plot(curve.steps, values, **_line_style(loss))
    ends = {
        loss: (_left_to_fall(curve) if of_loss else [100 * value for value in curve.values])
        for loss, curve in lines.items()
    }
    unit = _step_name(lines.values())
    if of_loss:
        axes.set_xscale("log")
        _plain_log_ticks(axes.xaxis)
    else:
        axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_xlabel(unit)
    title = "Training loss still to fall, %" if of_loss else f"Validation by {unit}, %"
    axes.set_title(title, loc="left", fontweight="bold")
    middle = {loss: len(values) // 2 if of_loss else -1 for loss, values in ends.items()}
    _name_lines(axes, {loss: values[middle[loss]] for loss, values in ends.items()})
    described = {
        "step": "How much of its whole fall each loss still had before it, in the first fit.",
        "candidate": "The metric that chooses, on validation, by regularisation tried.",
        "epoch": "The metric that chooses, on validation, after each epoch.",
    }
    return _finish(figure, f"{title} on {contest}", described.get(unit, ""))


@_drawing
def time_against_quality(records: Sequence[RunRecord], contest: Contest) -> Figure | None:
    """Training time against average precision, a point per loss, means over seeds."""
    quality = "average_precision"
    points: dict[str, list[tuple[float, float]]] = {}
    for record in _comparable(records, contest):
        value = record.done.evaluation.test.own.get(quality)
        if value is not None:
            entry = (record.seconds.fit, 100 * value)
            points.setdefault(record.settings.loss.label, []).append(entry)
    if not points:
        return None
    figure, axes = _axes(3.1)
    means = {loss: np.mean(entries, axis=0) for loss, entries in points.items()}
    for loss, (seconds, value) in means.items():
        axes.plot(max(seconds, 1e-3), value, look_of(loss).marker, color=_colour(loss), ms=5)
    axes.set_xscale("log")
    axes.margins(x=0.28, y=0.12)
    _place_names(axes, means)
    _plain_log_ticks(axes.xaxis)
    axes.set_xlabel("seconds of training, choice of settings included")
    axes.set_ylabel(f"{info(quality).title}, %")
    axes.set_title("Time against quality", loc="left", fontweight="bold")
    return _finish(
        figure,
        f"Time against quality on {contest}",
        "Training time and average precision by loss, means over seeds.",
    )


@_drawing
def empty_predictions(records: Sequence[RunRecord], contest: Contest) -> Figure | None:
    """Share of samples that get no label, at the own bound and with the fitted decoding."""
    shares: dict[str, tuple[float | None, float | None]] = {}
    for loss, group in _by_loss(_comparable(records, contest)).items():
        own, fitted = (
            _mean(getattr(r.done.evaluation.test, name).get("empty_predictions") for r in group)
            for name in ("own", "fitted")
        )
        shares[loss] = (own, fitted)
    if all(own is None and fitted is None for own, fitted in shares.values()):
        return None
    rows = list(reversed(shares))
    figure, axes = _axes(0.75 + 0.24 * len(rows))
    for y, loss in enumerate(rows):
        colour, marker = _colour(loss), look_of(loss).marker
        for value, offset, face in zip(shares[loss], (0.13, -0.13), (colour, PAPER), strict=True):
            if value is not None:
                axes.plot([0, 100 * value], [y + offset] * 2, color=FAINT, lw=1.1, zorder=1)
                axes.plot(100 * value, y + offset, marker, ms=5.2, mec=colour, mfc=face, mew=1.3)
    truly = _mean(record.done.data.empty for record in _comparable(records, contest))
    if truly is not None:
        axes.axvline(100 * truly, color=INK, lw=1, ls=(0, (3, 2)))
        axes.annotate(
            f"truly empty: {100 * truly:.1f} %",
            (100 * truly, len(rows) - 0.4),
            xytext=(4, 0),
            textcoords="offset points",
            fontsize=9,
            annotation_clip=False,
        )
    axes.set_yticks(range(len(rows)), rows)
    axes.set_ylim(-0.7, len(rows) - 0.3)
    axes.set_xlim(left=0)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel("% of test samples without any predicted label")
    axes.set_title("Empty predictions", loc="left", fontweight="bold")
    return _finish(
        figure,
        f"Empty predictions on {contest}",
        "Samples that get no label: own bound (filled) and chosen rule (open); the dashed line is "
        "the "
        "share of test samples that truly have none.",
    )


def label_frequency_plots(records: Sequence[RunRecord], contest: Contest) -> list[Figure]:
    """F1 of labels grouped by how often training saw them, for both decodings."""
    figures = (
        _label_frequency_plot(records, contest, name, title)
        for name, title in (("own_f1", "own bound"), ("fitted_f1", "fitted"))
    )
    return [figure for figure in figures if figure is not None]


@_drawing
def _label_frequency_plot(
    records: Sequence[RunRecord], contest: Contest, name: str, title: str
) -> Figure | None:
    groups = _by_loss(_comparable(records, contest))
    lines = {}
    for loss, group in groups.items():
        known = [r.done.per_label for r in group if getattr(r.done.per_label, name) is not None]
        if known:
            counts = np.concatenate([entry.train_count for entry in known])
            lines[loss] = f1_by_frequency(
                counts, np.concatenate([getattr(entry, name) for entry in known])
            )
    if not lines:
        return None
    figure, axes = _axes(3.1)
    for loss, (counts, values) in lines.items():
        style = _line_style(loss)
        axes.plot(counts, 100 * values, marker=look_of(loss).marker, ms=3, **style)
    axes.set_xscale("log")
    _plain_log_ticks(axes.xaxis)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("samples of the label in training")
    axes.set_ylabel("mean F1, %")
    axes.set_title(f"F1 by label frequency, {title}", loc="left", fontweight="bold")
    _name_lines(axes, {loss: 100 * values[-1] for loss, (_, values) in lines.items()})
    return _finish(
        figure,
        f"F1 by label frequency on {contest}, {title}",
        "Labels in groups of equal size from rare to frequent, mean F1 of each group.",
    )


def f1_by_frequency(
    counts: np.ndarray[Any, Any], f1: np.ndarray[Any, Any], groups: int = 8
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Mean count and mean F1 of groups of labels, from the rarest to the most frequent.

    Labels that training never saw are left out: no loss can learn them.
    """
    seen = counts > 0
    counts, f1 = counts[seen], f1[seen]
    order = np.argsort(counts, kind="stable")
    parts = [part for part in np.array_split(order, min(groups, len(order)) or 1) if len(part)]
    return (
        np.array([np.exp(np.log(counts[part]).mean()) for part in parts]),
        np.array([f1[part].mean() for part in parts]),
    )


def reliability_plots(records: Sequence[RunRecord], contest: Contest) -> list[Figure]:
    """Probabilities against what happened: by the loss's own link, and after calibration."""
    figures = (
        _reliability_plot(records, contest, name, title)
        for name, title in (("raw", "from the loss"), ("calibrated", "calibrated"))
    )
    return [figure for figure in figures if figure is not None]


@_drawing
def _reliability_plot(
    records: Sequence[RunRecord], contest: Contest, name: str, title: str
) -> Figure | None:
    lines: dict[str, tuple[ReliabilityBin, ...]] = {}
    errors = []
    for record in _of_first_seed(records, contest):
        reliability = record.done.reliability
        bins = None if reliability is None else getattr(reliability, name)
        if bins:
            lines[record.settings.loss.label] = bins
            by_label, error = (
                getattr(reliability, f"{name}_{x}") for x in ("label_error", "error")
            )
            percent = ["–" if x is None else f"{100 * x:.1f}" for x in (by_label, error)]
            told = "{}\N{NO-BREAK SPACE}% ({}\N{NO-BREAK SPACE}%)".format(*percent)
            errors.append(f"{record.settings.loss.label} {told}")
    if not lines:
        return None
    figure, axes = _axes(3.4)
    axes.plot([0, 1], [0, 1], color=SOFT, lw=0.8, ls=(0, (2, 2)))
    for loss, bins in lines.items():
        xs, ys = [b.predicted for b in bins], [b.observed for b in bins]
        axes.plot(xs, ys, marker=look_of(loss).marker, ms=2.5, **_line_style(loss))
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    axes.set_xlabel("predicted probability")
    axes.set_ylabel("share that was true")
    axes.set_title(f"Reliability, {title}", loc="left", fontweight="bold")
    _name_lines(axes, {loss: bins[-1].observed for loss, bins in lines.items()})
    return _finish(
        figure,
        f"Reliability on {contest}, {title}",
        "Predicted probabilities against how often they came true; the diagonal is perfect. "
        "Mean distance from it, by labels that were true or announced, and in brackets over all "
        f"cells, most of which are near 0: {', '.join(errors)}.",
    )


def _axes(height: float, width: float = WIDTH) -> tuple[Any, Any]:
    from matplotlib.figure import Figure as MatplotlibFigure

    figure = MatplotlibFigure(figsize=(width, height), layout="constrained")
    return figure, figure.add_subplot()


_numbers = itertools.count(1)


def _finish(figure: Any, title: str, description: str) -> Figure:
    out = io.StringIO()
    with warnings.catch_warnings():  # a glyph that is missing here: the page has its own typeface
        warnings.filterwarnings("ignore", message="Glyph", category=UserWarning)
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    return Figure(_themed(out.getvalue(), next(_numbers)), title, description)


def _themed(svg: str, number: int) -> str:
    """Cut the prolog, make ids unique on the page, and let the page give the colours."""
    svg = for_terminal(svg[svg.index("<svg") :].rstrip(), keep="\n")
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\bid="', f'id="f{number}-', svg)
    svg = re.sub(r'(href="#|url\(#)', rf"\1f{number}-", svg)
    for colour, variable in _VARIABLES.items():
        svg = svg.replace(colour, f"var({variable})")
    svg = re.sub(r"font-family: [^;\"]+;? ?", "", svg)
    svg = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r'<svg ([^>]*?)width="[\d.]+pt" height="[\d.]+pt"', r"<svg \1", svg)
    return svg.replace("<svg ", '<svg aria-hidden="true" focusable="false" ', 1)


def _left_to_fall(curve: Curve) -> list[float]:
    """100 at the first step, 0 at the last: losses of any scale and sign on one axis."""
    first, last = curve.values[0], curve.values[-1]
    fall = first - last
    return [100 * (value - last) / fall if fall else 0.0 for value in curve.values]


def _place_names(axes: Any, means: dict[str, Any]) -> None:
    """Write each point's name on the side of it where it covers least."""
    points = {loss: (max(seconds, 1e-3), value) for loss, (seconds, value) in means.items()}
    pixels = {loss: axes.transData.transform(point) for loss, point in points.items()}
    taken = [(x - 5, y - 5, x + 5, y + 5) for x, y in pixels.values()]
    for loss, (x, y) in sorted(pixels.items(), key=lambda item: -item[1][1]):
        width, half = 7.5 * len(loss), 7.0
        sides = {
            (8, 0, "left"): (x + 8, y - half, x + 8 + width, y + half),
            (-8, 0, "right"): (x - 8 - width, y - half, x - 8, y + half),
            (0, 13, "center"): (x - width / 2, y + 6, x + width / 2, y + 20),
            (0, -13, "center"): (x - width / 2, y - 20, x + width / 2, y - 6),
        }
        offset = min(sides, key=lambda side: sum(_shared(sides[side], box) for box in taken))
        taken.append(sides[offset])
        axes.annotate(
            loss,
            points[loss],
            xytext=(0.72 * offset[0], 0.72 * offset[1]),
            textcoords="offset points",
            ha=offset[2],
            va="center",
            fontsize=9,
            color=_colour(loss),
        )


def _shared(a: tuple[float, ...], b: tuple[float, ...]) -> float:
    """The area that two boxes (left, bottom, right, top) have in common."""
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    return max(0.0, width) * max(0.0, height)


def _plain_log_ticks(axis: Any) -> None:
    """1, 3, 10 in full rather than powers of ten; over more than two decades 1, 10, 100."""
    from matplotlib.ticker import LogLocator, NullLocator

    low, high = axis.get_view_interval()
    decades = math.log10(high / low) if low > 0 else 1.0
    axis.set_major_locator(LogLocator(subs=(1.0, 3.0) if decades <= 2 else (1.0,), numticks=7))
    axis.set_major_formatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}")
    axis.set_minor_locator(NullLocator())


def _name_lines(axes: Any, ends: dict[str, float]) -> None:
    """Write each line's name beside its end, in its colour, so far apart that all can be read."""
    bottom, top = axes.get_ylim()
    apart = 0.058
    heights: dict[str, float] = {}
    last = -1.0
    for loss, value in sorted(ends.items(), key=lambda item: item[1]):
        last = max((value - bottom) / (top - bottom), last + apart)
        heights[loss] = last
    over = max(0.0, last - 1.0)  # what does not fit above moves down together
    right = axes.get_xlim()[1]
    for loss, height in heights.items():
        axes.annotate(
            loss,
            (right, min(max(ends[loss], bottom), top)),
            xytext=(1.06, height - over),
            textcoords="axes fraction",
            va="center",
            fontsize=9,
            color=_colour(loss),
            arrowprops={"arrowstyle": "-", "color": _colour(loss), "lw": 0.5, "shrinkA": 1},
            annotation_clip=False,
        )


@_drawing
def hero(results: Results) -> Figure | None:
    """Paired differences in Micro-F1 of every loss from ZLPR, or from the first, with intervals."""
    reference = next((x for x in results.losses if _is_zlpr(x)), (*results.losses, "")[0])
    rows, columns = [], {}
    for decoding in ("own", "fitted"):
        column = next(
            c for c in (*OWN, *FITTED) if c.metric.name == "micro_f1" and c.decoding == decoding
        )
        columns[decoding] = differences_from(results, column, reference)
    rows = [x for x in reversed(results.losses) if any(x in found for found in columns.values())]
    if not rows:
        return None
    figure, axes = _axes(0.95 + 0.3 * len(rows), width=1.3 * WIDTH)
    for (decoding, found), offset in zip(columns.items(), (0.15, -0.15), strict=True):
        for y, loss in enumerate(rows):
            if loss in found:
                _interval(axes, found[loss], y + offset, decoding == "own", loss)
    axes.axvline(0, color=INK, lw=1)
    axes.set_yticks(range(len(rows)), rows)
    axes.set_ylim(-0.7, len(rows) - 0.3)
    axes.margins(x=0.08)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel(f"points of Micro-F1 ahead of {reference} (95 % interval), better →")
    axes.set_title(f"How far each loss is from {reference}", loc="left", fontweight="bold")
    judged = [results.matched(c, column).figures for c in results.contests]
    tables = sum(reference in row and len(row) > 1 for row in judged)  # a model may have no loss
    over = f"{tables} tables" if tables > 1 else "the seeds"
    return _finish(
        figure,
        f"Differences from {reference} in Micro-F1",
        f"Paired differences over {over}. Filled: at each loss's own bound. Open: by the rule "
        "chosen on validation. An interval that crosses 0 tells of no difference.",
    )


def _interval(axes: Any, found: Difference, height: float, filled: bool, loss: str) -> None:
    colour, mean, half = _colour(loss), 100 * found.mean, 100 * (found.half or 0.0)
    axes.plot([mean - half, mean + half], [height, height], color=colour, lw=1.4)
    face = colour if filled else PAPER
    axes.plot(mean, height, look_of(loss).marker, ms=6, mec=colour, mfc=face, mew=1.4)


def _line_style(loss: str) -> dict[str, Any]:
    """The colour and dash of a loss; plain ZLPR drawn on top."""
    bold = {"lw": 2.2, "zorder": 5} if loss == "zlpr" else {"lw": 1.3}
    return {"color": _colour(loss), "ls": look_of(loss).dash, **bold}


def _colour(loss: str) -> str:
    return LINE_COLOURS[look_of(loss).colour]


def _is_zlpr(loss: str) -> bool:
    return loss.startswith("zlpr")


def _of_contest(records: Iterable[RunRecord], contest: Contest) -> list[RunRecord]:
    return [
        record
        for record in records
        if record.outcome is not None
        and (record.settings.data, record.settings.model) == (contest.data, contest.model)
    ]


def _comparable(records: Iterable[RunRecord], contest: Contest) -> list[RunRecord]:
    """Those to take means of: of losses that have the same seeds, see `Results.matched`."""
    chosen = _of_contest(records, contest)
    runs = {loss: {r.settings.seed for r in own} for loss, own in _by_loss(chosen).items()}
    seeds = largest_block(runs)
    return [
        record
        for record in chosen
        if record.settings.seed in seeds and seeds <= runs[record.settings.loss.label]
    ]


def _of_first_seed(records: Iterable[RunRecord], contest: Contest) -> list[RunRecord]:
    chosen = _of_contest(records, contest)
    first = min((record.settings.seed for record in chosen), default=0)
    return [record for record in chosen if record.settings.seed == first]


def _by_loss(records: Iterable[RunRecord]) -> dict[str, list[RunRecord]]:
    groups: dict[str, list[RunRecord]] = {}
    for record in records:
        groups.setdefault(record.settings.loss.label, []).append(record)
    return groups


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def _step_name(curves: Iterable[Curve]) -> str:
    names = {curve.name.partition(": ")[2] for curve in curves} - {""}
    return " or ".join(sorted(names)) or "step"
