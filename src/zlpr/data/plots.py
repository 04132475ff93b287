"""Three pictures of a data set: how often labels come, how many come together, and which."""

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from zlpr._counted import counted
from zlpr._escape import for_terminal
from zlpr._palette import BLUE, GREY
from zlpr.data.dataset import Dataset

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAMED = 60
"""Up to so many labels all have a bar with their name; beyond, they are drawn by rank."""

TOGETHER = 20
"""So many labels, the most frequent, are shown in the matrix of co-occurrence."""

_FIRST_CHINESE = 0x2E80  # from here on come the signs of Chinese, Japanese and Korean
_CHINESE_FONTS = ("Noto Sans CJK SC", "Source Han Sans SC", "WenQuanYi Zen Hei", "SimHei")


def plot(dataset: Dataset) -> "Figure":
    """Draw label frequency, sizes of label sets, and label co-occurrence side by side.

    The matrix on the right shows, for the most frequent labels, the share of the samples with the
    row's label that also have the column's.

    Examples:
        >>> from zlpr.data import demo, plots
        >>> plots.plot(demo.make(500)).savefig("tickets.png")  # doctest: +SKIP
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context({"font.size": 9, "text.parse_math": False}):  # a name may hold dollars
        bars = dataset.num_labels if dataset.num_labels <= NAMED else 0
        figure = Figure(figsize=(16, max(5.5, 1.2 + 0.2 * bars)), layout="constrained")
        frequency, sizes, together = figure.subplots(1, 3, width_ratios=(1, 0.8, 1.1))
        draw_frequency(frequency, dataset)
        draw_set_sizes(sizes, dataset)
        draw_co_occurrence(together, figure, dataset)
        if dataset.name:
            sizes_in_words = (
                f"{counted(len(dataset), 'sample')}, {counted(dataset.num_labels, 'label')}"
            )
            figure.suptitle(f"{for_terminal(dataset.name)}: {sizes_in_words}")
    return figure


def draw_frequency(axes: Any, dataset: Dataset) -> None:
    """Samples per label, the most frequent first; by rank where there are too many to name."""
    counts = label_counts(dataset)
    order = np.argsort(-counts, kind="stable")
    axes.set_title("label frequency")
    if len(order) <= NAMED:
        axes.barh(range(len(order)), counts[order], color=BLUE)
        axes.set_yticks(range(len(order)), tick_names(dataset, order), family=fonts())
        axes.invert_yaxis()
        axes.set_xlabel("samples")
    else:
        occurring = counts[order][counts[order] > 0]
        axes.loglog(np.arange(1, len(occurring) + 1), occurring, color=BLUE, linewidth=2)
        axes.set_xlabel("rank of the label")
        axes.set_ylabel("samples")
        _name_some(axes, dataset, order[: len(occurring)], occurring)
    _clean(axes)


def _name_some(axes: Any, dataset: Dataset, order: Any, counts: Any) -> None:
    """Names along the curve of frequencies, about evenly spaced on its scale."""
    places = np.unique(np.geomspace(1, len(order), 9).round().astype(int)) - 1
    for place, name in zip(places, tick_names(dataset, order[places]), strict=True):
        axes.plot(place + 1, counts[place], "o", color=BLUE, markersize=4)
        axes.annotate(
            name,
            (place + 1, counts[place]),
            xytext=(5, 4),
            textcoords="offset points",
            fontsize=8,
            family=fonts(),
        )
    axes.margins(x=0.12)


def draw_set_sizes(axes: Any, dataset: Dataset) -> None:
    """Share of the samples by how many labels they have."""
    sizes = np.diff(dataset.labels.indptr)
    shares = np.bincount(sizes) / max(len(sizes), 1)
    axes.set_title("labels per sample")
    axes.bar(np.arange(len(shares)), 100 * shares, color=BLUE)
    axes.set_xlabel("labels")
    axes.set_ylabel("samples, %")
    axes.xaxis.get_major_locator().set_params(integer=True)
    _clean(axes)


def draw_co_occurrence(axes: Any, figure: Any, dataset: Dataset) -> None:
    """For the most frequent labels, how likely the column's label is where the row's is."""
    shown, shares = co_occurrence(dataset)
    names = tick_names(dataset, shown)
    others = np.where(np.eye(len(shown), dtype=bool), np.nan, 100 * shares)
    known = others[~np.isnan(others)]
    image = axes.imshow(others, cmap="Blues", vmin=0, vmax=max(1.0, known.max(initial=0.0)))
    axes.set_facecolor(GREY)  # a label with itself, which says nothing
    figure.colorbar(image, ax=axes, label="%", shrink=0.8)
    which = "" if dataset.num_labels <= len(names) else f",\n{len(names)} most frequent labels"
    axes.set_title(f"row's samples that have the column's label{which}")
    axes.set_xticks(range(len(names)), names, rotation=90, family=fonts())
    axes.set_yticks(range(len(names)), names, family=fonts())


def label_counts(dataset: Dataset) -> NDArray[np.int64]:
    """Samples per label, shape (labels,)."""
    return np.asarray(dataset.labels.sum(axis=0)).ravel().astype(np.int64)


def co_occurrence(dataset: Dataset, most: int = TOGETHER) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """The most frequent labels, and P(column's label | row's label) among them.

    Returns:
        Label columns of shape (n,), the most frequent first, and shares of shape (n, n); the
        diagonal is 1 for every label that occurs.
    """
    counts = label_counts(dataset)
    shown = np.argsort(-counts, kind="stable")[:most]
    chosen = dataset.labels[:, shown].astype(np.int64)
    together = (chosen.T @ chosen).toarray()
    return shown, together / np.maximum(counts[shown], 1)[:, None]


def tick_names(dataset: Dataset, labels: Sequence[int] | NDArray[np.int64]) -> list[str]:
    """Names for an axis; numbers where names are Chinese and no font here can draw them."""
    names = [short(dataset.label_names[label]) for label in labels]
    drawable = len(fonts()) > 1 or all(ord(c) < _FIRST_CHINESE for name in names for c in name)
    return names if drawable else [f"label {label}" for label in labels]


def short(name: str, most: int = 24) -> str:
    """A label's name on one line, cut where it is too long for an axis."""
    name = for_terminal(name)
    return name if len(name) <= most else f"{name[: most - 1]}…"


def _clean(axes: Any) -> None:
    axes.spines[["top", "right"]].set_visible(False)


@functools.cache
def fonts() -> list[str]:
    """The usual font, then the Chinese ones that are installed, for labels in Chinese."""
    from matplotlib import font_manager

    installed = set(font_manager.get_font_names())
    return ["DejaVu Sans", *(font for font in _CHINESE_FONTS if font in installed)]
