"""Plots of models and trainings with LightGBM's signatures, drawn by matplotlib and graphviz."""

from pvtree.front.plotting.histogram_plots import plot_split_value_histogram
from pvtree.front.plotting.model_plots import create_tree_digraph, plot_importance, plot_tree
from pvtree.front.plotting.training_plots import plot_metric, plot_traffic

__all__ = [
    "create_tree_digraph",
    "plot_importance",
    "plot_metric",
    "plot_split_value_histogram",
    "plot_traffic",
    "plot_tree",
]
