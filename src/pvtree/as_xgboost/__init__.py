"""The same estimators under XGBoost's names, with XGBoost's defaults: ``import pvtree.as_xgboost as xgb``.

Trees are grown by the same code. Three things differ from the estimators of ``pvtree``: the defaults (depth-wise trees
of depth 6, a learning rate of 0.3, a reg_lambda of 1, leaves of a single row), the scale of the hessian of softmax and
of rankers, and early stopping, which watches the last metric of the last evaluation set.
"""

from pvtree.as_xgboost import callback, core, plotting, sklearn, training
from pvtree.as_xgboost.booster import Booster
from pvtree.as_xgboost.config import build_info, config_context, get_config, set_config
from pvtree.as_xgboost.estimators import DEFAULTS as DEFAULTS
from pvtree.as_xgboost.estimators import XGBClassifier, XGBModel, XGBRegressor
from pvtree.as_xgboost.forests import XGBRFClassifier, XGBRFRegressor
from pvtree.as_xgboost.matrix import DataIter, DMatrix, ExtMemQuantileDMatrix, QuantileDMatrix
from pvtree.as_xgboost.plots import plot_importance, plot_tree, to_graphviz
from pvtree.as_xgboost.ranker import XGBRanker
from pvtree.as_xgboost.training import cv, train

_CLASSES = (
    Booster, DataIter, DMatrix, ExtMemQuantileDMatrix, QuantileDMatrix, XGBClassifier, XGBModel, XGBRanker,
    XGBRegressor, XGBRFClassifier, XGBRFRegressor,
)  # fmt: skip
_FUNCTIONS = (build_info, config_context, cv, get_config, set_config, plot_importance, plot_tree, to_graphviz, train)

__all__ = [
    "Booster",
    "DMatrix",
    "DataIter",
    "ExtMemQuantileDMatrix",
    "QuantileDMatrix",
    "XGBClassifier",
    "XGBModel",
    "XGBRFClassifier",
    "XGBRFRegressor",
    "XGBRanker",
    "XGBRegressor",
    "build_info",
    "callback",
    "config_context",
    "core",
    "cv",
    "get_config",
    "plot_importance",
    "plot_tree",
    "plotting",
    "set_config",
    "sklearn",
    "to_graphviz",
    "train",
    "training",
]

# Pickles and tracebacks must not depend on where a file lies.
for _public in (*_CLASSES, *_FUNCTIONS):
    _public.__module__ = __name__


def __getattr__(name: str) -> str:
    """The version is pvtree's."""
    if name == "__version__":
        import pvtree

        return pvtree.__version__
    raise AttributeError(f"module 'pvtree.as_xgboost' has no attribute {name!r}")
