"""LightGBM's module of this name: its estimators."""

from pvtree.front.estimators import LGBMClassifier, LGBMModel, LGBMRanker, LGBMRegressor

__all__ = ["LGBMClassifier", "LGBMModel", "LGBMRanker", "LGBMRegressor"]
