"""From what each worker was given to rows that all workers agree about: to train on, or to evaluate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pvtree.comm import Communicator
from pvtree.comm.agreement import agree_classes, agree_weights, all_or_none, share
from pvtree.errors import InvalidDataError
from pvtree.reading import inputs, targets
from pvtree.reading.row_ids import RowIds
from pvtree.reading.sources import Matrices, Source, as_source
from pvtree.reading.tables import Columns
from pvtree.reading.whole_queries import QueryBlock, bring_together, check_distinct

ReadTarget = Callable[[Any, int, str], np.ndarray]


@dataclass(frozen=True)
class Given:
    """A set of rows as the user has them on this worker."""

    X: Any
    y: Any
    weight: Any = None
    group: Any = None
    qid: Any = None
    # (place among the blocks of all workers, number of rows) of each block of consecutive rows; None: one block,
    # the rank's. Dask workers hold several.
    blocks: Sequence[tuple[int, int]] | None = None
    prefix: str = ""  # of the names of fit's arguments: "eval_" for evaluation sets
    suffix: str = ""  # " of eval_set 0"

    @property
    def weight_name(self) -> str:
        return f"{self.prefix}sample_weight{self.suffix}"


@dataclass(frozen=True)
class Opened:
    """The same rows once their form has been checked; values may still be wrong."""

    table: Any
    label: np.ndarray
    weight: np.ndarray | None
    queries: list[targets.QueryRuns] | None  # of each block
    blocks: Sequence[tuple[int, int]]

    @property
    def n_rows(self) -> int:
        return len(self.label)


@dataclass(frozen=True)
class Rows:
    """Rows as the trainer wants them."""

    X: np.ndarray | Source  # float32 or float64 (n_rows, n_features)
    y: np.ndarray  # float64 (n_rows,)
    weight: np.ndarray | None
    group: np.ndarray | None
    ids: RowIds


@dataclass(frozen=True)
class TrainingData:
    """What is trained on."""

    rows: Rows
    columns: Columns
    classes: np.ndarray | None

    @property
    def n_classes(self) -> int:
        return 1 if self.classes is None else len(self.classes)


def open_rows(given: Given, comm: Communicator, drops_weightless: bool = False) -> Opened:
    """Check the form of all workers' rows, and agree on weights."""
    opened = all_or_none(lambda: _open(given, comm), comm)
    weight = agree_weights(opened.weight, opened.n_rows, comm, given.weight_name)
    if sum(share(opened.n_rows, comm)) == 0:
        raise InvalidDataError("X has 0 row(s) on all workers while a minimum of 1 is required; pass rows to train on.")
    if weight is not None and drops_weightless and any(share(bool((weight == 0).any()), comm)):
        # A row that weighs nothing is no row: it makes no bin, no class, and fills no leaf.
        keep = weight > 0
        ends = np.cumsum([length for _, length in opened.blocks])[:-1]
        blocks = [(i, int(m.sum())) for (i, _), m in zip(opened.blocks, np.split(keep, ends), strict=True)]
        opened = replace(
            opened, table=inputs.take_rows(opened.table, keep), label=opened.label[keep], weight=None, blocks=blocks
        )
        weight = agree_weights(weight[keep], opened.n_rows, comm, given.weight_name)
    return replace(opened, weight=weight)


def find_classes(opened: Opened, known: np.ndarray | None, comm: Communicator) -> np.ndarray:
    """The classes of all workers' labels, or those that are known already."""
    if known is not None:
        return known
    found = all_or_none(lambda: targets.find_classes(opened.label), comm)
    classes = agree_classes(found, comm)
    targets.check_several_classes(classes)
    return classes


def read_rows(
    given: Given, opened: Opened, columns: Columns, owner: str, read_target: ReadTarget, comm: Communicator
) -> Rows:
    """Numbers for everything; a query that is cut between workers comes whole to one of them."""

    def read() -> tuple[Any, np.ndarray]:
        inputs.check_columns(opened.table, columns, owner)
        return inputs.encode(opened.table, columns), read_target(opened.label, opened.n_rows, f"y{given.suffix}")

    X, y = all_or_none(read, comm)
    rows = Rows(X, y, opened.weight, None, _number_rows(opened.blocks, comm))
    if opened.queries is None:
        return rows
    if opened.queries and opened.queries[0].ids is not None and (comm.size > 1 or len(opened.blocks) > 1):
        return _with_whole_queries(rows, opened, comm)
    return replace(rows, group=np.concatenate([runs.sizes for runs in opened.queries]))


def _open(given: Given, comm: Communicator) -> Opened:
    table = inputs.read_table(given.X, least_rows=1 if comm.size == 1 else 0)
    n_rows = table.shape[0]
    label = targets.read_column(given.y, n_rows, f"y{given.suffix}")
    weight = targets.read_weight(given.weight, n_rows, given.weight_name)
    blocks = [(comm.rank, n_rows)] if given.blocks is None else given.blocks
    return Opened(table, label, weight, _open_queries(given, n_rows, blocks), blocks)


def _open_queries(given: Given, n_rows: int, blocks: Sequence[tuple[int, int]]) -> list[targets.QueryRuns] | None:
    """Ids may go on from one block to the next, sizes may not."""
    if given.qid is None or given.group is not None or len(blocks) == 1:
        queries = targets.read_queries(given.group, given.qid, n_rows, given.prefix)
        return None if queries is None else [queries]
    qid = np.asarray(given.qid)
    parts = np.split(qid, np.cumsum([length for _, length in blocks])[:-1])
    return [
        targets.read_queries(None, part, length, given.prefix) or targets.QueryRuns(np.empty(0, np.int64), [])
        for part, (_, length) in zip(parts, blocks, strict=True)
    ]


def _number_rows(blocks: Sequence[tuple[int, int]], comm: Communicator) -> RowIds:
    """Where this worker's rows stand among those of all workers."""
    told = share([list(block) for block in blocks], comm)
    first, n_all = {}, 0
    for index, length in sorted(tuple(block) for its in told for block in its):
        first[index] = n_all
        n_all += length
    return RowIds.of_runs([length for _, length in blocks], [first[index] for index, _ in blocks], n_all)


def _with_whole_queries(rows: Rows, opened: Opened, comm: Communicator) -> Rows:
    source = as_source(rows.X)
    if not isinstance(source, Matrices):  # a stream cuts between queries by itself
        check_distinct([query for runs in opened.queries or [] for query in runs.ids or []], comm)
        return replace(rows, group=np.concatenate([runs.sizes for runs in opened.queries or []]))
    blocks, start = [], 0
    for (index, length), runs in zip(opened.blocks, opened.queries or [], strict=True):
        own = slice(start, start + length)
        weight = [] if rows.weight is None else [rows.weight[own]]
        X = source[own].matrices
        blocks.append(QueryBlock(index, X, [rows.y[own]], weight, list(runs.ids or []), runs.sizes.tolist()))
        start += length
    bring_together(blocks, comm)
    ids = _number_rows([(block.index, block.n_rows) for block in blocks], comm)
    return Rows(
        Matrices([piece for block in blocks for piece in block.X]),
        np.concatenate([piece for block in blocks for piece in block.y]),
        None if rows.weight is None else np.concatenate([piece for block in blocks for piece in block.weight]),
        np.array([size for block in blocks for size in block.sizes], np.int64),
        ids,
    )
