"""What a grower asks of whoever finds the splits; the strategies themselves are in find_split."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from pvtree.growing.frontier import Frontier


class Strategy:
    """The interface of all strategies. A strategy may remember what it learnt about the frontier before."""

    # Whether unpromising nodes are deferred until nothing else is left to split. That saves searches in advance, but a
    # deferred node cannot be subtracted from its parent: where all features are merged, that costs more.
    waits = False
    votes: Any = None  # list[Votes], one per tree, where workers vote
    certificates: Any = None  # list[Certificate], one per tree, where splits are proven

    def n_merged(self, n_features: int) -> int:
        """The largest number of features whose histograms are merged at a node."""
        return 0

    def n_ballot_rows(self, n_allowed: int, n_rows: int) -> int:
        """About how many of ``n_rows`` vote at the root if nodes may use so many features; 0: all, or nobody votes."""
        return 0

    def begin_tree(self, frontier: Frontier) -> None:
        """A new tree begins; the frontier is its root."""

    def find_splits(self, frontier: Frontier) -> None:
        """Give every open node of the frontier its best split."""
        raise NotImplementedError

    def confirm(self, frontier: Frontier, nodes: np.ndarray, is_end: bool) -> bool:
        """Make sure of the splits of these nodes, which are made next; returns whether one of them has changed.

        ``is_end``: nothing else is left to split, so this is the last chance to correct any other node.
        """
        return False

    def mark_sides(self, frontier: Frontier, parents: np.ndarray) -> None:
        """Mark which rows of these nodes go left; a worker with all bins of its rows needs no other worker."""
        frontier.mark_sides(parents)

    def finish_tree(self, frontier: Frontier, is_split: np.ndarray) -> None:
        """The tree is complete; ``is_split`` tells which nodes it splits."""

    def finish_training(self) -> None:
        """There are no more trees: the last chance to notice that workers have decided differently."""
