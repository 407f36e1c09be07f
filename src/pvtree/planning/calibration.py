"""Measures how fast this machine is: small trainings with known counts of work give the seconds of each count.

The result is kept in the user's cache folder, where plans read it.
"""

from __future__ import annotations

import contextlib
import json
import platform
import warnings
from collections.abc import Callable
from dataclasses import asdict, astuple, dataclass, fields
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pvtree.model.atomic_file import write_at_once
from pvtree.planning.workload import Setting, Work, work_of

Say = Callable[[str], None]


@dataclass(frozen=True)
class Speeds:
    """Seconds that one core takes for each count of ``workload.Work``."""

    updates: float
    rows: float
    searched: float
    voted: float
    items: float
    packed: float
    sparse: float
    frontiers: float
    trees: float


# A core of a 2020s server (Intel Xeon, 2 cores, docs/plan.md), for plans without a measurement.
TYPICAL = Speeds(
    updates=0.85e-9, rows=3.0e-9, searched=2.5e-9, voted=3.0e-9, items=400e-9, packed=16e-9, sparse=3.5e-9,
    frontiers=0.5e-3, trees=0.3e-3,
)  # fmt: skip


_LARGE = 2**22  # values; larger data is measured once


class Run(NamedTuple):
    """One training to measure."""

    strategy: str
    n_rows: int
    n_features: int
    n_workers: int
    n_trees: int = 4
    n_leaves: int = 31


# Few rows show the cost of bins and frontiers, many rows that of rows.
RUNS = (
    Run("serial", 2_000, 16, 1, 10),
    Run("serial", 4_000, 320, 1),
    Run("serial", 100_000, 16, 1),
    Run("serial", 60_000, 128, 1),
    Run("serial", 25_000, 1_000, 1, n_leaves=63),
    Run("voting", 4_000, 64, 4),
    Run("voting", 4_000, 640, 4),
    Run("voting", 120_000, 64, 4),
    Run("voting", 40_000, 320, 2),
    Run("voting", 40_000, 1_000, 4, n_leaves=63),
    Run("data", 4_000, 320, 4),
    Run("data", 60_000, 128, 2),
    Run("data", 40_000, 400, 4, n_leaves=63),
    Run("quantized", 20_000, 400, 4),
    Run("attribute", 60_000, 64, 2),
    Run("attribute", 10_000, 1_000, 4, n_leaves=63),
)


def speeds(recalibrate: bool = False, say: Say | None = None) -> Speeds:
    """This machine's speeds, measured now unless they are known.

    Parameters
    ----------
    recalibrate : bool, default=False
        Measure even if the speeds are known.
    say : callable or None, default=None
        Is called with a line of text for each step of the measurement.
    """
    path = cache_file()
    known = None if recalibrate else _read(path)
    if known is not None:
        return known
    found = measure(say)
    _write(path, found)
    return found


def measure(say: Say | None = None) -> Speeds:
    """Run the trainings in ``RUNS``, for about a minute, and solve for the seconds of each count."""
    work, seconds = [], []
    for number, run in enumerate(RUNS):
        if say is not None:
            say(f"measuring this machine: training {number + 1} of {len(RUNS)} ({run.strategy})")
        work.append(work_of(run.strategy, _setting(run)))
        seconds.append(seconds_per_tree(run))
    return solve(work, seconds)


def solve(work: list[Work], seconds: list[float]) -> Speeds:
    """The non-negative speeds with the least squared relative error of the measured seconds."""
    from scipy.optimize import nnls

    counts, target = np.array([astuple(each) for each in work]), np.array(seconds)
    scale = np.array(astuple(TYPICAL))  # makes all unknowns about 1
    # A weak pull, a fiftieth of a measurement's weight, keeps undetermined speeds near the typical ones.
    pull = 0.02 * np.eye(len(scale))
    found, _ = nnls(
        np.vstack((counts * scale / target[:, None], pull)), np.concatenate((np.ones(len(target)), np.diag(pull)))
    )
    return Speeds(*(found * scale).tolist())


def seconds_per_tree(run: Run) -> float:
    """Computing time of the slowest machine: virtual machines with clocks, on a network that costs nothing."""
    from pvtree.comm.network import Network
    from pvtree.comm.user_warnings import SkewWarning
    from pvtree.comm.virtual import Cluster
    from pvtree.parameters.params import Params
    from pvtree.training.train import train

    X, y = made_rows(run.n_rows, run.n_features)
    free = Cluster(Network(1e18, latency=0.0, per_message=0.0, per_byte=0.0))
    params = Params(
        objective="binary", n_classes=2, tree_learner=run.strategy, n_workers=run.n_workers, top_k=_setting(run).top_k,
        num_leaves=run.n_leaves, n_estimators=run.n_trees, n_threads=1,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SkewWarning)
        few = slice(None, 400)  # compiles the kernels, or loads them
        train(X[few], y[few], Params(**vars(params) | {"n_estimators": 1}), cluster=free)
        # The better of two runs. On large data one run is steady enough, and binning takes long.
        n_times = 2 if X.size < _LARGE else 1
        took = [train(X, y, params, cluster=free).timings["training"] for _ in range(n_times)]
    return min(took) / run.n_trees


def made_rows(n_rows: int, n_features: int) -> tuple[np.ndarray, np.ndarray]:
    """Continuous columns, ten of which predict the label."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, n_features), np.float32)
    effect = X[:, :10] @ np.linspace(1.0, 0.1, 10) + rng.standard_normal(n_rows)
    return X, (effect > 0).astype(np.float64)


def _setting(run: Run) -> Setting:
    return Setting(run.n_rows, run.n_features, run.n_workers, run.n_leaves, top_k=15)


# Where the measurement is kept


def cache_file() -> Path:
    """The file in the user's cache folder."""
    import platformdirs

    return platformdirs.user_cache_path("pvtree", appauthor=False) / "speeds.json"


def _mark() -> dict[str, str]:
    """Identifies version and machine; a measurement with another mark is not used."""
    from importlib.metadata import version

    return {"pvtree": version("pvtree"), "processor": processor_name(), "node": platform.node()}


def processor_name() -> str:
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as lines:
        for line in lines:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _read(path: Path) -> Speeds | None:
    """The kept speeds, or None if there are none, they are another machine's, or the file is damaged."""
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        found = Speeds(**{field.name: float(kept["speeds"][field.name]) for field in fields(Speeds)})
    except (OSError, ValueError, KeyError, TypeError):
        return None
    is_sound = all(np.isfinite(each) and each >= 0.0 for each in astuple(found))
    return found if is_sound and kept.get("mark") == _mark() else None


def _write(path: Path, found: Speeds) -> None:
    """Keep the speeds. If the folder is not writable, the next plan measures again."""
    text = json.dumps({"mark": _mark(), "speeds": asdict(found)}, indent=1)
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_at_once(str(path), text.encode())
