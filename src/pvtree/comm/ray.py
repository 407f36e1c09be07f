"""Training on Ray: actors, each in a process of its own, meet at another actor and then talk over TCP (tcp.py).

The driver starts a ``Crew`` and calls its ``run``, which waits until all have answered or one is lost. Nothing is left
on the cluster when the crew is closed.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from time import monotonic
from types import ModuleType, TracebackType
from typing import Any, NamedTuple, Self, TypeVar
from uuid import uuid4

from pvtree.comm import tcp
from pvtree.comm.outcome import Outcome, able_to_travel, cause_of
from pvtree.comm.rendezvous import nobody_came
from pvtree.comm.tcp_gate import bindable
from pvtree.errors import CommunicationError, MissingDependencyError, PeerFailedError, WorkerTimeoutError

Result = TypeVar("Result")

START_SECONDS = 10.0  # the least time limit of meeting: processes begin when they can
LOOK_SECONDS = 1.0  # how long the driver waits before it looks at the time
GRACE_SECONDS = 3.0  # how long the other workers have to end and report, after the first one has failed


class Meeting:
    """The actor at which workers meet: each brings a text, and gets those of all. It serves one run after the other."""

    def __init__(self) -> None:
        self._texts: dict[str, dict[int, str]] = {}
        self._changed = asyncio.Condition()

    async def give(self, run: str, rank: int, size: int, text: str) -> list[str]:
        """The texts of all workers of a run, by rank, once all are here."""
        async with self._changed:
            texts = self._texts.setdefault(run, {})
            texts[rank] = text
            self._changed.notify_all()
            await self._changed.wait_for(lambda: len(texts) == size)
        return [texts[each] for each in range(size)]

    async def missing(self, run: str, size: int) -> list[int]:
        return [rank for rank in range(size) if rank not in self._texts.get(run, {})]

    async def forget(self, run: str) -> None:
        self._texts.pop(run, None)


def open_meeting(size: int) -> Any:
    """The actor at which so many workers can meet. It ends with the process that opened it."""
    return load_ray().remote(Meeting).options(num_cpus=0, max_concurrency=2 * size + 8).remote()


class Place(NamedTuple):
    """Where an actor is."""

    node: str
    host: str
    pid: int


class Worker:
    """The actor of one worker."""

    def where(self) -> Place:
        ray = load_ray()
        return Place(ray.get_runtime_context().get_node_id(), ray.util.get_node_ip_address(), os.getpid())

    def work(
        self,
        function: Callable[..., Any],
        meeting: Any,
        run: str,
        rank: int,
        size: int,
        timeout: float,
        *arguments: Any,
    ) -> Outcome:
        from ray import cloudpickle

        try:
            with join(meeting, run, rank, size, timeout) as comm:
                return Outcome(function(comm, *arguments), None)
        except BaseException as error:
            return Outcome(None, able_to_travel(error, cloudpickle.dumps))


def join(meeting: Any, run: str, rank: int, size: int, timeout: float) -> tcp.TCPCommunicator:
    """Connect the calling worker to all others of the run."""
    ray = load_ray()

    def allgather(text: str) -> list[str]:
        seconds = max(timeout, START_SECONDS)
        try:
            texts: list[str] = ray.get(meeting.give.remote(run, rank, size, text), timeout=seconds)
            return texts
        except ray.exceptions.GetTimeoutError:
            missing = ray.get(meeting.missing.remote(run, size), timeout=seconds)
            raise nobody_came(rank, size, missing, "Ray's meeting of workers", seconds) from None

    host = bindable(ray.util.get_node_ip_address())
    return tcp.connect(tcp.Engine(rank, size, allgather), host=host, tls=own_tls(), timeout=timeout)


def own_tls() -> tcp.TLS | None:
    """Ray's own certificates, if Ray encrypts what its processes send (RAY_USE_TLS)."""
    if os.environ.get("RAY_USE_TLS", "0").lower() not in ("1", "true"):
        return None
    return tcp.TLS(*(os.environ.get(f"RAY_TLS_{name}", "") for name in ("SERVER_CERT", "SERVER_KEY", "CA_CERT")))


class Crew:
    """Actors that train together. Close it, or use it as a context manager, to end their processes.

    Parameters
    ----------
    options : sequence of mappings
        Ray's options of each actor, such as ``{"num_cpus": 2}``.
    seconds : float, default=600.0
        How long to wait until Ray has started all of them. Greater than 0.
    """

    def __init__(self, options: Sequence[Mapping[str, Any]], seconds: float = 600.0) -> None:
        ray = load_ray()
        self._ray, self.size = ray, len(options)
        self._meeting = open_meeting(self.size)
        self._actors = [ray.remote(Worker).options(max_restarts=0, **each).remote() for each in options]
        try:
            self.places = self._started(max(seconds, START_SECONDS))
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the actors' processes, whatever they do."""
        for actor in (*self._actors, self._meeting):
            with suppress(Exception):  # Ray may have been shut down
                self._ray.kill(actor)

    def _started(self, seconds: float) -> list[Place]:
        asked = [actor.where.remote() for actor in self._actors]
        _, late = self._ray.wait(asked, num_returns=len(asked), timeout=seconds)
        if late:
            raise WorkerTimeoutError(
                f"Ray has started {len(asked) - len(late)} of {len(asked)} workers within {seconds:g} s; ask for fewer "
                "workers or less for each, give Ray more nodes, or raise timeout if it only needs longer."
            )
        try:
            return list(self._ray.get(asked))
        except Exception as error:  # of Ray's several kinds
            if "No module named 'pvtree'" in str(error):
                raise MissingDependencyError(
                    "Ray's nodes cannot import pvtree; install it on all of them: pip install 'pvtree[ray]'."
                ) from error
            raise PeerFailedError(
                f"Ray could not start {len(asked)} workers ({' '.join(str(error).split())[:300]}); see Ray's logs."
            ) from error

    def run(
        self, function: Callable[..., Result], arguments: Sequence[Sequence[Any]], *, timeout: float = 600.0
    ) -> list[Result]:
        """Run ``function(comm, *arguments[rank])`` on the first ``len(arguments)`` actors at once.

        The first exception of a worker ends all of them and is raised here, with the worker's number as ``rank``.

        Returns
        -------
        list
            The results by rank.
        """
        size, run = len(arguments), uuid4().hex
        waiting = {
            self._actors[rank].work.remote(function, self._meeting, run, rank, size, timeout, *own): rank
            for rank, own in enumerate(arguments)
        }
        outcomes: dict[int, Outcome] = {}
        deadline = float("inf")
        while waiting and monotonic() < deadline:
            done, _ = self._ray.wait(list(waiting), num_returns=1, timeout=LOOK_SECONDS)
            outcomes |= {waiting[future]: self._outcome(future, waiting[future], size) for future in done}
            for future in done:
                del waiting[future]
            if deadline == float("inf") and any(each.error is not None for each in outcomes.values()):
                deadline = monotonic() + GRACE_SECONDS
        self._meeting.forget.remote(run)
        error = cause_of(each.error for _, each in sorted(outcomes.items()) if each.error is not None)
        if error is not None:
            raise error
        return [outcomes[rank].result for rank in range(size)]

    def _outcome(self, future: Any, rank: int, size: int) -> Outcome:
        try:
            outcome: Outcome = self._ray.get(future)
            return outcome
        except self._ray.exceptions.RayActorError as error:
            place = self.places[rank]
            lost = PeerFailedError(
                f"Ray lost worker {rank} of {size} (process {place.pid} on {place.host}) during the training; find out "
                "why that process ended, such as too little memory, and train again."
            )
            lost.__cause__ = error
            lost.lost = [rank]  # type: ignore[attr-defined]
            return Outcome(None, lost)
        except self._ray.exceptions.RayError as error:
            return Outcome(None, CommunicationError(f"Worker {rank} of {size} gave no result ({error}); train again."))


def load_ray() -> ModuleType:
    """Only when Ray is asked for."""
    try:
        import ray
    except ImportError as error:
        raise MissingDependencyError(
            f"Training on Ray needs ray ({error}); install it: pip install 'pvtree[ray]'."
        ) from error
    return ray
