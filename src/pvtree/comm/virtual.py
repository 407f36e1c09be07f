"""A cluster with a clock: M virtual machines take turns on this one, and tell what their work takes on M real ones.

A worker's clock goes on with the processor time of its thread. A collective sets all clocks to the latest of them, plus
what the network takes for it. So two cores can show the speed of 128 machines; docs/virtual-time.md tells how well.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any, TypeVar

import numpy as np

from pvtree.comm import local
from pvtree.comm.base import Call
from pvtree.comm.local import LocalCommunicator, Meeting
from pvtree.comm.network import Network
from pvtree.errors import InvalidParameterError
from pvtree.kernels.team import Team

Result = TypeVar("Result")


@dataclass(frozen=True)
class Cluster:
    """Equal machines: their network, and the cores of each.

    ``network`` is a rate such as "1gbit", for which ``latency`` may be given too (seconds one way), or a Network.
    With ``cores`` below 1 machines share them, as the hosts of the cluster benchmark do: 4 machines of 0.5 cores are
    4 processes on 2 cores. From 2 on, kernels that work on blocks of rows or columns run on so many cores.
    """

    network: Network | str = "1gbit"
    latency: float | None = None
    cores: float = 1.0

    def __post_init__(self) -> None:
        if not (self.cores > 0 and isfinite(self.cores)):
            raise InvalidParameterError(f"cores is {self.cores}; give the cores of one machine, a positive number.")
        if isinstance(self.network, Network) and self.latency is not None:
            raise InvalidParameterError("latency is given twice; a Network has its own, so leave it out here.")
        self.links()  # so that a wrong rate is told before training

    @property
    def n_threads(self) -> int:
        """Of each machine."""
        return max(1, int(self.cores))

    def links(self) -> Network:
        """The network as these machines see it: one that shares its core needs longer for its part of a message."""
        network = Network.parse(self.network, self.latency) if isinstance(self.network, str) else self.network
        share = min(1.0, self.cores)
        return replace(network, per_message=network.per_message / share, per_byte=network.per_byte / share)

    def span(self, seconds: list[float]) -> float:
        """How long the machines take for so much computing of each, started at the same time."""
        busiest = max(seconds)
        # On shared cores whoever is ready first leaves its core to the others, so the sum counts, not the slowest.
        return busiest if self.cores >= 1 else max(busiest, sum(seconds) / (len(seconds) * self.cores))


def run(
    function: Callable[[VirtualCommunicator], Result],
    size: int,
    cluster: Cluster,
    *,
    timeout: float = 600.0,
    thread_clock: Callable[[], float] | None = None,
) -> list[Result]:
    """Run ``function(comm)`` on ``size`` virtual machines, one at a time, and return their results by rank.

    Like ``local.run``, with the same results, but ``comm.clock`` tells the time on such a cluster. A machine alone
    with 2 cores or more is no virtual one: it uses threads of this machine and the clock on the wall, because a tree
    is then grown by a kernel that shares its work between threads in its own way.
    ``thread_clock`` gives the processor seconds of the thread that calls it.
    """
    is_real = size == 1 and cluster.n_threads > 1
    if is_real and cluster.n_threads > local.usable_cores():
        raise InvalidParameterError(
            f"cores is {cluster.cores:g}, but one worker alone runs on real cores, and there are "
            f"{local.usable_cores()}; use fewer cores or more workers."
        )
    clock = thread_clock or (time.perf_counter if is_real else time.thread_time)
    timeline = Timeline(cluster, cluster.links(), [0.0] * size)

    def make(meeting: Meeting, rank: int) -> VirtualCommunicator:
        return VirtualCommunicator(meeting, rank, timeline, clock)

    return local.run(function, size, timeout=timeout, n_running=1, communicator=make)


@dataclass
class Timeline:
    """What the clocks of all machines have in common: they stand alike whenever a collective ends."""

    cluster: Cluster
    network: Network
    since: list[float]  # what each machine has computed since the last collective, once it has come to the next
    now: float = 0.0  # at the end of the last collective
    network_seconds: float = 0.0
    shared: float = 0.0  # computed by each machine inside of collectives: its share of a reduction
    is_stopped: list[bool] = field(default_factory=list)
    has_advanced: bool = False  # by the last collective

    def __post_init__(self) -> None:
        self.is_stopped = [False] * len(self.since)

    def advance(self, call: Call, given: list[Any], reducing: float) -> None:
        """All have come. Called by the last one, while the others wait."""
        self.has_advanced = not all(self.is_stopped)
        if not self.has_advanced:
            return
        share = reducing / len(given)  # in a real cluster each adds up its part of the places
        on_network = seconds_of(self.network, call, given)
        self.now += self.cluster.span([computed + share for computed in self.since]) + on_network
        self.network_seconds += on_network
        self.shared += share


class VirtualCommunicator(LocalCommunicator):
    """One virtual machine's place in the cluster, with its clock.

    The worker's own time in a collective is not counted: copies of messages stand for those of a real machine, which
    are the network's (``Network.per_byte``). Only adding up is: the last to come does it for all, and each is charged
    an M-th, its part in the two rounds of a large all-reduce. Waiting costs nothing but what the clocks show.
    """

    def __init__(self, meeting: Meeting, rank: int, timeline: Timeline, thread_clock: Callable[[], float]) -> None:
        super().__init__(meeting, rank)
        self.n_on_host = 1
        self._timeline = timeline
        self._thread_clock = thread_clock
        self._computed = 0.0  # since the run began, without reductions
        self._computed_before = 0.0  # the last collective
        self._n_stops = 0  # inside each other; the clock goes while there are none
        self._mark = thread_clock()

    @property
    def clock(self) -> float:
        """Seconds since the run began: up to the last collective, and what this machine has computed since.

        That machines share cores shows at the next collective, when it is known what each of them has computed.
        """
        since = self._compute() - self._computed_before
        return self._timeline.now + (since if self.size > 1 else self._timeline.cluster.span([since]))

    @property
    def compute_seconds(self) -> float:
        """What this machine has computed."""
        return self._compute() + self._timeline.shared

    @property
    def network_seconds(self) -> float:
        """How long messages were on their way; the rest of the clock is waiting for slower machines."""
        return self._timeline.network_seconds

    def now(self) -> float:
        """The ledger and the timings of a training are in virtual seconds too."""
        return self.clock

    def make_team(self, n_threads: int) -> Team:
        """As many threads as the machine has cores, whatever this one has."""
        n_cores = self._timeline.cluster.n_threads
        return Team(n_cores) if self.size == 1 else InTurn(n_cores, self._thread_clock, self._give_back)

    @contextmanager
    def uncounted(self) -> Iterator[None]:
        """Neither bytes nor time: the clock stands still, also in collectives if all workers stop it."""
        with super().uncounted(), self._stopped():
            self._timeline.is_stopped[self.rank] = True
            try:
                yield
            finally:
                self._timeline.is_stopped[self.rank] = False

    # The verbs: as on threads, with the clock stopped.

    def _allgather(self, buffer: np.ndarray, call: Call) -> list[np.ndarray]:
        with self._stopped():
            return super()._allgather(buffer, call)

    def _alltoall(self, buffers: list[np.ndarray], call: Call) -> list[np.ndarray]:
        with self._stopped():
            return super()._alltoall(buffers, call)

    def _allreduce(self, buffer: np.ndarray, op: str, call: Call) -> np.ndarray:
        with self._stopped():
            return super()._allreduce(buffer, op, call)

    def _broadcast(self, buffer: np.ndarray | None, root: int, call: Call) -> np.ndarray:
        with self._stopped():
            return super()._broadcast(buffer, root, call)

    def _meet(self, call: Call, gift: Any, combine: Callable[[list[Any]], Any] | None = None) -> Any:
        timeline = self._timeline
        timeline.since[self.rank] = self._computed - self._computed_before

        def finish(given: list[Any]) -> Any:
            start = self._thread_clock()
            outcome = given if combine is None else combine(given)
            timeline.advance(call, given, 0.0 if combine is None else self._thread_clock() - start)
            return outcome

        outcome = super()._meet(call, gift, finish)
        if timeline.has_advanced:
            self._computed_before = self._computed
        return outcome

    # The clock.

    def _compute(self) -> float:
        return self._computed + (0.0 if self._n_stops else self._thread_clock() - self._mark)

    @contextmanager
    def _stopped(self) -> Iterator[None]:
        self._computed = self._compute()
        self._n_stops += 1
        try:
            yield
        finally:
            self._n_stops -= 1
            self._mark = self._thread_clock()

    def _give_back(self, seconds: float) -> None:
        """This much was computed one after another that the machine's cores would have done at the same time."""
        if not self._n_stops:
            self._mark += seconds


class InTurn(Team):
    """The threads of a virtual machine: their blocks one after another, of which only the longest counts.

    What is left out: that cores share caches and memory, and that Python inside a block holds the others up.
    """

    def __init__(self, n_threads: int, thread_clock: Callable[[], float], give_back: Callable[[float], None]) -> None:
        super().__init__(1)
        self.n_threads = n_threads
        self._thread_clock = thread_clock
        self._give_back = give_back

    def _run(self, calls: list[tuple[Any, ...]]) -> None:
        seconds = []
        for kernel, *args in calls:
            start = self._thread_clock()
            kernel(*args)
            seconds.append(self._thread_clock() - start)
        self._give_back(sum(seconds) - max(seconds))


def seconds_of(network: Network, call: Call, given: list[Any]) -> float:
    """What the network takes for a collective with these buffers."""
    if call.verb == "allgather":
        return network.allgather([buffer.nbytes for buffer in given])
    if call.verb == "alltoall":
        return network.alltoall(np.array([[buffer.nbytes for buffer in row] for row in given]))
    if call.verb == "allreduce":
        return network.allreduce(given[0].nbytes, len(given))
    return network.broadcast(next(buffer.nbytes for buffer in given if buffer is not None), len(given))
