"""Rows whose columns differ from the model's in name or number, made to fit where the caller asks for it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from pvtree.errors import InvalidTypeError
from pvtree.reading.pandas_columns import is_frame
from pvtree.reading.tables import Columns, is_sparse


def fit_columns(X: Any, columns: Columns, by_position: bool, any_number: bool) -> Any:
    """X itself if nothing is asked for; otherwise X with the model's names, or with as many columns as the model.

    As in LightGBM, columns beyond the last are left out, and absent ones are 0.
    """
    if any_number:
        X = _with_number(X, columns.n_features)
    if (by_position or any_number) and columns.names is not None and np.shape(X)[1:] == (columns.n_features,):
        if is_frame(X):
            return X.set_axis(list(columns.names), axis=1)
        if hasattr(X, "rename_columns"):
            return X.rename_columns(list(columns.names))
    return X


def first_difference(ours: Iterable[str], theirs: Iterable[str], lists: str) -> str:
    """The sentence about columns of other names; ``lists`` has the names that are missing and unknown."""
    pairs = enumerate(zip(ours, theirs, strict=False))
    place, (own, other) = next((place, pair) for place, pair in pairs if pair[0] != pair[1])
    return (
        f"Expected {own!r} at position {place} but found {other!r}: the columns of X are not those of fit ({lists}); "
        "pass the same columns in the same order."
    )


def _with_number(X: Any, n_features: int) -> Any:
    n_given = np.shape(X)[1] if len(np.shape(X)) == 2 else n_features
    if n_given == n_features:
        return X
    if is_sparse(X):
        from scipy import sparse

        missing = sparse.csr_matrix((X.shape[0], max(0, n_features - n_given)), dtype=X.dtype)
        return sparse.hstack([X.tocsr()[:, :n_features], missing], format="csr")
    if is_frame(X):
        kept = X.iloc[:, :n_features].copy()
        for number in range(n_given, n_features):
            kept[f"(absent {number})"] = 0.0
        return kept
    if isinstance(X, np.ndarray | list | tuple):
        array = np.asarray(X)[:, :n_features]
        return np.pad(array, ((0, 0), (0, n_features - array.shape[1])))
    raise InvalidTypeError(
        f"predict_disable_shape_check supports arrays, DataFrames and sparse matrices, got {type(X).__name__}; "
        "pass the model's columns."
    )
