"""The programs that run on the hosts of benchmarks/cluster.py and virtual_time.py, each in its own process:
``cluster_programs.py WHAT FOLDER``, and for LightGBM the port and the host's number.

Each reads the folder's setting and the host's own rows, and writes what it measured as JSON, one file per host.
"""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np

from libraries import LEARNING_RATE, MAX_BIN, MIN_CHILD_SAMPLES, MIN_CHILD_WEIGHT
from made_data import N_WARM_ROWS, Part, make_binary
from measure import auc
from network import sent_bytes
from pvtree.comm import Communicator

if TYPE_CHECKING:
    from pvtree import GBDTClassifier

CHECK_BYTES = 2_000_000
N_CHECKS = 12
N_PINGS = 500
ROUND_BYTES = {8: 300, 60_000: 50, 600_000: 20, 3_000_000: 10}  # sent by each host in a round -> repetitions
CLUSTER, LINKS = "cluster.json", "links.json"  # files of the folder
NOTED: dict[Communicator, Callable[[], None]] = {}  # what each worker does after a tree


@dataclass(frozen=True)
class Setting:
    """The training, the same for all libraries."""

    n_rows: int
    n_test: int
    n_features: int
    num_leaves: int
    top_k: int
    n_trees: int
    n_threads: int  # of every host
    addresses: list[str]
    is_bound: bool = False  # each host to one core, which others may share

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
    """State of one host after every tree: clock, processor time, bytes sent; for pvtree also the ledger by phase."""

    seconds: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    sent: list[int] = field(default_factory=list)
    ledger: list[list[list[int]]] = field(default_factory=list)  # (trees, phases, 3): bytes, calls, nanoseconds
    auc: float | None = None  # of the test rows, reported by host 0

    def note(self) -> None:
        self.add(time.monotonic(), time.process_time(), sent_bytes())

    def add(self, seconds: float, processor: float, sent: int) -> None:
        self.seconds.append(seconds)
        self.processor.append(processor)
        self.sent.append(sent)

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


def bind(folder: Path, host: int) -> None:
    """With more hosts than cores, fix how many of them share a core instead of leaving it to chance."""
    if Setting.read(folder).is_bound:
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[host % len(cores)]})


def fit_and_write(folder: Path, learner: str, comm: Communicator, note: Callable[[Moments], None]) -> None:
    """Train on one worker, and record its state after every tree."""
    setting, moments = Setting.read(folder), Moments()
    part = Part.load(folder / f"rows{comm.rank}")

    def after_tree() -> None:
        note(moments)
        moments.ledger.append(comm.traffic.to_array().tolist())

    NOTED[comm] = after_tree
    model = classifier(setting, learner, setting.n_trees).fit(part.X, part.y, comm=comm)
    if comm.rank == 0 and setting.n_test:
        test = Part.load(folder / "test")
        moments.auc = auc(test, model.predict(test.X, raw_score=True))
    moments.write(folder, comm.rank)


@contextmanager
def noting() -> Iterator[None]:
    """Record on every host, although callbacks run on worker 0 only."""
    from pvtree.training.boosting import BoostingLoop

    iterations = BoostingLoop.iterations

    def and_note(booster: BoostingLoop, first: int) -> Iterator[Any]:
        for trees in iterations(booster, first):
            NOTED[booster.worker.comm]()
            yield trees

    with patch.object(BoostingLoop, "iterations", and_note):
        yield


def pvtree(folder: Path, learner: str) -> None:
    """One rank of an MPI training."""
    from pvtree.comm import mpi

    def work(comm: mpi.MPICommunicator) -> None:
        bind(folder, comm.rank)
        fit_and_write(folder, learner, comm, Moments.note)

    with noting():
        mpi.run(work)


def over_tcp(folder: Path, learner: str, host: int) -> None:
    """One worker of the same training over plain TCP; the folder is where the workers meet."""
    from pvtree.comm import tcp

    addresses = Setting.read(folder).addresses
    bind(folder, host)
    with noting(), tcp.connect(f"file://{folder}/meeting", host, len(addresses), host=addresses[host]) as comm:
        fit_and_write(folder, learner, comm, Moments.note)


def virtual(folder: Path, learner: str) -> None:
    """Train on virtual machines, timed by their clocks; the folder describes the cluster."""
    from pvtree.comm import Cluster, Network, virtual

    told = json.loads((folder / CLUSTER).read_text())
    cluster = Cluster(Network(**told["network"]), cores=told["cores"])

    def work(comm: virtual.VirtualCommunicator) -> None:
        def note(moments: Moments) -> None:
            moments.add(comm.clock, comm.compute_seconds, comm.traffic.total().bytes)

        fit_and_write(folder, learner, comm, note)

    with noting():
        virtual.run(work, Setting.read(folder).n_hosts, cluster)


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
    """Time an all-reduce of pvtree's communicator, and compare the bytes of the interface with the ledger."""
    from pvtree.comm import mpi

    def work(comm: mpi.MPICommunicator) -> None:
        moments, buffer = Moments(), np.ones(CHECK_BYTES, np.uint8)
        for _ in range(N_CHECKS):
            comm.allreduce(buffer, "histograms", "max")
            moments.note()
            moments.ledger.append(comm.traffic.to_array().tolist())
        moments.write(folder, comm.rank)

    mpi.run(work)


def links(folder: Path) -> None:
    """Seconds of a message one way, and of rounds in which every host sends this many bytes to every other."""
    from pvtree.comm import mpi

    def work(comm: mpi.MPICommunicator) -> None:
        bind(folder, comm.rank)
        one_way = ping(comm.rank)
        rounds = []
        for n_bytes, n_times in ROUND_BYTES.items():
            outgoing = [np.ones(n_bytes // (comm.size - 1), np.uint8)] * comm.size
            seconds, processor = [], time.process_time()
            for _ in range(n_times):
                comm.allgather(np.zeros(1), "metrics")  # so that all start at the same time
                began = time.perf_counter()
                comm.alltoall(outgoing, "histograms")
                seconds.append(time.perf_counter() - began)
            processor = (time.process_time() - processor) / n_times
            slowest = np.max(comm.allgather(np.array(seconds), "metrics"), axis=0)  # (times,)
            busy = np.mean(comm.allgather(np.array([processor]), "metrics"))
            rounds.append([sum(part.nbytes for part in outgoing[1:]), float(np.median(slowest)), float(busy)])
        if comm.rank == 0:
            (folder / LINKS).write_text(json.dumps({"one_way": one_way, "rounds": rounds}))

    mpi.run(work)


def ping(rank: int) -> float:
    """Half the time of a byte from rank 0 to 1 and back. Other ranks continue, and sleep where they must wait."""
    from mpi4py import MPI

    world, byte, seconds = MPI.COMM_WORLD, bytearray(1), [0.0]
    for _ in range(N_PINGS if rank < 2 else 0):
        began = time.perf_counter()
        for sender in (0, 1):
            (world.Send if rank == sender else world.Recv)([byte, MPI.BYTE], 1 - rank)
        seconds.append(time.perf_counter() - began)
    return float(np.median(seconds)) / 2


def main() -> None:
    what, folder, *rest = sys.argv[1:]
    warnings.simplefilter("ignore")
    if what.startswith("lightgbm-"):
        lightgbm(Path(folder), what.split("-")[1], *map(int, rest))
    elif what.startswith("pvtree-"):
        pvtree(Path(folder), what.split("-")[1])
    elif what.startswith("tcp-"):
        over_tcp(Path(folder), what.split("-")[1], *map(int, rest))
    elif what.startswith("virtual-"):
        virtual(Path(folder), what.split("-")[1])
    else:
        {"make": make, "warm": warm, "check": check, "links": links}[what](Path(folder))


if __name__ == "__main__":
    main()
