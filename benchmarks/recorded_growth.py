"""Records how trees grow on several workers and what that costs, from outside, during training."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import numpy as np

from pvtree.comm import PHASES, Communicator, PhaseTraffic, Traffic
from pvtree.comm.traffic import TrafficReport
from pvtree.find_split import Strategy
from pvtree.growing.frontier import Frontier
from pvtree.growing.layouts import Layout
from pvtree.kernels.wire.messages import TRAVELS
from pvtree.parameters.params import Params
from pvtree.planning.formulas import Growth, Search
from pvtree.training import boosting, forest
from pvtree.training import train as ensemble


@dataclass
class Speculation:
    """Splits of leaf-wise trees that were made in advance, and how many of them were dropped."""

    n_made: int = 0  # splits
    n_dropped: int = 0
    plain_words: int = 0  # of histograms that each worker had ready for others or for itself
    dropped_words: int = 0  # of those, at children of dropped splits


@dataclass
class Record:
    """Record of one training. The growth is the same on every worker and is recorded on worker 0."""

    trees: list[Growth] = field(default_factory=list)
    speculation: Speculation = field(default_factory=Speculation)
    layout: Layout | None = None
    sent: dict[int, Traffic] = field(default_factory=dict)  # by rank, what the trees cost, without what came before

    def by_phase(self) -> dict[str, PhaseTraffic]:
        """Bytes of all workers and calls of one, for the phases that were used."""
        calls = {phase: self.sent[0][phase].calls for phase in PHASES}
        n_bytes = {phase: sum(traffic[phase].bytes for traffic in self.sent.values()) for phase in PHASES}
        return {phase: PhaseTraffic(n_bytes[phase], calls[phase]) for phase in PHASES if calls[phase]}


@contextmanager
def recording() -> Iterator[Record]:
    """Record the single training inside the block."""
    record = Record()
    make_strategy, report = boosting.make_strategy, ensemble.report

    def make(params: Params, comm: Communicator) -> Strategy | Recorder:
        strategy = make_strategy(params, comm)
        return Recorder(strategy, record) if comm.rank == 0 else strategy

    def note_and_report(comm: Communicator, before_trees: Traffic, *rest: Any) -> TrafficReport:
        record.sent[comm.rank] = comm.traffic - before_trees
        return report(comm, before_trees, *rest)

    with (
        patch.object(boosting, "make_strategy", make),
        patch.object(forest, "make_strategy", make),
        patch.object(ensemble, "report", note_and_report),
    ):
        yield record


class Recorder:
    """Wraps a strategy, passes every call on to it, and records the calls."""

    def __init__(self, strategy: Strategy, record: Record) -> None:
        self.strategy, self.record = strategy, record

    def __getattr__(self, name: str) -> Any:
        return getattr(self.strategy, name)

    def begin_tree(self, frontier: Frontier) -> None:
        self.record.layout = frontier.layout
        self.searches: list[Search] = []
        self.moves: list[list[int]] = []
        self.words_of_pairs = [(np.zeros(0, np.int64), np.zeros(0, np.int64))]  # (parents, words of both children)
        self.strategy.begin_tree(frontier)

    def find_splits(self, frontier: Frontier) -> None:
        self.strategy.find_splits(frontier)
        merging = getattr(self.strategy, "merging", None)
        n_open = int(frontier.is_open.sum())
        if merging is None:
            self.searches.append(Search(n_open))
            return
        items, layout = merging.before, frontier.layout
        travels = items.parent == TRAVELS
        row = np.repeat(np.arange(frontier.n_nodes), np.diff(items.start))[travels]
        bins = np.bincount(row, frontier.n_bins[items.feature[travels]] + 1, frontier.n_nodes)
        is_wide = frontier.row_counts > layout.capacity
        self.searches.append(Search(n_open, int(bins[~is_wide].sum()), int(bins[is_wide].sum())))
        words = (bins * np.where(is_wide, layout.n_fields, layout.n_planes)).astype(np.int64)
        if len(frontier.pairs):
            self.words_of_pairs.append((frontier.pairs.copy(), words.reshape(-1, 2).sum(axis=1)))
        self.record.speculation.plain_words += int(words.sum())

    def mark_sides(self, frontier: Frontier, parents: np.ndarray) -> None:
        if not hasattr(self.strategy, "merging"):
            n_rows = (frontier.nodes["stop"] - frontier.nodes["start"])[parents]
            owner = frontier.owner_of_split(parents)
            self.moves.append(np.bincount(owner, n_rows, frontier.n_workers).astype(int).tolist())
        self.strategy.mark_sides(frontier, parents)

    def finish_tree(self, frontier: Frontier, is_split: np.ndarray) -> None:
        speculation = self.record.speculation
        n_made, n_kept = int((frontier.nodes["left_child"][: frontier.n_made] > 0).sum()), int(is_split.sum())
        speculation.n_made += n_made
        speculation.n_dropped += n_made - n_kept
        for parents, words in self.words_of_pairs:
            speculation.dropped_words += int(words[is_split[parents] == 0].sum())
        self.record.trees.append(Growth(self.searches, 2 * n_kept + 1, self.moves))
        self.strategy.finish_tree(frontier, is_split)


def depth_of(left_child: np.ndarray) -> int:
    """Number of splits above the deepest leaf; nodes are ordered by level."""
    depth = np.zeros(len(left_child), np.int64)
    for node, left in enumerate(left_child):
        if left > 0:
            depth[left] = depth[left + 1] = depth[node] + 1
    return int(depth.max())
