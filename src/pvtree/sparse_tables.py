"""scipy sparse matrices as users have them -> sparse rows of floats."""

from __future__ import annotations

from typing import Any

import numpy as np

from pvtree.categories import bins_of_numbers
from pvtree.errors import InvalidDataError
from pvtree.sparse_rows import SparseRows
from pvtree.tables import Columns, Scalar, Table


class SparseTable(Table):
    """A sparse matrix; what is not stored is the number 0, not a missing value."""

    columns = None

    def __init__(self, csr: Any, format: str = "csr") -> None:
        self.csr, self.shape = csr, csr.shape  # in canonical format: rows sorted, each entry once
        self.format = format  # of the matrix that it was made of

    @classmethod
    def read(cls, X: Any) -> SparseTable:
        if X.dtype.kind == "c":
            raise InvalidDataError("Complex data not supported; pass the real and imaginary parts as columns of X.")
        if X.dtype.kind not in "biuf":
            raise InvalidDataError(f"X is sparse and holds {X.dtype} values; convert them to numbers.")
        if len(X.shape) != 2:
            raise InvalidDataError(f"X must be two-dimensional, got shape {X.shape}; pass rows and columns.")
        csr = X.tocsr()
        if not csr.has_canonical_format:
            csr = csr.copy() if csr is X else csr
            csr.sum_duplicates()
        return cls(csr, "csc" if X.format == "csc" else "csr")

    def category_columns(self) -> list[int]:
        return []

    def count_values(self, j: int) -> dict[Scalar, int]:
        stored = self.csr[:, [j]].tocsc().data
        n_zeros = int(self.shape[0] - np.count_nonzero(stored))
        distinct, counts = np.unique(stored[(stored != 0) & (stored == stored)], return_counts=True)
        counted: dict[Scalar, int] = dict(zip(distinct.tolist(), counts.tolist(), strict=True))
        return counted | ({self.csr.dtype.type(0).item(): n_zeros} if n_zeros else {})

    def encode(self, columns: Columns) -> SparseRows:
        """Floats; categories become bin numbers, also the one that is not stored, 0."""
        kind = self.csr.dtype
        is_float = kind in (np.float32, np.float64) and kind.isnative
        rows = SparseRows.of_csr(self.csr if is_float else self.csr.astype(np.float64))
        rows.format, rows.family = self.format, type(self.csr).__name__.rpartition("_")[2]
        if columns.categories:
            rows.values = rows.values.copy()
        for j, categories in columns.categories.items():
            numbers = [value for value in categories if not isinstance(value, str)]
            inside = self.csr.indices == j
            rows.values[inside] = bins_of_numbers(self.csr.data[inside], numbers)
            rows.fill[j] = bins_of_numbers(np.zeros(1), numbers)[0]
        return rows

    def for_prediction(self, columns: Columns) -> SparseRows:
        """As they are: prediction makes small blocks of them dense."""
        return self.encode(columns)

    def take(self, keep: np.ndarray) -> SparseTable:
        return SparseTable(self.csr[keep])
