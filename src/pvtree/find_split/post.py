"""The messages of one merge: written to the owners of features, read and added up by them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pvtree.kernels.constants import N_BINS
from pvtree.kernels.wire import messages as kernels
from pvtree.kernels.wire.histograms import max_bits, wire_scratch
from pvtree.kernels.wire.rows import max_bits_of_rows, rows_scratch
from pvtree.kernels.wire.sparse_words import most_words

if TYPE_CHECKING:
    from pvtree.growing.frontier import Frontier

# Histograms of single features cost about three times as much a row as those of whole blocks.
_SINGLY_BELOW = 1 / 3


class Items(NamedTuple):
    """Merged histograms of a frontier, by row and rising feature; the same list on every worker."""

    start: np.ndarray  # int64 (n_rows + 1,)
    feature: np.ndarray
    parent: np.ndarray  # the parent's item that it is derived from, messages.TRAVELS if it travels
    sibling: np.ndarray  # the sibling's item to subtract
    place: np.ndarray  # where the owner keeps it in its arena, -1 on other workers
    is_wide: np.ndarray  # by row: whether its items have one sum per field, or packed words
    arena: np.ndarray  # int64


class Post:
    """One worker's messages about one frontier."""

    def __init__(
        self, frontier: Frontier, items: Items, owner: np.ndarray, form: np.int64, rank: int, n_workers: int
    ) -> None:
        self.frontier, self.items, self.form, self.rank, self.n_workers = frontier, items, form, rank, n_workers
        memory = frontier.memory
        travels = items.parent == kernels.TRAVELS
        row = np.repeat(np.arange(frontier.n_rows), np.diff(items.start))[travels]
        # Items that travel, by row and worker that they go to.
        self.n_items = np.zeros((frontier.n_rows, n_workers), np.int64)
        np.add.at(self.n_items, (row, owner[items.feature[travels]]), 1)
        self.most_rows = int(kernels.MOST_ROWS_PER_BIN) * memory.arrays["stride"]
        self.known = (owner, frontier.row_node, items.start, items.feature, items.parent)
        self.plain = [self._plain_words(to) for to in range(n_workers)]  # length of each worker's message, unpacked
        self.sums = np.empty(int(self.n_items.max(initial=0)) * memory.layout.n_fields * N_BINS, np.int64)
        self.scratch = (memory.scratch[0], wire_scratch(memory.layout.n_planes), rows_scratch(self.most_rows))

    def write(self) -> list[np.ndarray]:
        """Bytes for each worker; what goes to this worker itself is plain."""
        frontier, memory = self.frontier, self.frontier.memory
        form = np.array([kernels.PLAIN if to == self.rank else self.form for to in range(self.n_workers)])
        n_words = np.where(form == kernels.PLAIN, self.plain, self._most_words())
        start = np.concatenate(([0], np.cumsum(n_words)))
        words = np.empty(start[-1], np.int64)
        at = np.zeros(self.n_workers, np.int64)
        arranged = np.empty((3, self.most_rows), np.int64)

        def write(first_row: int, last_row: int) -> None:
            kernels.write_messages(
                first_row, last_row, form, at, start, *self.known, frontier.tree, memory.nodes, *self.scratch,
                arranged, words, words.view(np.uint64),
            )  # fmt: skip

        frontier.with_histograms(self._wants_histograms(), write)
        messages = []
        for to in range(self.n_workers):
            message = words[start[to] : start[to + 1]]
            n_bytes = (int(at[to]) + 7) // 8
            if form[to] != kernels.PLAIN and n_bytes >= 8 * self.plain[to]:  # no shorter: then plain
                message, n_bytes = self._to_plain(to, message), 8 * self.plain[to]
            messages.append(message.view(np.uint8)[:n_bytes])
        return messages

    def read(self, received: list[np.ndarray]) -> None:
        """Add up what all workers sent, in the arena of the items."""
        frontier, memory, items = self.frontier, self.frontier.memory, self.items
        plain = 8 * self.plain[self.rank]
        # A message of any other form is shorter than a plain one, or it would have been sent plain.
        form = np.array([self.form if len(message) < plain else kernels.PLAIN for message in received])
        n_words = np.array([len(message) // 8 + 2 for message in received])  # readers may look a word ahead
        start = np.concatenate(([0], np.cumsum(n_words)))
        words = np.zeros(start[-1], np.int64)
        for m, message in enumerate(received):
            words[start[m] : start[m + 1]].view(np.uint8)[: len(message)] = message
        kernels.read_messages(
            self.rank, form, start, *self.known, items.place, frontier.tree, memory.nodes, *self.scratch, words,
            words.view(np.uint64), self.sums, items.arena,
        )  # fmt: skip

    def _wants_histograms(self) -> np.ndarray:
        """By row: whether so many features travel that whole blocks of them are best added up at once."""
        nodes = self.frontier.memory.nodes[self.frontier.row_node]
        sends_rows = nodes["stop"] - nodes["start"] <= self.frontier.memory.arrays["stride"]
        many = self.n_items.sum(axis=1) >= _SINGLY_BELOW * self.frontier.n_features
        return many & (nodes["slot"] < 0) & ~(sends_rows & (self.form != kernels.PLAIN))

    def _plain_words(self, to: int) -> int:
        memory = self.frontier.memory
        layout = memory.layout
        size: int = kernels.count_plain_words(
            to, self.known[0], memory.nodes["n_rows"][self.frontier.row_node], layout.capacity, layout.n_planes,
            layout.n_fields, memory.data.n_bins, *self.known[2:],
        )  # fmt: skip
        return size

    def _most_words(self) -> np.ndarray:
        """Room for a message to each worker, whatever is in it."""
        memory = self.frontier.memory
        layout, most_bins = memory.layout, memory.arrays["stride"] - 1
        nodes = memory.nodes[self.frontier.row_node]
        n_rows = nodes["stop"] - nodes["start"]
        histogram = np.full(len(nodes), int(max_bits(layout.n_fields, most_bins)) // 64 + 1)
        if self.form == kernels.SPARSE:
            n_words = np.where(n_rows > layout.capacity, layout.n_fields, layout.n_planes)
            histogram = most_words(n_words, most_bins)
        few = np.minimum(n_rows, memory.arrays["stride"])[:, None]
        as_rows = max_bits_of_rows.py_func(few, self.n_items) // 64 + 1
        return np.maximum(self.n_items * histogram[:, None] + 2, as_rows).sum(axis=0) + 2

    def _to_plain(self, to: int, message: np.ndarray) -> np.ndarray:
        plain = np.empty(self.plain[to], np.int64)
        kernels.to_plain(
            to, self.form, *self.known, self.frontier.tree, self.frontier.memory.nodes, *self.scratch, message,
            message.view(np.uint64), self.sums, plain,
        )  # fmt: skip
        return plain
