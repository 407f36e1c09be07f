"""What a DMatrix refuses when it is made, as XGBoost does: rows that are no table, infinities, labels and weights."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from pvtree.errors import InvalidDataError, InvalidTypeError
from pvtree.reading.pandas_columns import is_frame
from pvtree.reading.tables import is_sparse


def check_rows(data: Any) -> None:
    """Raise unless the data are a path or a table without infinities."""
    if isinstance(data, str | os.PathLike):
        return
    if isinstance(data, list | tuple):
        data = np.asarray(data)
    if not any(hasattr(data, name) for name in ("shape", "__array__", "__arrow_c_stream__", "columns")):
        raise InvalidTypeError(f"DMatrix takes tables, files and DataIter, got {type(data).__name__}; pass an array.")
    if isinstance(data, np.ndarray) and data.ndim != 2:
        raise InvalidDataError(f"data must be two-dimensional, got shape {data.shape}; reshape it.")
    if isinstance(data, np.ndarray) and data.dtype.kind in "US":
        raise InvalidDataError("data must hold numbers, got texts; pass a DataFrame whose columns are categories.")
    if any(np.isinf(each).any() for each in _floats(data)):
        raise InvalidDataError(
            "Input data contains `inf` or a value too large, while `missing` is not set to `inf`; remove such values."
        )


def _floats(data: Any) -> list[np.ndarray]:
    """The values of the data that may be infinite."""
    if is_sparse(data):
        data = getattr(data, "data", None)  # lists of lists have objects there
    elif is_frame(data) and hasattr(data, "select_dtypes"):
        return [column.to_numpy() for _, column in data.select_dtypes(["float32", "float64"]).items()]
    return [data] if isinstance(data, np.ndarray) and data.dtype.kind == "f" else []


def check_label(label: Any) -> None:
    values = _numbers(label)
    if values is not None and not np.isfinite(values).all():
        raise InvalidDataError("Label contains NaN, infinity or a value too large; remove those rows.")


def check_weight(weight: Any) -> None:
    values = _numbers(weight)
    if values is not None and not (values >= 0).all():
        raise InvalidDataError("Weights must be positive values; remove the rows with others.")


def check_feature_weights(weights: Any, n_features: int) -> np.ndarray | None:
    """float32 (n_features,), or None for none."""
    values = np.asarray(weights, np.float32).reshape(-1)
    if len(values) not in (0, n_features) or not (values >= 0).all():
        raise InvalidDataError(f"feature_weights must have a number of at least 0 for each of {n_features} columns.")
    return values if len(values) else None


def _numbers(values: Any) -> np.ndarray | None:
    """The values, if they are floats; others are read and checked by training."""
    found = None if values is None else np.asarray(values)
    return found if found is not None and found.dtype.kind in "fiu" else None
