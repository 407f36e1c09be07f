"""Columns of pandas DataFrames: which of them are categories, by the rule of Arrow's columns, and their integers.

pandas is not imported before there is a DataFrame: a user who passes one has it, others need not.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pvtree.reading.arrow_columns import is_category
from pvtree.reading.number_columns import rounded


def is_frame(X: Any) -> bool:
    return hasattr(X, "iloc") and hasattr(X, "dtypes") and hasattr(X, "columns")


def category_columns(frame: Any) -> list[int]:
    """Columns of text, and those that are marked as categories."""
    others = [(j, kind) for j, kind in enumerate(frame.dtypes) if kind.kind not in "biuf"]
    return [j for j, kind in others if kind.name == "category" or is_text(frame.iloc[:, j])]


def is_text(column: Any) -> bool:
    """Whatever holds the texts; Arrow's dictionaries count as text, as in Arrow tables."""
    kind = column.dtype
    if hasattr(kind, "pyarrow_dtype"):
        return is_category(kind.pyarrow_dtype)
    if kind.kind == "O" and isinstance(kind, np.dtype):  # Python objects of any kind
        from pandas.api.types import infer_dtype

        return bool(infer_dtype(column, skipna=True) == "string")
    return getattr(kind, "type", None) is str


def holds_numbers(column: Any) -> bool:
    """At least one: a column without values may be of any dtype."""
    return getattr(column.dtype, "kind", "O") in "biuf" and bool(column.notna().any())


def rounded_columns(frame: Any) -> list[int]:
    """Columns of integers that float64 does not hold."""
    whole = [j for j, kind in enumerate(frame.dtypes) if kind.kind in "iu"]
    return [j for j in whole if rounded(_integers(frame.iloc[:, j])) is not None]


def _integers(column: Any) -> np.ndarray:
    if isinstance(column.dtype, np.dtype):
        return np.asarray(column)
    # pandas' nullable ones
    return np.asarray(column.to_numpy(np.int64 if column.dtype.kind == "i" else np.uint64, na_value=0))
