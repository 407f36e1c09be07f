"""Plots of single trees, by matplotlib or graphviz."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from pvtree.errors import InvalidParameterError, public
from pvtree.front.plotting.axes import INK, SOFT, load_package, make_axes
from pvtree.front.plotting.model_plots import model_of
from pvtree.front.plotting.tree_layout import EDGE_FONT, NODE_FONT, Layout, font_scale, lay_out
from pvtree.model.tree_graph import MAX_CATEGORIES, Drawn, draw, to_dot

LEAF, SPLIT = "#e8f3e8", "#e6eef7"
MARGIN = 0.1  # inches around the tree
LARGEST = 24.0  # inches in each direction, 2,400 pixels; larger trees are drawn with smaller letters


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
    """Plot a tree with matplotlib: splits in blue, leaves in green with round corners.

    Parameters
    ----------
    booster : estimator, Booster or Model
        The model; an estimator must be fitted.
    ax : matplotlib.axes.Axes or None, default=None
        Where to draw. None for a new figure of ``figsize`` (inches; by default as large as the tree needs, at most 24
        in each direction) and ``dpi``.
    tree_index : int, default=0
        The number of the tree. From 0.
    show_info : list of str or None, default=None
        What to show in the nodes besides the split, such as "split_gain" or "leaf_count".
    precision : int or None, default=3
        The most digits after the decimal point.
    orientation : {"horizontal", "vertical"}, default="horizontal"
        Whether the root is on the left or on top.
    example_case : None
        Not supported.
    max_category_values : int
        How many categories of a split to show.
    """
    drawn = _drawn(booster, tree_index, show_info, precision, example_case, max_category_values)
    across = _checked(orientation) == "horizontal"
    layout = lay_out(drawn, across)
    width, height = (each + 2 * MARGIN for each in layout.whole)
    ax = make_axes(ax, figsize or (min(max(width, 2.0), LARGEST), min(max(height, 1.0), LARGEST)), dpi)
    ax.set_xlim(-MARGIN, layout.whole[0] + MARGIN)
    ax.set_ylim(-MARGIN, layout.whole[1] + MARGIN)
    ax.axis("off")
    room = ax.get_position().bounds[2:] if ax.figure.get_layout_engine() is None else (1.0, 1.0)
    size = ax.figure.get_size_inches() * room
    scale = font_scale(size, (width, height))
    x, y = layout.centres.T
    for parent, child, word in drawn.edges:
        ax.plot([x[parent], x[child]], [y[parent], y[child]], color="#999999", linewidth=scale, zorder=1)
        share = _place_of_word(layout, parent, child, across)
        middle = x[parent] + share * (x[child] - x[parent]), y[parent] + share * (y[child] - y[parent])
        box = {"facecolor": "white", "edgecolor": "none", "pad": 0.8}
        style = {"fontsize": EDGE_FONT * scale, "color": SOFT, "bbox": box, "zorder": 2}
        ax.text(*middle, word, ha="center", va="center", **style)
    for node, label in enumerate(drawn.labels):
        is_leaf = bool(drawn.is_leaf[node])
        shape = f"{'round' if is_leaf else 'square'},pad=0.35"
        box = {"boxstyle": shape, "facecolor": LEAF if is_leaf else SPLIT, "edgecolor": "#8899aa", "linewidth": 0.8}
        style = {"fontsize": NODE_FONT * scale, "color": INK, "bbox": box, "zorder": 3, "parse_math": False}
        ax.text(x[node], y[node], label, ha="center", va="center", **style)
    return ax


def _place_of_word(layout: Layout, parent: int, child: int, across: bool) -> float:
    """Where on an edge its answer stands: halfway between the borders of two nodes, or right above the lower one."""
    along = 0 if across else 1
    length = abs(layout.centres[child, along] - layout.centres[parent, along])
    until = length - layout.sizes[child, along] / 2
    start = layout.sizes[parent, along] / 2 if across else until - 0.3
    return float((start + until) / 2 / length)


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
    return draw(model_of(booster), tree_index, show_info, 3 if precision is None else precision, max_categories)


def _checked(orientation: str) -> str:
    if orientation not in ("horizontal", "vertical"):
        raise InvalidParameterError(f"orientation must be 'horizontal' or 'vertical', got {orientation!r}.")
    return orientation
