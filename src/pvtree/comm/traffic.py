"""The ledger of what workers send each other: bytes, calls and waiting time by phase; and a report over all workers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from pvtree.comm.base import Communicator

PHASES = ("bins", "ballots", "histograms", "splits", "proofs", "rows", "trees", "scores", "metrics")


@dataclass(frozen=True)
class PhaseTraffic:
    """What one phase of training cost."""

    bytes: int = 0
    calls: int = 0
    seconds: float = 0.0


class Traffic:
    """What one worker has sent, and how long it spent in collectives, by phase.

    The cost of a part of the training is a difference: ``before = traffic.snapshot(); ...; traffic - before``.
    """

    __slots__ = ("_bytes", "_calls", "_seconds")

    def __init__(self) -> None:
        self._bytes = dict.fromkeys(PHASES, 0)
        self._calls = dict.fromkeys(PHASES, 0)
        self._seconds = dict.fromkeys(PHASES, 0.0)

    def record(self, phase: str, n_bytes: int, seconds: float) -> None:
        """Add one call."""
        self._bytes[phase] += n_bytes
        self._calls[phase] += 1
        self._seconds[phase] += seconds

    def rebook(self, n_bytes: int, booked: str, phase: str) -> None:
        """Move bytes from the phase ``booked``, whose message carried them, to ``phase``. Calls stay as they are."""
        self._bytes[booked] -= n_bytes
        self._bytes[phase] += n_bytes

    def __getitem__(self, phase: str) -> PhaseTraffic:
        return PhaseTraffic(self._bytes[phase], self._calls[phase], self._seconds[phase])

    def total(self) -> PhaseTraffic:
        """All phases together."""
        return PhaseTraffic(sum(self._bytes.values()), sum(self._calls.values()), sum(self._seconds.values()))

    def snapshot(self) -> Traffic:
        """A copy of the ledger, which later calls do not change."""
        return self - Traffic()

    def __sub__(self, earlier: Traffic) -> Traffic:
        difference = Traffic()
        for phase in PHASES:
            difference._bytes[phase] = self._bytes[phase] - earlier._bytes[phase]
            difference._calls[phase] = self._calls[phase] - earlier._calls[phase]
            difference._seconds[phase] = self._seconds[phase] - earlier._seconds[phase]
        return difference

    def __repr__(self) -> str:
        return phase_table({phase: self[phase] for phase in PHASES})

    def to_array(self) -> np.ndarray:
        """Bytes, calls and nanoseconds, (phases, 3): all integers, so that one buffer carries them exactly."""
        return np.array([(p.bytes, p.calls, round(p.seconds * 1e9)) for p in map(self.__getitem__, PHASES)], np.int64)


@dataclass(frozen=True)
class TrafficReport:
    """The traffic of all workers of one training."""

    bytes_per_tree: float  # sent by the average worker, without bytes_before_trees
    total_bytes: int  # sent by all workers together, in the whole training
    calls_per_tree: float  # collectives of one worker, without those before the first tree
    seconds_waiting: float  # how long the average worker spent in collectives
    by_phase: dict[str, PhaseTraffic]  # bytes of all workers, calls of one, seconds of the average worker
    # Per phase that sent anything: bytes of all workers together in each iteration.
    by_iteration: dict[str, tuple[int, ...]] = field(default_factory=dict)
    # Per phase that sent anything before the first tree: bytes of all workers together.
    before_trees: dict[str, int] = field(default_factory=dict)
    n_workers: int = 1
    seconds_by_worker: tuple[float, ...] = ()  # how long each worker spent in collectives

    @property
    def bytes_before_trees(self) -> float:
        """What the average worker sent once, before the first tree."""
        return sum(self.before_trees.values()) / self.n_workers

    def __str__(self) -> str:
        once = ""
        if self.before_trees:
            phases = ", ".join(self.before_trees)
            once = f"{format_bytes(self.bytes_before_trees)} per worker before the first tree ({phases}), "
        return (
            f"{format_bytes(self.bytes_per_tree)} sent per worker and tree in {self.calls_per_tree:.1f} calls, {once}"
            f"{format_bytes(self.total_bytes)} by all workers in total, {self.seconds_waiting:.2f} s waiting\n"
            f"{phase_table(self.by_phase)}"
        )

    __repr__ = __str__


def report(
    comm: Communicator, before_trees: Traffic, n_trees: int, after_iterations: Sequence[Traffic] = ()
) -> TrafficReport:
    """Add up the ledgers of all workers. Every worker must call it, and all get the same report.

    ``before_trees`` is the snapshot taken before the first tree, because bins and initial scores are reported
    separately; ``after_iterations`` are the snapshots taken after each iteration.
    """
    now = comm.traffic.snapshot()
    ledgers = np.stack([now.to_array(), (now - before_trees).to_array()])  # (everything or trees, phases, 3)
    with comm.uncounted():
        gathered = comm.allgather(ledgers, "metrics")
        sent_so_far = np.array([ledger.to_array()[:, 0] for ledger in (before_trees, *after_iterations)])
        by_iteration = sum(np.diff(own, axis=0) for own in comm.allgather(sent_so_far, "metrics"))
    everything, trees = np.stack(gathered, axis=1)  # both (workers, phases, 3)
    by_phase = {
        phase: PhaseTraffic(int(cost[:, 0].sum()), int(cost[0, 1]), float(cost[:, 2].mean()) / 1e9)
        for phase, cost in zip(PHASES, everything.swapaxes(0, 1), strict=True)
    }
    sent, calls, _ = trees.sum(axis=(0, 1)).tolist()
    return TrafficReport(
        bytes_per_tree=sent / comm.size / n_trees if n_trees else 0.0,
        total_bytes=sum(cost.bytes for cost in by_phase.values()),
        calls_per_tree=calls / comm.size / n_trees if n_trees else 0.0,
        seconds_waiting=sum(cost.seconds for cost in by_phase.values()),
        by_phase=by_phase,
        by_iteration={
            phase: tuple(sent.tolist())
            for phase, sent in zip(PHASES, np.transpose(by_iteration), strict=True)
            if np.any(sent)
        },
        before_trees={
            phase: sent
            for phase, sent in zip(PHASES, (everything - trees)[:, :, 0].sum(axis=0).tolist(), strict=True)
            if sent
        },
        n_workers=comm.size,
        seconds_by_worker=tuple((everything[:, :, 2].sum(axis=1) / 1e9).tolist()),
    )


def format_bytes(n_bytes: float) -> str:
    """Format a size for people, such as 1.6 MB, in powers of 1000 like network rates."""
    if n_bytes < 999.5:
        return f"{n_bytes:.0f} B"
    for unit in ("kB", "MB", "GB"):
        n_bytes /= 1000
        if n_bytes < 999.5:
            return f"{n_bytes:.0f} {unit}" if n_bytes >= 99.95 else f"{n_bytes:.1f} {unit}"
    return f"{n_bytes / 1000:.1f} TB"


def phase_table(by_phase: dict[str, PhaseTraffic]) -> str:
    """Aligned columns, one line per phase that was used, in the order of training."""
    lines = [f"{'phase':<10} {'bytes':>10} {'calls':>8} {'seconds':>9}"]
    for phase, cost in by_phase.items():
        if cost.calls:
            lines.append(f"{phase:<10} {format_bytes(cost.bytes):>10} {cost.calls:>8} {cost.seconds:>9.3f}")
    return "\n".join(lines)
