"""pvtree: decision trees, random forests and gradient boosting on one machine or many (PV-Tree, NIPS 2016)."""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

from pvtree.errors import (
    CommunicationError,
    DivergedError,
    InvalidDataError,
    InvalidParameterError,
    InvalidTypeError,
    MissingDependencyError,
    ModelFileError,
    OutputFileError,
    PeerFailedError,
    PvtreeError,
    WorkerTimeoutError,
)

if TYPE_CHECKING:
    from pvtree import as_xgboost, comm, theory
    from pvtree.comm.user_warnings import SkewWarning, register_logger
    from pvtree.find_split.certificates import Certificate
    from pvtree.find_split.strategy import Votes
    from pvtree.front.estimators import (
        DecisionTreeClassifier,
        DecisionTreeRegressor,
        GBDTClassifier,
        GBDTModel,
        GBDTRanker,
        GBDTRegressor,
        LGBMClassifier,
        LGBMModel,
        LGBMRanker,
        LGBMRegressor,
        RandomForestClassifier,
        RandomForestRegressor,
        load,
    )
    from pvtree.front.functional import Booster, CVBooster, Dataset, Sequence, cv, train
    from pvtree.front.plotting import (
        create_tree_digraph,
        plot_calibration,
        plot_certificates,
        plot_importance,
        plot_metric,
        plot_partial_dependence,
        plot_split_value_histogram,
        plot_traffic,
        plot_tree,
    )
    from pvtree.front.report import live_report
    from pvtree.model.model import Model
    from pvtree.model.tree import Tree
    from pvtree.planning.plan import plan
    from pvtree.reading.files import read_file
    from pvtree.training.callbacks import (
        EarlyStopException,
        checkpoint,
        early_stopping,
        log_evaluation,
        record_evaluation,
        reset_parameter,
    )

    __version__: str

__all__ = [
    "Booster",
    "CVBooster",
    "Certificate",
    "CommunicationError",
    "Dataset",
    "DecisionTreeClassifier",
    "DecisionTreeRegressor",
    "DivergedError",
    "EarlyStopException",
    "GBDTClassifier",
    "GBDTModel",
    "GBDTRanker",
    "GBDTRegressor",
    "InvalidDataError",
    "InvalidParameterError",
    "InvalidTypeError",
    "LGBMClassifier",
    "LGBMModel",
    "LGBMRanker",
    "LGBMRegressor",
    "MissingDependencyError",
    "Model",
    "ModelFileError",
    "OutputFileError",
    "PeerFailedError",
    "PvtreeError",
    "RandomForestClassifier",
    "RandomForestRegressor",
    "Sequence",
    "SkewWarning",
    "Tree",
    "Votes",
    "WorkerTimeoutError",
    "__version__",
    "as_xgboost",
    "checkpoint",
    "comm",
    "create_tree_digraph",
    "cv",
    "early_stopping",
    "live_report",
    "load",
    "log_evaluation",
    "plan",
    "plot_calibration",
    "plot_certificates",
    "plot_importance",
    "plot_metric",
    "plot_partial_dependence",
    "plot_split_value_histogram",
    "plot_traffic",
    "plot_tree",
    "read_file",
    "record_evaluation",
    "register_logger",
    "reset_parameter",
    "theory",
    "train",
]
# LightGBM's modules lie in a folder of their own but are imported as those of lightgbm are: pvtree.sklearn, ...
__path__ = [*__path__, os.path.join(os.path.dirname(__file__), "as_lightgbm")]
# Imported when they are first used.
_MODULES = ("as_xgboost", "comm", "theory", "basic", "callback", "compat", "engine", "plotting", "sklearn")
# The modules of public names that are not in pvtree.front.estimators.
_HOMES = {
    "Certificate": "pvtree.find_split.certificates",
    "Model": "pvtree.model",
    **dict.fromkeys(("SkewWarning", "register_logger"), "pvtree.comm.user_warnings"),
    "live_report": "pvtree.front.report",
    "Tree": "pvtree.model",
    "Votes": "pvtree.find_split.strategy",
    "plan": "pvtree.planning.plan",
    "read_file": "pvtree.reading.files",
    **dict.fromkeys(("Booster", "CVBooster", "Dataset", "Sequence", "cv", "train"), "pvtree.front.functional"),
    **dict.fromkeys(
        (
            "create_tree_digraph",
            "plot_calibration",
            "plot_certificates",
            "plot_importance",
            "plot_metric",
            "plot_partial_dependence",
            "plot_split_value_histogram",
            "plot_traffic",
            "plot_tree",
        ),
        "pvtree.front.plotting",
    ),
    **dict.fromkeys(
        (
            "EarlyStopException",
            "checkpoint",
            "early_stopping",
            "log_evaluation",
            "record_evaluation",
            "reset_parameter",
        ),
        "pvtree.training.callbacks",
    ),
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, because scikit-learn and numba take a second or two."""
    if name == "__version__":
        from importlib.metadata import version

        return version("pvtree")
    if name in _MODULES:
        return importlib.import_module(f"pvtree.{name}")
    if name in __all__:
        return getattr(importlib.import_module(_HOMES.get(name, "pvtree.front.estimators")), name)
    raise AttributeError(f"module 'pvtree' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
