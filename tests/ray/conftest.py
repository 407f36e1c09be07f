"""One Ray cluster for all tests of this folder: three nodes, each with processes of its own, on this machine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

SUPPORT = Path(__file__).resolve().parents[1] / "support"


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    pytest.importorskip("ray.train")
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ["RAY_TRAIN_V2_ENABLED"] = "1"
    # What tests send to actors is imported there.
    paths = [
        str(SUPPORT),
        *(str(SUPPORT.with_name(name)) for name in ("comm", "ray")),
        os.environ.get("PYTHONPATH", ""),
    ]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    import ray
    from ray.cluster_utils import Cluster

    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 4, "include_dashboard": False})
    for _ in range(2):
        nodes.add_node(num_cpus=2)
    nodes.wait_for_nodes()
    ray.init(address=nodes.address, log_to_driver=False, logging_level="ERROR")
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield nodes
    ray.shutdown()
    nodes.shutdown()
