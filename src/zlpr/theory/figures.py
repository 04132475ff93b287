"""The theory's figures, each from the numbers that its table prints."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from zlpr._atomic import replacing
from zlpr.metrics import PAPER_METRICS, info
from zlpr.theory.link import LinkPoint
from zlpr.theory.regret import Regret
from zlpr.theory.terms import Shares

BLUE, ORANGE, GREY = "#0b6e99", "#d9730d", "#9b9a97"


def dependence_figure(
    dependences: Sequence[float], scores: Mapping[str, Sequence[float]], path: Path
) -> None:
    """The first label's score under each loss, while the marginals stay fixed."""
    figure, axes = _axes(1)
    for name, values in scores.items():
        axes[0].plot(dependences, values, label=name, linewidth=2)
    axes[0].set_xlabel("dependence of the first two labels (marginals stay as they are)")
    axes[0].set_ylabel("score of the first label at the minimum")
    axes[0].legend(frameon=False)
    _save(figure, path)


def link_figure(points: Sequence[LinkPoint], path: Path) -> None:
    """The slope c of sigma(c s) against the number of labels, a line per probability."""
    figure, axes = _axes(1)
    for probability in sorted({point.probability for point in points}):
        line = [point for point in points if point.probability == probability]
        axes[0].plot(
            [point.labels for point in line],
            [point.slope for point in line],
            label=f"P(label) = {probability:g}",
            linewidth=2,
        )
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
    axes[0].legend(frameon=False, loc="center left", bbox_to_anchor=(0.02, 0.62))
    _save(figure, path)


def terms_figure(shares: Sequence[Shares], path: Path) -> None:
    """The negatives' share of the loss and of the gradient, and the pull left for a positive."""
    figure, axes = _axes(3)
    panels = [
        ("of_loss", "share of the loss\nfrom negatives"),
        ("of_gradient", "share of the gradient\non negatives"),
        ("on_positive", "gradient on each positive,\nas share of the whole"),
    ]
    for axis, (field, title) in zip(axes, panels, strict=True):
        for name, colour in (("bce", ORANGE), ("zlpr", BLUE)):
            line = [share for share in shares if share.loss == name]
            values = [
                (1 - share.of_gradient) / 2 if field == "on_positive" else getattr(share, field)
                for share in line
            ]
            axis.plot(
                [share.negatives for share in line], values, color=colour, label=name.upper(),
                linewidth=2,
            )  # fmt: skip
        axis.set_xscale("log")
        axis.set_title(title, fontsize=10)
        axis.set_xlabel("negative labels")
        axis.set_ylim(-0.02, 1.02)
    axes[0].legend(frameon=False, loc="lower right")
    _save(figure, path)


def regret_figure(found: Sequence[Regret], path: Path) -> None:
    """A panel per metric: regret at zero against the strength of dependence, a line per loss."""
    found = [regret for regret in found if regret.cut == "zero"]
    figure, axes = _axes(6)
    losses = list(dict.fromkeys(regret.loss for regret in found))
    for axis, metric in zip(axes, PAPER_METRICS, strict=True):
        for number, loss in enumerate(losses):
            line = [r for r in found if r.loss == loss and r.metric == metric]
            if line:
                axis.errorbar(
                    [r.dependence for r in line], [r.mean for r in line], [r.error for r in line],
                    label=loss, color=_colour(number, loss), linewidth=3 if loss == "zlpr" else 1.4,
                    zorder=3 if loss == "zlpr" else 2, capsize=2,
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


def _colour(number: int, loss: str) -> Any:
    import matplotlib as mpl

    return BLUE if loss == "zlpr" else mpl.colormaps["tab20"](number % 20)


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
