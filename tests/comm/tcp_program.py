"""One worker over TCP in a process of its own: ``tcp_program.py TASK FOLDER RANK SIZE [ARGUMENTS]``."""

from __future__ import annotations

import gc
import os
import sys
import time
import warnings
from pathlib import Path

if __name__ == "__main__":  # as in mpi_trainings.py: it starts sooner
    gc.disable()
    sys.modules["scipy"] = None

import numpy as np

from moments import Moment, disturbance
from mpi_trainings import CASES, N_TREES, train_model
from pvtree.comm import tcp
from pvtree.errors import PeerFailedError
from pvtree.training.checkpoint_file import FILE_NAME

LEARNERS = ("data", "exact_voting", "voting")


def connect(folder: Path, rank: int, size: int, timeout: float = 150.0) -> tcp.TCPCommunicator:
    (folder / f"{rank}.pid").write_text(str(os.getpid()))
    return tcp.connect(f"file://{folder}/meeting of {size}", rank, size, host="127.0.0.1", timeout=timeout)


def equality(folder: Path, rank: int, size: int) -> None:
    """The same process joins smaller groups first, so that few have to be started."""
    for n_workers in (1, 2, size):
        if rank < n_workers:
            with connect(folder, rank, n_workers) as comm:
                for case in CASES:
                    for learner in LEARNERS:
                        made = folder / f"{case}-{learner}-{rank}-of-{n_workers}.json"
                        made.write_text(train_model(case, learner, comm))


def training(folder: Path, rank: int, size: int, learner: str, victim: str, exchange: str) -> None:
    """A training with checkpoints; a worker may be killed at its n-th exchange, the first of which is the start."""
    kill = disturbance("kill", folder / "kept" / FILE_NAME)
    moment = Moment(folder, kill, int(exchange) if rank == int(victim) else -1)
    moment.watch(tcp.TCPCommunicator)
    try:
        with connect(folder, rank, size) as comm:
            model = train_model("binary", learner, comm, N_TREES, folder / "kept")
            (folder / f"{learner}-{rank}.json").write_text(model)
    except PeerFailedError as error:
        (folder / f"{rank}.lost").write_text(str(error))


def endless(folder: Path, rank: int, size: int) -> None:
    """Exchange short and long messages until somebody is stopped, or for some seconds."""
    end = time.monotonic() + 40
    with connect(folder, rank, size, timeout=4.0) as comm:
        while time.monotonic() < end:
            comm.allgather(np.zeros(3_000_000, np.uint8), "rows")
            (folder / f"{rank}.busy").touch()


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    tasks = {task.__name__: task for task in (equality, training, endless)}
    tasks[sys.argv[1]](Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), *sys.argv[5:])
