"""Data-parallel: rows are spread over workers, and the histograms of all attributes are merged.

``tree_learner="quantized"``, another baseline, does the same on the tenth of the bins that coarsening.py leaves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pvtree.comm import Communicator
from pvtree.find_split.merging import Merging
from pvtree.find_split.splits import agree_on_best
from pvtree.find_split.strategy import ParallelStrategy
from pvtree.kernels.wire.messages import PLAIN, SPARSE

if TYPE_CHECKING:
    from pvtree.growing.frontier import Frontier


class Data(ParallelStrategy):
    """Each worker merges and searches the histograms of its share of the features."""

    def __init__(self, comm: Communicator, packs: bool) -> None:
        super().__init__(comm)
        self.merging = Merging(self.exchange, SPARSE if packs else PLAIN)

    def n_merged(self, n_features: int) -> int:
        return n_features

    def begin_tree(self, frontier: Frontier) -> None:
        self.merging.forget()

    def find_splits(self, frontier: Frontier) -> None:
        self.merging.merge(frontier, frontier.allowed_features())
        agree_on_best(frontier, self.exchange)
