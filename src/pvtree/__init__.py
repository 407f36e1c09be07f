"""pvtree: decision trees, forests and boosting whose workers vote (PV-Tree, NIPS 2016)."""

from __future__ import annotations

import importlib
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
    from pvtree import theory
    from pvtree.estimators import (
        DecisionTreeClassifier,
        DecisionTreeRegressor,
        GBDTClassifier,
        GBDTRanker,
        GBDTRegressor,
        RandomForestClassifier,
        RandomForestRegressor,
    )
    from pvtree.files import read_file
    from pvtree.model import Model
    from pvtree.planning import plan

    __version__: str

__all__ = [
    "CommunicationError",
    "DecisionTreeClassifier",
    "DecisionTreeRegressor",
    "DivergedError",
    "GBDTClassifier",
    "GBDTRanker",
    "GBDTRegressor",
    "InvalidDataError",
    "InvalidParameterError",
    "InvalidTypeError",
    "MissingDependencyError",
    "Model",
    "ModelFileError",
    "OutputFileError",
    "PeerFailedError",
    "PvtreeError",
    "RandomForestClassifier",
    "RandomForestRegressor",
    "WorkerTimeoutError",
    "__version__",
    "plan",
    "read_file",
    "theory",
]
# Where a public name is to be found, if not in pvtree.estimators.
_HOMES = {"Model": "pvtree.model", "plan": "pvtree.planning", "read_file": "pvtree.files"}


def __getattr__(name: str) -> Any:
    """Load what is asked for when it is asked for, because scikit-learn and numba take a second or two."""
    if name == "__version__":
        from importlib.metadata import version

        return version("pvtree")
    if name == "theory":
        return importlib.import_module("pvtree.theory")
    if name in __all__:
        return getattr(importlib.import_module(_HOMES.get(name, "pvtree.estimators")), name)
    raise AttributeError(f"module 'pvtree' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
