"""What stands in and beside a Dataset: columns that are joined, labels as LightGBM returns them, rows of files."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pvtree.errors import InvalidDataError, InvalidParameterError, InvalidTypeError, public
from pvtree.reading.pandas_columns import is_frame
from pvtree.reading.tables import Table, is_sparse


@public
class Sequence(ABC):
    """Rows that are read batch by batch, as in LightGBM: subclasses define ``__getitem__`` and ``__len__``.

    ``batch_size`` rows are asked for at a time, as a slice.
    """

    batch_size = 4096

    @abstractmethod
    def __getitem__(self, idx: Any) -> np.ndarray:
        """One row by its number, or the rows of a slice."""

    @abstractmethod
    def __len__(self) -> int:
        """The number of rows."""


def gathered(data: Any) -> Any:
    """The rows of a Sequence, or of a list of these, as one matrix; other data as it is."""
    if isinstance(data, Sequence):
        data = [data]
    if isinstance(data, list) and data and all(isinstance(each, Sequence) for each in data):
        sizes = [each.batch_size or Sequence.batch_size for each in data]
        blocks = [
            np.asarray(each[start : min(start + size, len(each))])
            for each, size in zip(data, sizes, strict=True)
            for start in range(0, len(each), size)
        ]
        return np.vstack(blocks)
    if isinstance(data, list) and data and all(isinstance(each, np.ndarray) and each.ndim == 2 for each in data):
        return np.vstack(data)  # LightGBM's list of matrices
    return data


def as_column(values: Any, dtype: Any, name: str) -> np.ndarray | None:
    """A one-dimensional array of labels, weights or sizes in whatever container; None stays None."""
    if values is None:
        return None
    if type(values).__module__.partition(".")[0] == "pyarrow":
        array = np.asarray(values.to_numpy(zero_copy_only=False))
    elif hasattr(values, "to_numpy") and not is_frame(values):
        array = np.asarray(values.to_numpy())
    else:
        array = np.asarray(values)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise InvalidDataError(f"{name} must be one-dimensional, got shape {array.shape}.")
    try:
        return np.ascontiguousarray(array, dtype)
    except (TypeError, ValueError):
        raise InvalidTypeError(f"{name} must hold numbers, got {array.dtype} values.") from None


def side_by_side(left: Any, right: Any) -> Any:
    """The columns of both; sparse if both are, a DataFrame if one is."""
    if np.shape(left)[0] != np.shape(right)[0]:
        raise InvalidDataError(
            "Cannot add features from other Dataset with a different number of rows: there are "
            f"{np.shape(left)[0]} and {np.shape(right)[0]}; pass one with as many."
        )
    if isinstance(left, Table) or isinstance(right, Table):
        raise InvalidTypeError("add_features_from needs rows in memory, but a Dataset holds a file's; read it first.")
    if is_sparse(left) and is_sparse(right):
        from scipy import sparse

        return sparse.hstack([left, right], format="csr")
    if is_frame(left) or is_frame(right):
        import pandas as pd

        frames = [each if is_frame(each) else pd.DataFrame(_dense(each)) for each in (left, right)]
        taken = set(map(str, frames[0].columns))
        names = [str(name) if str(name) not in taken else f"D2_{name}" for name in frames[1].columns]
        first = frames[0].set_axis([str(name) for name in frames[0].columns], axis=1).reset_index(drop=True)
        return pd.concat([first, frames[1].set_axis(names, axis=1).reset_index(drop=True)], axis=1)
    return np.hstack([_dense(left), _dense(right)])


def _dense(data: Any) -> np.ndarray:
    return np.asarray(data.toarray() if is_sparse(data) else data)


def read_path(path: str | os.PathLike[str], params: Mapping[str, Any]) -> dict[str, Any]:
    """The rows of a file, and its labels, weights and queries, as LightGBM reads them.

    A binary Dataset has all of them. In a text file the label is the first column, or ``label_column`` of ``params``;
    weights and queries stand in files beside it, which end with ``.weight`` and ``.query``.
    """
    from pvtree.front.functional import dataset_file
    from pvtree.reading.files import FORMATS, read_file

    place = Path(path)
    if dataset_file.is_binary(place):
        data, beside, settings = dataset_file.read(place)
        return {"data": data, **beside, **settings}
    if not place.exists():
        raise InvalidDataError(f"There is no file {str(path)!r}; give a text file or one of Dataset.save_binary.")
    has_header = str(params.get("header", params.get("has_header", False))).lower() in ("true", "1", "+")
    column = str(params.get("label_column", params.get("label", 0))).removeprefix("name:")
    format = next((name for name, known in FORMATS.items() if set(place.suffixes) & set(known)), None)
    if format in (None, "libsvm"):
        with open(place, "rb") as file:
            words = file.readline(2**16).split()
        format = "libsvm" if len(words) > 1 and b":" in words[1] else "csv"
    if format == "libsvm":
        rows = read_file(place, format="libsvm")
    elif format == "csv":
        delimiter = _delimiter(place)
        rows = read_file(place, label=column, format="csv", header=has_header, delimiter=delimiter)
    else:
        if "label_column" not in params:
            raise InvalidParameterError(
                f"{str(path)!r} is a Parquet file; pass params={{'label_column': 'name:...'}} to name the label."
            )
        rows = read_file(place, label=column)
    given: dict[str, Any] = {"data": rows.X, "label": rows.y, "qid": rows.qid}
    for suffix, name in ((".weight", "weight"), (".query", "group"), (".group", "group")):
        side_file = Path(f"{place}{suffix}")
        if side_file.exists():
            given[name] = _numbers(side_file)
            given |= {"qid": None} if name == "group" else {}
    return given


def _delimiter(place: Path) -> str:
    with open(place, "rb") as file:
        line = file.readline(2**16)
    return next((mark for mark in ("\t", ",", ";", " ") if mark.encode() in line), ",")


def _numbers(path: Path) -> np.ndarray:
    try:
        return np.array([float(word) for word in path.read_text().split()])
    except (OSError, ValueError):
        raise InvalidDataError(f"{str(path)!r} must hold one number a line.") from None
