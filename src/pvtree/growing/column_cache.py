"""Columns of features that are often elected: one byte next to the other, which are added up faster than a block's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pvtree.kernels.growing.frontier import copy_columns

if TYPE_CHECKING:
    from pvtree.growing.frontier import Frontier
    from pvtree.growing.frontier_records import Items

# A column is worth a copy if this many times all rows were added up from it lately, and if the column that it replaces
# was wanted less than half as much.
_WORTH_COPYING = 0.5
_AS_MUCH = 0.5
_FORGET = 0.98  # of what was wanted before, at each merge


class ColumnCache:
    """Room for a number of columns, which are those that merges wanted most of late."""

    def __init__(self, n_columns: int, frontier: Frontier) -> None:
        arrays = frontier.memory.arrays
        n_columns = min(n_columns, frontier.n_features)
        arrays["n_columns"] = n_columns
        arrays["columns"] = np.empty((n_columns, arrays["n_all_rows"]), np.uint8)
        self.column_of: np.ndarray = arrays["column_of"]
        self.feature = np.full(n_columns, -1)
        self.wanted = np.zeros(frontier.n_features + 1)  # rows added up of each feature; the last is none

    def make_ready(self, frontier: Frontier, items: Items) -> None:
        """Note what this merge adds up, and copy columns that are worth it."""
        n_rows = np.repeat(frontier.local_row_counts, np.diff(items.start)) * (items.parent < 0)
        self.wanted *= _FORGET
        self.wanted[:-1] += np.bincount(items.feature, n_rows, minlength=frontier.n_features)
        wanted = self.wanted[:-1]
        missing = np.flatnonzero((self.column_of < 0) & (wanted >= _WORTH_COPYING * max(1, frontier.n_rows_here)))
        missing = missing[np.argsort(-wanted[missing], kind="stable")]
        place = np.argsort(self.wanted[self.feature], kind="stable")[: len(missing)]
        missing = missing[: len(place)]
        pays = self.wanted[self.feature[place]] < _AS_MUCH * wanted[missing]
        missing, place = missing[pays], place[pays]
        given_up = self.feature[place]
        self.column_of[given_up[given_up >= 0]] = -1
        self.feature[place], self.column_of[missing] = missing, place
        frontier.run_on_blocks(copy_columns, len(missing), missing, frontier.record)
