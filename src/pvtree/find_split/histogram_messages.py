"""The messages of one merge: written to the owners of features, who read and add them up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pvtree.growing.frontier_records import Items
from pvtree.kernels.constants import N_BINS
from pvtree.kernels.wire import messages as kernels
from pvtree.kernels.wire.histograms import max_bits, wire_scratch
from pvtree.kernels.wire.rows import max_bits_of_rows, rows_scratch
from pvtree.kernels.wire.sparse_words import most_words

if TYPE_CHECKING:
    from pvtree.growing.frontier import Frontier


class HistogramMessages:
    """One worker's histograms of one frontier, as messages."""

    def __init__(
        self, frontier: Frontier, items: Items, owner: np.ndarray, form: np.int64, rank: int, n_workers: int
    ) -> None:
        self.frontier, self.items, self.form, self.rank, self.n_workers = frontier, items, form, rank, n_workers
        layout = frontier.layout
        travels = items.parent == kernels.TRAVELS
        row = np.repeat(np.arange(frontier.n_nodes), np.diff(items.start))[travels]
        # Items that travel, by row and worker that they go to.
        self.n_items = np.zeros((frontier.n_nodes, n_workers), np.int64)
        np.add.at(self.n_items, (row, owner[items.feature[travels]]), 1)
        self.most_rows = int(kernels.MOST_ROWS_PER_BIN) * frontier.stride
        self.known = (owner, frontier.row_node, items.start, items.feature, items.parent)
        self.plain = [self._plain_words(to) for to in range(n_workers)]  # words of each worker's message in plain form
        self.sums = np.empty(int(self.n_items.max(initial=0)) * layout.n_fields * N_BINS, np.int64)
        self.scratch = (wire_scratch(layout.n_planes), rows_scratch(self.most_rows))

    def write(self) -> list[np.ndarray]:
        """Bytes for each worker; the message to this worker itself is plain."""
        frontier = self.frontier
        form = np.array([kernels.PLAIN if to == self.rank else self.form for to in range(self.n_workers)])
        n_words = np.where(form == kernels.PLAIN, self.plain, self._most_words())
        start = np.concatenate(([0], np.cumsum(n_words)))
        words = np.empty(start[-1], np.int64)
        at = np.zeros(self.n_workers, np.int64)
        arranged = np.empty((3, self.most_rows), np.int64)

        def write(first_row: int, last_row: int) -> None:
            kernels.write_messages(
                first_row, last_row, form, at, start, *self.known, *frontier.kernel_arguments, *self.scratch, arranged,
                 words, words.view(np.uint64),
            )  # fmt: skip

        frontier.with_histograms(self._n_added_up(), write)
        messages = []
        for to in range(self.n_workers):
            message = words[start[to] : start[to + 1]]
            n_bytes = (int(at[to]) + 7) // 8
            if form[to] != kernels.PLAIN and n_bytes >= 8 * self.plain[to]:  # no shorter than plain
                message, n_bytes = self._to_plain(to, message), 8 * self.plain[to]
            messages.append(message.view(np.uint8)[:n_bytes])
        return messages

    def read(self, received: list[np.ndarray]) -> None:
        """Add up what all workers sent, in the items' arena."""
        frontier, items = self.frontier, self.items
        plain = 8 * self.plain[self.rank]
        # A message that is as long as a plain one is plain: any other form would have been shorter.
        form = np.array([self.form if len(message) < plain else kernels.PLAIN for message in received])
        n_words = np.array([len(message) // 8 + 2 for message in received])  # readers may read a word ahead
        start = np.concatenate(([0], np.cumsum(n_words)))
        words = np.zeros(start[-1], np.int64)
        for m, message in enumerate(received):
            words[start[m] : start[m + 1]].view(np.uint8)[: len(message)] = message
        kernels.read_messages(
            self.rank, form, start, *self.known, items.place, *frontier.kernel_arguments, *self.scratch, words,
            words.view(np.uint64), self.sums, items.arena,
        )  # fmt: skip

    def _n_added_up(self) -> np.ndarray:
        """By row: how many features are added up to be sent; none where the rows themselves are sent instead."""
        sends_rows = (self.frontier.local_row_counts <= self.frontier.stride) & (self.form != kernels.PLAIN)
        return np.where(sends_rows, 0, self.n_items.sum(axis=1))

    def _plain_words(self, to: int) -> int:
        frontier, layout = self.frontier, self.frontier.layout
        size: int = kernels.count_plain_words(
            to, self.known[0], frontier.row_counts, layout.capacity, layout.n_planes, layout.n_fields, frontier.n_bins,
            *self.known[2:],
        )  # fmt: skip
        return size

    def _most_words(self) -> np.ndarray:
        """Words that a message to each worker takes at most."""
        layout, stride, n_rows = self.frontier.layout, self.frontier.stride, self.frontier.local_row_counts
        histogram = np.full(len(n_rows), int(max_bits(layout.n_fields, stride - 1)) // 64 + 1)
        if self.form == kernels.SPARSE:
            n_words = np.where(n_rows > layout.capacity, layout.n_fields, layout.n_planes)
            histogram = most_words(n_words, stride - 1)
        few = np.minimum(n_rows, self.most_rows)[:, None]
        as_rows = max_bits_of_rows.py_func(few, self.n_items) // 64 + 1
        return np.maximum(self.n_items * histogram[:, None] + 2, as_rows).sum(axis=0) + 2

    def _to_plain(self, to: int, message: np.ndarray) -> np.ndarray:
        plain = np.empty(self.plain[to], np.int64)
        kernels.to_plain(
            to, self.form, *self.known, *self.frontier.kernel_arguments, *self.scratch, message,
            message.view(np.uint64), self.sums, plain,
        )  # fmt: skip
        return plain
