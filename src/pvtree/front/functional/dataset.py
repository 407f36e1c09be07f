"""Rows with their labels, weights and queries, as LightGBM's functions expect them. Training reads them, not this."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from pvtree.errors import InvalidDataError, InvalidParameterError, InvalidTypeError, public
from pvtree.reading.dask_data import is_collection
from pvtree.reading.tables import Table, is_sparse
from pvtree.reading.targets import read_init_score, read_queries


@public
class Dataset:
    """Rows to train on, to evaluate on or to predict.

    Every training makes its own bins, and the data stays the caller's, so ``reference``, ``params`` and
    ``free_raw_data`` have no effect; they are accepted for compatibility with LightGBM.

    Parameters
    ----------
    data : array-like, table or file rows
        Any X that estimators accept.
    label : array-like or None, default=None
        The target of each row.
    reference : Dataset or None, default=None
        No effect.
    weight : array-like or None, default=None
        The weight of each row.
    group : array-like or None, default=None
        The number of rows of each query, for ranking.
    init_score : array-like or None, default=None
        The raw score that boosting starts from in each row; with several classes a column for each.
    position : None
        Not supported.
    feature_name : list of str or "auto", default="auto"
        Names of the columns.
    categorical_feature : list or "auto", default="auto"
        Names or numbers of categorical columns.
    params : dict or None, default=None
        No effect.
    free_raw_data : bool, default=True
        No effect.
    qid : array-like or None, default=None
        The query of each row, in place of ``group``.
    """

    def __init__(
        self,
        data: Any,
        label: Any = None,
        reference: Dataset | None = None,
        weight: Any = None,
        group: Any = None,
        init_score: Any = None,
        feature_name: Any = "auto",
        categorical_feature: Any = "auto",
        params: dict[str, Any] | None = None,
        free_raw_data: bool = True,
        position: Any = None,
        *,
        qid: Any = None,
    ) -> None:
        if position is not None:
            raise InvalidParameterError("position is not supported; leave it out.")
        self.init_score = init_score
        self.data, self.label, self.weight, self.group, self.qid = data, label, weight, group, qid
        self.reference, self.params = reference, dict(params or {})
        self.feature_name, self.categorical_feature = feature_name, categorical_feature

    def construct(self) -> Self:
        """Return the Dataset itself: there is nothing to prepare."""
        return self

    def create_valid(
        self, data: Any, label: Any = None, weight: Any = None, group: Any = None, init_score: Any = None
    ) -> Dataset:
        """Make a Dataset of rows to evaluate on."""
        return Dataset(data, label, self, weight, group, init_score)

    def subset(self, used_indices: Any, params: dict[str, Any] | None = None) -> Dataset:
        """Make a Dataset of these rows, given by number or as a mask, in the order of the data.

        The rows of a query must stay adjacent.
        """
        rows = _numbers(used_indices, self.num_data())
        return Dataset(
            _rows(self.data, rows),
            _rows(self.label, rows),
            self.reference,
            _rows(self.weight, rows),
            init_score=_rows(self._scores_by_row(), rows),
            feature_name=self.feature_name,
            categorical_feature=self.categorical_feature,
            params=params or self.params,
            qid=_rows(self.query_ids(), rows),
        )

    def query_ids(self) -> Any:
        """The query of each row; None without queries."""
        if self.qid is not None or self.group is None:
            return self.qid
        queries = read_queries(self.group, None, self.num_data())
        return None if queries is None else np.repeat(np.arange(len(queries.sizes)), queries.sizes)

    def _scores_by_row(self) -> Any:
        is_flat = self.init_score is not None and not is_collection(self.init_score)
        return read_init_score(self.init_score, self.num_data()) if is_flat else self.init_score

    def num_data(self) -> int:
        return int(np.shape(self.data)[0])

    def num_feature(self) -> int:
        return int(np.shape(self.data)[1])

    def get_data(self) -> Any:
        return self.data

    def get_label(self) -> Any:
        return self.label

    def get_weight(self) -> Any:
        return self.weight

    def get_group(self) -> Any:
        return self.group

    def get_init_score(self) -> Any:
        return self.init_score

    def set_label(self, label: Any) -> Self:
        self.label = label
        return self

    def set_weight(self, weight: Any) -> Self:
        self.weight = weight
        return self

    def set_group(self, group: Any) -> Self:
        self.group = group
        return self

    def set_init_score(self, init_score: Any) -> Self:
        self.init_score = init_score
        return self


def _numbers(used_indices: Any, n_rows: int) -> np.ndarray:
    """The row numbers in ascending order."""
    given = np.asarray(used_indices)
    if given.dtype == bool and given.shape == (n_rows,):
        return np.flatnonzero(given)
    if given.ndim != 1 or (given.size and (given.dtype.kind not in "iu" or given.min() < 0 or given.max() >= n_rows)):
        raise InvalidDataError(
            f"used_indices must be row numbers from 0 to {n_rows - 1} or a mask of all {n_rows} rows; pass a list of "
            "integers."
        )
    return np.sort(given).astype(np.int64)


def _rows(values: Any, rows: np.ndarray) -> Any:
    """These rows of the values, in a container of the same type."""
    if values is None:
        return None
    if is_collection(values):
        raise InvalidTypeError(
            "subset needs rows in memory, but the Dataset holds a Dask collection; call its compute() first."
        )
    if isinstance(values, Table):
        return _rows_of_table(values, rows)
    if is_sparse(values):
        return values.tocsr()[rows]  # not every sparse format supports indexing
    if hasattr(values, "iloc"):
        return values.iloc[rows]
    if hasattr(values, "column_names") and hasattr(values, "take"):  # indexing an Arrow table selects columns
        return values.take(rows)
    return values[rows] if hasattr(values, "shape") else np.asarray(values)[rows]


def _rows_of_table(table: Table, rows: np.ndarray) -> Table:
    keep = np.zeros(table.shape[0], bool)
    keep[rows] = True
    if keep.sum() < len(rows):
        raise InvalidDataError("used_indices repeats a row, which is not supported for files; give each row once.")
    return table.take(keep)
