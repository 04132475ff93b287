"""The theory's figures, each from the numbers that its table prints."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from zlpr._atomic import replacing
from zlpr._palette import COLOURS, GREY, look_of
from zlpr.metrics import PAPER_METRICS, info
from zlpr.theory.link import LinkPoint
from zlpr.theory.regret import Regret
from zlpr.theory.terms import Shares


def dependence_figure(
    dependences: Sequence[float], scores: Mapping[str, Sequence[float]], path: Path
) -> None:
    """The first label's score under each loss, while the marginals stay fixed."""
    figure, axes = _axes(1)
    for name, values in scores.items():
        axes[0].plot(dependences, values, **_style(name), markevery=4)
    axes[0].set_xlabel("dependence of the first two labels (marginals stay as they are)")
    axes[0].set_ylabel("score of the first label at the minimum")
    _name_lines(axes[0], {name: (values[-1], look_of(name).hex) for name, values in scores.items()})
    _save(figure, path)


def link_figure(points: Sequence[LinkPoint], path: Path) -> None:
    """The slope c of sigma(c s) against the number of labels, a line per probability."""
    figure, axes = _axes(1)
    for number, probability in enumerate(sorted({point.probability for point in points})):
        line = [point for point in points if point.probability == probability]
        axes[0].plot(
            [point.labels for point in line],
            [point.slope for point in line],
            color=COLOURS[number],
            linewidth=2,
        )
        middle = min(line, key=lambda point: abs(point.slope - 1.5))
        axes[0].annotate(
            f"P = {probability:g}", (middle.labels, middle.slope), xytext=(7, -4),
            textcoords="offset points", color=COLOURS[number],
        )  # fmt: skip
    axes[0].set_xscale("log")
    axes[0].axhline(1, color=GREY, linestyle=":")
    axes[0].axhline(2, color=GREY, linestyle=":")
    axes[0].annotate("σ(s), BCE's link", (axes[0].get_xlim()[0], 1), xytext=(4, 4),
                     textcoords="offset points", color=GREY)  # fmt: skip
    axes[0].annotate("σ(2s), the link of soft targets", (axes[0].get_xlim()[0], 2), xytext=(4, 4),
                     textcoords="offset points", color=GREY)  # fmt: skip
    axes[0].set_ylim(0.95, 2.12)
    axes[0].set_xlabel("number of labels")
    axes[0].set_ylabel("slope c in σ(c·s) = P(label)")
    _save(figure, path)


def terms_figure(shares: Sequence[Shares], path: Path) -> None:
    """The negatives' share of the loss and of the gradient, and the pull left for a positive."""
    figure, axes = _axes(3)
    panels = [
        ("of_loss", "share of the loss\nfrom negatives"),
        ("of_gradient", "share of the gradient\non negatives"),
        ("on_positive", "gradient on each positive,\nas share of the whole"),
    ]
    ends: dict[str, tuple[float, str]] = {}
    for axis, (field, title) in zip(axes, panels, strict=True):
        for name in ("bce", "zlpr"):
            line = [share for share in shares if share.loss == name]
            values = [
                (1 - share.of_gradient) / 2 if field == "on_positive" else getattr(share, field)
                for share in line
            ]
            axis.plot([share.negatives for share in line], values, **_style(name), markevery=3)
            if axis is axes[-1]:
                ends[name] = (values[-1], look_of(name).hex)
        axis.set_xscale("log")
        axis.set_title(title, fontsize=10)
        axis.set_xlabel("negative labels")
        axis.set_ylim(-0.02, 1.02)
    _name_lines(axes[-1], ends)
    _save(figure, path)


def regret_figure(found: Sequence[Regret], path: Path) -> None:
    """A panel per metric: regret at zero against the strength of dependence, a line per loss."""
    found = [regret for regret in found if regret.cut == "zero"]
    figure, axes = _axes(6)
    losses = list(dict.fromkeys(regret.loss for regret in found))
    for axis, metric in zip(axes, PAPER_METRICS, strict=True):
        for loss in losses:
            line = [r for r in found if r.loss == loss and r.metric == metric]
            if line:
                axis.errorbar(
                    [r.dependence for r in line], [r.mean for r in line], [r.error for r in line],
                    label=loss, capsize=2, **_style(loss, markersize=4),
                )  # fmt: skip
        axis.set_title(info(metric).words, fontsize=10)
        axis.set_yscale("symlog", linthresh=1)
        axis.set_ylim(bottom=0)
        axis.set_xlabel("strength of dependence")
    axes[0].set_ylabel("regret, points")
    axes[3].set_ylabel("regret, points")
    lines = {
        name: handle
        for axis in (axes[0], axes[4])
        for handle, name in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    figure.legend(lines.values(), lines.keys(), loc="outside lower center", ncols=6, frameon=False)
    _save(figure, path)


def _style(loss: str, **more: Any) -> dict[str, Any]:
    """A loss's colour, marker and dash, the same as in every figure; ZLPR drawn on top."""
    look = look_of(loss)
    weight = {"linewidth": 2.6, "zorder": 3} if loss == "zlpr" else {"linewidth": 1.6, "zorder": 2}
    return {"color": look.hex, "marker": look.marker, "linestyle": look.dash, **weight, **more}


def _name_lines(axis: Any, ends: Mapping[str, tuple[float, str]]) -> None:
    """Names beside the lines' ends, in their colours, so far apart that all can be read."""
    bottom, top = axis.get_ylim()
    last = -1.0
    for name, (value, colour) in sorted(ends.items(), key=lambda item: item[1][0]):
        last = max((value - bottom) / (top - bottom), last + 0.06)
        axis.text(
            1.02, last, name, color=colour, transform=axis.transAxes, va="center", fontsize=10
        )


def _axes(panels: int) -> tuple[Any, list[Any]]:
    from matplotlib.figure import Figure

    rows, columns = {1: (1, 1), 3: (1, 3), 6: (2, 3)}[panels]
    size = {1: (6.4, 4.0), 3: (9.6, 3.4), 6: (9.6, 6.8)}[panels]
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).flatten().tolist()
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.25)
    return figure, axes


def _save(figure: Any, path: Path) -> None:
    with replacing(path) as beside:
        figure.savefig(beside, format=path.suffix.lstrip("."), dpi=150)
