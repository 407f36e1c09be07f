"""The same estimators under XGBoost's names, with XGBoost's defaults: ``import pvtree.as_xgboost as xgb``.

Trees are grown by the same code. Three things differ from the estimators of ``pvtree``: the defaults (depth-wise trees
of depth 6, a learning rate of 0.3, a reg_lambda of 1, leaves of a single row), the scale of the hessian of softmax and
of rankers, and early stopping, which watches the last metric of the last evaluation set.
"""

from pvtree.as_xgboost.estimators import DEFAULTS as DEFAULTS
from pvtree.as_xgboost.estimators import XGBClassifier, XGBRanker, XGBRegressor
from pvtree.as_xgboost.training import Booster, DMatrix, train

__all__ = ["Booster", "DMatrix", "XGBClassifier", "XGBRanker", "XGBRegressor", "train"]

# Pickles and tracebacks must not depend on where a file lies.
for _public in (Booster, DMatrix, XGBClassifier, XGBRanker, XGBRegressor, train):
    _public.__module__ = __name__
