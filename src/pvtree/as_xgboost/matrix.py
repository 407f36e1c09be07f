"""DMatrix and its relatives: rows with labels, weights and queries under XGBoost's names."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Self

import numpy as np

from pvtree.as_xgboost.matrix_checks import check_feature_weights, check_label, check_rows, check_weight
from pvtree.errors import InvalidDataError, InvalidParameterError
from pvtree.front.functional import Dataset
from pvtree.front.functional.dataset import row_numbers
from pvtree.front.functional.dataset_columns import as_column
from pvtree.reading.pandas_columns import is_frame
from pvtree.reading.tables import is_sparse

_TYPES = ("q", "float", "int", "i", "c")  # XGBoost's words


class DataIter(ABC):
    """Rows that come in batches: subclasses define ``next`` and ``reset``, as in XGBoost."""

    def __init__(self, cache_prefix: str | None = None, **others: Any) -> None:
        self.cache_prefix = cache_prefix

    @abstractmethod
    def next(self, input_data: Callable[..., None]) -> bool:
        """Call ``input_data(data=..., label=...)`` with a batch and return True, or return False at the end."""

    @abstractmethod
    def reset(self) -> None:
        """Begin again with the first batch."""


class DMatrix(Dataset):
    """``Dataset`` with XGBoost's arguments.

    Parameters
    ----------
    data : array-like, table, DataIter, or path
        Any X that estimators accept, batches, or a file such as "rows.txt?format=libsvm".
    label, weight, group, qid
        As in ``Dataset``. Weights of a ranking may be given for each query.
    base_margin : array-like or None, default=None
        The raw score that boosting starts from in each row. Unlike in XGBoost, ``predict`` does not add it.
    missing : float or None, default=None
        A number that stands for a missing value, besides NaN.
    silent : bool, default=False
        No effect.
    feature_names : list of str or None, default=None
        Names of the columns.
    feature_types : list of str or None, default=None
        "c" for a categorical column; other types have no effect.
    enable_categorical : bool, default=False
        No effect: categories are always supported.
    nthread : int or None, default=None
        No effect.
    label_lower_bound, label_upper_bound : array-like or None, default=None
        The bounds of the times of survival:aft, in place of the label; numpy.inf is an upper bound too.
    feature_weights : array-like or None, default=None
        Chances of the columns to be drawn. Training refuses them if it draws columns; otherwise they have no effect.
    """

    def __init__(
        self,
        data: Any,
        label: Any = None,
        *,
        weight: Any = None,
        base_margin: Any = None,
        missing: float | None = None,
        silent: bool = False,
        feature_names: Any = None,
        feature_types: Any = None,
        group: Any = None,
        qid: Any = None,
        enable_categorical: bool = False,
        nthread: int | None = None,
        label_lower_bound: Any = None,
        label_upper_bound: Any = None,
        feature_weights: Any = None,
    ) -> None:
        check_label(label)
        check_weight(weight)
        if label_lower_bound is not None and label_upper_bound is not None:
            label = np.column_stack([np.asarray(label_lower_bound), np.asarray(label_upper_bound)])
        if isinstance(data, DataIter):
            gathered = _batches(data)
            data = gathered.pop("data")
            label, weight = gathered.get("label", label), gathered.get("weight", weight)
            qid, base_margin = gathered.get("qid", qid), gathered.get("base_margin", base_margin)
        if isinstance(data, str | os.PathLike):
            data = os.fspath(data).partition("?")[0]
        data = without(data, missing)
        check_rows(data)
        names = "auto" if feature_names is None else list(feature_names)
        if isinstance(names, list) and getattr(data, "shape", (0, len(names)))[1:] != (len(names),):
            raise InvalidDataError(
                f"feature_names must have one name for each of the {np.shape(data)[1]} columns, got {len(names)}."
            )
        if isinstance(names, list):
            _check_names(names)
        categorical = "auto"
        if feature_types is not None:
            marked = [j for j, kind in enumerate(feature_types) if kind in ("c", "categorical")]
            categorical = marked or "auto"  # type: ignore[assignment]
        super().__init__(data, label, None, weight, group, base_margin, names, categorical, qid=qid)
        self._types: list[str] | None = None
        self.feature_types = feature_types
        self.feature_weights: np.ndarray | None = None
        if feature_weights is not None:
            self.set_info(feature_weights=feature_weights)
        self._spread_weights()

    @property
    def feature_types(self) -> list[str] | None:
        """The types of the columns: of a DataFrame its own, unless others are set; None without types."""
        return self._types if self._types is not None else _frame_types(self.data) if is_frame(self.data) else None

    @feature_types.setter
    def feature_types(self, types: Any) -> None:
        if types is None:
            self._types = None
            return
        listed = [types] * self.num_feature() if isinstance(types, str) else list(types)
        wrong = [each for each in listed if each not in _TYPES]
        if wrong or len(listed) != self.num_feature():
            raise InvalidDataError(
                f"feature_types must name one of {', '.join(_TYPES)} for each of the {self.num_feature()} columns, got "
                f"{types!r}."
            )
        self._types = listed

    def _spread_weights(self) -> None:
        """XGBoost's weights of a ranking belong to queries; training wants one for each row."""
        if self.weight is None or (self.group is None and self.qid is None):
            return
        sizes, weight = self.get_group(), as_column(self.weight, np.float64, "weight")
        if sizes is not None and weight is not None and len(weight) == len(sizes) != self.num_data():
            self.weight = np.repeat(weight, sizes)

    @property
    def feature_names(self) -> list[str] | None:
        """The names of the columns; None without names."""
        names = self.get_feature_name()
        return None if names == [f"Column_{j}" for j in range(len(names))] else names

    @feature_names.setter
    def feature_names(self, names: Any) -> None:
        if names is None:
            self.feature_name = "auto"
        else:
            _check_names(list(names))
            self.set_feature_name(list(names))

    def set_weight(self, weight: Any) -> Self:
        """Set the weights of rows, or of queries in a ranking."""
        self.weight = weight
        self._spread_weights()
        return self

    def set_group(self, group: Any) -> Self:
        """Set the sizes of the queries."""
        super().set_group(group)
        self._spread_weights()
        return self

    def num_row(self) -> int:
        return self.num_data()

    def num_col(self) -> int:
        return self.num_feature()

    def num_nonmissing(self) -> int:
        """The number of values that are not missing; of a sparse matrix, of the stored ones."""
        return int(self.get_data().nnz)

    def get_data(self) -> Any:
        """The rows as a CSR matrix of float32 without the missing values."""
        from scipy.sparse import csr_matrix

        if is_sparse(self.data):
            rows = self.data.tocsr().astype(np.float32)
        else:
            dense = self.data
            if is_frame(dense):
                dense = dense.apply(_codes).to_numpy(np.float64, na_value=np.nan)
            dense = np.asarray(dense, np.float64)
            kept = ~np.isnan(dense)
            indptr = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
            rows = csr_matrix((dense[kept].astype(np.float32), np.nonzero(kept)[1], indptr), shape=dense.shape)
        keep = ~np.isnan(rows.data)
        if not keep.all():
            counts = np.add.reduceat(np.r_[keep, False], rows.indptr[:-1]) * (np.diff(rows.indptr) > 0)
            rows = csr_matrix((rows.data[keep], rows.indices[keep], np.r_[0, np.cumsum(counts)]), shape=rows.shape)
        return rows

    def slice(self, rindex: Any, allow_groups: bool = False) -> DMatrix:
        """A DMatrix of some rows, by number or as a mask, in the order of ``rindex``."""
        if not allow_groups and (self.group is not None or self.qid is not None):
            raise InvalidParameterError("slice does not support queries; pass allow_groups=True to keep them.")
        part = self._part(row_numbers(rindex, self.num_data()))
        made = DMatrix.__new__(type(self) if type(self) is DMatrix else DMatrix)
        made.__dict__.update(part.__dict__)
        made._types, made.feature_weights = self._types, self.feature_weights
        return made

    def set_info(self, **info: Any) -> None:
        """Set label, weight, group, qid, base_margin, feature_names, feature_types or feature_weights."""
        for name, value in info.items():
            if value is None:
                continue
            if name == "qid":
                self.qid, self.group = value, None
            elif name in ("feature_names", "feature_types"):
                setattr(self, name, value)
            elif name == "feature_weights":
                self.feature_weights = check_feature_weights(value, self.num_feature())
            elif name == "base_margin":
                self.set_base_margin(value)
            else:
                (check_label if name == "label" else check_weight)(value if name in ("label", "weight") else None)
                self.set_field(name, value)
        self._spread_weights()

    def set_base_margin(self, margin: Any) -> Self:
        """Set the raw scores that boosting starts from, (n,) or (n, n_outputs)."""
        if np.ndim(margin) > 2 or self.num_data() not in (len(margin), np.size(margin)):
            raise InvalidDataError(
                f"base_margin must have a score for each of {self.num_data()} rows, got shape {np.shape(margin)}."
            )
        return self.set_init_score(np.reshape(margin, -1) if len(margin) != self.num_data() else margin)

    def get_base_margin(self) -> Any:
        margin = self.get_init_score()
        return np.empty(0, np.float32) if margin is None else np.asarray(margin, np.float32)

    def get_label(self) -> np.ndarray:
        """The labels as float32; empty without labels, as in XGBoost."""
        label = super().get_label()
        return np.empty(0, np.float32) if label is None else label

    def get_weight(self) -> np.ndarray:
        """The weights as float32; empty without weights."""
        weight = as_column(self.weight, np.float32, "weight")
        return np.empty(0, np.float32) if weight is None else weight

    def get_float_info(self, field: str) -> np.ndarray:
        """label, weight, base_margin or feature_weights."""
        if field == "feature_weights":
            return np.empty(0, np.float32) if self.feature_weights is None else self.feature_weights
        return {"label": self.get_label, "weight": self.get_weight, "base_margin": self.get_base_margin}[field]()

    def get_uint_info(self, field: str) -> np.ndarray:
        """group_ptr: the bounds of the queries."""
        if field != "group_ptr":
            raise InvalidParameterError(f"{field!r} is not known here; use 'group_ptr'.")
        bounds = self.get_field("group")
        return np.empty(0, np.uint32) if bounds is None else bounds.astype(np.uint32)

    def set_float_info(self, field: str, data: Any) -> None:
        self.set_info(**{field: data})

    def set_uint_info(self, field: str, data: Any) -> None:
        """Set group, the sizes of the queries, or qid."""
        self.set_info(**{field: data})


class QuantileDMatrix(DMatrix):
    """A DMatrix; training always makes histograms, so there is no difference.

    ``ref``, ``max_bin`` and the options of batches have no effect; ``max_bin`` is a parameter of training.
    """

    def __init__(self, data: Any, label: Any = None, *, ref: Any = None, max_bin: int | None = None, **arguments: Any):
        for name in ("max_quantile_batches", "max_num_device_pages", "cache_host_ratio", "min_cache_page_bytes"):
            arguments.pop(name, None)
        super().__init__(data, label, **arguments)
        self.ref, self.max_bin = ref, max_bin


class ExtMemQuantileDMatrix(QuantileDMatrix):
    """The same: all rows are in memory here."""


def _codes(column: Any) -> Any:
    return column.cat.codes.where(column.cat.codes >= 0) if column.dtype.name == "category" else column


def _check_names(names: list[Any]) -> None:
    if len(set(names)) < len(names):
        raise InvalidDataError("feature_names must be unique; rename the columns that share a name.")
    bad = [name for name in names if not isinstance(name, str) or any(sign in name for sign in "[]<")]
    if bad:
        raise InvalidDataError(f"feature_names must be texts without [, ] or <, got {bad[0]!r}; rename the column.")


def _frame_types(frame: Any) -> list[str]:
    """XGBoost's words for the types of a DataFrame's columns."""
    words = {"f": "float", "i": "int", "u": "int", "b": "i"}
    return ["c" if kind.name == "category" else words.get(getattr(kind, "kind", "f"), "float") for kind in frame.dtypes]


def without(data: Any, missing: float | None) -> Any:
    """The data with NaN in place of ``missing``."""
    if missing is None or missing != missing:
        return data
    if is_sparse(data):
        changed = data.tocsr(copy=True).astype(np.float64)
        changed.data[changed.data == missing] = np.nan
        return changed
    if is_frame(data):
        return data.mask(data == missing)
    array = np.array(data, np.float64)
    array[array == missing] = np.nan
    return array


def _batches(iterator: DataIter) -> dict[str, Any]:
    """All batches of an iterator, one after the other."""
    found: dict[str, list[Any]] = {}

    def input_data(data: Any = None, **beside: Any) -> None:
        for name, values in {"data": data, **beside}.items():
            if values is not None and name in ("data", "label", "weight", "qid", "base_margin"):
                found.setdefault(name, []).append(values)

    iterator.reset()
    while iterator.next(input_data):
        pass
    if "data" not in found:
        raise InvalidDataError("The iterator gave no rows; call input_data with a batch in next.")
    blocks = found.pop("data")
    if is_sparse(blocks[0]):
        from scipy import sparse

        data = sparse.vstack(blocks, format="csr")
    elif is_frame(blocks[0]):
        import pandas as pd

        data = pd.concat(blocks, ignore_index=True)
    else:
        data = np.vstack(blocks)
    margins = [np.asarray(each).reshape(len(each), -1) for each in found.pop("base_margin", [])]
    columns = {name: np.concatenate([np.asarray(each).ravel() for each in parts]) for name, parts in found.items()}
    return {"data": data, **columns} | ({"base_margin": np.concatenate(margins)} if margins else {})
