"""What runs on a host of benchmarks/cluster.py, in a process of its own: ``cluster_programs.py WHAT FOLDER``, and for
LightGBM the port and the host's number.

Reads the folder's setting and the host's own rows; writes what it measured as JSON, one file a host.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np
from libraries import LEARNING_RATE, MAX_BIN, MIN_CHILD_SAMPLES, MIN_CHILD_WEIGHT
from made_data import N_WARM_ROWS, Part, make_binary
from measure import auc
from network import sent_bytes

if TYPE_CHECKING:
    from pvtree import GBDTClassifier

CHECK_BYTES = 2_000_000
N_CHECKS = 12


@dataclass(frozen=True)
class Setting:
    """What all libraries train, in the same way."""

    n_rows: int
    n_test: int
    n_features: int
    num_leaves: int
    top_k: int
    n_trees: int
    n_threads: int  # of every host
    addresses: list[str]

    @property
    def n_hosts(self) -> int:
        return len(self.addresses)

    def write(self, folder: Path) -> None:
        (folder / "setting.json").write_text(json.dumps(asdict(self)))

    @staticmethod
    def read(folder: Path) -> Setting:
        return Setting(**json.loads((folder / "setting.json").read_text()))

    def first_row(self, host: int) -> int:
        return self.n_rows * host // self.n_hosts


@dataclass
class Moments:
    """One host after every tree: the clock, its processor's, bytes sent; of pvtree also the ledger by phase."""

    seconds: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    sent: list[int] = field(default_factory=list)
    ledger: list[list[list[int]]] = field(default_factory=list)  # (trees, phases, 3): bytes, calls, nanoseconds
    auc: float | None = None  # of the test rows, told by host 0

    def note(self) -> None:
        self.seconds.append(time.monotonic())
        self.processor.append(time.process_time())
        self.sent.append(sent_bytes())

    def write(self, folder: Path, host: int) -> None:
        (folder / f"{host}.json").write_text(json.dumps(asdict(self)))


def make(folder: Path) -> None:
    """The rows of every host, and test rows that no host trains on."""
    setting = Setting.read(folder)
    X, y, _ = make_binary(setting.n_rows + setting.n_test, setting.n_features, seed=0)
    for host in range(setting.n_hosts):
        first, stop = setting.first_row(host), setting.first_row(host + 1)
        Part(X[first:stop], y[first:stop], None).save(folder / f"rows{host}")
    Part(X[setting.n_rows :], y[setting.n_rows :], None).save(folder / "test")


# pvtree


def classifier(setting: Setting, learner: str, n_trees: int, n_workers: int = 1) -> GBDTClassifier:
    import pvtree

    return pvtree.GBDTClassifier(
        tree_learner=learner,
        n_estimators=n_trees,
        learning_rate=LEARNING_RATE,
        num_leaves=setting.num_leaves,
        min_child_samples=MIN_CHILD_SAMPLES,
        min_child_weight=MIN_CHILD_WEIGHT,
        max_bin=MAX_BIN,
        top_k=setting.top_k,
        n_workers=n_workers,
        n_jobs=setting.n_threads,
        random_state=0,
        verbosity=0,
    )


def warm(folder: Path) -> None:
    """Compile pvtree's kernels once, for all hosts."""
    setting, part = Setting.read(folder), Part.load(folder / "rows0")
    for learner in ("voting", "data"):
        model = classifier(setting, learner, n_trees=2, n_workers=2)
        model.fit(part.X[:N_WARM_ROWS], part.y[:N_WARM_ROWS]).predict(part.X[:N_WARM_ROWS], raw_score=True)


def pvtree(folder: Path, learner: str) -> None:
    """One rank of an MPI training."""
    from pvtree.boosting import Booster
    from pvtree.comm import mpi

    setting, moments = Setting.read(folder), Moments()
    iterations = Booster.iterations

    def noting(booster: Booster, first: int) -> Iterator[Any]:
        """Callbacks run on worker 0 alone, but every host's interface is asked."""
        for trees in iterations(booster, first):
            moments.note()
            moments.ledger.append(booster.worker.comm.traffic.to_array().tolist())
            yield trees

    def work(comm: mpi.MPICommunicator) -> None:
        part = Part.load(folder / f"rows{comm.rank}")
        with patch.object(Booster, "iterations", noting):
            model = classifier(setting, learner, setting.n_trees).fit(part.X, part.y, comm=comm)
        if comm.rank == 0:
            test = Part.load(folder / "test")
            moments.auc = auc(test, model.predict(test.X, raw_score=True))
        moments.write(folder, comm.rank)

    mpi.run(work)


# LightGBM


def lightgbm(folder: Path, learner: str, port: int, host: int) -> None:
    """One machine of a training over LightGBM's own sockets."""
    import lightgbm as library

    setting, moments = Setting.read(folder), Moments()
    parameters = {
        "objective": "binary",
        "tree_learner": learner,
        "learning_rate": LEARNING_RATE,
        "num_leaves": setting.num_leaves,
        "min_data_in_leaf": MIN_CHILD_SAMPLES,
        "min_sum_hessian_in_leaf": MIN_CHILD_WEIGHT,
        "max_bin": MAX_BIN,
        "top_k": setting.top_k,
        "num_threads": setting.n_threads,
        "pre_partition": True,
        "num_machines": setting.n_hosts,
        "machines": ",".join(f"{address}:{port}" for address in setting.addresses),
        "local_listen_port": port,
        "verbosity": -1,
    }
    part = Part.load(folder / f"rows{host}")
    data = library.Dataset(part.X, part.y, params=parameters)
    model = library.train(parameters, data, setting.n_trees, callbacks=[lambda env: moments.note()])
    if host == 0:
        test = Part.load(folder / "test")
        moments.auc = auc(test, np.asarray(model.predict(test.X, raw_score=True)))
    moments.write(folder, host)


# The network


def check(folder: Path) -> None:
    """The seconds of an all-reduce by pvtree's communicator and what the interface and the ledger say of it."""
    from pvtree.comm import mpi

    def work(comm: mpi.MPICommunicator) -> None:
        moments, buffer = Moments(), np.ones(CHECK_BYTES, np.uint8)
        for _ in range(N_CHECKS):
            comm.allreduce(buffer, "histograms", "max")
            moments.note()
            moments.ledger.append(comm.traffic.to_array().tolist())
        moments.write(folder, comm.rank)

    mpi.run(work)


def main() -> None:
    what, folder, *rest = sys.argv[1:]
    warnings.simplefilter("ignore")
    if what.startswith("lightgbm-"):
        lightgbm(Path(folder), what.split("-")[1], *map(int, rest))
    elif what.startswith("pvtree-"):
        pvtree(Path(folder), what.split("-")[1])
    else:
        {"make": make, "warm": warm, "check": check}[what](Path(folder))


if __name__ == "__main__":
    main()
