"""Ray Datasets: which worker reads which rows before training, and predictions batch by batch.

A Dataset lies as blocks in the object stores of Ray's nodes. Workers get the blocks of their own nodes first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pvtree.errors import InvalidDataError, InvalidTypeError
from pvtree.reading.arrow_columns import as_array
from pvtree.reading.dask_data import Part
from pvtree.reading.tables import as_dense

if TYPE_CHECKING:
    import pyarrow as pa

PREDICTION = "prediction"  # the column of predictions


class Block(NamedTuple):
    """A block of a Dataset, in the order of its rows."""

    ref: Any
    n_rows: int
    nodes: frozenset[str]  # where it is


class Piece(NamedTuple):
    """Rows ``start`` to ``stop`` of a block; of rows in memory, which lie in one block as columns by name, all."""

    position: int  # its place among the pieces of all workers
    ref: Any
    start: int
    stop: int


class Form(NamedTuple):
    """Which columns of a Dataset hold what; ``features`` are its other ones."""

    features: tuple[str, ...]
    columns: Mapping[str, str | list[str]]  # "y", "sample_weight", "qid", "init_score" -> the names in the Dataset


def is_dataset(X: Any) -> bool:
    """Whether it is Ray's. Asks the object, so that Ray is not imported for those who do not use it."""
    return any(kind.__module__ == "ray.data.dataset" and kind.__name__ == "Dataset" for kind in type(X).__mro__)


# At the driver.


def form_of(dataset: Any, columns: Mapping[str, Any], features: Sequence[str] | None, suffix: str = "") -> Form:
    """Check that all columns exist. ``features`` are those of the training rows, None if these are they."""
    present = list(dataset.columns() or ())
    if not present:
        raise InvalidDataError(f"The Dataset{suffix} has no rows; give rows to train on.")
    listed = {name: column if isinstance(column, list) else [column] for name, column in columns.items()}
    for name, names in listed.items():
        if not names or not all(isinstance(each, str) for each in names):
            raise InvalidTypeError(
                f"{name}{suffix} is a {type(columns[name]).__name__}; together with a Ray Dataset, give the name of "
                "its column."
            )
    taken = {each for names in listed.values() for each in names}
    features = [name for name in present if name not in taken] if features is None else features
    absent = [name for name in (*features, *sorted(taken)) if name not in present]
    if absent:
        raise InvalidDataError(
            f"The Dataset{suffix} has no column {absent[0]!r}; it has {', '.join(map(repr, present[:20]))}."
        )
    if not features:
        raise InvalidDataError(f"The Dataset{suffix} has no column besides {', '.join(sorted(taken))}; add features.")
    return Form(tuple(features), dict(columns))


def blocks_of(dataset: Any) -> list[Block]:
    """Its blocks with rows, in their order, once they are computed."""
    import ray

    with in_order(dataset):
        bundles = list(dataset.materialize().iter_internal_ref_bundles())
    held = [each for bundle in bundles for each in zip(bundle.block_refs, bundle.metadata, strict=True)]
    where = ray.experimental.get_object_locations([ref for ref, _ in held])
    return [
        Block(ref, metadata.num_rows, frozenset(where[ref].get("node_ids", ())))
        for ref, metadata in held
        if metadata.num_rows
    ]


@contextmanager
def in_order(dataset: Any) -> Iterator[None]:
    """Let Ray keep the order of rows inside the ``with`` block, which it does not otherwise."""
    options = dataset.context.execution_options
    before, options.preserve_order = options.preserve_order, True
    try:
        yield
    finally:
        options.preserve_order = before


def share_out(blocks: Sequence[Block], nodes: Sequence[str]) -> list[list[Piece]]:
    """An equal number of rows for each worker, from its own node as far as possible; ``nodes`` are the workers'."""
    total, size = sum(block.n_rows for block in blocks), len(nodes)
    if total == 0:
        raise InvalidDataError("The Dataset has no rows; give rows to train on.")
    left = [total * (rank + 1) // size - total * rank // size for rank in range(size)]
    cuts: list[tuple[int, int, int, int]] = []  # block, start, stop, rank
    n_taken = [0] * len(blocks)
    for is_near in (True, False):
        for number, block in enumerate(blocks):
            for rank in range(size):
                n = min(left[rank], block.n_rows - n_taken[number])
                if n and (not is_near or nodes[rank] in block.nodes):
                    cuts.append((number, n_taken[number], n_taken[number] + n, rank))
                    left[rank] -= n
                    n_taken[number] += n
    pieces: list[list[Piece]] = [[] for _ in nodes]
    for index, (number, start, stop, rank) in enumerate(sorted(cuts)):
        pieces[rank].append(Piece(index, blocks[number].ref, start, stop))
    for rank, own in enumerate(pieces):
        if not own:  # it takes part with the columns alone
            own.append(Piece(len(cuts) + rank, blocks[0].ref, 0, 0))
    return pieces


# On a worker.


def read_parts(pieces: Sequence[Piece], form: Form) -> list[Part]:
    """The rows of these pieces by name. Those of this node are not copied."""
    import ray
    from ray.data.block import BlockAccessor

    parts: list[Part] = []
    for piece in pieces:
        block = ray.get(piece.ref)
        if isinstance(block, dict):  # was in the driver's memory
            parts.append((piece.position, block))
            continue
        table = BlockAccessor.for_block(block).to_arrow().slice(piece.start, piece.stop - piece.start)
        columns = {name: column_of(table, names) for name, names in form.columns.items()}
        X = features_of(table, form.features)
        if "qid" in columns and not isinstance(X, np.ndarray):
            X = X.to_pandas()  # rows of a query that was cut can move from a DataFrame, not from Arrow's memory
        parts.append((piece.position, {"X": X, **columns}))
    return parts


def column_of(table: pa.Table, names: str | list[str]) -> np.ndarray:
    """One column, or several side by side."""
    if isinstance(names, list):
        return np.column_stack([as_array(table.column(name), name) for name in names])
    return np.array(as_array(table.column(names), names))  # a copy: Arrow's memory is read-only


def features_of(table: pa.Table, names: Sequence[str]) -> Any:
    """The columns as a table or, if one column holds arrays of numbers, those as rows."""
    from ray.data.block import BlockAccessor

    kind = table.schema.field(names[0]).type
    if len(names) > 1 or not holds_arrays(kind):
        return table.select(list(names))
    if table.num_rows == 0:
        return np.empty((0, width_of(kind)))
    rows: Any = BlockAccessor.for_block(table).to_numpy(names[0])
    lengths = {np.shape(row) for row in rows}
    if len(lengths) > 1 or len(next(iter(lengths))) != 1:
        raise InvalidDataError(
            f"The arrays of the column {names[0]!r} have different shapes or dimensions ({sorted(lengths)[:3]}); give "
            "one array of numbers a row, each of the same length."
        )
    return np.stack(list(rows)) if rows.dtype == object else rows


def holds_arrays(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_nested(kind) or (isinstance(kind, pa.BaseExtensionType) and hasattr(kind, "shape")))


def width_of(kind: Any) -> int:
    """How many numbers its arrays have, if the type tells."""
    return int(np.prod(kind.shape)) if hasattr(kind, "shape") else getattr(kind, "list_size", 0)


# Predictions.


def predict_batches(
    method: Callable[[Any], np.ndarray], dataset: Any, names: Sequence[str] | None, example: np.ndarray
) -> Any:
    """The Dataset with a further column, ``method`` of every row, of which nothing is computed before it is asked for.

    Ray does not keep the order of rows, so predictions alone could not be told apart. ``names`` are the columns that
    the model was trained on; None stands for one column of arrays. ``example`` is what the method gives for one row.
    """

    def predict(batch: pa.Table) -> pa.Table:
        chosen = names
        if chosen is None:
            chosen = [field.name for field in batch.schema if holds_arrays(field.type) and field.name != PREDICTION]
            if len(chosen) != 1:
                raise InvalidDataError(
                    "The model was trained on rows without names; give a Dataset with one column of arrays."
                )
        predicted = as_dense(method(features_of(batch, chosen))) if batch.num_rows else example[:0]
        kept = batch.drop_columns([PREDICTION]) if PREDICTION in batch.column_names else batch
        return kept.append_column(PREDICTION, as_column(predicted))

    return dataset.map_batches(predict, batch_format="pyarrow", batch_size=None)


def as_column(values: np.ndarray) -> pa.Array:
    """Predictions as Arrow has them; those with several numbers a row as lists."""
    import pyarrow as pa

    if values.ndim == 1:
        return pa.array(values.astype(str) if values.dtype.kind == "O" else values)
    ends = pa.array(np.arange(len(values) + 1, dtype=np.int32) * values.shape[1])
    return pa.ListArray.from_arrays(ends, pa.array(np.ascontiguousarray(values).reshape(-1)))


def fetch_column(dataset: Any, names: str | list[str]) -> np.ndarray:
    """A column in this process's memory, in the order of the rows."""
    import ray
    from ray.data.block import BlockAccessor

    tables = (BlockAccessor.for_block(ray.get(block.ref)).to_arrow() for block in blocks_of(dataset))
    return np.concatenate([column_of(table, names) for table in tables])
