"""Ray Train's backend: joins all workers of a group over TCP before the user's function begins."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import ray.train
from ray.train.backend import Backend, BackendConfig

from pvtree.comm import Communicator, Solo
from pvtree.comm import ray as engine
from pvtree.comm.connect import current, joined
from pvtree.errors import CommunicationError, InvalidParameterError

_meeting: tuple[Any, str] | None = None  # of this worker's group: the actor and the name of the run


@dataclass
class PvtreeConfig(BackendConfig):  # type: ignore[misc]
    """How the workers of a ``PvtreeTrainer`` are joined.

    Parameters
    ----------
    timeout : float, default=600.0
        How many seconds a worker waits without a sign of the others. Greater than 0.
    """

    timeout: float = 600.0

    def __post_init__(self) -> None:
        if not self.timeout > 0:
            raise InvalidParameterError(f"timeout is {self.timeout}; give a positive number of seconds.")

    @property
    def backend_cls(self) -> type[Backend]:
        return PvtreeBackend

    @property
    def train_func_context(self) -> Callable[[], AbstractContextManager[None]]:
        timeout = self.timeout

        @contextmanager
        def together() -> Iterator[None]:
            with join_group(timeout) as comm, joined(comm, "pvtree.ray.get_comm()"):
                yield

        return together

    def to_dict(self) -> dict[str, Any]:
        return {"timeout": self.timeout}


class PvtreeBackend(Backend):  # type: ignore[misc]
    """Makes a meeting for each group of workers that Ray Train starts, also after a failure."""

    def on_start(self, worker_group: Any, backend_config: BackendConfig) -> None:
        # It belongs to Ray Train's controller, which calls this, and ends with it.
        self._meeting: Any = engine.open_meeting(len(worker_group))
        worker_group.execute(remember, self._meeting, uuid4().hex)

    def on_shutdown(self, worker_group: Any, backend_config: BackendConfig) -> None:
        self._meeting = None


def remember(meeting: Any, run: str) -> None:
    """Called on every worker before its function begins."""
    global _meeting
    _meeting = meeting, run


@contextmanager
def join_group(timeout: float) -> Iterator[Communicator]:
    """The communicator of this worker's group; of one worker where Ray Train calls the function without a group."""
    context = ray.train.get_context()
    if context.get_world_size() == 1:
        yield Solo()
        return
    if _meeting is None:
        raise CommunicationError("Ray Train has not prepared this worker; train with pvtree.ray.PvtreeTrainer.")
    with engine.join(*_meeting, context.get_world_rank(), context.get_world_size(), timeout) as comm:
        yield comm


def get_comm() -> Communicator:
    """The communicator of all workers, for ``comm=`` of ``fit``. Call it in the function of a ``PvtreeTrainer``."""
    comm = current()
    if comm is None:
        raise InvalidParameterError(
            "get_comm was called where no workers are joined; call it in the train_loop_per_worker of a PvtreeTrainer."
        )
    return comm
