"""What every strategy answers: FindBestSplit for a whole frontier, and which side each row goes to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pvtree.comm import Communicator
from pvtree.errors import public
from pvtree.find_split.exchange import Exchange

if TYPE_CHECKING:
    from pvtree.growing.frontier import Frontier


@public
class Votes(NamedTuple):
    """How many splits of a tree had their attribute on all ballots, on at least half, on fewer.

    Only of splits that workers voted about.
    """

    all: int
    half: int
    fewer: int
    named: int  # ballots that named the attribute of their split, over all these splits

    @property
    def splits(self) -> int:
        return self.all + self.half + self.fewer


class Strategy:
    """One signature for all; a strategy may keep what it learnt about the frontier before."""

    # Whether nodes that are hardly ever split wait until nothing else is left. It saves searches in advance, but nodes
    # that waited cannot be subtracted from their parents: where all features are merged, that is the larger cost.
    waits = False
    votes: Any = None  # list[Votes], one for each tree, where workers vote
    certificates: Any = None  # list[Certificate], where splits are proven

    def n_merged(self, n_features: int) -> int:
        """The largest number of features whose histograms are merged at a node."""
        return 0

    def begin_tree(self, frontier: Frontier) -> None:
        """A new tree stands at its root."""

    def find_splits(self, frontier: Frontier) -> None:
        """Give every open node of the frontier its best split."""
        raise NotImplementedError

    def confirm(self, frontier: Frontier, nodes: np.ndarray, is_end: bool) -> bool:
        """Make sure of the splits of these nodes, which are to be made next; whether one of them has changed.

        ``is_end``: there is nothing else to split, so this is the last chance to find out about any other node.
        """
        return False

    def mark_sides(self, frontier: Frontier, parents: np.ndarray) -> None:
        """Mark which rows of the nodes about to be split go left; whoever has the rows' bins needs nobody."""
        frontier.mark_sides(parents)

    def finish_tree(self, frontier: Frontier, is_split: np.ndarray) -> None:
        """The tree is complete; ``is_split`` tells which nodes it splits."""

    def finish_training(self) -> None:
        """There are no more trees: the last chance to see that workers have decided differently."""


class Together(Strategy):
    """A strategy of several workers, who watch that they take the same decisions."""

    def __init__(self, comm: Communicator) -> None:
        self.exchange = Exchange(comm)

    def finish_training(self) -> None:
        self.exchange.check()
