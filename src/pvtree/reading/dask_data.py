"""Dask collections: which worker holds which rows before training, and predictions that stay where the rows are.

Nothing here moves X. Its partitions are computed where Dask puts them, or stay where they are already.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np

from pvtree.errors import InvalidDataError, InvalidTypeError, MissingDependencyError
from pvtree.reading.tables import as_dense

if TYPE_CHECKING:
    import distributed

Part = tuple[int, dict[str, Any]]  # its place in the whole data, and a future or (on the worker) the rows by name
NOT_BY_ROW = "group"  # a partition of it holds the sizes of the queries in X's partition, so it has another length


def is_collection(X: Any) -> bool:
    """Whether it is Dask's. Asks the object, so that Dask is not imported for those who do not use it."""
    graph = getattr(X, "__dask_graph__", None)
    if not callable(graph) or isinstance(X, type):
        return False
    # The graph itself is made only where there may be none, because that of a large DataFrame takes long to make.
    return hasattr(type(X), "npartitions") or graph() is not None


def get_client(client: Any = None) -> distributed.Client:
    """The given client, or the one in scope: of this task if the caller is one, otherwise the last one made."""
    distributed = load_distributed()
    if client is not None:
        if not isinstance(client, distributed.Client):
            raise InvalidTypeError(
                f"client is a {type(client).__name__}; give a distributed.Client, or None for the one in scope."
            )
        return client
    try:
        return distributed.get_client()
    except ValueError as error:
        raise InvalidDataError(
            "X is a Dask collection, but there is no client that knows its cluster; make one before, such as "
            "client = distributed.Client(address), or give client=."
        ) from error


def place(client: distributed.Client, *sets: Mapping[str, Any]) -> dict[str, list[list[Part]]]:
    """For each worker that holds some rows: of each set the parts that it holds, as futures, in the order of the data.

    A set is X with its columns by name: ``{"X": X, "y": y, "sample_weight": None, "qid": None, "group": None}``. The
    first one decides where a part belongs; the others come to it, which costs little. Workers are in the order of the
    first part that they hold, so that worker 0 has the first rows.
    """
    aligned = [align(columns) for columns in sets]
    computed = iter(compute(client, [column for columns in aligned for column in columns.values()]))
    by_name = [{name: next(computed) for name in columns} for columns in aligned]
    wait_for([future for columns in by_name for futures in columns.values() for future in futures])

    placed: dict[str, list[list[Part]]] = {}
    for position, columns in enumerate(by_name):
        holders = holders_of(client, next(iter(columns.values())))
        for index, holder in enumerate(holders):
            mine = placed.setdefault(holder, [[] for _ in sets])
            mine[position].append((index, {name: futures[index] for name, futures in columns.items()}))
    return placed


def check_rows(parts: Sequence[Part]) -> None:
    """On a worker, where the lengths are known: all columns of a part are as long as its X."""
    for index, columns in parts:
        lengths = {name: n_rows(column) for name, column in columns.items() if name != NOT_BY_ROW}
        leading, expected = next(iter(lengths.items()))
        for name, length in lengths.items():
            if length != expected:
                raise InvalidDataError(
                    f"Partition {index} has {expected} rows of {leading} and {length} of {name}; "
                    f"give {name} with the same rows in each partition as {leading}."
                )


def lazily(method: Callable[[Any], np.ndarray], X: Any, dtype: Any, width: int | None = None) -> Any:
    """``method`` of every partition of X as a Dask array, of which nothing is computed before it is asked for.

    A DataFrame gives an array too, of unknown length as its partitions are. ``width`` is the number of columns of the
    result, None if it has one dimension. ``method``, with the model inside, is one object in the graph and not a copy
    for each partition.
    """
    import dask
    import dask.array as da

    once = dask.delayed(method, name=f"pvtree-model-{uuid4().hex}", traverse=False)
    dtype = np.dtype(dtype)
    if kind_of(X, "X") == "array":
        X = whole_rows(X, "X")
        return X.map_blocks(
            predict_block,
            once,
            dtype,
            width,
            dtype=dtype,
            meta=np.empty((0,) if width is None else (0, 0), dtype),
            **({"drop_axis": 1} if width is None else {"chunks": (X.chunks[0], (width,))}),
        )
    predict = dask.delayed(predict_block, pure=False)
    shape = (np.nan,) if width is None else (np.nan, width)
    blocks = [da.from_delayed(predict(part, once, dtype, width), shape, dtype) for part in X.to_delayed()]
    return da.concatenate(blocks, allow_unknown_chunksizes=True)


def predict_block(rows: Any, method: Callable[[Any], np.ndarray], dtype: np.dtype, width: int | None) -> np.ndarray:
    if n_rows(rows) == 0:  # an ordinary partition here, though nothing to predict for a user of arrays
        return np.empty((0,) if width is None else (0, width), dtype)
    return as_dense(method(rows)).astype(dtype, copy=False)


# Columns that belong together.


def align(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Collections with the same partitions as the first one, without those that are None."""
    given = {name: column for name, column in columns.items() if column is not None}
    for name, column in given.items():
        kind_of(column, name)
    leading = next(iter(given))
    X = given[leading]
    if kind_of(X, leading) == "array":
        X = whole_rows(X, leading)
    rest = {name: align_column(column, name, X, leading) for name, column in given.items() if name != leading}
    return {leading: X} | rest


def align_column(column: Any, name: str, X: Any, leading: str) -> Any:
    if kind_of(column, name) == "array":
        if column.ndim > 2 or column.ndim == 0:
            raise InvalidDataError(f"{name} has {column.ndim} dimensions; give one value a row.")
        if column.ndim == 2:
            column = whole_rows(column, name)
        if name != NOT_BY_ROW and is_known(column) and kind_of(X, leading) == "array" and is_known(X):
            if column.shape[0] != X.shape[0]:
                raise InvalidDataError(
                    f"{leading} has {X.shape[0]} rows and {name} has {column.shape[0]}; give as many of both."
                )
            return column.rechunk({0: X.chunks[0]})
    if n_parts(column) != n_parts(X):
        raise InvalidDataError(
            f"{leading} has {n_parts(X)} partitions and {name} has {n_parts(column)}, and how many rows these have is "
            f"not known yet; give {name} with the same partitions as {leading}."
        )
    return column


def kind_of(column: Any, name: str) -> str:
    """How its partitions are found."""
    if is_collection(column):
        kind = type(column)  # as a Delayed object itself has every attribute that it is asked for
        if hasattr(kind, "npartitions") and hasattr(kind, "numblocks"):
            return "array"
        if hasattr(kind, "npartitions") and hasattr(kind, "divisions"):
            return "frame"
    raise InvalidTypeError(
        f"{name} is a {type(column).__name__}; together with Dask, give a Dask array, DataFrame or Series "
        "(dask.array.from_array and dask.dataframe.from_pandas make one of what is in memory)."
    )


def whole_rows(X: Any, name: str) -> Any:
    """All columns in one chunk."""
    if X.ndim != 2:
        raise InvalidDataError(f"{name} has {X.ndim} dimensions; give rows and columns, such as {name}.reshape(-1, 1).")
    if X.numblocks[1] == 1:
        return X
    if not is_known(X):
        raise InvalidDataError(
            f"{name} is cut between columns while the lengths of its chunks are unknown; "
            f"call {name}.compute_chunk_sizes() first."
        )
    return X.rechunk({1: -1})


def is_known(X: Any) -> bool:
    return not any(np.isnan(length) for lengths in X.chunks for length in lengths)


def n_parts(column: Any) -> int:
    return column.numblocks[0] if hasattr(column, "numblocks") else column.npartitions


def n_rows(rows: Any) -> int:
    return rows.shape[0] if hasattr(rows, "shape") else len(rows)


# What the cluster holds.


def compute(client: distributed.Client, collections: list[Any]) -> list[list[distributed.Future]]:
    """A future for each partition of each collection; of persisted ones their own, as a copy might lie elsewhere."""
    futures = [held_futures(collection) for collection in collections]
    for kind in ("array", "frame"):  # Dask cannot compute the two together
        wanted = [
            index for index, each in enumerate(collections) if futures[index] is None and kind_of(each, "X") == kind
        ]
        # Together, so that what they have in common is computed once.
        persisted = client.persist([collections[index] for index in wanted]) if wanted else ()
        for index, each in zip(wanted, persisted, strict=True):
            futures[index] = held_futures(each)
    return [each for each in futures if each is not None]


def held_futures(collection: Any) -> list[distributed.Future] | None:
    """The futures that a persisted collection is made of, in order; None if there is something left to compute."""
    from dask.core import flatten
    from distributed import futures_of

    if not futures_of(collection):
        return None
    graph = dict(collection.__dask_graph__())
    futures: list[Any] = []
    for key in flatten(collection.__dask_keys__()):
        node = graph.get(key)
        while node is not None and hasattr(node, "target"):  # a persisted DataFrame gives its futures other names
            node = graph.get(node.target)
        if not hasattr(node, "status"):
            return None
        futures.append(node)
    return futures


def wait_for(futures: list[distributed.Future]) -> None:
    """Until all partitions are computed; the first error on the way is raised as it is."""
    import distributed

    for future in distributed.as_completed(futures):
        if future.status == "error":
            future.result()


def holders_of(client: distributed.Client, futures: list[distributed.Future]) -> list[str]:
    """A worker that holds it, for each of the partitions; of copies the one on the worker with the fewest."""
    who_has = client.who_has(futures)
    n_held: Counter[str] = Counter()
    holders = []
    for index, future in enumerate(futures):
        workers = sorted(who_has.get(future.key, ()))
        if not workers:
            raise InvalidDataError(
                f"Partition {index} of the data is on no worker any more; look for why the worker that had it ended, "
                "and train again."
            )
        holder = min(workers, key=lambda worker: n_held[worker])
        n_held[holder] += 1
        holders.append(holder)
    return holders


def load_distributed() -> ModuleType:
    """Only when Dask is asked for."""
    try:
        import distributed
    except ImportError as error:
        raise MissingDependencyError(
            f"Training on a Dask cluster needs dask and distributed ({error}); "
            "install both: pip install 'pvtree[dask]'."
        ) from error
    return distributed
