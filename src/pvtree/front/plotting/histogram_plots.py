"""A plot of the thresholds that the splits of a feature compare with."""

from __future__ import annotations

from typing import Any

import numpy as np

from pvtree.errors import InvalidDataError, public
from pvtree.front.plotting.axes import BLUE, finish, make_axes
from pvtree.front.plotting.model_plots import model_of
from pvtree.model.tree_values import thresholds_of


@public
def plot_split_value_histogram(
    booster: Any,
    feature: int | str,
    bins: Any = None,
    ax: Any = None,
    width_coef: float = 0.8,
    xlim: tuple[float, float] | None = None,
    ylim: tuple[float, float] | None = None,
    title: str | None = "Split value histogram for feature with @index/name@ @feature@",
    xlabel: str | None = "Feature split value",
    ylabel: str | None = "Count",
    figsize: tuple[float, float] | None = None,
    dpi: int | None = None,
    grid: bool = True,
    **kwargs: Any,
) -> Any:
    """Plot how often a feature's splits lie in each bin of thresholds.

    Parameters
    ----------
    booster : estimator, Booster or Model
        The model; an estimator must be fitted.
    feature : int or str
        The number or the name of a numeric feature.
    bins : int, str or None, default=None
        As in numpy's ``histogram``; None for one bin per threshold.
    ax : matplotlib.axes.Axes or None, default=None
        Where to draw. None for a new figure of ``figsize`` (inches) and ``dpi``.
    width_coef : float, default=0.8
        The width of a bar as a share of its bin. Greater than 0.
    xlim, ylim : tuple of float or None, default=None
        The limits of the axes.
    title, xlabel, ylabel : str or None
        The texts of the plot; None for no text. "@feature@" and "@index/name@" in the title are replaced.
    grid : bool, default=True
        Whether to draw a grid.
    **kwargs
        Passed to matplotlib's ``bar``.
    """
    model = model_of(booster)
    names = model.column_names()
    if isinstance(feature, str) and feature not in names:
        raise InvalidDataError(f"There is no feature {feature!r}; use the name or the number of a column.")
    values = thresholds_of(model, names.index(feature) if isinstance(feature, str) else feature)
    if not len(values):
        raise InvalidDataError(f"No tree splits on the feature {feature!r}, so there is nothing to plot; use another.")
    counts, edges = np.histogram(values, max(1, len(np.unique(values))) if bins is None else bins)
    ax = make_axes(ax, figsize or (7.0, 4.0), dpi)
    centres = (edges[:-1] + edges[1:]) / 2
    ax.bar(centres, counts, width=width_coef * np.diff(edges), **{"color": BLUE, **kwargs})
    if title is not None:
        kind = "name" if isinstance(feature, str) else "index"
        ax.set_title(title.replace("@feature@", str(feature)).replace("@index/name@", kind))
    if xlabel is not None:
        ax.set_xlabel(xlabel)
    if ylabel is not None:
        ax.set_ylabel(ylabel)
    finish(ax, xlim, ylim, grid, "y")
    return ax
