"""A cluster with a clock: virtual machines take turns on this one, and measure how long real machines would take.

A worker's clock advances with the processor time of its thread. A collective sets all clocks to the latest of them,
plus the time that the network needs. So two cores can show the speed of 128 machines; docs/virtual-time.md says how
accurately.
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
from pvtree.comm.steps import n_choice_messages
from pvtree.errors import InvalidParameterError
from pvtree.kernels.team import Team

Result = TypeVar("Result")


@dataclass(frozen=True)
class Cluster:
    """A cluster of equal machines.

    Parameters
    ----------
    network : Network or str, default="1gbit"
        A rate such as "1gbit", or a ``Network``.
    latency : float or None, default=None
        Seconds one way, if ``network`` is a rate. At least 0.
    cores : float, default=1.0
        The cores of each machine. Greater than 0. Below 1, machines share cores: 4 machines with 0.5 cores are like 4
        processes on 2 cores, as in the cluster benchmark. From 2 on, kernels that work on blocks of rows or columns
        use this many cores.
    """

    network: Network | str = "1gbit"
    latency: float | None = None
    cores: float = 1.0

    def __post_init__(self) -> None:
        if not (self.cores > 0 and isfinite(self.cores)):
            raise InvalidParameterError(f"cores is {self.cores}; give the cores of one machine, a positive number.")
        if isinstance(self.network, Network) and self.latency is not None:
            raise InvalidParameterError("latency is given twice; a Network has its own, so leave it out here.")
        self.links()  # reports a wrong rate before training

    @property
    def n_threads(self) -> int:
        """The threads of each machine."""
        return max(1, int(self.cores))

    def links(self) -> Network:
        """The network as these machines see it: on a shared core, handling messages takes longer."""
        network = Network.parse(self.network, self.latency) if isinstance(self.network, str) else self.network
        share = min(1.0, self.cores)
        return replace(network, per_message=network.per_message / share, per_byte=network.per_byte / share)

    def span(self, seconds: list[float]) -> float:
        """How long the machines take, started together, if each computes for the given seconds."""
        busiest = max(seconds)
        # On shared cores a machine that has finished leaves its core to the others, so the sum counts as well.
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

    The results are those of ``local.run``, but ``comm.clock`` tells the time on such a cluster. A single machine with
    2 cores or more is not virtual: it uses real threads and the wall clock, because the kernel that grows a tree on
    one worker divides its work among threads itself.

    Parameters
    ----------
    function : callable
        Called with the communicator of each machine.
    size : int
        The number of machines. At least 1.
    cluster : Cluster
        The machines and their network.
    timeout : float, default=600.0
        How many seconds may pass without any machine reaching a collective. Greater than 0.
    thread_clock : callable or None, default=None
        Returns the processor seconds of the calling thread. None for ``time.thread_time``.
    """
    is_real = size == 1 and cluster.n_threads > 1
    if is_real and cluster.n_threads > local.usable_cores():
        raise InvalidParameterError(
            f"cores is {cluster.cores:g}, but a single worker runs on real cores, of which there are "
            f"{local.usable_cores()}; use fewer cores or more workers."
        )
    clock = thread_clock or (time.perf_counter if is_real else time.thread_time)
    timeline = Timeline(cluster, cluster.links(), [0.0] * size)

    def make(meeting: Meeting, rank: int) -> VirtualCommunicator:
        return VirtualCommunicator(meeting, rank, timeline, clock)

    return local.run(function, size, timeout=timeout, n_running=1, communicator=make)


@dataclass
class Timeline:
    """What the clocks of all machines share: they are equal whenever a collective ends."""

    cluster: Cluster
    network: Network
    since: list[float]  # seconds that each machine has computed between the last collective and the current one
    now: float = 0.0  # at the end of the last collective
    network_seconds: float = 0.0
    shared: float = 0.0  # seconds that each machine has computed inside collectives: its share of reductions
    is_stopped: list[bool] = field(default_factory=list)
    has_advanced: bool = False  # whether the last collective counted

    def __post_init__(self) -> None:
        self.is_stopped = [False] * len(self.since)

    def advance(self, call: Call, given: list[Any], reducing: float) -> None:
        """Called by the last machine to arrive, while the others wait."""
        self.has_advanced = not all(self.is_stopped)
        if not self.has_advanced:
            return
        # On a real cluster each machine sums up its part of the buffer, or chooses once for each message it gets.
        n_times = n_choice_messages(len(given)) / max(1, len(given) - 1) if call.verb == "choose" else 1 / len(given)
        share = reducing * n_times
        on_network = seconds_of(self.network, call, given)
        self.now += self.cluster.span([computed + share for computed in self.since]) + on_network
        self.network_seconds += on_network
        self.shared += share


class VirtualCommunicator(LocalCommunicator):
    """One virtual machine's communicator, with its clock.

    Time spent inside a collective is not counted: copying messages is part of the network's time
    (``Network.per_byte``). The exception is a reduction. The last machine to arrive computes it for all, and each of M
    machines is charged an M-th, its part in the two rounds of a large all-reduce.
    """

    def __init__(self, meeting: Meeting, rank: int, timeline: Timeline, thread_clock: Callable[[], float]) -> None:
        super().__init__(meeting, rank)
        self.n_on_host = 1
        self._timeline = timeline
        self._thread_clock = thread_clock
        self._computed = 0.0  # since the run began, without reductions
        self._computed_before = 0.0  # its value at the last collective
        self._n_stops = 0  # nested stops; the clock runs while there are none
        self._mark = thread_clock()

    @property
    def clock(self) -> float:
        """Seconds since the run began: up to the last collective, plus what this machine has computed since.

        Time lost by sharing cores is added at the next collective, when it is known what each machine has computed.
        """
        since = self._compute() - self._computed_before
        return self._timeline.now + (since if self.size > 1 else self._timeline.cluster.span([since]))

    @property
    def compute_seconds(self) -> float:
        """How long this machine has computed."""
        return self._compute() + self._timeline.shared

    @property
    def network_seconds(self) -> float:
        """How long messages were on their way. What is left of the clock is waiting for slower machines."""
        return self._timeline.network_seconds

    def now(self) -> float:
        """The virtual clock, so that the ledger and the timings of a training are in virtual seconds."""
        return self.clock

    def make_team(self, n_threads: int) -> Team:
        """As many threads as the virtual machine has cores, whatever the real one has."""
        n_cores = self._timeline.cluster.n_threads
        return Team(n_cores) if self.size == 1 else InTurn(n_cores, self._thread_clock, self._give_back)

    @contextmanager
    def uncounted(self) -> Iterator[None]:
        """Count neither bytes nor time. Collectives take no time if all workers are inside this block."""
        with super().uncounted(), self._stopped():
            self._timeline.is_stopped[self.rank] = True
            try:
                yield
            finally:
                self._timeline.is_stopped[self.rank] = False

    # The collectives: as on threads, with the clock stopped.

    def _allgather(self, buffer: np.ndarray, call: Call) -> list[np.ndarray]:
        with self._stopped():
            return super()._allgather(buffer, call)

    def _alltoall(self, buffers: list[np.ndarray], call: Call, radix: int) -> list[np.ndarray]:
        with self._stopped():
            return super()._alltoall(buffers, call, radix)

    def _allreduce(self, buffer: np.ndarray, op: str, call: Call) -> np.ndarray:
        with self._stopped():
            return super()._allreduce(buffer, op, call)

    def _choose(
        self, records: np.ndarray, better: Callable[[np.ndarray, np.ndarray], np.ndarray], call: Call
    ) -> np.ndarray:
        with self._stopped():
            return super()._choose(records, better, call)

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
        """Subtract seconds of work that was done in sequence here, but would run in parallel on the machine's cores."""
        if not self._n_stops:
            self._mark += seconds


class InTurn(Team):
    """The threads of a virtual machine: their blocks run one after another, and only the longest counts.

    This ignores that cores share caches and memory, and that Python code in one block delays the others.
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
    """How long the network takes for a collective with these buffers."""
    if call.verb == "allgather":
        return network.allgather([buffer.nbytes for buffer in given])
    if call.verb == "alltoall":
        sizes = np.array([[buffer.nbytes for buffer in row] for row in given])
        return network.alltoall(sizes, int(call.detail.removeprefix("by ")) if call.detail else None)
    if call.verb == "choose":
        return network.choose(given[0].nbytes, len(given))
    if call.verb == "allreduce":
        return network.allreduce(given[0].nbytes, len(given))
    return network.broadcast(next(buffer.nbytes for buffer in given if buffer is not None), len(given))
