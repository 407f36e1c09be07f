"""pvtree: decision trees, random forests and gradient boosting on one machine or many (PV-Tree, NIPS 2016)."""

from __future__ import annotations

import importlib
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
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
    from pvtree import as_xgboost, comm
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
    from pvtree.planning import theory
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

# Modules that users import under shorter paths than those of the rooms they lie in.
_PUBLIC_PATHS = {
    "pvtree.ray": "pvtree.engines.ray",
    "pvtree.spark": "pvtree.engines.spark",
    "pvtree.theory": "pvtree.planning.theory",
    # LightGBM's own modules, so that scripts change nothing but the import.
    **{
        f"pvtree.{name}": f"pvtree.front.as_lightgbm.{name}"
        for name in ("basic", "callback", "compat", "engine", "plotting", "sklearn")
    },
}


class _PublicPaths(MetaPathFinder, Loader):
    """Imports ``pvtree.spark`` as another name of the module ``pvtree.engines.spark``, not as a second copy of it."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        public = ".".join(name.split(".", 2)[:2])
        if public not in _PUBLIC_PATHS:
            return None
        return ModuleSpec(name, self, origin=_PUBLIC_PATHS[public] + name.removeprefix(public))

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        assert spec.origin is not None
        module = importlib.import_module(spec.origin)
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Only give the module back its own spec, in place of which Python has put the one made above."""
        assert module.__spec__ is not None
        module.__spec__ = module.__spec__.loader_state


sys.meta_path.insert(0, _PublicPaths())  # before the finder of files, which would load submodules a second time


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, because scikit-learn and numba take a second or two."""
    if name == "__version__":
        from importlib.metadata import version

        return version("pvtree")
    if name in ("as_xgboost", "comm") or f"pvtree.{name}" in _PUBLIC_PATHS:
        return importlib.import_module(f"pvtree.{name}")
    if name in __all__:
        return getattr(importlib.import_module(_HOMES.get(name, "pvtree.front.estimators")), name)
    raise AttributeError(f"module 'pvtree' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
