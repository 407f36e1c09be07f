"""What all plots share: colours, axes, notes and their finish."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from pvtree.errors import InvalidParameterError, MissingDependencyError

# Okabe and Ito's colours, which all readers can tell apart.
BLUE, RED, GREEN, PINK, SKY, ORANGE = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00"
COLOURS = (BLUE, RED, GREEN, PINK, SKY, ORANGE, "#999999", "#8c6d31", "#5e4fa2")
DASHES = ("-", (0, (5, 1.5)), (0, (1.5, 1.5)), (0, (5, 1.5, 1.5, 1.5)))
INK, SOFT, FAINT = "#333333", "#666666", "#dddddd"


def load_package(package: str) -> Any:
    try:
        return importlib.import_module(package)
    except ImportError:
        name = package.partition(".")[0]
        raise MissingDependencyError(f"Plots need {name}; install it with pip install 'pvtree[plot]'.") from None


def make_axes(ax: Any, figsize: tuple[float, float], dpi: int | None) -> Any:
    return stacked_axes(ax, [1.0], figsize, dpi)[0]


def stacked_axes(ax: Any, heights: Sequence[float], figsize: tuple[float, float], dpi: int | None) -> list[Any]:
    """The given axes, or new ones below each other, as high as ``heights`` say in relation to each other."""
    n_axes = len(heights)
    if ax is None:
        pyplot = load_package("matplotlib.pyplot")
        _, made = pyplot.subplots(
            n_axes, 1, sharex=True, figsize=figsize, dpi=dpi, layout="constrained", squeeze=False,
            gridspec_kw={"height_ratios": list(heights)},
        )  # fmt: skip
        return list(made[:, 0])
    given = list(np.atleast_1d(np.asarray(ax, dtype=object)))
    if len(given) != n_axes:
        raise InvalidParameterError(f"ax must hold {n_axes} axes, got {len(given)}; pass as many, or None.")
    return given


def titled(ax: Any, title: str | None, note: str) -> None:
    """A title, and a line of smaller text between it and the axes."""
    pad = 6.0
    if note:
        ax.annotate(
            note, (0.5, 1.0), (0, 5), "axes fraction", "offset points", ha="center", fontsize="small", color=SOFT
        )
        pad += 14.0
    if title is not None:
        ax.set_title(title, pad=pad)


def legend_beside(ax: Any) -> None:
    """A legend to the right of stacked areas, in the order of the stack."""
    handles, labels = ax.get_legend_handles_labels()
    ax.legend(handles[::-1], labels[::-1], loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)


def distribution(ax: Any, edges: np.ndarray, counts: np.ndarray) -> None:
    """How many rows lie where, as bars at the foot of a plot, which leave the scale of its axes alone."""
    tops = 0.14 * counts / max(1.0, float(counts.max(initial=0.0)))
    at_foot = ax.get_xaxis_transform()  # x in data, y as a share of the height
    ax.bar(edges[:-1], tops, np.diff(edges), align="edge", transform=at_foot, color=FAINT, edgecolor="white", zorder=0)


def finish(ax: Any, xlim: Any, ylim: Any, grid: bool, axis: str) -> None:
    if xlim is not None:
        ax.set_xlim(xlim)
    if ylim is not None:
        ax.set_ylim(ylim)
    if grid:
        ax.grid(axis=axis, color=FAINT, linewidth=0.8)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
