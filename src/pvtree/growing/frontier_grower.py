"""BuildTree (the paper's Algorithm 1) on many workers: all open nodes at once, whatever strategy finds their splits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pvtree.binning.shard import Shard
from pvtree.comm import Communicator
from pvtree.growing.constraints import NO_CONSTRAINTS, Constraints
from pvtree.growing.forced_splits import ForcedSplits
from pvtree.growing.frontier import Frontier
from pvtree.growing.layouts import Layout
from pvtree.growing.tree_memory import POOL_BYTES, GrownTree, Rules
from pvtree.kernels.team import Team

if TYPE_CHECKING:
    from pvtree.growing.strategy import Strategy

# Leaf-wise trees are grown a frontier at a time too: every leaf that best-first growth may still reach is split in
# advance, and in the end exactly the splits that it makes are kept (docs/adr/0007-frontiers-and-speculation.md).

# Trees without a leaf budget may have very wide levels. A level that would take a worker more bytes than this is
# evaluated in parts, each with its own collectives.
_LEVEL_BYTES = 2**28
# Successive trees are alike, so a node that gains less than this share of the last tree's least gain will hardly be
# split. Such unpromising nodes are deferred, because splitting in advance costs a search of both children.
_LIKELY = 0.9


class FrontierGrower:
    """Grows trees one after another on the same rows, with the same interface as ``Grower``."""

    def __init__(
        self, shard: Shard, layout: Layout, max_leaves: int, n_sampled: int, team: Team, comm: Communicator,
        strategy: Strategy, constraints: Constraints = NO_CONSTRAINTS, forced: ForcedSplits | None = None,
    ) -> None:  # fmt: skip
        self.strategy, self.forced = strategy, forced
        self.usual_gain = -np.inf  # the least gain of the last tree's splits, if its leaf budget was used up
        n_workers = comm.size
        most_leaves = min(max_leaves, shard.ids.n_all)  # each has a row
        pool = (2 * most_leaves + 2 if max_leaves else 512, POOL_BYTES // comm.n_on_host)
        ballot_rows = strategy.n_ballot_rows(n_sampled or shard.n_all_features, shard.ids.n_all)
        n_features = shard.n_all_features
        n_merged = strategy.n_merged(n_features)
        self.frontier = Frontier(shard, layout, n_sampled, n_workers, pool, team, constraints, ballot_rows, n_merged)
        self.memory = self.frontier.memory
        merged = n_merged * layout.n_planes * self.frontier.stride // n_workers
        # A node takes its merged histograms in words, and a gain and a flag per feature. The same on every worker.
        self.most_pairs = max(64, _LEVEL_BYTES // (2 * (8 * merged + 9 * n_features)))

    def grow(self, n_rows: int, root_sums: np.ndarray, rules: Rules, tree_features: np.ndarray) -> GrownTree:
        """Grow a tree on the first ``n_rows`` places of buffer 0 of the memory's rows, words and planes."""
        frontier, strategy = self.frontier, self.strategy
        frontier.begin(n_rows, root_sums, rules, tree_features)
        strategy.begin_tree(frontier)
        if self.forced is not None:
            self.forced.begin()
        evaluated = frontier.row_node
        if frontier.is_open.any():
            self._find_splits()
        parents, is_end = self._next_to_split()
        while not is_end:
            self._split(parents)
            frontier.free_histograms(evaluated)
            evaluated = self._evaluate_children(parents)
            parents, is_end = self._next_to_split()
        if len(parents):
            self._split(parents)
        self.usual_gain = frontier.least_gain_split()
        tree, is_split = frontier.finish()
        strategy.finish_tree(frontier, is_split)
        return tree if self.forced is None else self.forced.with_real_gains(tree, rules)

    def _find_splits(self) -> None:
        """The best splits of the frontier's open nodes, or those that they must have."""
        self.strategy.find_splits(self.frontier)
        if self.forced is not None:
            self.forced.put(self.frontier)

    def _next_to_split(self) -> tuple[np.ndarray, bool]:
        """The nodes to split now, once the strategy is sure of their splits, and whether they are the last."""
        frontier = self.frontier
        while True:
            parents = frontier.next_to_split()
            is_end = len(parents) == 0
            if is_end:
                parents = frontier.last_to_split()
            elif self.strategy.waits:
                likely = frontier.gains_of(parents) >= _LIKELY * self.usual_gain
                parents = parents[likely] if likely.any() else parents
            if not self.strategy.confirm(frontier, parents, is_end):
                return parents, is_end

    def _split(self, parents: np.ndarray) -> None:
        """Split(D, N, bestSplit) for all of these nodes."""
        self.frontier.make_children(parents)
        self.strategy.mark_sides(self.frontier, parents)
        self.frontier.move_rows(parents)
        if self.forced is not None:
            self.forced.follow(self.frontier, parents)

    def _evaluate_children(self, parents: np.ndarray) -> np.ndarray:
        """Find the splits of all open children; returns the nodes evaluated."""
        frontier = self.frontier
        worth_it = frontier.with_open_children(parents)
        if len(worth_it) < len(parents):
            frontier.give_up_histograms(np.setdiff1d(parents, worth_it))
        evaluated = [np.empty(0, np.int64)]
        for first in range(0, len(worth_it), self.most_pairs):
            frontier.look_at_children(worth_it[first : first + self.most_pairs])
            self._find_splits()
            evaluated.append(frontier.row_node)
        return np.concatenate(evaluated)
