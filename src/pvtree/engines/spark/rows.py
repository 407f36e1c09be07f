"""A Spark task's rows: Arrow batches go to a temporary file as they come, so that memory holds the bins alone.

Nothing can be binned before all tasks have agreed on thresholds, and Spark hands over its batches once. The file has no
name, so nothing is left of it when the task ends in any way.
"""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from pvtree.errors import InvalidDataError
from pvtree.reading.arrow_columns import as_array
from pvtree.reading.training_rows import GivenRows

if TYPE_CHECKING:
    from pvtree.comm import Communicator

# The names of the columns that the driver selects, apart from those of features.
ARRAY, LABEL, WEIGHT, QUERY, IS_VALID = "__features", "__label", "__weight", "__qid", "__is_valid"
PER_ROW = {"y": LABEL, "weight": WEIGHT, "qid": QUERY}


class Form(NamedTuple):
    """Which columns there are."""

    features: tuple[str, ...] | None  # names, or None if one column of arrays holds all features
    columns: tuple[str, ...]  # those of PER_ROW that are given, and IS_VALID


class Spool:
    """The rows of one set in this task, in a temporary file."""

    def __init__(self, form: Form, schema: pa.Schema) -> None:
        self.form, self.schema = form, schema
        self.n_rows = 0
        self.width = 0  # of arrays; 0 while no row has come
        self._file = tempfile.TemporaryFile(prefix="pvtree-")  # noqa: SIM115  (mapped as long as it is used)
        self._per_row: dict[str, list[pa.Array]] = {name: [] for name in form.columns if name != IS_VALID}
        self._types = {name: schema.field(name).type for name in self._per_row}
        self._dtype: np.dtype = np.dtype(np.float64)
        if form.features is not None:
            kept = pa.schema([schema.field(name) for name in form.features])
            self._writer: Any = pa.ipc.new_stream(pa.PythonFile(self._file, "w"), kept)
        elif pa.types.is_float32(schema.field(ARRAY).type.value_type):
            self._dtype = np.dtype(np.float32)

    def add(self, batch: pa.RecordBatch) -> None:
        for name, held in self._per_row.items():
            held.append(batch.column(name))
        if self.form.features is not None:
            self._writer.write_batch(batch.select(list(self.form.features)))
        elif batch.num_rows:
            matrix = as_matrix(batch.column(ARRAY), self.width, self._dtype)
            self.width = matrix.shape[1]
            self._file.write(matrix.data)
        self.n_rows += batch.num_rows

    def given(self, width: int) -> dict[str, Any]:
        """The rows as fields of ``GivenRows``; ``width`` is the number of features, if arrays hold them."""
        fields: dict[str, Any] = {"X": self._features(width)}
        for field, name in PER_ROW.items():
            if name in self._per_row:
                column = pa.chunked_array(self._per_row[name], self._types[name])
                fields[field] = np.array(as_array(column, name.strip("_")))  # a copy: Arrow's memory is read-only
        return fields

    def _features(self, width: int) -> Any:
        if self.form.features is not None:
            self._writer.close()
            self._file.flush()
            mapped = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
            return pa.ipc.open_stream(pa.py_buffer(mapped)).read_all()
        self._file.flush()
        if self.n_rows == 0:
            return np.empty((0, width), self._dtype)
        return np.memmap(self._file, self._dtype, mode="c", shape=(self.n_rows, width))


def as_matrix(arrays: pa.Array, width: int, dtype: np.dtype) -> np.ndarray:
    """(n_rows, n_features) of a column of arrays of equal length; null in an array is a missing value."""
    lengths = np.unique(arrays.value_lengths().to_numpy(zero_copy_only=False))  # null becomes NaN
    width = width or (int(lengths[0]) if lengths[0] == lengths[0] else 0)
    if arrays.null_count or len(lengths) != 1 or lengths[0] != width or width == 0:
        shown = ", ".join("null" if length != length else f"{length:g}" for length in lengths[:3])
        raise InvalidDataError(
            f"The arrays of features have different lengths ({shown}; expected {width}); give every row as many "
            "features, at least one."
        )
    values = arrays.flatten()
    if not pa.types.is_floating(values.type):
        values = values.cast(pa.float64())
    return np.ascontiguousarray(values.to_numpy(zero_copy_only=False), dtype).reshape(-1, width)


def spool(batches: Iterator[pa.RecordBatch], form: Form) -> list[Spool]:
    """The rows to train on and, if there is an indicator, those to evaluate on."""
    spools: list[Spool] = []
    for batch in batches:
        if not spools:
            spools = [Spool(form, batch.schema) for _ in range(1 + (IS_VALID in form.columns))]
        if len(spools) == 1:
            spools[0].add(batch)
        else:
            is_valid = batch.column(IS_VALID).cast(pa.bool_()).fill_null(False)
            spools[1].add(batch.filter(is_valid))
            spools[0].add(batch.filter(pa.compute.invert(is_valid)))
    return spools


def gather(spools: Sequence[Spool], form: Form, comm: Communicator) -> tuple[dict[str, Any], ...]:
    """Fields of ``GivenRows`` for each set; a task without a batch learns from the others what its columns are."""
    from pvtree.comm.agreement import share

    schema_as_text = spools[0].schema.remove_metadata().serialize().to_pybytes().hex() if spools else None
    facts = share([max((each.width for each in spools), default=0), schema_as_text], comm)
    width = max(each[0] for each in facts)
    schemas = [each[1] for each in facts if each[1] is not None]
    if not spools:
        if not schemas:
            raise InvalidDataError("The DataFrame has no rows; give rows to train on.")
        schema = pa.ipc.read_schema(pa.py_buffer(bytes.fromhex(schemas[0])))
        spools = [Spool(form, schema) for _ in range(1 + (IS_VALID in form.columns))]
    return tuple(each.given(width) for each in spools)


def as_given(fields: Mapping[str, Any], **more: Any) -> GivenRows:
    return GivenRows(**{"y": None, **fields, **more})
