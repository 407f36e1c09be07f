"""LightGBM's module of this name: training by functions."""

from pvtree.front.functional import CVBooster, cv, train

__all__ = ["CVBooster", "cv", "train"]
