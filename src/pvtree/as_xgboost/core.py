"""XGBoost's module of this name: its error, matrices and Booster."""

from pvtree.as_xgboost.booster import Booster
from pvtree.as_xgboost.matrix import DataIter, DMatrix, ExtMemQuantileDMatrix, QuantileDMatrix
from pvtree.errors import PvtreeError as XGBoostError

__all__ = ["Booster", "DMatrix", "DataIter", "ExtMemQuantileDMatrix", "QuantileDMatrix", "XGBoostError"]
