"""The training rows as numbers beside their bins, for trees whose leaves are linear functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pvtree.reading.sources import as_source
from pvtree.reading.sparse_rows import SparseRows

if TYPE_CHECKING:
    from pvtree.comm import Communicator
    from pvtree.reading.training_rows import TrainingRows


@dataclass(frozen=True)
class RawRows:
    """Rows with all columns: those of the shard, or, if columns are spread, those that the worker had before."""

    X: np.ndarray | SparseRows
    # If columns are spread: the places of each worker's rows in the shard, which then holds all rows.
    numbers: list[np.ndarray] | None = None

    @classmethod
    def of(cls, rows: TrainingRows, comm: Communicator | None) -> RawRows:
        held = rows if rows.before_spread is None else rows.before_spread
        X = held.X if isinstance(held.X, np.ndarray | SparseRows) else as_source(held.X).matrix()
        if rows.before_spread is None or comm is None:
            return cls(X)
        return cls(X, comm.allgather(held.row_ids.numbers(), "rows"))

    def own(self, values: np.ndarray, rank: int) -> np.ndarray:
        """Those of the shard's values that belong to these rows."""
        return values if self.numbers is None else values[self.numbers[rank]]

    def of_shard(self, values: np.ndarray, comm: Communicator) -> np.ndarray:
        """From values of these rows to values of the shard's."""
        if self.numbers is None:
            return values
        gathered = np.concatenate(comm.allgather(values, "scores"))
        ordered = np.empty_like(gathered)
        ordered[np.concatenate(self.numbers)] = gathered
        return ordered
