"""LightGBM's module of this name: its plots. ``pvtree.front.plotting`` has more."""

from pvtree.front.plotting import (
    create_tree_digraph,
    plot_importance,
    plot_metric,
    plot_split_value_histogram,
    plot_tree,
)

__all__ = ["create_tree_digraph", "plot_importance", "plot_metric", "plot_split_value_histogram", "plot_tree"]
