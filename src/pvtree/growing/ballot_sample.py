"""The rows by which a worker votes: of large nodes a sample, drawn by the hash of (seed, tree, row number)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from pvtree.growing.tree_memory import TreeMemory, lines_of_rows
from pvtree.kernels.constants import N_BINS
from pvtree.kernels.growing import ballot_rows as kernels
from pvtree.kernels.growing import two_looks
from pvtree.kernels.growing.frontier import plan_samples
from pvtree.kernels.growing.records import WANT_GAINS
from pvtree.kernels.growing.sampled_gains import FULL_GRAINED, find_sampled_gains
from pvtree.kernels.hashing import hash_pair

if TYPE_CHECKING:
    from pvtree.binning.shard import Shard
    from pvtree.growing.frontier import Frontier
    from pvtree.kernels.team import Team

# A ballot by fewer rows is mostly noise, whatever the number of other workers.
LEAST_ROWS = 256
# Of many features all are looked at by a share of the sample, and the best few of them by the whole of it. The first
# look costs more, and needs fewer rows: it only has to leave the best features among this many times the ballot.
FIRST_SHARE = 4
LEAST_FIRST_ROWS = 128
CANDIDATES = 4
_WORTH_TWO_LOOKS = 2  # features for every candidate
# A sample of as many rows, 24 to a bin, has one look at every boundary: with more rows ballots converge to those that
# all rows would cast.
FULL_LOOK = 24 * int(N_BINS)
# Ballots by few rows, and ballots whose election is proven anyway, try a feature of many bins at about this many
# boundaries. What is merged, and where a node is split, is full-grained (docs/adr/0012-coarse-ballots.md). Not below 4:
# see TILE_BOUNDARIES.
BALLOT_BOUNDARIES = 64
_PURPOSE = 7  # a tree's key also rounds gradients and draws features: ballots take a stream of their own


class BallotSample:
    """About ``n_rows`` rows of all workers vote at the root, fewer at nodes below it.

    A wrong ballot costs gain in proportion to a node's rows n, and errs the less the more rows m vote. The sum of
    n / m over all nodes, for a given sum of m, is least if m grows with the square root of n.
    """

    def __init__(self, shard: Shard, n_rows: int, n_workers: int, team: Team) -> None:
        self.ids, self.team = shard.ids, team
        self.n_rows, self.n_workers = n_rows, n_workers
        self.level = np.empty(shard.n_rows, np.uint8)
        self._planned: tuple[np.ndarray, tuple[np.ndarray, np.ndarray]] | None = None
        self.groups: np.ndarray | None = None  # made when it is needed: see kernels/growing/two_looks.py

    def order_rows(self, memory: TreeMemory, n_rows: int, key: int) -> None:
        """Order the first places of buffer 0 into buffer 1, so that the first rows of every node are its sample."""
        stream = np.uint64(hash_pair(np.uint64(key), np.int64(_PURPOSE)))
        self.ids.for_blocks(
            self.team, lambda start, stop, shift: kernels.draw_levels(start, stop, stream, shift, self.level)
        )
        kernels.order_by_level(n_rows, self.level, memory.rows, memory.words, memory.planes)

    def n_candidates(self, frontier: Frontier, k: int) -> int:
        """How many features are looked at closely before k of them are named; 0 if one look at all of them will do."""
        n = CANDIDATES * k
        if not frontier.is_plain or n * _WORTH_TWO_LOOKS > frontier.n_allowed:
            return 0
        n_sampled = self._plan(frontier)[1] - frontier.nodes["start"][frontier.row_node]
        return n if n_sampled.max(initial=0) <= frontier.layout.capacity else 0

    def gains(self, frontier: Frontier, rows: np.ndarray) -> np.ndarray:
        """float64 (n_nodes, n_features): the gain of the best split by a sample of this worker's rows; -inf: none.

        For these rows of the frontier; no histogram is kept.
        """
        with self._sampled(frontier, self._plan(frontier)[1]) as (n_own, n_sampled):
            if frontier.is_plain and n_sampled.max(initial=0) <= frontier.layout.capacity:
                self._look_in_blocks(frontier, rows, n_own)
            else:
                few = n_sampled.max(initial=0) < FULL_GRAINED
                frontier.local_record["most_boundaries"] = BALLOT_BOUNDARIES if few else N_BINS
                n_families = plan_samples(frontier.row_node, rows, frontier.families, frontier.nodes)
                frontier.evaluate(frontier.local_record, n_families, WANT_GAINS)
        return frontier.gains[: frontier.n_nodes]

    def first_gains(self, frontier: Frontier, rows: np.ndarray) -> np.ndarray:
        """The same at a first look: by fewer rows, and at boundaries between groups of bins."""
        wanted = np.maximum(LEAST_FIRST_ROWS, self._plan(frontier)[0] // FIRST_SHARE)
        with self._sampled(frontier, self._stops(frontier, wanted)) as (n_own, _):
            packed = self._packed_groups(frontier.memory)
            n_families = plan_samples(frontier.row_node, rows, frontier.families, frontier.nodes)
            frontier.run_on_blocks(
                two_looks.look_first, packed.shape[1] // int(two_looks.LINE) * int(n_families), frontier.local_record,
                frontier.families, frontier.nodes, n_own, packed, at_once=64,
            )  # fmt: skip
        return frontier.gains[: frontier.n_nodes]

    def closer_gains(self, frontier: Frontier, rows: np.ndarray, candidates: np.ndarray) -> np.ndarray:
        """The same by the whole sample, of candidates: by row, in rising order.

        A sample large enough for all boundaries is looked at as a whole: all features are candidates.
        """
        with self._sampled(frontier, self._plan(frontier)[1]) as (n_own, n_sampled):
            is_large = n_sampled >= FULL_LOOK
            if is_large.any():
                self._look_in_blocks(frontier, rows & is_large, n_own)
            n_families = plan_samples(frontier.row_node, rows & ~is_large, frontier.families, frontier.nodes)
            frontier.run_on_blocks(
                two_looks.look_closely, int(n_families), frontier.local_record, frontier.families, frontier.nodes,
                n_own, candidates, self._packed_groups(frontier.memory), at_once=4,
            )  # fmt: skip
        return frontier.gains[: frontier.n_nodes]

    def _look_in_blocks(self, frontier: Frontier, rows: np.ndarray, n_own: np.ndarray) -> None:
        n_families = plan_samples(frontier.row_node, rows, frontier.families, frontier.nodes)
        frontier.local_record["most_boundaries"] = BALLOT_BOUNDARIES
        frontier.run_on_blocks(
            find_sampled_gains, frontier.memory.arrays["n_blocks"] * int(n_families), frontier.local_record,
            frontier.families, frontier.nodes, n_own, at_once=64,
        )  # fmt: skip

    def _wanted(self, frontier: Frontier) -> np.ndarray:
        """int64 (n_nodes,): about how many of this worker's rows vote at each node; all, if it has no more."""
        share = np.sqrt(frontier.row_counts / max(1, int(frontier.nodes[0]["n_rows"])))
        return np.maximum(LEAST_ROWS, np.ceil(share * (self.n_rows / self.n_workers)).astype(np.int64))

    def _plan(self, frontier: Frontier) -> tuple[np.ndarray, np.ndarray]:
        """(``_wanted``, ``_stops``) of these nodes, found once for all looks at them."""
        if self._planned is None or self._planned[0] is not frontier.row_node:
            wanted = self._wanted(frontier)
            self._planned = frontier.row_node, (wanted, self._stops(frontier, wanted))
        return self._planned[1]

    def _stops(self, frontier: Frontier, wanted: np.ndarray) -> np.ndarray:
        """int64 (n_nodes,): where the sample ends among the places of each node's rows."""
        stops = np.empty(frontier.n_nodes, np.int64)
        kernels.sample_stops(frontier.row_node, wanted, self.level, frontier.memory.rows, frontier.nodes, stops)
        return stops

    @contextmanager
    def _sampled(self, frontier: Frontier, sampled: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """For a while the rows of each node on this worker are those of its sample; gives (all rows, sampled rows)."""
        nodes, row_node = frontier.nodes, frontier.row_node
        start, stop, slot = (nodes[name][row_node] for name in ("start", "stop", "slot"))
        nodes["stop"][row_node] = sampled
        nodes["slot"][row_node] = -1  # histograms of all rows that a proof may need stay as they are
        frontier.begin_local()
        try:
            yield stop - start, sampled - start
        finally:
            nodes["slot"][row_node], nodes["stop"][row_node] = slot, stop

    def _packed_groups(self, memory: TreeMemory) -> np.ndarray:
        if self.groups is None:
            columns, n_bins = memory.columns(), memory.data.n_bins
            groups = np.zeros((len(columns), N_BINS), np.uint8)
            self.team.for_blocks(two_looks.make_groups, len(columns), columns, n_bins, groups, min_block=1)
            n_bytes = -(-len(columns) // int(two_looks.PAIR * two_looks.PAIRS)) * int(two_looks.LINE)
            self.groups = lines_of_rows(columns.shape[1], n_bytes)
            self.team.for_blocks(two_looks.pack_groups, columns.shape[1], columns, groups, self.groups)
        return self.groups
