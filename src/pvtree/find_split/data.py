"""Data-parallel: rows are spread, and the full-grained histograms of all attributes are merged.

With ``tree_learner="quantized"`` the same on a tenth of the bins, which coarsening.py makes: another baseline.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pvtree.comm import Communicator
from pvtree.find_split.merging import Merging
from pvtree.find_split.splits import agree_on_best
from pvtree.find_split.strategy import Together
from pvtree.kernels.wire.messages import PLAIN, SPARSE

if TYPE_CHECKING:
    from pvtree.growing.frontier import Frontier


class Data(Together):
    """Each worker owns the merged histograms of a share of the features, and scans them."""

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
