"""What the strategies of several workers share: how votes are counted, and that all workers decide alike."""

from __future__ import annotations

from typing import NamedTuple

from pvtree.comm import Communicator
from pvtree.errors import public
from pvtree.find_split.exchange import Exchange
from pvtree.growing.strategy import Strategy


@public
class Votes(NamedTuple):
    """How many splits of a tree had their attribute on all ballots, on at least half, or on fewer.

    Only splits that workers voted on are counted.
    """

    all: int
    half: int
    fewer: int
    named: int  # ballots that named the attribute, summed over these splits

    @property
    def splits(self) -> int:
        return self.all + self.half + self.fewer


class ParallelStrategy(Strategy):
    """A strategy of several workers, who check that all of them take the same decisions."""

    def __init__(self, comm: Communicator) -> None:
        self.exchange = Exchange(comm)

    def finish_training(self) -> None:
        self.exchange.check()
