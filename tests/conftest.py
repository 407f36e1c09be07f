"""Gives the tests a folder for compiled kernels, before anything imports pvtree, the same examples, and an order."""

import os
import signal
from pathlib import Path

import pytest
from hypothesis import settings

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as shells start background jobs; some tests press Ctrl-C
    signal.signal(signal.SIGINT, signal.default_int_handler)
if "NUMBA_CACHE_DIR" not in os.environ:
    os.environ["NUMBA_CACHE_DIR"] = str(Path(__file__).resolve().parent.parent / ".numba_cache")
# The threads of other libraries wait for each other by spinning, long where several tests share the cores.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")
# The same examples in every run. ``make unit PROFILE=random`` draws others, and prints how to repeat one that fails.
settings.register_profile("fixed", derandomize=True, database=None, deadline=None)
settings.register_profile("random", derandomize=False, database=None, deadline=None, print_blob=True)
settings.load_profile("fixed")

# Files that take longest come first, so that no process is left alone with one of them in the end. Those that start
# processes and wait for them alternate with those that compute.
LONGEST = (
    "comm/test_mpi.py", "project/test_docs.py", "comm/test_dask.py", "project/test_examples.py",
    "front/test_mpi_estimators.py", "attack/test_attack.py", "front/test_dask_estimators.py", "project/test_wheel.py",
    "chaos/test_chaos.py", "comm/test_tcp_processes.py", "comm/test_local.py", "equivalence/test_exact_voting.py",
    "paper/test_theorems.py", "comm/test_tcp.py", "paper/test_communication_cost.py", "front/test_cli.py",
    "equivalence/test_cart.py", "equivalence/test_strategies.py",
)  # fmt: skip


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A stable order, so that the tests of a file stay together."""
    places = {Path(__file__).parent / name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path, len(places)))
