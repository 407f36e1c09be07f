"""Rows with their labels, weights and queries, as LightGBM's functions expect them. Training reads them, not this."""

from __future__ import annotations

import itertools
import os
from typing import Any, Self

import numpy as np

from pvtree.errors import InvalidDataError, InvalidParameterError, InvalidTypeError, public
from pvtree.front.functional import dataset_file
from pvtree.front.functional.dataset_columns import as_column, gathered, read_path, side_by_side
from pvtree.reading.dask_data import is_collection
from pvtree.reading.inputs import column_names, is_arrow, read_table
from pvtree.reading.pandas_columns import is_frame
from pvtree.reading.tables import Table, is_sparse
from pvtree.reading.targets import read_init_score, read_positions, read_queries

_BESIDE = ("label", "weight", "group", "qid", "init_score")  # what stands beside the rows


@public
class Dataset:
    """Rows to train on, to evaluate on or to predict.

    Every training makes its own bins, and the data stays the caller's, so ``reference`` and ``free_raw_data`` have no
    effect; they are accepted for compatibility with LightGBM. Getters return one-dimensional float32 arrays, as
    LightGBM's do; training reads what was given.

    Parameters
    ----------
    data : array-like, table, file rows, Sequence, list of these, or path
        Any X that estimators accept; rows that are read in batches; or a file of ``save_binary``, CSV, TSV or libsvm.
        In a text file the first column is the label.
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
    position : array-like or None, default=None
        Where each document was shown to users, for ranking: whole numbers or texts. Training learns what a position
        adds to a document's relevance, and predictions leave it out.
    feature_name : list of str or "auto", default="auto"
        Names of the columns.
    categorical_feature : list or "auto", default="auto"
        Names or numbers of categorical columns.
    params : dict or None, default=None
        ``header`` and ``label_column`` of a text file, ``max_bin`` and ``min_data_in_bin`` for ``feature_num_bin``;
        training takes its own.
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
        self.params = dict(params or {})
        if isinstance(data, str | os.PathLike):
            found = read_path(data, self.params)
            data = found["data"]
            label, weight = _either(label, found.get("label")), _either(weight, found.get("weight"))
            init_score = _either(init_score, found.get("init_score"))
            if group is None and qid is None:
                group, qid = found.get("group"), found.get("qid")
            feature_name = found.get("feature_name", feature_name) if feature_name == "auto" else feature_name
            if isinstance(categorical_feature, str):
                categorical_feature = found.get("categorical_feature", categorical_feature)
        self.data, self.label, self.weight, self.group, self.qid = gathered(data), label, weight, group, qid
        self._given_data = data if self.data is not data else None  # Sequences, or a list of matrices
        self._is_constructed = False
        self.init_score, self.reference, self.position = init_score, reference, position
        self.given_names, self.categorical_feature = feature_name, categorical_feature
        self.used_indices: np.ndarray | None = None
        if is_frame(self.data) and not isinstance(feature_name, str) and feature_name is not None:
            self._rename(list(feature_name))

    def __repr__(self) -> str:
        shape = (
            "without rows" if self.data is None else f"{np.shape(self.data)[0]} rows x {np.shape(self.data)[1]} columns"
        )
        beside = [name for name in _BESIDE if getattr(self, name) is not None]
        return f"<{type(self).__name__}: {shape}{', with ' + ', '.join(beside) if beside else ''}>"

    def construct(self) -> Self:
        """Return the Dataset itself: there is nothing to prepare, but ``feature_name`` holds names from now on."""
        self._is_constructed = True
        return self

    @property
    def feature_name(self) -> Any:
        """The names of the columns; "auto" if none were given, until ``construct``."""
        is_known = self._is_constructed and self.data is not None and isinstance(self.given_names, str)
        return self.get_feature_name() if is_known else self.given_names

    @feature_name.setter
    def feature_name(self, names: Any) -> None:
        self.given_names = names

    def create_valid(
        self,
        data: Any,
        label: Any = None,
        weight: Any = None,
        group: Any = None,
        init_score: Any = None,
        params: dict[str, Any] | None = None,
        position: Any = None,
    ) -> Dataset:
        """Make a Dataset of rows to evaluate on."""
        names = self.given_names if isinstance(self.given_names, str) else list(self.given_names)
        return Dataset(
            data, label, self, weight, group, init_score, names, self.categorical_feature, params, position=position
        )

    def subset(self, used_indices: Any, params: dict[str, Any] | None = None) -> Dataset:
        """Make a Dataset of these rows, given by number or as a mask, in the order of the data.

        The rows of a query must stay adjacent.
        """
        return self._part(np.sort(row_numbers(used_indices, self.num_data())), params)

    def _part(self, rows: np.ndarray, params: dict[str, Any] | None = None) -> Dataset:
        """A Dataset of these rows, in this order."""
        part = Dataset(
            _rows(self.data, rows),
            _rows(self.label, rows),
            self.reference,
            _rows(self.weight, rows),
            init_score=_rows(self._scores_by_row(), rows),
            feature_name=self.given_names,
            categorical_feature=self.categorical_feature,
            params=params or self.params,
            qid=_rows(self.query_ids(), rows),
            position=_rows(self.position, rows),
        )
        part.used_indices = rows
        return part

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
        return self.data if self._given_data is None else self._given_data

    def get_label(self) -> np.ndarray | None:
        """The labels as float32, (n_rows,)."""
        return as_column(self.label, np.float32, "label")

    def get_weight(self) -> np.ndarray | None:
        """The weights as float32, (n_rows,); None if all are 1, as in LightGBM."""
        weight = as_column(self.weight, np.float32, "weight")
        return None if weight is None or (weight == 1).all() else weight

    def get_group(self) -> np.ndarray | None:
        """The number of rows of each query, int32."""
        if self.qid is not None:
            queries = read_queries(None, as_column(self.qid, None, "qid"), self.num_data())
            return None if queries is None else queries.sizes.astype(np.int32)
        return as_column(self.group, np.int32, "group")

    def get_init_score(self) -> np.ndarray | None:
        """The scores to start from as float64, (n_rows,), or (n_rows, n_classes) for more than two classes."""
        scores = read_init_score(self.init_score, self.num_data())
        return scores[:, 0] if scores is not None and scores.shape[1] == 1 else scores

    def get_position(self) -> np.ndarray | None:
        """The number of each row's position among the different ones, int32, as in LightGBM."""
        if self.position is None:
            return None
        numbers = np.unique(read_positions(self.position, self.num_data()), return_inverse=True)[1]
        return numbers.astype(np.int32)

    def get_field(self, field_name: str) -> np.ndarray | None:
        """A column by LightGBM's name. "group" gives the bounds of the queries: 0, then where each ends."""
        if field_name in ("group", "query"):
            sizes = self.get_group()
            return None if sizes is None else np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
        return self._fields(field_name, "get")()

    def set_field(self, field_name: str, data: Any) -> Self:
        """Set a column by LightGBM's name; "group" takes the sizes of the queries."""
        self._fields(field_name, "set")(data)
        return self

    def _fields(self, field_name: str, verb: str) -> Any:
        known = ("label", "weight", "group", "init_score", "position")
        if field_name not in known:
            raise InvalidParameterError(f"{field_name!r} is not a field of a Dataset; use one of {', '.join(known)}.")
        return getattr(self, f"{verb}_{field_name}")

    def set_label(self, label: Any) -> Self:
        self.label = label
        return self

    def set_weight(self, weight: Any) -> Self:
        column = as_column(weight, np.float64, "weight")
        if column is not None and self.data is not None and len(column) != self.num_data():
            raise InvalidDataError(f"weight has length {len(column)}, but there are {self.num_data()} rows.")
        self.weight = weight
        return self

    def set_group(self, group: Any) -> Self:
        self.group, self.qid = group, None
        return self

    def set_init_score(self, init_score: Any) -> Self:
        """See the argument ``init_score``."""
        if self.data is not None and not is_collection(init_score):
            read_init_score(init_score, self.num_data())  # raises if it does not fit the rows
        self.init_score = init_score
        return self

    def set_position(self, position: Any) -> Self:
        """Where each document was shown."""
        self.position = None if position is None else read_positions(position, self.num_data())
        return self

    def set_feature_name(self, feature_name: Any) -> Self:
        """Name the columns."""
        if not isinstance(feature_name, str):
            names = list(feature_name)
            if len(names) != self.num_feature() or len(set(names)) < len(names):
                raise InvalidDataError(f"feature_name must be {self.num_feature()} different names, got {len(names)}.")
            self.feature_name = names
            if is_frame(self.data):
                self._rename(names)
        return self

    def get_feature_name(self) -> list[str]:
        """The names of the columns, or Column_0, Column_1, ..."""
        if not isinstance(self.given_names, str):
            return list(map(str, self.given_names))
        names = column_names(read_table(self.data) if is_arrow(self.data) else self.data)
        return [f"Column_{j}" for j in range(self.num_feature())] if names is None else list(names)

    def set_categorical_feature(self, categorical_feature: Any) -> Self:
        self.categorical_feature = categorical_feature
        return self

    def set_reference(self, reference: Dataset) -> Self:
        self.reference = reference
        return self

    def get_ref_chain(self, ref_limit: int = 100) -> set[Dataset]:
        """This Dataset, its reference, that one's reference, and so on."""
        chain: set[Dataset] = set()
        head: Dataset | None = self
        while head is not None and head not in chain and len(chain) < ref_limit:
            chain.add(head)
            head = head.reference
        return chain

    def get_params(self) -> dict[str, Any]:
        """The parameters that were given with the rows."""
        inherited = {} if self.reference is None else self.reference.get_params()
        return {**inherited, **self.params}

    def add_features_from(self, other: Dataset) -> Self:
        """Append the columns of ``other``, which has as many rows."""
        names = None
        if not isinstance(self.given_names, str) or not isinstance(other.given_names, str):
            own, theirs = self.get_feature_name(), other.get_feature_name()
            number = next(n for n in itertools.count(2) if not {f"D{n}_{name}" for name in theirs} & set(own))
            names = own + [name if name not in own else f"D{number}_{name}" for name in theirs]
        self.data, self._given_data = side_by_side(self.data, other.data), None
        if names is not None:
            self.feature_name = names
            if is_frame(self.data):
                self._rename(names)
        return self

    def feature_num_bin(self, feature: int | str) -> int:
        """The number of bins that training would give a column, with the one of missing values if there are any."""
        from pvtree.front.functional.dataset_bins import count_bins

        if isinstance(feature, str):
            feature = self.get_feature_name().index(feature)
        return count_bins(self, int(feature))

    def _dump_text(self, filename: str | os.PathLike[str]) -> Self:
        """Write the rows as text, to compare Datasets; LightGBM has it under this name."""
        from pvtree.front.functional.dataset_bins import dump_text

        dump_text(self, filename)
        return self

    def save_binary(self, filename: str | os.PathLike[str]) -> Self:
        """Write the rows and what stands beside them to a file that ``Dataset(filename)`` reads."""
        if self.position is not None:
            raise InvalidParameterError("save_binary does not support position; call set_position after reading.")
        beside = {name: getattr(self, name) for name in _BESIDE if name != "init_score"}
        categorical = self.categorical_feature
        settings = {
            "feature_name": self.given_names if isinstance(self.given_names, str) else list(self.given_names),
            "categorical_feature": categorical if isinstance(categorical, str | None) else list(categorical),
        }
        beside = {name: as_column(values, None, name) for name, values in beside.items()}
        beside["init_score"] = self.get_init_score()
        data = self.data if is_sparse(self.data) or is_frame(self.data) else _as_array(self.data)
        dataset_file.write(filename, data, beside, settings)
        return self

    def _rename(self, names: list[str]) -> None:
        if list(self.data.columns) != names and len(names) == self.data.shape[1]:
            self.data = self.data.set_axis(names, axis=1)


def rows_in(data: Any) -> Any:
    """The rows of a Dataset or of a file; rows as they are."""
    if isinstance(data, str | os.PathLike):
        return read_path(data, {})["data"]
    return data.data if isinstance(data, Dataset) else data


def _either(given: Any, found: Any) -> Any:
    return found if given is None else given


def _as_array(data: Any) -> Any:
    return np.asarray(data) if isinstance(data, list | tuple) else data


def row_numbers(used_indices: Any, n_rows: int) -> np.ndarray:
    """The numbers of rows that are given by number or as a mask."""
    given = np.asarray(used_indices)
    if given.dtype == bool and given.shape == (n_rows,):
        return np.flatnonzero(given)
    if given.ndim != 1 or (given.size and (given.dtype.kind not in "iu" or given.min() < 0 or given.max() >= n_rows)):
        raise InvalidDataError(
            f"used_indices must be row numbers from 0 to {n_rows - 1} or a mask of all {n_rows} rows; pass a list of "
            "integers."
        )
    return given.astype(np.int64)


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
