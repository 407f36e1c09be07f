"""The sequential algorithm: one worker has all rows and columns, so its best split is the best."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pvtree.growing.strategy import Strategy

if TYPE_CHECKING:
    from pvtree.growing.frontier import Frontier


class Serial(Strategy):
    """Nothing to exchange. Training uses ``grower.Grower``, which grows the same tree faster."""

    def find_splits(self, frontier: Frontier) -> None:
        frontier.search_own_features()
