"""The rows by which a worker votes: of large nodes a sample, drawn by the hash of (seed, tree, row number)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pvtree.kernels.growing import ballot_rows as kernels
from pvtree.kernels.hashing import hash_pair

if TYPE_CHECKING:
    from pvtree.binning.shard import Shard
    from pvtree.growing.tree_memory import TreeMemory
    from pvtree.kernels.team import Team

# A ballot by fewer rows is mostly noise, whatever the number of other workers.
LEAST_ROWS = 256
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

    def order_rows(self, memory: TreeMemory, n_rows: int, key: int) -> None:
        """Order the first places of buffer 0 into buffer 1, so that the first rows of every node are its sample."""
        stream = np.uint64(hash_pair(np.uint64(key), np.int64(_PURPOSE)))
        self.ids.for_blocks(
            self.team, lambda start, stop, shift: kernels.draw_levels(start, stop, stream, shift, self.level)
        )
        kernels.order_by_level(n_rows, self.level, memory.rows, memory.words, memory.planes)

    def stops(self, row_node: np.ndarray, n_all_rows: int, memory: TreeMemory) -> np.ndarray:
        """int64, like row_node: where the sample ends among the places of each node's rows on this worker."""
        share = np.sqrt(memory.nodes["n_rows"][row_node] / max(1, n_all_rows))
        wanted = np.maximum(LEAST_ROWS, np.ceil(share * (self.n_rows / self.n_workers)).astype(np.int64))
        stops = np.empty(len(row_node), np.int64)
        kernels.sample_stops(row_node, wanted, self.level, memory.rows, memory.nodes, stops)
        return stops
