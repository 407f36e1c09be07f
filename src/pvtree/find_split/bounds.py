"""A bound for every feature that was not elected: each worker sends its share to the feature's owner, who adds up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pvtree.comm import Communicator
from pvtree.growing.frontier_records import Elected
from pvtree.kernels.bounds import wire as kernels
from pvtree.kernels.wire.histograms import from_bytes, to_bytes

if TYPE_CHECKING:
    from pvtree.growing.frontier import Frontier

_OCTAVE_STEPS = kernels.octave_steps()


class Bounds:
    """One worker's bounds of one frontier, as ``frontier.local_gains`` found them."""

    def __init__(self, frontier: Frontier, elected: Elected, comm: Communicator) -> None:
        self.frontier, self.rank, self.size = frontier, comm.rank, comm.size
        # uint8 (n_nodes, n_features): what each node may use and has not elected.
        self.asked = frontier.allowed * frontier.is_open[:, None].astype(np.uint8)
        self.asked[elected.row, elected.feature] = 0
        # More than two classes have no order, hence no above and below: one number is enough.
        self.n_sides = 2 if frontier.n_classes <= 2 else 1
        self.smallest = frontier.smallest_hessians()

    def write(self) -> list[np.ndarray]:
        """Bytes for each worker: this worker's bounds of that worker's features."""
        n_values = self.n_sides * self.asked.sum(axis=1, dtype=np.int64)
        most = int(kernels.most_bits_of_bounds(n_values).sum()) // 64 + 2  # no worker's share is larger
        start = np.arange(self.size + 1) * most
        at, bits = np.zeros(self.size, np.int64), np.empty(start[-1], np.uint64)
        kernels.write_bounds(
            self.size, self.rank, self.asked, self.n_sides, self.frontier.bounds, self.smallest, _OCTAVE_STEPS,
            start, at, bits,
        )  # fmt: skip
        return [to_bytes(bits[start[to] : start[to + 1]], int(at[to])) for to in range(self.size)]

    def read(self, received: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """(float64 (n_nodes, own features), int64 (n_nodes,)): the most that each feature may gain, and hessians.

        The gain, in steps, follows from all workers' bounds; it is -inf for features that were not asked about. The
        hessian is the smallest of any row of the node.
        """
        frontier = self.frontier
        sums = frontier.bounds[:, : frontier.n_nodes, self.rank :: self.size].copy()
        for other, message in enumerate(received):
            if other != self.rank:
                kernels.add_bounds(
                    self.size, self.rank, self.asked, self.n_sides, _OCTAVE_STEPS, from_bytes(message), sums,
                    self.smallest,
                )  # fmt: skip
        if self.n_sides == 1:
            sums[1] = sums[0]
        upper = np.empty(sums.shape[1:])
        kernels.largest_gains(
            self.size, self.rank, self.asked, frontier.row_node, frontier.aims, sums, frontier.record, upper
        )  # fmt: skip
        return upper, self.smallest
