"""Merge the elected features' histograms: each goes to the worker that owns its feature, who adds up and searches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pvtree.find_split.exchange import Exchange
from pvtree.find_split.histogram_messages import HistogramMessages, MessageRoom
from pvtree.growing.frontier_records import Elected, Items
from pvtree.kernels.wire import merge as kernels
from pvtree.kernels.wire.messages import PACKED

if TYPE_CHECKING:
    from pvtree.growing.frontier import Frontier

# Departs from the paper, where whole histograms travel: the larger child follows from its parent by subtraction, so
# only the smaller child's histograms travel, packed without loss (docs/adr/0008-what-travels.md).
_NOTHING = np.empty(0, np.int64)
LENGTH_BYTES = 4  # in front of what travels along with histograms


class Merging:
    """Merges one frontier after another, and keeps the last one's histograms for subtraction."""

    def __init__(self, exchange: Exchange, form: np.int64) -> None:
        self.exchange, self.form = exchange, form
        self.rank, self.size = exchange.comm.rank, exchange.comm.size
        self.room: MessageRoom | None = None
        self.owners = np.empty(0, np.int64)
        self.forget()

    def forget(self) -> None:
        """A new tree has no merged histograms yet."""
        self.before: Items | None = None

    def merge(
        self, frontier: Frontier, elected: Elected, along: Sequence[np.ndarray] | None = None
    ) -> list[np.ndarray]:
        """Merge and search: the frontier's candidates are then the best splits of this worker's features.

        ``along`` are proofs for each worker that travel in the same messages. Returns those received.
        """
        items = self._plan(frontier, elected)
        brought = self._send(frontier, items, "histograms", along)
        if self.before is not None and len(frontier.pairs):
            frontier.subtract_merged(items, self.before)
        frontier.search_merged(elected, items)
        self.before = items
        return brought

    def merge_more(self, frontier: Frontier, more: Elected, phase: str) -> None:
        """The same for further features of the frontier, which are too few to keep for subtraction."""
        none = np.full(len(more.feature), kernels.TRAVELS)
        items = self._place(frontier, more.start, more.feature, none, none)
        self._send(frontier, items, phase)
        frontier.search_merged(more, items)

    def _send(
        self, frontier: Frontier, items: Items, phase: str, along: Sequence[np.ndarray] | None = None
    ) -> list[np.ndarray]:
        """Send all items that travel to their owners, who add them up. Returns what came along."""
        if self.size == 1:
            frontier.add_own_items(items)
            return []
        self.room = self.room or MessageRoom(frontier)
        histograms = HistogramMessages(
            frontier, items, self._owner(frontier), self.form, self.rank, self.size, self.room
        )
        messages = histograms.write()
        own, messages[self.rank] = messages[self.rank], messages[self.rank][:0]
        if along is not None:
            messages = [with_passenger(each, message) for each, message in zip(along, messages, strict=True)]
        received = self.exchange.alltoall(messages, phase, self._about(frontier, histograms))
        brought: list[np.ndarray] = []
        if along is not None:
            brought, received = map(list, zip(*map(without_passenger, received), strict=True))
            n_along = sum(LENGTH_BYTES + len(each) for to, each in enumerate(along) if to != self.rank)
            self.exchange.comm.traffic.rebook(n_along, phase, "proofs")
        received[self.rank] = own
        histograms.read(received)
        return brought

    def _about(self, frontier: Frontier, histograms: HistogramMessages) -> int:
        """About how many bytes a worker sends, by what all workers know."""
        if self.form != PACKED:
            return 8 * int(histograms.plain.sum())
        # Few rows are sent one by one, many as about two bytes of each bin.
        each = 2 * np.minimum(frontier.row_counts // self.size, frontier.stride)
        return int(histograms.n_items.sum(axis=1) @ each)

    def _owner(self, frontier: Frontier) -> np.ndarray:
        if len(self.owners) != frontier.n_features:
            self.owners = np.arange(frontier.n_features) % self.size
        return self.owners

    def _plan(self, frontier: Frontier, elected: Elected) -> Items:
        known = (np.zeros(1, np.int64), _NOTHING) if self.before is None else (self.before.start, self.before.feature)
        most = 2 * len(elected.feature)
        start = np.empty(frontier.n_nodes + 1, np.int64)
        feature, parent, sibling = (np.empty(most, np.int64) for _ in range(3))
        kernels.plan_items(
            len(frontier.pairs), frontier.pairs_before(), frontier.is_open, frontier.row_counts, elected.start,
            elected.feature, *known, start, feature, parent, sibling,
        )  # fmt: skip
        n = start[-1]
        return self._place(frontier, start, feature[:n], parent[:n], sibling[:n])

    def _place(
        self, frontier: Frontier, start: np.ndarray, feature: np.ndarray, parent: np.ndarray, sibling: np.ndarray
    ) -> Items:
        """The items, with room for those that this worker owns."""
        layout, row_counts = frontier.layout, frontier.row_counts
        place = np.empty(len(feature), np.int64)
        size = kernels.place_items(
            self.rank, self._owner(frontier), row_counts, layout.capacity, layout.n_planes, layout.n_fields,
            frontier.stride, start, feature, place,
        )  # fmt: skip
        return Items(start, feature, parent, sibling, place, row_counts > layout.capacity, np.empty(size, np.int64))


def with_passenger(passenger: np.ndarray, message: np.ndarray) -> np.ndarray:
    """Two messages in one: the length of the first in four bytes, then both."""
    length = np.array([len(passenger)], np.uint32).view(np.uint8)  # (LENGTH_BYTES,)
    return np.concatenate((length, passenger, message))


def without_passenger(message: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    stop = LENGTH_BYTES + int(message[:LENGTH_BYTES].view(np.uint32)[0])
    return message[LENGTH_BYTES:stop], message[stop:]
