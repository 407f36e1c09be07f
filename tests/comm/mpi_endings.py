"""Jobs that go wrong, on every rank: ``mpi_endings.py TASK FOLDER [ARGUMENT]``. It imports little, as many run."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import numpy as np

from pvtree.comm import Communicator, mpi

LONGEST_LIFE = 40.0  # seconds after which an endless task ends, in case the test that watches it is killed


def failing(folder: Path, how: str) -> None:
    """Rank 1, or every rank, raises while others wait, compute, or have returned."""

    def work(comm: Communicator) -> None:
        sys.stdout.write(f"worker {comm.rank} is here\n")  # in one piece, unlike print
        comm.allgather(np.zeros(1), "bins")
        time.sleep(0.1)
        if comm.rank == 1 or how == "all fail":
            raise KeyError("broken shard")
        if how == "others compute":
            time.sleep(LONGEST_LIFE)
        if how == "others wait":
            comm.allgather(np.zeros(1), "bins")

    mpi.run(work)


def endless(folder: Path, timeout: str = "600") -> None:
    """Messages, one after the other, until somebody is killed or stopped."""

    def work(comm: Communicator) -> None:
        (folder / f"{comm.rank}.pid").write_text(str(os.getpid()))
        deadline = time.monotonic() + LONGEST_LIFE
        long = np.zeros(400_000, np.uint8)
        while comm.allreduce(np.array([time.monotonic()]), "rows", "max")[0] < deadline:
            for length in (10, 1000, len(long)):
                comm.alltoall([long[:length]] * comm.size, "histograms")
            (folder / f"{comm.rank}.busy").touch()

    mpi.run(work, timeout=float(timeout))


if __name__ == "__main__":
    tasks = {task.__name__: task for task in (failing, endless)}
    tasks[sys.argv[1]](Path(sys.argv[2]), *sys.argv[3:])
