"""The scikit-learn face of pvtree: estimators that read data, call the trainer and keep its model."""

from pvtree.front.estimators.forest import (
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from pvtree.front.estimators.gbdt import GBDTClassifier, GBDTRanker, GBDTRegressor

__all__ = [
    "DecisionTreeClassifier",
    "DecisionTreeRegressor",
    "GBDTClassifier",
    "GBDTRanker",
    "GBDTRegressor",
    "RandomForestClassifier",
    "RandomForestRegressor",
]
