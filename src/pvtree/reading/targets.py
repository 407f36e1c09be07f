"""What stands beside X: labels, relevance, weights and query groups, checked and as plain arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pvtree.comm.user_warnings import warn_user
from pvtree.errors import InvalidDataError, InvalidTypeError
from pvtree.reading.inputs import is_missing
from pvtree.reading.tables import is_unicode

MAX_RELEVANCE = 30  # a gain of 2**label - 1: larger labels drown all others
LARGEST = 1e70  # of targets and weights, and 1 / LARGEST the least weight: their products have finite squares


def read_values(y: Any, n_rows: int, name: str = "y", n_targets: int = 1) -> np.ndarray:
    """A regression target: finite float64, one a row, or a table of ``n_targets`` columns."""
    column = read_column(y, n_rows, name, n_targets > 1)
    if n_targets > 1 and column.ndim == 1 and n_rows > 0:
        raise InvalidDataError(f"{name} has one column, but training has {n_targets}; pass as many.")
    if column.ndim == 2 and column.shape[1] != n_targets:
        raise InvalidDataError(f"{name} has {column.shape[1]} columns, but training has {n_targets}; pass as many.")
    values = _as_numbers(column, name)
    _check_finite(values, name)
    if np.abs(values).max(initial=0.0) > LARGEST:
        raise InvalidDataError(f"{name} must lie between {-LARGEST:g} and {LARGEST:g}; scale it down.")
    return values


def find_classes(labels: np.ndarray, name: str = "y") -> np.ndarray:
    """The different labels in ascending order."""
    _check_labels(labels, name)
    try:
        classes = np.unique(labels)
    except TypeError:
        raise InvalidDataError(f"{name} mixes labels of different types; make them all strings.") from None
    for label in classes.tolist():
        if not is_unicode(label):
            raise InvalidDataError(
                f"The label {label!r} of {name} has a lone surrogate, which no file can hold; rename the class."
            )
    return classes


def check_several_classes(classes: np.ndarray, name: str = "y") -> None:
    if len(classes) < 2:
        what = f"has only one class, {classes.tolist()[0]!r}" if len(classes) else "has no class"
        raise InvalidDataError(f"{name} {what}; a classifier needs at least two classes.")


def read_labels(y: Any, n_rows: int, classes: np.ndarray, name: str = "y") -> np.ndarray:
    """Class index of every row as float64; no label but those of ``classes`` is allowed."""
    labels = read_column(y, n_rows, name)
    found = find_classes(labels, name)
    if unknown := sorted(set(found.tolist()) - set(classes.tolist()), key=str):
        raise InvalidDataError(f"{name} has the label {unknown[0]!r}, but the classes are {_shown(classes)}.")
    return np.searchsorted(classes, labels).astype(np.float64)


def read_label_columns(y: Any, n_rows: int, classes: tuple[np.ndarray, ...], name: str = "y") -> np.ndarray:
    """The same of several columns, (n_rows, n_columns)."""
    table = read_column(y, n_rows, name, may_be_table=True)
    if table.ndim == 1 or table.shape[1] != len(classes):
        n_columns = 1 if table.ndim == 1 else table.shape[1]
        raise InvalidDataError(f"{name} has {n_columns} column(s), but training has {len(classes)}; pass as many.")
    each = [read_labels(table[:, k], n_rows, its, f"column {k} of {name}") for k, its in enumerate(classes)]
    return np.stack(each, axis=1)


def read_relevance(y: Any, n_rows: int, name: str = "y") -> np.ndarray:
    """Relevance labels of documents: whole numbers from 0 to MAX_RELEVANCE, as float64."""
    labels = read_values(y, n_rows, name)
    bad = (labels < 0) | (labels > MAX_RELEVANCE) | (labels != np.floor(labels))
    if bad.any():
        raise InvalidDataError(
            f"{name} must hold whole relevance labels from 0 to {MAX_RELEVANCE}, got {labels[bad][0]:g}."
        )
    return labels


def read_weight(weight: Any, n_rows: int, name: str = "sample_weight") -> np.ndarray | None:
    """float64 weights, one a row."""
    if weight is None:
        return None
    array = np.asarray(weight)
    if array.ndim != 1:
        raise InvalidDataError(f"{name} must be one-dimensional, got shape {array.shape}.")
    _check_length(array, n_rows, name, "weight")
    values = _as_numbers(array, name)
    _check_finite(values, name)
    if (values < 0).any():
        raise InvalidDataError(f"{name} must not be negative, got {values.min():g}.")
    if values.max(initial=0.0) > LARGEST or values.min(where=values > 0, initial=1.0) < 1 / LARGEST:
        raise InvalidDataError(f"{name} must be 0 or between {1 / LARGEST:g} and {LARGEST:g}; scale the weights.")
    return values


def read_init_score(score: Any, n_rows: int, name: str = "init_score") -> np.ndarray | None:
    """float64 (n_rows, n_outputs) of scores to start from.

    They may come as one column, as a table with a column per class, or as LightGBM's flat array, class after class.
    """
    if score is None:
        return None
    array = np.asarray(score)
    if array.ndim == 1 and n_rows > 0 and len(array) and len(array) % n_rows == 0:
        array = array.reshape(-1, n_rows).T
    elif array.ndim == 1:
        _check_length(array, n_rows, name, "score")
        array = array.reshape(n_rows, -1 if n_rows else 1)
    if array.ndim != 2 or array.shape[1] == 0:
        raise InvalidDataError(
            f"{name} must hold one score a row, or one for each row and class, got shape {np.shape(score)}."
        )
    _check_length(array, n_rows, name, "score")
    values = _as_numbers(array, name)
    _check_finite(values, name)
    if np.abs(values).max(initial=0.0) > LARGEST:
        raise InvalidDataError(f"{name} must lie between {-LARGEST:g} and {LARGEST:g}; scale it down.")
    return values


@dataclass(frozen=True)
class QueryRuns:
    """Queries in the order of their rows."""

    sizes: np.ndarray  # int64
    ids: list[Any] | None = None  # None where only the sizes were given


def read_queries(group: Any, qid: Any, n_rows: int, prefix: str = "") -> QueryRuns | None:
    """The queries from their sizes (``group``) or from a query id per row (``qid``)."""
    if group is not None and qid is not None:
        raise InvalidDataError(f"{prefix}group and {prefix}qid both tell the queries; pass only one of them.")
    if qid is not None:
        return _runs_of(qid, n_rows, f"{prefix}qid")
    if group is None:
        return None
    name = f"{prefix}group"
    array = np.asarray(group)
    if array.ndim != 1 or array.dtype.kind not in "iuf" or (array != np.floor(array)).any():
        raise InvalidDataError(f"{name} must be a list of whole numbers, the number of rows of each query.")
    sizes = array.astype(np.int64)
    if (sizes < 1).any():
        raise InvalidDataError(f"{name} must hold sizes of at least 1, got {sizes.min()}.")
    if sizes.sum() != n_rows:
        raise InvalidDataError(f"{name} adds up to {sizes.sum()} rows, but X has {n_rows}; sizes must cover X.")
    return QueryRuns(sizes)


def _runs_of(qid: Any, n_rows: int, name: str) -> QueryRuns:
    ids = np.asarray(qid)
    if ids.ndim != 1:
        raise InvalidDataError(f"{name} must be one-dimensional, got shape {ids.shape}.")
    _check_length(ids, n_rows, name, "query id")
    _check_ids(ids, name)
    starts = np.flatnonzero(np.r_[len(ids) > 0, ids[1:] != ids[:-1]])
    run_ids = ids[starts].tolist()
    if len(set(run_ids)) < len(run_ids):
        seen: set[Any] = set()
        repeated = next(query for query in run_ids if query in seen or seen.add(query))  # type: ignore[func-returns-value]
        raise InvalidDataError(
            f"{name} has the query {repeated!r} in two places; sort the rows so that each query is together."
        )
    return QueryRuns(np.diff(np.r_[starts, n_rows]).astype(np.int64), run_ids)


def _check_ids(ids: np.ndarray, name: str) -> None:
    """Texts, numbers or times, none of them missing: NaN would be a query of its own in every row."""
    kinds = set(map(type, ids.tolist())) if ids.dtype.kind == "O" else {ids.dtype.type}
    if not all(issubclass(kind, str | bytes | int | float | np.generic) for kind in kinds) or ids.dtype.kind in "cV":
        raise InvalidDataError(f"{name} must hold a number or a text in every row.")
    if (ids != ids).any():
        raise InvalidDataError(f"{name} has missing values; give every row a query id.")


def read_positions(position: Any, n_rows: int, name: str = "position") -> np.ndarray:
    """Where each document was shown: whole numbers or texts."""
    positions = read_column(position, n_rows, name)
    _check_ids(positions, name)
    if positions.dtype.kind == "f" and (positions != np.floor(positions)).any():
        raise InvalidDataError(f"{name} must hold whole numbers or texts.")
    return positions.astype(str) if positions.dtype.kind in "OS" else positions


def read_column(y: Any, n_rows: int, name: str = "y", may_be_table: bool = False) -> np.ndarray:
    """One value a row, of any kind, or a table of several."""
    if y is None:
        raise InvalidDataError(f"Training requires y to be passed, but the target y is None ({name}).")
    array = np.asarray(y)
    if array.ndim == 2 and array.shape[1] == 1:
        from sklearn.exceptions import DataConversionWarning

        message = f"A column-vector y was passed when a 1d array was expected; pass {name}.ravel()."
        warn_user(message, DataConversionWarning)
        array = array.ravel()
    if array.ndim != 1 and not (may_be_table and array.ndim == 2 and array.shape[1] > 1):
        raise InvalidDataError(f"{name} must be one-dimensional, got shape {array.shape}.")
    _check_length(array, n_rows, name, "label")
    return array


def _check_length(array: np.ndarray, n_rows: int, name: str, noun: str) -> None:
    if len(array) != n_rows:
        raise InvalidDataError(f"{name} has length {len(array)}, but X has {n_rows} rows; pass one {noun} a row.")


def _as_numbers(array: np.ndarray, name: str) -> np.ndarray:
    if array.dtype.kind == "c":
        raise InvalidDataError(f"Complex data not supported; {name} must hold real numbers.")
    if array.dtype.kind not in "biufO":
        raise InvalidTypeError(f"{name} must hold numbers, got {array.dtype} values.")
    try:
        return np.ascontiguousarray(array, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidTypeError(f"{name} must hold numbers, got {array.dtype} values.") from None


def _check_finite(values: np.ndarray, name: str) -> None:
    finite = np.isfinite(values)
    if not finite.all():
        kind = "NaN" if np.isnan(values).any() else "infinity"
        raise InvalidDataError(f"{name} contains {kind}; remove those rows or give them a value.")


def _check_labels(labels: np.ndarray, name: str) -> None:
    kind = labels.dtype.kind
    if kind == "f":
        _check_finite(labels, name)
        if (labels != np.floor(labels)).any():
            raise InvalidDataError(
                f"Unknown label type: {name} is continuous; classes are whole numbers, strings or booleans."
            )
    elif kind == "c":
        raise InvalidDataError(f"Complex data not supported; {name} must hold class labels.")
    elif kind == "O":
        values = [value.item() if isinstance(value, np.generic) else value for value in labels]
        if any(is_missing(value) for value in values):
            raise InvalidDataError(f"{name} has missing labels; remove those rows.")
        if not all(type(value) in (str, bool, int, float) for value in values):
            raise InvalidDataError(f"Unknown label type: {name} must hold whole numbers, strings or booleans.")
    elif kind not in "biuU":
        raise InvalidDataError(
            f"Unknown label type: {name} must hold numbers, strings or booleans, not {labels.dtype}."
        )


def _shown(classes: np.ndarray, limit: int = 10) -> str:
    values = ", ".join(repr(value) for value in classes.tolist()[:limit])
    return values + (", ..." if len(classes) > limit else "")
