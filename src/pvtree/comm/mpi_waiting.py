"""How an MPI rank waits for messages: it leaves its core to others, and gives up if nothing arrives for too long."""

from __future__ import annotations

import os
from collections.abc import Callable
from time import monotonic, sleep
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mpi4py import MPI

YIELD_SECONDS = 50e-6  # how long a waiting worker only yields its core, before it begins to sleep
LONGEST_PAUSE = 1e-3


def nothing() -> None:
    """There is nothing to do while waiting."""


class BrokenRequests(Exception):
    """MPI could not complete these requests: the process at the other end is gone."""

    def __init__(self, indices: list[int], reason: str) -> None:
        super().__init__(reason)
        self.indices = indices


def wait_politely(
    mpi: ModuleType,
    requests: list[MPI.Request],
    timeout: float,
    on_done: Callable[[int], None],
    overdue: Callable[[], Exception | None],
    on_idle: Callable[[], None] = nothing,
) -> None:
    """Wait until all requests are done, including those that ``on_done(index)`` adds.

    Raises ``overdue()`` if no request is done for ``timeout`` seconds, or waits again if that is None. There may be
    more ranks than cores, and the missing rank needs a core. So a waiting rank sleeps for an eighth of the time that it
    has waited, and is late by an eighth at most. Before it sleeps it calls ``on_idle``.
    """
    since = monotonic()
    statuses: list[MPI.Status] = []
    finished: set[int] = set()
    while True:
        try:
            done = mpi.Request.Testsome(requests, statuses)
        except mpi.Exception as error:
            ended = [i for i, each in enumerate(requests) if each == mpi.REQUEST_NULL and i not in finished]
            wrong = {i: status.error for i, status in zip(ended, statuses, strict=False) if status.error}
            reasons = [mpi.Get_error_string(code) for code in wrong.values()] or [str(error)]
            raise BrokenRequests(list(wrong), " ".join(reasons[0].split())) from error
        if done is None:  # no request is left
            return
        for index in done:
            on_done(index)
        finished.update(done)
        now = monotonic()
        if done:
            since = now
        elif now - since > timeout:
            late = overdue()
            if late is not None:
                raise late
            since = monotonic()
        elif now - since < YIELD_SECONDS:
            yield_core()
        else:
            on_idle()
            sleep(min(LONGEST_PAUSE, (now - since) / 8))


def yield_core() -> None:
    if hasattr(os, "sched_yield"):
        os.sched_yield()
    else:  # Windows
        sleep(0)
