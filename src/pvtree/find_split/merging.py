"""Merge the elected features' histograms: each goes to the worker that owns its feature, who adds them up and scans.

Departs from the paper, where whole histograms travel: subtraction on merged histograms lets only the smaller child's
travel, and what travels is packed without loss (docs/adr/0008-what-travels.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pvtree.find_split.exchange import Exchange
from pvtree.kernels import merge as kernels
from pvtree.kernels.sparse_words import most_words
from pvtree.kernels.wire import max_bits, wire_scratch

if TYPE_CHECKING:
    from pvtree.frontier import Frontier

_NOTHING = np.empty(0, np.int64)


class Elected(NamedTuple):
    """The features to merge at each node of a frontier, in rising order, row after row."""

    start: np.ndarray  # int64 (n_rows + 1,)
    feature: np.ndarray  # int64
    votes: np.ndarray = _NOTHING  # int64, like feature; empty where nobody voted


class Items(NamedTuple):
    """Merged histograms of a frontier, by row and rising feature; the same list on every worker."""

    start: np.ndarray  # int64 (n_rows + 1,)
    feature: np.ndarray
    parent: np.ndarray  # the parent's item that it is derived from, kernels.TRAVELS if it travels
    sibling: np.ndarray  # the sibling's item to subtract
    place: np.ndarray  # where the owner keeps it in its arena, -1 on other workers
    is_wide: np.ndarray  # by row: whether its items have one sum per field, or packed words
    arena: np.ndarray  # int64


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
        messages, own = self._write(frontier, items, owner)
        received = self.exchange.alltoall(messages, "histograms")
        received[self.rank] = own
        self._add_up(frontier, items, received, owner)
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

    def _plain_words(self, frontier: Frontier, items: Items, owner: np.ndarray, to: int) -> int:
        layout = frontier.memory.layout
        size: int = kernels.plain_size(
            to, owner, frontier.memory.nodes["n_rows"][frontier.row_node], layout.capacity, layout.n_planes,
            layout.n_fields, frontier.memory.data.n_bins, items.start, items.feature, items.parent,
        )  # fmt: skip
        return size

    def _write(self, frontier: Frontier, items: Items, owner: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
        """Messages to the other workers in bytes, and the plain one to this worker itself, which goes no way."""
        layout, most_bins = frontier.memory.layout, frontier.memory.arrays["stride"] - 1
        travels = items.parent == kernels.TRAVELS
        n_items = np.bincount(owner[items.feature[travels]], minlength=self.size)
        plain = [self._plain_words(frontier, items, owner, to) for to in range(self.size)]
        form = [kernels.PLAIN if to == self.rank else self.form for to in range(self.size)]
        room = {
            kernels.PACKED: int(max_bits(layout.n_fields, most_bins)) // 64 + 1,
            kernels.SPARSE: most_words(layout.n_fields, most_bins),
        }
        words = [
            np.empty(plain[to] if form[to] == kernels.PLAIN else n_items[to] * room[form[to]] + 2, np.int64)
            for to in range(self.size)
        ]
        at = np.zeros(self.size, np.int64)
        scratch = wire_scratch(layout.n_planes)
        known = (owner, frontier.row_node, items.start, items.feature, items.parent, frontier.tree)
        memory = frontier.memory

        def write(first_row: int, last_row: int) -> None:
            for to in range(self.size):
                at[to] = kernels.write_message(
                    first_row, last_row, to, form[to], at[to], *known, memory.nodes, memory.scratch[0], scratch,
                    words[to], words[to].view(np.uint64),
                )  # fmt: skip

        frontier.with_histograms(travels, items.start, write)
        messages = []
        for to in range(self.size):
            n_bytes = (int(at[to]) + 7) // 8 if form[to] == kernels.PACKED else 8 * int(at[to])
            message = words[to].view(np.uint8)[:n_bytes]
            if form[to] != kernels.PLAIN and n_bytes >= 8 * plain[to]:  # no shorter: then plain
                unpacked = np.empty(plain[to], np.int64)
                kernels.unpack_message(
                    to, form[to], *known, memory.nodes, memory.scratch[0], scratch, words[to],
                    words[to].view(np.uint64), unpacked,
                )  # fmt: skip
                message = unpacked.view(np.uint8)
            messages.append(message)
        own = messages[self.rank]
        messages[self.rank] = own[:0]
        return messages, own

    def _add_up(self, frontier: Frontier, items: Items, received: list[np.ndarray], owner: np.ndarray) -> None:
        plain = 8 * self._plain_words(frontier, items, owner, self.rank)
        # A message of any other form is shorter than a plain one, or it would have been sent plain.
        form = np.array([self.form if len(message) < plain else kernels.PLAIN for message in received])
        n_words = np.array([len(message) // 8 + 2 for message in received])  # readers may look a word ahead
        start = np.concatenate(([0], np.cumsum(n_words)))
        words = np.zeros(start[-1], np.int64)
        for m, message in enumerate(received):
            words[start[m] : start[m + 1]].view(np.uint8)[: len(message)] = message
        memory = frontier.memory
        kernels.read_messages(
            form, start, words, words.view(np.uint64), frontier.row_node, items.start, items.feature,
            items.parent, items.place, frontier.tree, memory.nodes, memory.scratch[0],
            wire_scratch(memory.layout.n_planes), items.arena,
        )  # fmt: skip
        if self.before is not None and len(frontier.pairs):
            pair_before = frontier.pairs_before()
            parent_wide = np.repeat((pair_before >= 0) & self.before.is_wide[np.maximum(pair_before, 0)], 2)
            memory.team.for_blocks_with(
                memory.scratch, kernels.subtract_items, frontier.n_rows, frontier.row_node, parent_wide, items.start,
                items.feature, items.parent, items.sibling, items.place, self.before.place, self.before.arena,
                frontier.tree, memory.nodes, items.arena,
            )  # fmt: skip
