"""Plots of a model: feature importance and single trees."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import numpy as np

from pvtree.errors import InvalidDataError, InvalidParameterError, InvalidTypeError, public
from pvtree.front.plotting.axes import INK, finish, load_package, make_axes
from pvtree.model.tree_graph import MAX_CATEGORIES, Drawn, draw, to_dot
from pvtree.parameters.rule_kinds import integer

if TYPE_CHECKING:
    from pvtree.model.model import Model

BAR, LEAF, SPLIT = "#4477aa", "#e8f3e8", "#e6eef7"


@public
def plot_importance(
    booster: Any,
    ax: Any = None,
    height: float = 0.6,
    xlim: tuple[float, float] | None = None,
    ylim: tuple[float, float] | None = None,
    title: str | None = "Feature importance",
    xlabel: str | None = "Feature importance",
    ylabel: str | None = "Features",
    importance_type: str = "auto",
    max_num_features: int | None = None,
    ignore_zero: bool = True,
    figsize: tuple[float, float] | None = None,
    dpi: int | None = None,
    grid: bool = True,
    precision: int | None = 3,
    **kwargs: Any,
) -> Any:
    """Plot the importance of features as bars, the most important on top.

    Parameters
    ----------
    booster : estimator, Booster or Model
        The model; an estimator must be fitted.
    ax : matplotlib.axes.Axes or None, default=None
        Where to draw. None for a new figure of ``figsize`` (inches) and ``dpi``.
    height : float, default=0.6
        The height of a bar. Greater than 0.
    xlim, ylim : tuple of float or None, default=None
        The limits of the axes.
    title, xlabel, ylabel : str or None
        The texts of the plot; None for no text.
    importance_type : {"auto", "split", "gain"}, default="auto"
        Count splits, or sum up their gains. "auto" is the estimator's ``importance_type``, otherwise "split".
    max_num_features : int or None, default=None
        Show only this many features. At least 1.
    ignore_zero : bool, default=True
        Leave out features that no tree splits on.
    grid : bool, default=True
        Whether to draw a grid.
    precision : int or None, default=3
        Digits after the decimal point of gains. None for as many as needed.
    **kwargs
        Passed to matplotlib's ``barh``.
    """
    model = model_of(booster)
    kind = getattr(booster, "importance_type", "split") if importance_type == "auto" else importance_type
    xlabel = None if xlabel is None else xlabel.replace("@importance_type@", kind)
    importance = model.feature_importance(kind)
    names = np.asarray(model.column_names())
    order = np.argsort(importance, kind="stable")
    order = order[importance[order] > 0] if ignore_zero else order
    if max_num_features is not None:
        integer("", 1).check("max_num_features", max_num_features)
        order = order[-max_num_features:]
    if not len(order):
        raise InvalidDataError("The model has no splits, so no feature has an importance above 0; train more trees.")
    ax = make_axes(ax, figsize or (7.0, max(2.0, 0.9 + 0.3 * len(order))), dpi)
    bars = ax.barh(np.arange(len(order)), importance[order], height=height, **{"color": BAR, **kwargs})
    digits = f".{precision}f" if kind == "gain" and precision is not None else "g"
    shown = [f"{value:{digits}}" for value in importance[order]]
    ax.bar_label(bars, shown, padding=3, color=INK, fontsize="small")
    ax.set_yticks(np.arange(len(order)), names[order])
    ax.margins(x=0.12, y=0.02)
    ax.set(title=title, xlabel=xlabel, ylabel=ylabel)
    finish(ax, xlim, ylim, grid, "x")
    return ax


@public
def create_tree_digraph(
    booster: Any,
    tree_index: int = 0,
    show_info: Collection[str] | None = None,
    precision: int | None = 3,
    orientation: str = "horizontal",
    example_case: None = None,
    max_category_values: int = MAX_CATEGORIES,
    **kwargs: Any,
) -> Any:
    """Make a graphviz object of a tree, which graphviz's program ``dot`` draws.

    Without the graphviz package, ``Model.to_dot`` gives the same text.

    Parameters
    ----------
    booster, tree_index, show_info, precision, orientation, example_case, max_category_values
        As in ``plot_tree``.
    **kwargs
        Passed to ``graphviz.Source``.
    """
    drawn = _drawn(booster, tree_index, show_info, precision, example_case, max_category_values)
    graphviz = load_package("graphviz")
    return graphviz.Source(to_dot(drawn, f"tree {tree_index}", _checked(orientation)), **kwargs)


@public
def plot_tree(
    booster: Any,
    ax: Any = None,
    tree_index: int = 0,
    figsize: tuple[float, float] | None = None,
    dpi: int | None = None,
    show_info: Collection[str] | None = None,
    precision: int | None = 3,
    orientation: str = "horizontal",
    example_case: None = None,
    max_category_values: int = MAX_CATEGORIES,
) -> Any:
    """Plot a tree with matplotlib: splits in blue, leaves in green.

    Parameters
    ----------
    booster : estimator, Booster or Model
        The model; an estimator must be fitted.
    ax : matplotlib.axes.Axes or None, default=None
        Where to draw. None for a new figure of ``figsize`` (inches) and ``dpi``.
    tree_index : int, default=0
        The number of the tree. From 0.
    show_info : list of str or None, default=None
        What to show in the nodes besides the split, such as "split_gain" or "leaf_count".
    precision : int or None, default=3
        Digits after the decimal point.
    orientation : {"horizontal", "vertical"}, default="horizontal"
        Whether the root is on the left or on top.
    example_case : None
        Not supported.
    max_category_values : int
        How many categories of a split to show.
    """
    drawn = _drawn(booster, tree_index, show_info, precision, example_case, max_category_values)
    across = _checked(orientation) == "horizontal"
    ax = make_axes(ax, figsize or _size(drawn, across), dpi)
    depth, place = drawn.place.T
    x, y = (depth, -place) if across else (place, -depth)
    for parent, child, word in drawn.edges:
        ax.plot([x[parent], x[child]], [y[parent], y[child]], color="#999999", linewidth=1, zorder=1)
        middle = (x[parent] + x[child]) / 2, (y[parent] + y[child]) / 2
        box = {"facecolor": "white", "edgecolor": "none", "pad": 0.8}
        ax.text(*middle, word, ha="center", va="center", fontsize=7, color="#666666", bbox=box, zorder=2)
    for node, label in enumerate(drawn.labels):
        colour = LEAF if drawn.is_leaf[node] else SPLIT
        style = {"boxstyle": "round,pad=0.35", "facecolor": colour, "edgecolor": "#8899aa", "linewidth": 0.8}
        ax.text(x[node], y[node], label, ha="center", va="center", fontsize=8, color=INK, bbox=style, zorder=3)
    room = 0.45 if across else 0.6
    ax.set_xlim(x.min() - room, x.max() + room)
    ax.set_ylim(y.min() - 0.6, y.max() + 0.6)
    ax.axis("off")
    return ax


def _drawn(
    booster: Any,
    tree_index: int,
    show_info: Collection[str] | None,
    precision: int | None,
    example_case: None,
    max_categories: int,
) -> Drawn:
    if example_case is not None:
        raise InvalidParameterError("example_case is not supported; leave it out.")
    return draw(model_of(booster), tree_index, show_info, _digits(precision), max_categories)


def model_of(booster: Any) -> Model:
    """The model of an estimator or a Booster, or the Model itself."""
    from pvtree.model.model import Model

    model = getattr(booster, "model_", booster)
    if not isinstance(model, Model):
        raise InvalidTypeError(
            f"booster must be a fitted estimator, a Booster or a Model, got {type(booster).__name__}."
        )
    return model


def _size(drawn: Drawn, across: bool) -> tuple[float, float]:
    """The size of a figure, in inches, with room for all leaves side by side and for the longest label."""
    n_leaves, depth = int(drawn.is_leaf.sum()), int(drawn.place[:, 0].max())
    lines = max(label.count("\n") + 1 for label in drawn.labels)
    # Widths of the widest split and the widest leaf. Splits of one level are at least one and a half leaves apart.
    split, leaf = (
        0.075 * max((len(line) for n in np.flatnonzero(kind) for line in drawn.labels[n].split("\n")), default=0) + 0.3
        for kind in (~drawn.is_leaf, drawn.is_leaf)
    )
    if across:
        return max(4.0, (depth + 1) * (max(split, leaf) + 0.7)), max(2.5, n_leaves * (0.2 + 0.17 * lines))
    return max(4.0, n_leaves * max(leaf, split / 1.5)), max(3.0, (depth + 1) * (0.6 + 0.2 * lines))


def _digits(precision: int | None) -> int:
    return 3 if precision is None else precision


def _checked(orientation: str) -> str:
    if orientation not in ("horizontal", "vertical"):
        raise InvalidParameterError(f"orientation must be 'horizontal' or 'vertical', got {orientation!r}.")
    return orientation
