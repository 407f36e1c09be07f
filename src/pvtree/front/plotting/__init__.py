"""Plots of models and trainings, where LightGBM has them with its signatures, drawn by matplotlib and graphviz."""

from pvtree.front.plotting.histogram_plots import plot_split_value_histogram
from pvtree.front.plotting.metric_plots import plot_metric
from pvtree.front.plotting.model_plots import plot_importance
from pvtree.front.plotting.row_plots import plot_calibration, plot_partial_dependence
from pvtree.front.plotting.traffic_plots import plot_certificates, plot_traffic
from pvtree.front.plotting.tree_plots import create_tree_digraph, plot_tree

__all__ = [
    "create_tree_digraph",
    "plot_calibration",
    "plot_certificates",
    "plot_importance",
    "plot_metric",
    "plot_partial_dependence",
    "plot_split_value_histogram",
    "plot_traffic",
    "plot_tree",
]
