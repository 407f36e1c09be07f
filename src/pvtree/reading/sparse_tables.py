"""scipy sparse matrices as users have them -> sparse rows of floats."""

from __future__ import annotations

from typing import Any

import numpy as np

from pvtree.errors import InvalidDataError
from pvtree.reading.categories import bins_of_numbers
from pvtree.reading.number_columns import rounded
from pvtree.reading.sparse_rows import SparseRows
from pvtree.reading.tables import Columns, Scalar, Table

MAX_COLUMNS = 2**31 - 1  # SparseRows counts them in 32 bits


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
        if X.shape[1] > MAX_COLUMNS:
            raise InvalidDataError(f"X has {X.shape[1]} columns; pass at most {MAX_COLUMNS}.")
        csr = _checked_csr(X)
        if not csr.has_canonical_format:
            csr = csr.copy()  # its arrays may be the user's
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

    def rounded_columns(self) -> list[int]:
        mask = rounded(self.csr.data)
        return [] if mask is None else np.unique(self.csr.indices[mask]).tolist()

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


def _checked_csr(X: Any) -> Any:
    """Compressed rows whose entries all lie inside the matrix: neither scipy's conversions nor the kernels look.

    scipy checks a new matrix around the same arrays, which forgets what X believes about the order of its entries.
    """
    try:
        if hasattr(X, "indptr"):  # CSR, CSC and BSR
            checked = type(X)((X.data, X.indices, X.indptr), shape=X.shape)
            checked.check_format(full_check=True)
            if (np.diff(checked.indptr) < 0).any():  # which scipy does not look at if the last one says: no entries
                raise ValueError("indptr must not descend")
        elif hasattr(X, "offsets"):  # DIA, which scipy follows far beyond the matrix
            inside = (X.offsets > -X.shape[0]) & (X.offsets < X.shape[1])
            checked = type(X)((X.data[inside], X.offsets[inside]), shape=X.shape)
        else:
            entries = X.tocoo()
            checked = type(entries)((entries.data, (entries.row, entries.col)), shape=X.shape)
        return checked.tocsr()
    except (ValueError, IndexError, OverflowError) as error:
        raise InvalidDataError(
            f"X is not a valid sparse matrix ({error}); build it again, for example with "
            "scipy.sparse.csr_array((values, (rows, columns)), shape)."
        ) from error
