"""From the user's communicator to one of pvtree's own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pvtree.comm.base import Communicator, Solo


@contextmanager
def connect(comm: Any, timeout: float) -> Iterator[Communicator]:
    """Connect to the workers of ``comm``: mpi4py's, one of pvtree's own (which stays open), or None for one worker."""
    if comm is None:
        yield Solo()
    elif isinstance(comm, Communicator):
        with comm.telling_failures():
            yield comm
    else:
        from pvtree.comm import mpi

        with mpi.join(comm, timeout) as joined:
            yield joined
