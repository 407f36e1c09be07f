"""From what a user calls a communicator to pvtree's own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pvtree.comm.base import Communicator, Solo


@contextmanager
def connect(comm: Any, timeout: float, verbosity: int = 1) -> Iterator[Communicator]:
    """``comm`` of mpi4py, or one of pvtree's own, which stays open; None for a worker that is alone.

    With ``verbosity`` of at least 1 an engine that can lose a worker without a word tells first who is where.
    """
    if comm is None:
        yield Solo()
    elif isinstance(comm, Communicator):
        introduce(comm, verbosity)
        yield comm
    else:
        from pvtree.comm import mpi

        with mpi.join(comm, timeout) as line:
            introduce(line, verbosity)
            yield line


def introduce(comm: Communicator, verbosity: int) -> None:
    if verbosity >= 1 and hasattr(comm, "introduce"):
        comm.introduce()
