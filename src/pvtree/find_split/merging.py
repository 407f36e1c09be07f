"""Merge the elected features' histograms: each goes to the worker that owns its feature, who adds them up and scans.

Departs from the paper, where whole histograms travel: subtraction on merged histograms lets only the smaller child's
travel, and what travels is packed without loss (docs/adr/0008-what-travels.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pvtree.find_split.exchange import Exchange
from pvtree.find_split.post import Items, Post
from pvtree.kernels import merge as kernels

if TYPE_CHECKING:
    from pvtree.frontier import Frontier

_NOTHING = np.empty(0, np.int64)


class Elected(NamedTuple):
    """The features to merge at each node of a frontier, in rising order, row after row."""

    start: np.ndarray  # int64 (n_rows + 1,)
    feature: np.ndarray  # int64
    votes: np.ndarray = _NOTHING  # int64, like feature; empty where nobody voted


class Merging:
    """Merges one frontier after another, and keeps the last one for subtraction."""

    def __init__(self, exchange: Exchange, form: np.int64) -> None:
        self.exchange, self.form = exchange, form
        self.rank, self.size = exchange.comm.rank, exchange.comm.size
        self.forget()

    def forget(self) -> None:
        """A new tree has no merged histograms yet."""
        self.before: Items | None = None

    def merge(self, frontier: Frontier, elected: Elected) -> None:
        """Merge and scan: the frontier's candidates are then the best splits of this worker's features."""
        owner = np.arange(frontier.n_features) % self.size
        items = self._plan(frontier, elected, owner)
        post = Post(frontier, items, owner, self.form, self.rank, self.size)
        messages = post.write()
        own, messages[self.rank] = messages[self.rank], messages[self.rank][:0]
        received = self.exchange.alltoall(messages, "histograms")
        received[self.rank] = own
        post.read(received)
        self._subtract(frontier, items)
        frontier.search_merged(elected, items)
        self.before = items

    def _plan(self, frontier: Frontier, elected: Elected, owner: np.ndarray) -> Items:
        n_rows, layout = frontier.n_rows, frontier.memory.layout
        known = (np.zeros(1, np.int64), _NOTHING) if self.before is None else (self.before.start, self.before.feature)
        most = 2 * len(elected.feature)
        start = np.empty(n_rows + 1, np.int64)
        feature, parent, sibling = (np.empty(most, np.int64) for _ in range(3))
        row_n_rows = frontier.memory.nodes["n_rows"][frontier.row_node]
        kernels.plan_items(
            len(frontier.pairs), frontier.pairs_before(), frontier.is_open, row_n_rows, elected.start,
            elected.feature, *known, start, feature, parent, sibling,
        )  # fmt: skip
        n = start[-1]
        place = np.empty(n, np.int64)
        size = kernels.place_items(
            self.rank, owner, row_n_rows, layout.capacity, layout.n_planes, layout.n_fields,
            frontier.memory.arrays["stride"], start, feature, place,
        )  # fmt: skip
        is_wide = row_n_rows > layout.capacity
        return Items(start, feature[:n], parent[:n], sibling[:n], place, is_wide, np.empty(size, np.int64))

    def _subtract(self, frontier: Frontier, items: Items) -> None:
        """Items that did not travel."""
        if self.before is None or len(frontier.pairs) == 0:
            return
        memory = frontier.memory
        pair_before = frontier.pairs_before()
        parent_wide = np.repeat((pair_before >= 0) & self.before.is_wide[np.maximum(pair_before, 0)], 2)
        memory.team.for_blocks_with(
            memory.scratch, kernels.subtract_items, frontier.n_rows, frontier.row_node, parent_wide, items.start,
            items.feature, items.parent, items.sibling, items.place, self.before.place, self.before.arena,
            frontier.tree, memory.nodes, items.arena,
        )  # fmt: skip
