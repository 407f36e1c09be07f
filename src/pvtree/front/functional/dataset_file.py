"""Datasets as files: a line that names the format, a header in JSON, then the arrays; nothing is ever executed.

A file is not trusted: the header must describe exactly the bytes that follow, and a checksum covers them.
"""

from __future__ import annotations

import hashlib
import json
import os
from typing import Any

import numpy as np

from pvtree.errors import InvalidDataError, InvalidTypeError, OutputFileError
from pvtree.model.atomic_file import write_at_once
from pvtree.model.text_format import Refused, refuse, unique_keys
from pvtree.parameters.paths import checked_path
from pvtree.reading.pandas_columns import is_frame
from pvtree.reading.tables import is_sparse, is_unicode

MAGIC = b"pvtree-dataset 1\n"
_MAX_HEADER = 2**28
_DTYPES = ("<f4", "<f8", "<i4", "<i8", "|b1", "|u1", "<i2", "|i1", "<u2", "<u4", "<u8")
_BESIDE = ("label", "weight", "group", "qid", "init_score")


def is_binary(path: str | os.PathLike[str]) -> bool:
    """Whether a file begins as ``write`` begins it."""
    try:
        with open(checked_path(path), "rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


# Writing


def write(path: str | os.PathLike[str], data: Any, beside: dict[str, Any], settings: dict[str, Any]) -> None:
    """Replace the file at ``path`` in one step. ``beside`` are labels, weights and queries, or None."""
    arrays: dict[str, np.ndarray] = {}
    head: dict[str, Any] = {"settings": settings, **_packed(data, arrays)}
    for name, values in beside.items():
        if values is not None:
            arrays[name] = _plain(np.asarray(values), name)
    head["arrays"] = [[name, array.dtype.str, list(array.shape)] for name, array in arrays.items()]
    body = b"".join(np.ascontiguousarray(array).tobytes() for array in arrays.values())
    head["sha256"] = hashlib.sha256(body).hexdigest()
    text = json.dumps(head, ensure_ascii=True).encode()
    try:
        write_at_once(os.fspath(path), MAGIC + len(text).to_bytes(8, "little") + text + body)
    except OSError as error:
        raise OutputFileError(
            f"Cannot write {os.fspath(path)!r} ({error.strerror}); use a folder that exists, is writable and has space."
        ) from error


def _packed(data: Any, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """Describe the rows and put their arrays into ``arrays``."""
    if is_sparse(data):
        rows = data.tocsr()
        arrays |= {"data": _plain(rows.data, "data"), "indices": rows.indices.astype("<i8")}
        arrays["indptr"] = rows.indptr.astype("<i8")
        return {"kind": "sparse", "shape": list(rows.shape)}
    if is_frame(data):
        columns = []
        for j, name in enumerate(data.columns):
            column = data.iloc[:, j]
            if column.dtype.name in ("category", "object", "str", "string"):
                column = column.astype("category")
                arrays[f"column {j}"] = column.cat.codes.to_numpy().astype("<i4")
                labels = [value.item() if isinstance(value, np.generic) else value for value in column.cat.categories]
                if not all(type(value) in (str, int, float, bool) for value in labels):
                    raise InvalidTypeError(f"The categories of column {name!r} must be texts or numbers.")
                columns.append([str(name), labels, bool(column.cat.ordered)])
            else:
                arrays[f"column {j}"] = _plain(column.to_numpy(), f"column {name!r}")
                columns.append([str(name), None, False])
        return {"kind": "frame", "shape": list(data.shape), "columns": columns}
    if not isinstance(data, np.ndarray):
        raise InvalidTypeError(
            f"save_binary supports arrays, DataFrames and sparse matrices, got {type(data).__name__}; convert them, "
            "for example with to_pandas()."
        )
    arrays["data"] = _plain(data, "data")
    return {"kind": "array", "shape": list(data.shape)}


def _plain(array: np.ndarray, name: str) -> np.ndarray:
    if array.dtype.kind == "O" or array.dtype.newbyteorder("<").str not in _DTYPES:
        try:
            return np.ascontiguousarray(array, "<f8")
        except (TypeError, ValueError):
            raise InvalidTypeError(f"{name} must hold numbers to be saved, got {array.dtype} values.") from None
    return np.ascontiguousarray(array, array.dtype.newbyteorder("<"))


# Reading


def read(path: str | os.PathLike[str]) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """The rows, what stands beside them, and the settings; an InvalidDataError if the file is damaged."""
    name = os.fspath(path)
    try:
        with open(checked_path(path), "rb") as file:
            content = file.read()
    except OSError as error:
        raise InvalidDataError(f"Cannot read {name!r} ({error.strerror}); check the path.") from error
    try:
        return _parsed(content)
    except Refused as refusal:
        raise InvalidDataError(
            f"{name!r} is not a usable Dataset ({refusal.args[0]}); give a file written by Dataset.save_binary."
        ) from None


def _parsed(content: bytes) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    start = len(MAGIC) + 8
    length = int.from_bytes(content[len(MAGIC) : start], "little")
    if not content.startswith(MAGIC) or length > min(_MAX_HEADER, len(content) - start):
        refuse("its header is cut off")
    try:
        head = json.loads(content[start : start + length], object_pairs_hook=unique_keys)
    except (ValueError, RecursionError):
        refuse("its header is not JSON")
    body = memoryview(content)[start + length :]
    if not isinstance(head, dict) or head.get("sha256") != hashlib.sha256(body).hexdigest():
        refuse("the checksum does not match: the file was altered")
    arrays = _arrays(head.get("arrays"), body)
    settings = _settings(head.get("settings"))
    data = _data(head, arrays)
    n_rows = data.shape[0]
    beside = {key: arrays.get(key) for key in _BESIDE}
    for key in ("label", "weight", "qid"):
        if beside[key] is not None and beside[key].shape != (n_rows,):  # type: ignore[union-attr]
            refuse(f"its {key} does not match the rows")
    if beside["init_score"] is not None and beside["init_score"].shape[:1] != (n_rows,):  # type: ignore[union-attr]
        refuse("its init_score does not match the rows")
    return data, beside, settings


def _settings(settings: Any) -> dict[str, Any]:
    """What ``Dataset.save_binary`` writes: the names of the columns, and which of them are categories."""
    if not isinstance(settings, dict) or settings.keys() != {"feature_name", "categorical_feature"}:
        refuse("its settings are missing or unknown")
    names, categorical = settings["feature_name"], settings["categorical_feature"]
    if names != "auto" and not _is_list_of(names, str):
        refuse("its feature names are described wrongly")
    if categorical not in ("auto", None) and not _is_list_of(categorical, str, int):
        refuse("its categorical features are described wrongly")
    return settings


def _is_list_of(values: Any, *types: type) -> bool:
    return isinstance(values, list) and all(type(value) in types and is_unicode(value) for value in values)


def _has_nan(values: list[Any]) -> bool:
    return any(value != value for value in values)


def _arrays(listed: Any, body: memoryview) -> dict[str, np.ndarray]:
    """The arrays that fill the body exactly."""
    if not isinstance(listed, list):
        refuse("its list of arrays is missing")
    arrays: dict[str, np.ndarray] = {}
    at = 0
    for entry in listed:
        if not (isinstance(entry, list) and len(entry) == 3 and isinstance(entry[0], str) and entry[1] in _DTYPES):
            refuse("an array is described wrongly")
        name, kind, shape = entry
        shape = _shape(shape)
        size = np.dtype(kind).itemsize
        for length in shape:
            size *= length  # Python's integers do not overflow
        if size > len(body) - at or name in arrays:
            refuse("an array is cut off or named twice")
        arrays[name] = np.frombuffer(body[at : at + size], kind).reshape(shape).copy()
        at += size
    if at != len(body):
        refuse("there is more than the header describes")
    return arrays


def _shape(shape: Any) -> tuple[int, ...]:
    if not isinstance(shape, list) or len(shape) > 2 or any(type(n) is not int or not 0 <= n < 2**62 for n in shape):
        refuse("an array is described wrongly")
    return tuple(shape)


def _data(head: dict[str, Any], arrays: dict[str, np.ndarray]) -> Any:
    kind, shape = head.get("kind"), _shape(head.get("shape"))
    if len(shape) != 2:
        refuse("its rows are described wrongly")
    if kind == "array":
        if "data" not in arrays or arrays["data"].shape != shape:
            refuse("its rows do not match the header")
        return arrays["data"]
    if kind == "sparse":
        return _sparse(shape, arrays)
    if kind == "frame":
        return _frame(shape, head.get("columns"), arrays)
    refuse("the kind of its rows is unknown")


def _sparse(shape: tuple[int, ...], arrays: dict[str, np.ndarray]) -> Any:
    from scipy.sparse import csr_matrix

    if not {"data", "indices", "indptr"} <= arrays.keys():
        refuse("its rows do not match the header")
    data, indices, indptr = arrays["data"], arrays["indices"], arrays["indptr"]
    fits = (
        data.ndim == indices.ndim == indptr.ndim == 1
        and indices.dtype == indptr.dtype == np.int64
        and len(data) == len(indices)
        and len(indptr) == shape[0] + 1
        and indptr[0] == 0
        and indptr[-1] == len(data)
        and bool((np.diff(indptr) >= 0).all())
        and (len(indices) == 0 or (indices.min() >= 0 and indices.max() < shape[1]))
    )
    if not fits:
        refuse("its rows do not match the header")
    return csr_matrix((data, indices, indptr), shape=shape)


def _frame(shape: tuple[int, ...], columns: Any, arrays: dict[str, np.ndarray]) -> Any:
    import pandas as pd

    if not isinstance(columns, list) or len(columns) != shape[1]:
        refuse("its columns do not match the header")
    made: dict[str, Any] = {}
    for j, entry in enumerate(columns):
        values = arrays.get(f"column {j}")
        if not (isinstance(entry, list) and len(entry) == 3 and _is_list_of(entry[:1], str)) or entry[0] in made:
            refuse("a column is described wrongly")
        if values is None or values.shape != (shape[0],):
            refuse("its columns do not match the header")
        name, labels, is_ordered = entry
        if labels is None:
            made[name] = values
            continue
        # pandas takes 1, 1.0 and True for one category, and has none that is missing.
        if not _is_list_of(labels, str, int, float, bool) or len(set(labels)) < len(labels) or _has_nan(labels):
            refuse("the categories of a column are described wrongly")
        if values.dtype != np.int32 or (len(values) and (values.min() < -1 or values.max() >= len(labels))):
            refuse("the categories of a column are described wrongly")
        made[name] = pd.Categorical.from_codes(values, labels, ordered=bool(is_ordered))
    return pd.DataFrame(made)
