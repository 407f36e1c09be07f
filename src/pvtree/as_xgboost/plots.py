"""XGBoost's plots, drawn by pvtree's."""

from __future__ import annotations

from typing import Any

import numpy as np

from pvtree.errors import InvalidDataError
from pvtree.front import plotting
from pvtree.front.plotting.axes import BLUE, finish, make_axes

_STYLES = ("fmap", "yes_color", "no_color", "condition_node_params", "leaf_node_params", "with_stats")


def plot_importance(
    booster: Any,
    ax: Any = None,
    height: float = 0.2,
    xlim: Any = None,
    ylim: Any = None,
    title: str | None = "Feature importance",
    xlabel: str | None = "Importance score",
    ylabel: str | None = "Features",
    fmap: str = "",
    importance_type: str = "weight",
    max_num_features: int | None = None,
    grid: bool = True,
    show_values: bool = True,
    values_format: str = "{v}",
    **kwargs: Any,
) -> Any:
    """Plot the importance of features as bars.

    Parameters
    ----------
    booster : Booster, estimator or dict
        The model, or the result of ``get_score``.
    importance_type : str, default="weight"
        A kind of ``Booster.get_score``.
    max_num_features : int or None, default=None
        Show only this many features.
    show_values : bool, default=True
        Write the values beside the bars, in the form ``values_format``.
    ax, height, xlim, ylim, title, xlabel, ylabel, grid, **kwargs
        As in ``pvtree.plot_importance``.
    """
    booster = booster.get_booster() if hasattr(booster, "get_booster") else booster
    scores = booster if isinstance(booster, dict) else booster.get_score(importance_type=importance_type)
    if not scores:
        raise InvalidDataError("No feature has an importance, because the model has no splits; train more trees.")
    ordered = sorted(scores.items(), key=lambda pair: pair[1])
    ordered = ordered if max_num_features is None else ordered[-max_num_features:]
    names, values = zip(*ordered, strict=True)
    ax = make_axes(ax, (7.0, max(2.0, 0.9 + 0.3 * len(names))), None)
    places = np.arange(len(names))
    ax.barh(places, values, height=height, **{"color": BLUE, **kwargs})
    if show_values:
        for place, value in zip(places, values, strict=True):
            ax.text(value, place, " " + values_format.format(v=value), va="center")
    ax.set_yticks(places, names)
    for text, put in ((title, ax.set_title), (xlabel, ax.set_xlabel), (ylabel, ax.set_ylabel)):
        if text is not None:
            put(text)
    finish(ax, xlim, ylim, grid, "x")
    return ax


def plot_tree(booster: Any, *, tree_idx: int = 0, num_trees: int | None = None, ax: Any = None, **kwargs: Any) -> Any:
    """Draw a tree; ``num_trees`` is an older name of ``tree_idx``. Other arguments as in ``pvtree.plot_tree``."""
    number = tree_idx if num_trees is None else num_trees
    return plotting.plot_tree(
        booster, ax=ax, tree_index=number, **{k: v for k, v in kwargs.items() if k not in (*_STYLES, "rankdir")}
    )


def to_graphviz(booster: Any, *, tree_idx: int = 0, num_trees: int | None = None, **kwargs: Any) -> Any:
    """A tree as a graph of graphviz, from left to right with ``rankdir="LR"``.

    XGBoost's colours and styles of nodes and edges have no effect; other arguments are those of
    ``pvtree.create_tree_digraph``.
    """
    number = tree_idx if num_trees is None else num_trees
    others = {name: value for name, value in kwargs.items() if name not in _STYLES}
    if (direction := others.pop("rankdir", None)) is not None:
        others["orientation"] = "horizontal" if direction == "LR" else "vertical"
    return plotting.create_tree_digraph(booster, tree_index=number, **others)
