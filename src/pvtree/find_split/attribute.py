"""Attribute-parallel: columns are spread over workers, and the owner of the winning column sends a bit for each row."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pvtree.comm import Communicator
from pvtree.find_split.splits import agree_on_best
from pvtree.find_split.strategy import ParallelStrategy

if TYPE_CHECKING:
    from pvtree.growing.frontier import Frontier


class Attribute(ParallelStrategy):
    """Every worker has all rows of its columns. Traffic grows with the number of rows: a bit per row and level."""

    def __init__(self, comm: Communicator) -> None:
        super().__init__(comm)

    def find_splits(self, frontier: Frontier) -> None:
        frontier.search_own_features()
        agree_on_best(frontier, self.exchange)

    def mark_sides(self, frontier: Frontier, parents: np.ndarray) -> None:
        """Mark the sides that this worker's columns decide, and receive the rest from the other owners."""
        owner = frontier.owner_of_split(parents)
        rank = self.exchange.comm.rank
        frontier.mark_sides(parents[owner == rank])
        bits = frontier.pack_sides(parents[owner == rank])
        for other, received in enumerate(self.exchange.allgather(bits, "rows")):
            if other != rank:
                frontier.unpack_sides(parents[owner == other], received)
