"""What all plots share: colours, axes and their finish."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from pvtree.errors import InvalidParameterError, MissingDependencyError

INK, FAINT = "#333333", "#dddddd"


def load_package(package: str) -> Any:
    try:
        return importlib.import_module(package)
    except ImportError:
        name = package.partition(".")[0]
        raise MissingDependencyError(f"Plots need {name}; install it with pip install 'pvtree[plot]'.") from None


def make_axes(ax: Any, figsize: tuple[float, float], dpi: int | None) -> Any:
    return stacked_axes(ax, 1, figsize, dpi)[0]


def stacked_axes(ax: Any, n_axes: int, figsize: tuple[float, float], dpi: int | None) -> list[Any]:
    """The given axes, or new ones below each other, the first twice as high as the second."""
    if ax is None:
        pyplot = load_package("matplotlib.pyplot")
        heights = [2.0, 1.0][:n_axes]
        _, made = pyplot.subplots(
            n_axes, 1, sharex=True, figsize=figsize, dpi=dpi, layout="constrained", squeeze=False,
            gridspec_kw={"height_ratios": heights},
        )  # fmt: skip
        return list(made[:, 0])
    given = list(np.atleast_1d(np.asarray(ax, dtype=object)))
    if len(given) != n_axes:
        raise InvalidParameterError(f"ax must hold {n_axes} axes, got {len(given)}; pass as many, or None.")
    return given


def finish(ax: Any, xlim: Any, ylim: Any, grid: bool, axis: str) -> None:
    if xlim is not None:
        ax.set_xlim(xlim)
    if ylim is not None:
        ax.set_ylim(ylim)
    if grid:
        ax.grid(axis=axis, color=FAINT, linewidth=0.8)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
