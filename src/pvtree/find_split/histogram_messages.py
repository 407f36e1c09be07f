"""The messages of one merge: written to the owners of features, who read and add them up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pvtree.growing.frontier_records import Items
from pvtree.kernels.constants import N_BINS
from pvtree.kernels.wire import messages as kernels
from pvtree.kernels.wire.histograms import wire_scratch
from pvtree.kernels.wire.message_sizes import measure_messages
from pvtree.kernels.wire.rows import max_bits_of_rows, rows_scratch

if TYPE_CHECKING:
    from pvtree.growing.frontier import Frontier


class MessageRoom:
    """Working memory for messages, which one merge after another uses: the system takes long to hand out new memory."""

    def __init__(self, frontier: Frontier) -> None:
        self.most_rows = int(kernels.MOST_ROWS_PER_BIN) * frontier.stride
        self.scratch = (wire_scratch(frontier.layout.n_planes), rows_scratch(self.most_rows))
        self.arranged = np.empty((3, self.most_rows), np.int64)
        self.head = np.empty(int(max_bits_of_rows(self.most_rows, 0)) // 64 + 2, np.uint64)
        self.sums = np.empty(0, np.int64)
        self.added = np.empty(0, np.int64)
        self.words = np.empty(0, np.int64)


class HistogramMessages:
    """One worker's histograms of one frontier, as messages."""

    def __init__(
        self, frontier: Frontier, items: Items, owner: np.ndarray, form: np.int64, rank: int, n_workers: int,
        room: MessageRoom | None = None,
    ) -> None:  # fmt: skip
        self.frontier, self.items, self.form, self.rank, self.n_workers = frontier, items, form, rank, n_workers
        self.room = room or MessageRoom(frontier)
        self.known = (owner, frontier.row_node, items.start, items.feature, items.parent)
        # Items that travel, by row and worker that they go to; and of each message, the words.
        self.n_items = np.empty((frontier.n_nodes, n_workers), np.int64)
        self.plain, self.most = np.empty(n_workers, np.int64), np.empty(n_workers, np.int64)
        measure_messages(
            form, self.room.most_rows, *self.known, frontier.record, frontier.nodes, self.n_items, self.plain,
            self.most,
        )  # fmt: skip
        n_sums = int(self.n_items.max(initial=0)) * frontier.layout.n_fields * int(N_BINS)
        if len(self.room.sums) < n_sums:
            self.room.sums = np.empty(n_sums, np.int64)

    def write(self) -> list[np.ndarray]:
        """Bytes for each worker, to be used before the next are written; the message to this worker itself is plain."""
        frontier, room = self.frontier, self.room
        form = np.full(self.n_workers, self.form)
        form[self.rank] = kernels.PLAIN
        start = np.zeros(self.n_workers + 1, np.int64)
        np.cumsum(np.where(form == kernels.PLAIN, self.plain, self.most), out=start[1:])
        if len(room.words) < start[-1]:
            room.words = np.empty(start[-1], np.int64)
        words, sums = room.words, self._room_of_a_node()
        at = np.zeros(self.n_workers, np.int64)

        def write(first_row: int, last_row: int) -> None:
            kernels.write_messages(
                first_row, last_row, form, at, start, *self.known, *frontier.kernel_arguments, *room.scratch,
                room.arranged, room.head, sums, words, words.view(np.uint64),
            )  # fmt: skip

        frontier.with_histograms(self._n_added_up(), write)
        messages = []
        starts, n_bits, plain = start.tolist(), at.tolist(), self.plain.tolist()
        for to in range(self.n_workers):
            message = words[starts[to] : starts[to + 1]]
            n_bytes = (n_bits[to] + 7) // 8
            if form[to] != kernels.PLAIN and n_bytes >= 8 * plain[to]:  # no shorter than plain
                message, n_bytes = self._to_plain(to, message), 8 * plain[to]
            messages.append(message.view(np.uint8)[:n_bytes])
        return messages

    def read(self, received: list[np.ndarray]) -> None:
        """Add up what all workers sent, in the items' arena."""
        frontier, items = self.frontier, self.items
        plain = 8 * int(self.plain[self.rank])
        # A message that is as long as a plain one is plain: any other form would have been shorter.
        form = np.array([self.form if len(message) < plain else kernels.PLAIN for message in received])
        starts = [0]
        for message in received:
            starts.append(starts[-1] + len(message) // 8 + 2)  # readers may read a word ahead
        words = np.zeros(starts[-1], np.int64)
        as_bytes = words.view(np.uint8)
        for start, message in zip(starts, received, strict=False):
            as_bytes[8 * start : 8 * start + len(message)] = message
        kernels.read_messages(
            self.rank, form, np.array(starts), *self.known, items.place, *frontier.kernel_arguments,
            *self.room.scratch, words, words.view(np.uint64), self.room.sums, items.arena,
        )  # fmt: skip

    def _room_of_a_node(self) -> np.ndarray:
        """Room for all histograms of a node that travel, as words and as fields."""
        n_words = int(self.n_items.sum(axis=1).max(initial=0)) * (1 + self.frontier.layout.n_fields) * int(N_BINS)
        if len(self.room.added) < n_words:
            self.room.added = np.empty(n_words, np.int64)
        return self.room.added

    def _n_added_up(self) -> np.ndarray:
        """By row: how many features are added up to be sent; none where the rows themselves are sent instead."""
        sends_rows = (self.frontier.local_row_counts <= self.frontier.stride) & (self.form != kernels.PLAIN)
        return np.where(sends_rows, 0, self.n_items.sum(axis=1))

    def _to_plain(self, to: int, message: np.ndarray) -> np.ndarray:
        plain = np.empty(self.plain[to], np.int64)
        kernels.to_plain(
            to, self.form, *self.known, *self.frontier.kernel_arguments, *self.room.scratch, message,
            message.view(np.uint64), self.room.sums, plain,
        )  # fmt: skip
        return plain
