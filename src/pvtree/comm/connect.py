"""From what a user calls a communicator to pvtree's own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pvtree.comm.base import Communicator, Solo


@contextmanager
def connect(comm: Any, timeout: float) -> Iterator[Communicator]:
    """``comm`` of mpi4py, or one of pvtree's own, which stays open; None for a worker that is alone."""
    if comm is None:
        yield Solo()
    elif isinstance(comm, Communicator):
        yield comm
    else:
        from pvtree.comm import mpi

        with mpi.join(comm, timeout) as line:
            yield line
