"""Merge the elected features' histograms: each goes to the worker that owns its feature, who adds them up and scans.

Departs from the paper, where whole histograms travel: subtraction on merged histograms lets only the smaller child's
travel, and what travels is packed without loss (docs/adr/0008-what-travels.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pvtree.find_split.exchange import Exchange
from pvtree.find_split.post import Items, Post
from pvtree.kernels.wire import merge as kernels

if TYPE_CHECKING:
    from pvtree.growing.frontier import Frontier

_NOTHING = np.empty(0, np.int64)
LENGTH_BYTES = 4  # in front of what travels along with histograms


class Elected(NamedTuple):
    """The features to merge at each node of a frontier, in rising order, row after row."""

    start: np.ndarray  # int64 (n_rows + 1,)
    feature: np.ndarray  # int64
    votes: np.ndarray = _NOTHING  # int64, like feature; empty where nobody voted

    @classmethod
    def of(cls, chosen: np.ndarray) -> Elected:
        """From flags (n_rows, n_features)."""
        row, feature = np.nonzero(chosen)
        return cls(np.searchsorted(row, np.arange(len(chosen) + 1)), feature)

    @property
    def row(self) -> np.ndarray:
        """int64, like feature."""
        return np.repeat(np.arange(len(self.start) - 1), np.diff(self.start))


class Merging:
    """Merges one frontier after another, and keeps the last one for subtraction."""

    def __init__(self, exchange: Exchange, form: np.int64) -> None:
        self.exchange, self.form = exchange, form
        self.rank, self.size = exchange.comm.rank, exchange.comm.size
        self.forget()

    def forget(self) -> None:
        """A new tree has no merged histograms yet."""
        self.before: Items | None = None

    def merge(
        self, frontier: Frontier, elected: Elected, along: Sequence[np.ndarray] | None = None
    ) -> list[np.ndarray]:
        """Merge and scan: the frontier's candidates are then the best splits of this worker's features.

        ``along`` are proofs for each worker that go in the same messages. Returns those that came along.
        """
        items = self._plan(frontier, elected)
        brought = self._send(frontier, items, "histograms", along)
        self._subtract(frontier, items)
        frontier.search_merged(elected, items)
        self.before = items
        return brought

    def merge_more(self, frontier: Frontier, more: Elected, phase: str) -> None:
        """The same for further features of a frontier. They are too few to be kept for subtraction."""
        none = np.full(len(more.feature), kernels.TRAVELS)
        items = self._place(frontier, more.start, more.feature, none, none)
        self._send(frontier, items, phase)
        frontier.search_merged(more, items)

    def _send(
        self, frontier: Frontier, items: Items, phase: str, along: Sequence[np.ndarray] | None = None
    ) -> list[np.ndarray]:
        """All items that travel, to their owners, who add them up. Returns what came along."""
        post = Post(frontier, items, self._owner(frontier), self.form, self.rank, self.size)
        messages = post.write()
        own, messages[self.rank] = messages[self.rank], messages[self.rank][:0]
        if along is not None:
            messages = [with_passenger(each, message) for each, message in zip(along, messages, strict=True)]
        received = self.exchange.alltoall(messages, phase)
        brought: list[np.ndarray] = []
        if along is not None:
            brought, received = map(list, zip(*map(without_passenger, received), strict=True))
            n_along = sum(LENGTH_BYTES + len(each) for to, each in enumerate(along) if to != self.rank)
            self.exchange.comm.traffic.rebook(n_along, phase, "proofs")
        received[self.rank] = own
        post.read(received)
        return brought

    def _owner(self, frontier: Frontier) -> np.ndarray:
        return np.arange(frontier.n_features) % self.size

    def _plan(self, frontier: Frontier, elected: Elected) -> Items:
        n_rows = frontier.n_rows
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
        return self._place(frontier, start, feature[:n], parent[:n], sibling[:n])

    def _place(
        self, frontier: Frontier, start: np.ndarray, feature: np.ndarray, parent: np.ndarray, sibling: np.ndarray
    ) -> Items:
        """Items with room for those that this worker owns."""
        layout = frontier.memory.layout
        row_n_rows = frontier.memory.nodes["n_rows"][frontier.row_node]
        place = np.empty(len(feature), np.int64)
        size = kernels.place_items(
            self.rank, self._owner(frontier), row_n_rows, layout.capacity, layout.n_planes, layout.n_fields,
            frontier.memory.arrays["stride"], start, feature, place,
        )  # fmt: skip
        return Items(start, feature, parent, sibling, place, row_n_rows > layout.capacity, np.empty(size, np.int64))

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


def with_passenger(passenger: np.ndarray, message: np.ndarray) -> np.ndarray:
    """One message of two: the length of the first in four bytes, then both."""
    length = np.array([len(passenger)], np.uint32).view(np.uint8)  # (LENGTH_BYTES,)
    return np.concatenate((length, passenger, message))


def without_passenger(message: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    stop = LENGTH_BYTES + int(message[:LENGTH_BYTES].view(np.uint32)[0])
    return message[LENGTH_BYTES:stop], message[stop:]
