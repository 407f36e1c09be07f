"""XGBoost's module of this name: its plots."""

from pvtree.as_xgboost.plots import plot_importance, plot_tree, to_graphviz

__all__ = ["plot_importance", "plot_tree", "to_graphviz"]
