"""XGBoost's module of this name: its estimators."""

from pvtree.as_xgboost.estimators import XGBClassifier, XGBModel, XGBRegressor
from pvtree.as_xgboost.forests import XGBRFClassifier, XGBRFRegressor
from pvtree.as_xgboost.ranker import XGBRanker

__all__ = ["XGBClassifier", "XGBModel", "XGBRFClassifier", "XGBRFRegressor", "XGBRanker", "XGBRegressor"]
