"""X as users have it -> the float matrix that is binned or predicted on, categories as bin numbers.

A table is what lies between: a pandas DataFrame as it came, a 2-D numpy array, or a Table whose rows are not all in one
piece of memory; columns are read from it.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pvtree.comm import Communicator
from pvtree.comm.agreement import all_or_none, share
from pvtree.comm.user_warnings import warn_user
from pvtree.errors import InvalidDataError, InvalidParameterError, InvalidTypeError
from pvtree.kernels.constants import N_BINS
from pvtree.reading import pandas_columns
from pvtree.reading.arrow_columns import check_unique
from pvtree.reading.categories import bins_of_numbers
from pvtree.reading.category_choice import category_order, choose, in_order
from pvtree.reading.column_fitting import first_difference
from pvtree.reading.number_columns import as_floats, listing, parsed, rounded, warn_of_rounding
from pvtree.reading.pandas_columns import is_frame
from pvtree.reading.tables import Columns, Scalar, Table, check_can_be_kept, is_sparse, lightgbm_name


def read_table(X: Any, least_rows: int = 1) -> Any:
    """A Table, DataFrame or 2-D array with at least so many rows and one column, converted no further than that."""
    if isinstance(X, Table):
        return X
    if is_sparse(X):
        from pvtree.reading.sparse_tables import SparseTable  # brings numba along, which nothing else here needs

        X = SparseTable.read(X)
    elif is_arrow(X) and not is_frame(X):  # pandas knows Arrow too, but its own arrays are nearer
        from pvtree.reading.arrow_table import ArrowTable

        X = ArrowTable(X)
    elif hasattr(X, "collect") and hasattr(X, "collect_schema"):
        raise InvalidTypeError("X is a lazy frame, whose rows are not there yet; pass X.collect().")
    table = X if isinstance(X, Table) or is_frame(X) else _as_array(X)
    if len(table.shape) != 2:
        raise InvalidDataError(
            f"X must be two-dimensional, got shape {table.shape}: Reshape your data with X.reshape(-1, 1) "
            "if it is one column or X.reshape(1, -1) if it is one row."
        )
    for axis, (noun, least) in enumerate((("row(s)", least_rows), ("feature(s)", 1))):
        if table.shape[axis] < least:
            shape = tuple(table.shape)
            raise InvalidDataError(f"X has 0 {noun} (shape={shape}) while a minimum of 1 is required.")
    return table


def learn_columns(
    table: Any,
    categorical_feature: Any,
    max_bin: int,
    comm: Communicator,
    given_names: Any = "auto",
    known: Columns | None = None,
) -> Columns:
    """Names and categories of all workers' training data; ``max_bin`` categories at most get a bin of their own.

    ``given_names`` are for an X that has no names of its own. ``known`` are the columns of a model to go on from, whose
    trees know its categories by their bins, so that these stay.
    """

    def describe() -> tuple[tuple[str, ...] | None, list[int], list[int], list[int]]:
        _check_memory(table.shape[1])
        names = _checked_names(given_names, column_names(table), table.shape[1])
        searched = names if names is not None or known is None else known.names
        listed = _listed_columns(categorical_feature, searched, table.shape[1])
        return names, *choose(table, categorical_feature, listed, category_columns(table)), rounded_columns(table)

    names, *its_own = all_or_none(describe, comm)
    described = share([table.shape[1], names, *its_own], comm)
    _check_same_columns(described)
    categorical, unnamed, inexact = (sorted({j for its in described for j in its[k]}) for k in (2, 3, 4))
    ordered = [j for j in unnamed if j not in categorical]
    if known is not None:
        as_before = known.ordered if isinstance(categorical_feature, str) else frozenset(ordered)
        return replace(known, ordered=as_before & known.categories.keys())
    counts = all_or_none(lambda: [list(count_values(table, j).items()) for j in (*categorical, *ordered)], comm)
    by_column = list(zip(*share(counts, comm), strict=True))  # of each its counts on every worker
    categories = {
        j: _most_frequent(its_counts, max_bin)
        for j, its_counts in zip(categorical, by_column[: len(categorical)], strict=True)
    }
    orders = share([category_order(table, j) for j in ordered], comm) if ordered else []
    for j, its_orders, its_counts in zip(
        ordered, zip(*orders, strict=True), by_column[len(categorical) :], strict=True
    ):
        values = in_order(its_orders, [value for worker in its_counts for value, _ in worker])
        categories |= {} if values is None else {j: values}
    warn_of_rounding([names[j] if names else j for j in inexact if j not in categories])
    ordered_columns = frozenset(categories.keys() - set(categorical))
    columns = Columns(table.shape[1], names, categories, ordered_columns, column_names(table) is not None)
    check_can_be_kept(columns)
    return columns


def _check_memory(n_features: int) -> None:
    """A file of a few bytes may name column 10**9, and the system ends a process that takes more than there is."""
    needed = n_features * int(N_BINS) * 8  # the thresholds
    if hasattr(os, "sysconf") and needed > os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"):
        raise InvalidDataError(
            f"X has {n_features} columns, whose thresholds take {needed / 1e9:.0f} GB of memory, more than this "
            "machine has; use fewer columns, or fix the largest column number in the data."
        )


def encode(table: Any, columns: Columns) -> Any:
    """The table as a float32 or float64 matrix, or as a Source; a float array without categories stays as it is."""
    if isinstance(table, Table):
        return table.encode(columns)
    if is_frame(table):
        return _encode_frame(table, columns)
    if not columns.categories:
        return as_floats(table)
    if table.dtype.kind in "biuf":
        matrix = as_floats(table)
        matrix = matrix.copy(order="K") if matrix is table else matrix
        for j in columns.categories:
            matrix[:, j] = _encode_column(table, j, columns)
        return matrix
    return _encode_by_column(table, columns)


def check_columns(table: Any, columns: Columns, owner: str) -> None:
    """Refuse an X whose columns are not those of fit, in number, name or order."""
    names = column_names(table)
    if names is not None and columns.names is not None:
        # Those of LightGBM's files, where the model may have come from, have no blanks.
        if names == columns.names or tuple(map(lightgbm_name, names)) == columns.names:
            return
    elif table.shape[1] == columns.n_features:
        return
    expected, there = dict.fromkeys(columns.names or ()), set(names or ())
    missing = [name for name in expected if names is not None and name not in there]
    unknown = [name for name in names or () if columns.names is not None and name not in expected]
    lists = ", ".join(f"{listing(some)} {how}" for some, how in ((missing, "missing"), (unknown, "unknown")) if some)
    if table.shape[1] != columns.n_features:
        counts = f"X has {table.shape[1]} features, but {owner} is expecting {columns.n_features} features as input"
        remedy = f" ({lists}); pass the same columns in the same order." if lists else "."
        raise InvalidDataError(counts + remedy)
    if not missing:
        raise InvalidDataError("The columns of X are in another order than in fit; pass them in the same order.")
    raise InvalidDataError(first_difference(expected, names or (), lists))


def warn_if_nameless(table: Any, columns: Columns, owner: str) -> None:
    """As scikit-learn says it: without names nobody can tell whether the columns are in the right order."""
    if columns.of_named_rows and column_names(table) is None:
        warn_user(f"X does not have valid feature names, but {owner} was fitted with feature names")


def read_like(X: Any, columns: Columns, owner: str) -> Any:
    """The matrix, or SparseRows, of an X that must look like the one of fit: for prediction and evaluation."""
    table = read_table(X)
    check_columns(table, columns, owner)
    warn_if_nameless(table, columns, owner)
    return table.for_prediction(columns) if isinstance(table, Table) else encode(table, columns)


def take_rows(table: Any, keep: np.ndarray) -> Any:
    if isinstance(table, Table):
        return table.take(keep)
    return table.iloc[keep] if is_frame(table) else table[keep]


def column_names(X: Any) -> tuple[str, ...] | None:
    """The names of a DataFrame's columns if they are strings; None for arrays and numbered columns."""
    names = list(getattr(X, "columns", None) or ()) if isinstance(X, Table) else list(getattr(X, "columns", ()))
    n_strings = sum(isinstance(name, str) for name in names)
    if 0 < n_strings < len(names):
        raise InvalidTypeError(
            "Some column names of X are strings and some are not; "
            "make them all strings, for example with X.columns = X.columns.astype(str)."
        )
    if n_strings:
        check_unique(names, names, "X")
    return tuple(str(name) for name in names) if n_strings else None


def is_arrow(X: Any) -> bool:
    """Whether X hands itself over as an Arrow table, as those of pyarrow, polars and DuckDB do."""
    return hasattr(X, "__arrow_c_stream__") or hasattr(X, "__arrow_c_array__")


def _checked_names(given: Any, own: tuple[str, ...] | None, n_features: int) -> tuple[str, ...] | None:
    if given is None or (isinstance(given, str) and given == "auto"):
        return own
    is_list = isinstance(given, Iterable) and not isinstance(given, str) and getattr(given, "ndim", 1) == 1
    given = list(given) if is_list else []
    if not all(isinstance(name, str) for name in given) or len(set(given)) != n_features:
        raise InvalidDataError(
            f"feature_name must be 'auto' or a list of {n_features} different strings, one for each column of X."
        )
    names = tuple(given)
    if own is not None and names != own:
        raise InvalidDataError("feature_name differs from the names of X's columns; leave it out or rename them.")
    return names


def _check_same_columns(described: list[Any]) -> None:
    """Workers must have the same columns; ``described`` has (number, names, ...) of each worker's."""
    (n_first, first, *_), *others = described
    for rank, (n_features, names, *_) in enumerate(others, start=1):
        if n_features != n_first:
            what = f"worker 0 has {n_first}, worker {rank} has {n_features}"
        elif (names is None) != (first is None):
            what = f"only one of worker 0 and worker {rank} has names"
        elif names != first:
            differing = next(f"{a!r} and {b!r}" for a, b in zip(first, names, strict=True) if a != b)
            what = f"worker 0 and worker {rank} have {differing} in the same place"
        else:
            continue
        raise InvalidDataError(
            f"The workers' X have different columns ({what}); pass the same columns in the same order."
        )


def _as_array(X: Any) -> np.ndarray:
    try:
        array = np.asarray(X)
        if array.dtype.kind in "US" and not isinstance(X, np.ndarray):
            array = np.asarray(X, dtype=object)  # a list that mixes numbers and text: keep the numbers
    except (ValueError, TypeError):
        raise InvalidDataError("X cannot be read as a table; pass rows that all have the same length.") from None
    if array.dtype.kind == "c":
        raise InvalidDataError("Complex data not supported; pass the real and imaginary parts as columns of X.")
    return array


def _encode_frame(frame: Any, columns: Columns) -> np.ndarray:
    dtypes = list(frame.dtypes)
    if not columns.categories and all(isinstance(d, np.dtype) and d.kind in "biuf" for d in dtypes):
        all_single = all(dtype == np.float32 for dtype in dtypes)
        # A frame of one dtype is one block in memory: this is a view of it, not a copy.
        return np.asarray(frame.to_numpy(dtype=np.float32 if all_single else np.float64))
    return _encode_by_column(frame, columns)


def _encode_by_column(table: Any, columns: Columns) -> np.ndarray:
    matrix = np.empty(table.shape, np.float64, order="F")
    for j in range(table.shape[1]):
        matrix[:, j] = _encode_column(table, j, columns)
    return matrix


def _encode_column(table: Any, j: int, columns: Columns) -> np.ndarray:
    if j in columns.categories:
        _check_not_numbers(table, j, columns.categories[j])
        return _bins(_column(table, j), columns.categories[j], _described(table, j))
    column = _column(table, j)
    if is_frame(table) and pandas_columns.is_text(column):
        raise InvalidDataError(
            f"The {_described(table, j)} holds text, but the model knows it as numbers; pass numbers."
        )
    kind = getattr(column.dtype, "kind", "O")
    if kind == "c":
        raise InvalidDataError(f"Complex data not supported; {_described(table, j)} is complex.")
    if kind not in "biuf":
        return parsed(column, _described(table, j))
    if isinstance(column.dtype, np.dtype):
        return np.asarray(column)
    return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))  # pandas' nullable numbers


def _column(table: Any, j: int) -> Any:
    return table.iloc[:, j] if is_frame(table) else table[:, j]


def _described(table: Any, j: int) -> str:
    return f"column {table.columns[j]!r} of X" if is_frame(table) else f"column {j} of X"


# -- Categories ---------------------------------------------------------------------------------------------


def _listed_columns(categorical_feature: Any, names: tuple[str, ...] | None, n_features: int) -> list[int]:
    if categorical_feature is None or isinstance(categorical_feature, str):
        return []
    listed = []
    for column in categorical_feature:
        if isinstance(column, str):
            if names is None or column not in names:
                raise InvalidParameterError(f"categorical_feature names {column!r}, which is no column of X.")
            listed.append(names.index(column))
        elif 0 <= column < n_features:
            listed.append(int(column))
        else:
            raise InvalidParameterError(
                f"categorical_feature must hold column indices from 0 to {n_features - 1}, got {column}."
            )
    return listed


def category_columns(table: Any) -> list[int]:
    if isinstance(table, Table):
        return table.category_columns()
    return pandas_columns.category_columns(table) if is_frame(table) else []


def rounded_columns(table: Any) -> list[int]:
    """Columns of integers that float64 does not hold."""
    if isinstance(table, Table):
        return table.rounded_columns()
    if not is_frame(table):
        mask = rounded(table)
        return [] if mask is None else np.flatnonzero(mask.any(axis=0)).tolist()
    return pandas_columns.rounded_columns(table)


def _most_frequent(by_worker: Sequence[Sequence[tuple[Scalar, int]]], limit: int) -> tuple[Scalar, ...]:
    """The ``limit`` most frequent values of a column, ties by value, in the order of their values."""
    counts: Counter[Scalar] = Counter()
    for its_counts in by_worker:
        counts.update(dict(its_counts))
    by_frequency = sorted(counts, key=lambda value: (-counts[value], _order(value)))
    return tuple(sorted(by_frequency[:limit], key=_order))


def _order(value: Scalar) -> tuple[bool, Any]:
    """Numbers before text: a column of Python objects may hold both."""
    return isinstance(value, str), value


def count_values(table: Any, j: int) -> dict[Scalar, int]:
    if isinstance(table, Table):
        return table.count_values(j)
    column, what = _column(table, j), _described(table, j)
    if hasattr(column, "cat"):
        codes = np.asarray(column.cat.codes, dtype=np.int64)
        values = column.cat.categories
        counts = np.bincount(codes[codes >= 0], minlength=len(values))
        return {_scalar(value, what): int(n) for value, n in zip(values, counts, strict=True) if n}
    values = np.asarray(column)
    if values.dtype.kind in "biuf":
        distinct, counts = np.unique(values[values == values], return_counts=True)
        return dict(zip(distinct.tolist(), counts.tolist(), strict=True))
    return Counter(_scalar(value, what) for value in values.tolist() if not is_missing(value))


def _scalar(value: Any, what: str) -> Scalar:
    """Category values travel in model files, so they are of the kinds that JSON knows."""
    value = value.item() if isinstance(value, np.generic) else value
    if type(value) not in (str, bool, int, float):
        kind = type(value).__name__
        raise InvalidDataError(f"The categories of {what} are {kind}; convert them to strings or numbers.")
    return value


def is_missing(value: Any) -> bool:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float | np.floating) and bool(value != value)


def _bins(column: Any, categories: tuple[Scalar, ...], what: str) -> np.ndarray:
    """Bin number of every row: 1-based position of its value among ``categories``, else 0."""
    bin_of = {value: b for b, value in enumerate(categories, start=1)}
    if hasattr(column, "cat"):
        # The last entry answers code -1, pandas' missing.
        labels = column.cat.categories.tolist()
        _check_kind(labels, categories, what)
        table = [bin_of.get(value, 0) for value in labels] + [0]
        return np.asarray(table, dtype=np.float64)[np.asarray(column.cat.codes, dtype=np.int64)]
    values = np.asarray(column)
    if values.dtype.kind in "biuf":
        return bins_of_numbers(values, [v for v in categories if not isinstance(v, str)])
    objects = values.tolist()
    _check_kind(objects, categories, what)
    try:
        return np.asarray([bin_of.get(value, 0) for value in objects], dtype=np.float64)
    except TypeError:
        raise InvalidDataError(
            f"The values of {what} cannot be categories; convert them to strings or numbers."
        ) from None


def _check_not_numbers(table: Any, j: int, categories: tuple[Scalar, ...]) -> None:
    """The same of a DataFrame's numbers where the model knows words only; arrays have no types of columns."""
    are_texts = bool(categories) and all(isinstance(known, str) for known in categories)
    if are_texts and is_frame(table) and pandas_columns.holds_numbers(_column(table, j)):
        raise InvalidDataError(
            f"The {_described(table, j)} holds numbers, but the model knows it as text; pass the same texts."
        )


def _check_kind(values: list[Any], categories: tuple[Scalar, ...], what: str) -> None:
    """Words where the model knows numbers only would all be taken for unseen ones, which is never meant."""
    is_text = [isinstance(value, str) for value in values if not is_missing(value)]
    if is_text and all(is_text) and categories and not any(isinstance(known, str) for known in categories):
        raise InvalidDataError(f"The categories of {what} are text, but numbers in the model; pass the same numbers.")
