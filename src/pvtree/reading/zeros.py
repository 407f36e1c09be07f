"""zero_as_missing: numbers that are 0 count as missing, in training and in prediction alike."""

from __future__ import annotations

from collections.abc import Collection
from typing import overload

import numpy as np

from pvtree.reading.sparse_rows import SparseRows

NEARLY_ZERO = float(np.float32(1e-35))  # LightGBM takes what is not larger for 0


@overload
def zeros_as_missing(X: np.ndarray, except_for: Collection[int] = ()) -> np.ndarray: ...
@overload
def zeros_as_missing(X: SparseRows, except_for: Collection[int] = ()) -> SparseRows: ...
@overload
def zeros_as_missing(X: np.ndarray | SparseRows, except_for: Collection[int] = ()) -> np.ndarray | SparseRows: ...
def zeros_as_missing(X: np.ndarray | SparseRows, except_for: Collection[int] = ()) -> np.ndarray | SparseRows:
    """A copy of rows of floats with NaN in place of 0, but not in the columns ``except_for``."""
    if isinstance(X, SparseRows):
        return _of_sparse(X, except_for)
    is_zero = np.abs(X) <= NEARLY_ZERO
    is_zero[:, list(except_for)] = False
    return np.where(is_zero, X.dtype.type(np.nan), X)


def _of_sparse(X: SparseRows, except_for: Collection[int]) -> SparseRows:
    counts = np.ones(X.shape[1], np.bool_)
    counts[list(except_for)] = False
    is_zero = (np.abs(X.values) <= NEARLY_ZERO) & counts[X.column]
    values = np.where(is_zero, X.dtype.type(np.nan), X.values) if is_zero.any() else X.values
    fill = np.where(counts & (np.abs(X.fill) <= NEARLY_ZERO), X.dtype.type(np.nan), X.fill)
    rows = SparseRows(X.start, X.column, values, X.shape[1], fill)
    rows.format, rows.family = X.format, X.family
    return rows
