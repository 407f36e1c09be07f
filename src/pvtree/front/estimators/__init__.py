"""The scikit-learn face of pvtree: estimators that read data, call the trainer and keep its model."""

from pvtree.front.estimators.forest import (
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from pvtree.front.estimators.gbdt import GBDTClassifier, GBDTModel, GBDTRegressor
from pvtree.front.estimators.lightgbm_names import LGBMClassifier, LGBMModel, LGBMRanker, LGBMRegressor
from pvtree.front.estimators.loading import load
from pvtree.front.estimators.ranker import GBDTRanker

__all__ = [
    "DecisionTreeClassifier",
    "DecisionTreeRegressor",
    "GBDTClassifier",
    "GBDTModel",
    "GBDTRanker",
    "GBDTRegressor",
    "LGBMClassifier",
    "LGBMModel",
    "LGBMRanker",
    "LGBMRegressor",
    "RandomForestClassifier",
    "RandomForestRegressor",
    "load",
]
