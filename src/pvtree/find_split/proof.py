"""Proving the election right: which features could still have a better split than the elected winner."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pvtree.find_split.exchange import Exchange
from pvtree.growing.frontier_records import Elected
from pvtree.kernels.bounds import proof as kernels
from pvtree.kernels.bounds.rounded_sums import most_bits
from pvtree.kernels.bounds.rounding_grid import make_grid
from pvtree.kernels.wire.histograms import from_bytes, to_bytes

if TYPE_CHECKING:
    from pvtree.growing.frontier import Frontier

# A feature is ruled out where the sum of all workers' bounds (bounds.py) stays below the winner's gain. For the others,
# workers send the sums of their rows, rounded outward to a few bits (kernels/rounded_sums.py). What is in doubt even
# then must be merged.

# One round of sums for all features in doubt. A coarse round, and a fine one for what it leaves open, would take a
# quarter fewer bytes, but more collectives for each frontier (docs/adr/0036-proofs-that-travel-along.md).
GRID = make_grid(0.45, 0.4)
# Rows of a node per worker. With fewer, the rows themselves take hardly more bytes than their rounded sums.
_LEAST_ROUNDED = 32


class Proof:
    """What is known about the features of a frontier's nodes that were not elected.

    ``upper`` (n_nodes, own features) is the most that each of this worker's features may gain, in steps; -inf where it
    is ruled out or merged. ``smallest`` is the smallest hessian of a node's rows.
    """

    def __init__(self, frontier: Frontier, upper: np.ndarray, smallest: np.ndarray, exchange: Exchange) -> None:
        self.frontier, self.upper, self.smallest, self.exchange = frontier, upper, smallest, exchange
        self.rank, self.size = exchange.comm.rank, exchange.comm.size
        # Rounded sums are pairs, of gradient and hessian or of two classes. Categories have no order to sum in.
        # With options, what they must beat is in other units.
        self.row_node, has_options = frontier.row_node, frontier.memory.arrays["has_options"]
        self.can_round = (frontier.is_categorical == 0) & (frontier.n_classes <= 2) & (not has_options)
        self.is_settled = False  # whether nothing is in doubt on any worker

    # Which features are in doubt

    def doubts(self) -> np.ndarray:
        """bool (n_nodes, own features): which may still be better than the split known so far."""
        in_doubt: np.ndarray = self.reach() >= self.frontier.least_gains()[:, None]
        return in_doubt

    def reach(self) -> np.ndarray:
        """``upper``, adjusted to options of the search."""
        return self.frontier.most_with_options(self.upper, self.row_node, self.rank)

    def to_narrow(self, in_doubt: np.ndarray) -> np.ndarray:
        """Those of all workers' doubts that rounded sums may rule out for fewer bytes than a histogram takes.

        None where no split is known that a feature must beat, nor where workers have few rows.
        """
        frontier = self.frontier
        has_rival = np.maximum(frontier.gains_of(frontier.row_node), frontier.least_gain_split()) > -np.inf
        worth_it = has_rival & (frontier.row_counts >= _LEAST_ROUNDED * self.size)
        return in_doubt * (worth_it[:, None] & self.can_round)

    def gather(self, own: np.ndarray) -> np.ndarray:
        """uint8 (n_nodes, n_features): every worker's flags of its own features, put together."""
        some = own.any(axis=1)
        bits = np.packbits(np.concatenate((some, own[some].ravel())))
        everybody = np.zeros((len(own), self.frontier.n_features), np.uint8)
        for other, message in enumerate(self.exchange.allgather(bits, "proofs")):
            flags = np.unpackbits(message)
            some = flags[: len(own)] == 1
            theirs = everybody[:, other :: self.size]
            shape = (int(some.sum()), theirs.shape[1])
            theirs[some] = flags[len(own) :][: shape[0] * shape[1]].reshape(shape)
        return everybody

    # Rounded sums of what is in doubt

    def write(self, in_doubt: np.ndarray) -> list[np.ndarray]:
        """Bytes for each worker: sums of this worker's rows, rounded outward; ``in_doubt`` is known to every worker."""
        frontier = self.frontier
        n_by_worker = np.stack([in_doubt[:, to :: self.size].sum(axis=1, dtype=np.int64) for to in range(self.size)])
        room = most_bits(n_by_worker).sum(axis=1) // 64 + 2
        room[self.rank] = 0
        start = np.concatenate(([0], np.cumsum(room)))
        at, bits = np.zeros(self.size, np.int64), np.empty(start[-1], np.uint64)
        # The reader needs the same numbers, whatever has been found by then.
        self.asked, self.least, self.most_features = in_doubt, frontier.least_gains(), int(n_by_worker.max(initial=0))
        known = self._kernel_arguments()

        def write(first_row: int, last_row: int) -> None:
            frontier.run_on_blocks(
                kernels.write_rounded, self.size, first_row, last_row, self.size, self.rank, *known, start, at, bits
            )

        frontier.with_histograms(in_doubt.sum(axis=1), write)
        return [to_bytes(bits[start[to] : start[to + 1]], int(at[to])) for to in range(self.size)]

    def read(self, messages: list[np.ndarray]) -> None:
        """Lower ``upper`` by what all workers wrote."""
        words = [from_bytes(message) for message in messages]
        place = np.concatenate(([0], np.cumsum([len(each) for each in words])))
        kernels.read_rounded(
            self.size, self.rank, *self._kernel_arguments(), place, np.concatenate(words), self.smallest, self.upper,
            self.frontier.kernel_arguments[2],
        )  # fmt: skip

    def _kernel_arguments(self) -> tuple[Any, ...]:
        record, nodes, _ = self.frontier.kernel_arguments
        return (self.asked, self.most_features, self.least, self.frontier.row_node, record, nodes, *GRID)

    def narrow(self, in_doubt: np.ndarray) -> None:
        """Lower ``upper`` in an exchange of its own."""
        about = int(in_doubt.sum()) * self.frontier.stride // 4  # about two bits of each bin
        self.read(self.exchange.alltoall(self.write(in_doubt), "proofs", about))

    # What remains

    def most_doubtful(self, n_each: int) -> Elected:
        """For every row and worker, the ``n_each`` features in doubt that have the largest bounds."""
        in_doubt = self.doubts()
        if n_each < in_doubt.shape[1]:
            order = np.argsort(np.where(in_doubt, -self.upper, np.inf), axis=1, kind="stable")
            np.put_along_axis(in_doubt, order[:, n_each:], False, axis=1)
        return Elected.of(self.gather(in_doubt))

    def settle(self, merged: Elected) -> None:
        """These features have been merged, so they are no longer in doubt."""
        own = merged.feature % self.size == self.rank
        self.upper[merged.row[own], merged.feature[own] // self.size] = -np.inf
