"""Training functions on Ray Train's workers (``pip install 'pvtree[ray]'``); for a Dataset alone, ``fit`` is enough."""

from pvtree.errors import MissingDependencyError

try:
    import ray.train.v2 as _needed  # noqa: F401
except ImportError as error:
    raise MissingDependencyError(
        f"pvtree.ray needs Ray 2.60 or later with Ray Data and Ray Train ({error}); install it: pip install "
        "'pvtree[ray]'."
    ) from error

from pvtree.engines.ray.backend import PvtreeConfig, get_comm
from pvtree.engines.ray.reporting import checkpoint_folder, load, report, report_model
from pvtree.engines.ray.trainer import PvtreeTrainer

for _each in (PvtreeConfig, PvtreeTrainer, checkpoint_folder, get_comm, load, report, report_model):
    _each.__module__ = "pvtree.ray"  # so that pickles do not depend on where the files lie

__all__ = ["PvtreeConfig", "PvtreeTrainer", "checkpoint_folder", "get_comm", "load", "report", "report_model"]
