"""Rows of a scipy sparse matrix: read, cut and predicted on without ever making all of them dense."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from pvtree.kernels.binning.sparse import fill_dense
from pvtree.reading.sources import ReadColumns, Source

if TYPE_CHECKING:
    from scipy.sparse import csc_array

DENSE_BYTES = 2**23  # of the rows that are made dense at a time
PREDICTED_BYTES = 2**20  # the same for prediction: they stay in a thread's cache


class SparseRows(Source):
    """Compressed sparse rows (CSR): row r has values[start[r]:start[r + 1]] in the columns of the same places.

    Values that are not stored are the column's ``fill``: 0, or in a categorical column the bin of the category 0. Parts
    are as many rows as are dense in DENSE_BYTES. Slices share the memory.
    """

    format, family = "csr", "array"  # what results that are sparse too should be: "csr" or "csc", "array" or "matrix"

    def __init__(
        self, start: np.ndarray, column: np.ndarray, values: np.ndarray, n_features: int, fill: np.ndarray | None = None
    ) -> None:
        n_rows = len(start) - 1
        self.start, self.column, self.values = start, column, values
        self.fill = np.zeros(n_features, values.dtype) if fill is None else fill  # (n_features,)
        self.part_rows = max(1, DENSE_BYTES // (8 * max(1, n_features)))
        full, rest = divmod(n_rows, self.part_rows)
        super().__init__([self.part_rows] * full + [rest] * (rest > 0 or full == 0), n_features, values.dtype)

    @classmethod
    def of_csr(cls, csr: Any, fill: np.ndarray | None = None) -> SparseRows:
        """From a scipy matrix in canonical format, of float32 or float64; its values are not copied."""
        # One type each, as kernels are compiled for every other one: columns are counted in 32 bits, entries in 64.
        start, column = csr.indptr.astype(np.int64), csr.indices.astype(np.int32, copy=False)
        return cls(start, column, csr.data, csr.shape[1], fill)

    @classmethod
    def of_dense(cls, blocks: Iterable[np.ndarray]) -> SparseRows:
        """From blocks of rows that are mostly zero."""
        from scipy.sparse import csr_array, vstack

        return cls.of_csr(vstack([csr_array(block) for block in blocks], format="csr"))

    def reading(self, part: int) -> AbstractContextManager[ReadColumns]:
        matrix = self.dense(slice(*self.bounds[part : part + 2].tolist()))
        return nullcontext(lambda features: (matrix, features))

    def __getitem__(self, rows: slice) -> SparseRows:
        first, last, _ = rows.indices(len(self))
        return SparseRows(self.start[first : max(first, last) + 1], self.column, self.values, self.shape[1], self.fill)

    def take(self, rows: np.ndarray) -> SparseRows:
        """Some of the rows, by number or by mask, copied."""
        return SparseRows.of_csr(self._csr()[rows], self.fill)

    def dense(self, rows: slice) -> np.ndarray:
        """Some consecutive rows as a matrix."""
        everywhere = np.arange(self.shape[1])
        return self.dense_columns(rows, everywhere, everywhere)

    def slots(self, columns: np.ndarray) -> np.ndarray:
        """The place of every column among some of them, -1 for the others."""
        slot = np.full(self.shape[1], -1)
        slot[columns] = np.arange(len(columns))
        return slot

    def dense_columns(self, rows: slice, columns: np.ndarray, slot: np.ndarray) -> np.ndarray:
        """Some consecutive rows of some columns as a matrix; slot[c] is the place of column c in it, -1 for none."""
        first, last, _ = rows.indices(len(self))
        matrix = np.empty((max(0, last - first), len(columns)), self.dtype)
        matrix[:] = self.fill[columns]
        fill_dense(self.start[first:], self.column, self.values, slot, matrix)
        return matrix

    def blocks_of(self, columns: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        """All rows of some columns, bounded blocks one after the other: (first row, matrix)."""
        slot = self.slots(columns)
        at_once = max(1, PREDICTED_BYTES // (8 * max(1, len(columns))))
        for first in range(0, len(self), at_once):
            yield first, self.dense_columns(slice(first, first + at_once), columns, slot)

    def like(self, values: np.ndarray, column: np.ndarray, start: np.ndarray, shape: tuple[int, int]) -> Any:
        """A scipy matrix of the kind that these rows were made of, from other compressed sparse rows."""
        from scipy import sparse

        return getattr(sparse, f"csr_{self.family}")((values, column, start), shape=shape).asformat(self.format)

    def by_columns(self, first: int, stop: int) -> csc_array:
        """The columns ``first`` to ``stop`` as compressed sparse columns, their rows in rising order."""
        csr = self._csr()
        return (csr if stop - first == self.shape[1] else csr[:, first:stop]).tocsc()

    def triples(self, first: int, stop: int, numbers: np.ndarray) -> np.ndarray:
        """The stored values of the columns ``first`` to ``stop`` for another worker: (number of the row, column, value)
        of each, where ``numbers`` are those of all rows."""
        csr = self._csr()[:, first:stop].tocoo()
        return np.stack([numbers[csr.row], csr.col + first, csr.data]).astype(np.float64).ravel()

    @classmethod
    def of_triples(cls, messages: Sequence[np.ndarray], n_rows: int, fill: np.ndarray) -> SparseRows:
        """The rows of all workers, of the columns that their messages hold."""
        from scipy.sparse import csr_array

        row, column, values = np.concatenate([message.reshape(3, -1) for message in messages], axis=1)
        csr = csr_array((values, (row.astype(np.int64), column.astype(np.int64))), shape=(n_rows, len(fill)))
        return cls.of_csr(csr, fill.astype(np.float64))

    def _csr(self) -> Any:
        from scipy.sparse import csr_array

        entries = slice(int(self.start[0]), int(self.start[-1]))
        start = self.start - self.start[0]
        if start[-1] <= np.iinfo(np.int32).max:  # scipy counts columns in as many bits as entries
            start = start.astype(np.int32)
        return csr_array((self.values[entries], self.column[entries], start), shape=self.shape, copy=False)
