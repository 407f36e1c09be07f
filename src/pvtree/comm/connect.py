"""From the user's communicator to one of pvtree's own.

An engine that calls the user's function on each of its workers joins them first (``joined``). A training that does not
use that communicator would see the rows of one worker only, so it is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pvtree.comm.base import Communicator, Solo
from pvtree.errors import InvalidParameterError

_joined: list[tuple[Communicator, str]] = []  # of this process, with the call that returns it


@contextmanager
def joined(comm: Communicator, how_to_get: str) -> Iterator[None]:
    """Refuse trainings of this process that leave ``comm`` out, inside the ``with`` block."""
    _joined.append((comm, how_to_get))
    try:
        yield
    finally:
        _joined.pop()


def current() -> Communicator | None:
    """The communicator that an engine has joined this process to."""
    return _joined[-1][0] if _joined else None


@contextmanager
def connect(comm: Any, timeout: float) -> Iterator[Communicator]:
    """Connect to the workers of ``comm``: mpi4py's, one of pvtree's own (which stays open), or None for one worker."""
    if comm is None:
        if _joined and _joined[-1][0].size > 1:
            raise InvalidParameterError(
                f"This function runs on {_joined[-1][0].size} workers, but the training got no comm and would see the "
                f"rows of one worker alone; pass comm={_joined[-1][1]}, or comm=pvtree.comm.Solo() if that is meant."
            )
        yield Solo()
    elif isinstance(comm, Communicator):
        with comm.telling_failures():
            yield comm
    else:
        from pvtree.comm import mpi

        with mpi.join(comm, timeout) as joined:
            yield joined
