"""A worker's rows before binning: from the user's arguments to numbers that all workers read in the same way.

``GivenRows`` (as passed) -- open_rows --> ``GivenRows`` (tables and arrays) -- read_rows --> ``TrainingRows`` (numbers)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from pvtree.comm import Communicator
from pvtree.comm.agreement import agree_scores, agree_weights, all_or_none, share
from pvtree.errors import InvalidDataError
from pvtree.reading import inputs, targets
from pvtree.reading.row_ids import RowIds
from pvtree.reading.sources import Matrices, Source, as_source
from pvtree.reading.tables import Columns
from pvtree.reading.whole_queries import QueryBlock, bring_together, check_distinct

TargetKind = Literal["value", "class", "relevance"]


@dataclass(frozen=True)
class GivenRows:
    """A set of rows as the user passed it to this worker.

    It is kept apart from ``TrainingRows`` because no worker can encode its rows before all workers have agreed on the
    categories and classes, and because Dask workers put it together from partitions.
    """

    X: Any
    y: Any
    weight: Any = None
    group: Any = None
    qid: Any = None
    init_score: Any = None
    position: Any = None  # of rankings: where each document was shown; of opened rows the number of that place
    # For each block of consecutive rows: (its position among all workers' blocks, its number of rows). None stands for
    # one block, at the position of the rank. Dask workers hold several.
    blocks: Sequence[tuple[int, int]] | None = None
    may_be_table: bool = False  # whether y may have several columns
    holds_bounds: bool = False  # whether the columns of y are bounds of times, the second perhaps infinite
    prefix: str = ""  # of fit's argument names: "eval_" for evaluation sets
    suffix: str = ""  # " of eval_set 0"
    queries: Sequence[targets.QueryRuns] | None = None  # one per block; set by open_rows

    @property
    def weight_name(self) -> str:
        return f"{self.prefix}sample_weight{self.suffix}"

    @property
    def score_name(self) -> str:
        return f"{self.prefix}init_score{self.suffix}"


@dataclass(frozen=True)
class TrainingRows:
    """One worker's rows as numbers: a block of the rows with all columns, or all rows with a block of the columns."""

    # (n_rows, n_all_features), float32 or float64. Categorical columns hold bin numbers, 0 or NaN for missing.
    X: np.ndarray | Source
    # float64 (n_rows,), or (n_rows, n_targets) if there are several. Of rankings with positions it is (n_rows, 2):
    # relevance and the number of the position.
    y: np.ndarray
    weight: np.ndarray | None = None
    group: np.ndarray | None = None  # int64: rows of each query, in order
    ids: RowIds | None = None  # positions of the rows in the whole data; None if there are no other rows
    # (first, stop) of the columns that this worker keeps; None unless columns are spread over the workers.
    features: tuple[int, int] | None = None
    before_spread: TrainingRows | None = None  # the rows that this worker had before columns were spread
    init_score: np.ndarray | None = None  # float64 (n_rows, n_outputs): scores to start from, which no model holds

    @property
    def labels(self) -> np.ndarray:
        """y without the positions of rankings."""
        return self.y[:, 0] if self.y.ndim == 2 and self.group is not None else self.y

    @property
    def row_ids(self) -> RowIds:
        return RowIds.consecutive(len(self.y)) if self.ids is None else self.ids


@dataclass(frozen=True)
class Target:
    """What y holds: numbers, classes or the relevance of documents."""

    kind: TargetKind
    classes: np.ndarray | None = None  # of all workers, ascending; only if y holds classes
    n_targets: int = 1  # columns of y
    many_classes: tuple[np.ndarray, ...] = ()  # of each column, if several columns hold classes

    @property
    def n_classes(self) -> int:
        """Of all columns together; 1 if y holds no classes."""
        return max(1, sum(map(len, self.each_classes)))

    @property
    def each_classes(self) -> tuple[np.ndarray, ...]:
        """The classes of each column."""
        return self.many_classes if self.classes is None else (self.classes,)

    @property
    def labels(self) -> tuple[Any, ...] | None:
        """The classes of all columns, one column's after another's; None if y holds no classes."""
        return tuple(label for each in self.each_classes for label in each.tolist()) or None

    def read(self, y: Any, n_rows: int, name: str) -> np.ndarray:
        """y as float64; a class becomes its index in ``classes``."""
        if self.kind == "relevance":
            return targets.read_relevance(y, n_rows, name)
        if self.kind == "value":
            return targets.read_values(y, n_rows, name, self.n_targets)
        if self.many_classes:
            return targets.read_label_columns(y, n_rows, self.many_classes, name)
        assert self.classes is not None  # agreed on before any row is read
        return targets.read_labels(y, n_rows, self.classes, name)


def open_rows(given: GivenRows, comm: Communicator, drops_weightless: bool = False) -> GivenRows:
    """Check the form of all workers' rows and agree on the weights.

    X becomes a table, the other columns become arrays. Their values may still be invalid.
    """
    opened = all_or_none(lambda: _open(given, comm), comm)
    n_rows, blocks = len(opened.y), opened.blocks or ()
    weight = agree_weights(opened.weight, n_rows, comm, given.weight_name)
    score = agree_scores(opened.init_score, n_rows, comm, given.score_name)
    if sum(share(n_rows, comm)) == 0:
        raise InvalidDataError("X has 0 row(s) on all workers while a minimum of 1 is required; pass rows to train on.")
    if weight is not None and drops_weightless and any(share(bool((weight == 0).any()), comm)):
        # A row of weight 0 does not exist: it adds no bin and no class, and fills no leaf.
        keep = weight > 0
        ends = np.cumsum([length for _, length in blocks])[:-1]
        kept = [(i, int(mask.sum())) for (i, _), mask in zip(blocks, np.split(keep, ends), strict=True)]
        opened = replace(opened, X=inputs.take_rows(opened.X, keep), y=opened.y[keep], blocks=kept)
        weight = agree_weights(weight[keep], len(opened.y), comm, given.weight_name)
        score = None if score is None else score[keep]
    return replace(opened, weight=weight, init_score=score)


def read_rows(opened: GivenRows, columns: Columns, target: Target, owner: str, comm: Communicator) -> TrainingRows:
    """Encode opened rows as numbers; a query that is cut between workers moves to one of them.

    ``owner`` is what errors call the source of ``columns``.
    """

    def read() -> tuple[Any, np.ndarray]:
        inputs.check_columns(opened.X, columns, owner)
        label = target.read(opened.y, len(opened.y), f"y{opened.suffix}")
        if opened.position is not None:
            label = np.column_stack([label, opened.position])
        return inputs.encode(opened.X, columns), label

    X, y = all_or_none(read, comm)
    blocks = opened.blocks or ()
    rows = TrainingRows(X, y, opened.weight, ids=_number_rows(blocks, comm), init_score=opened.init_score)
    if opened.queries is None:
        return rows
    if opened.queries and opened.queries[0].ids is not None and (comm.size > 1 or len(blocks) > 1):
        return _with_whole_queries(rows, blocks, opened.queries, comm)
    return replace(rows, group=_sizes(opened.queries))


def _open(given: GivenRows, comm: Communicator) -> GivenRows:
    table = inputs.read_table(given.X, least_rows=1 if comm.size == 1 else 0)
    n_rows = table.shape[0]
    label = targets.read_column(given.y, n_rows, f"y{given.suffix}", given.may_be_table)
    if given.holds_bounds and label.dtype.kind == "f":
        label = np.where(np.isposinf(label), targets.LARGEST, label)
    weight = targets.read_weight(given.weight, n_rows, given.weight_name)
    blocks = [(comm.rank, n_rows)] if given.blocks is None else given.blocks
    score = targets.read_init_score(given.init_score, n_rows, given.score_name)
    queries = _open_queries(given, n_rows, blocks)
    return replace(given, X=table, y=label, weight=weight, init_score=score, queries=queries, blocks=blocks)


def _open_queries(given: GivenRows, n_rows: int, blocks: Sequence[tuple[int, int]]) -> list[targets.QueryRuns] | None:
    """The queries of each block. An id may continue in the next block, a size may not."""
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
    """The positions of this worker's rows among those of all workers."""
    all_blocks = share([list(block) for block in blocks], comm)
    first, n_all = {}, 0
    for index, length in sorted(tuple(block) for its_blocks in all_blocks for block in its_blocks):
        first[index] = n_all
        n_all += length
    return RowIds.of_runs([length for _, length in blocks], [first[index] for index, _ in blocks], n_all)


def _with_whole_queries(
    rows: TrainingRows, blocks: Sequence[tuple[int, int]], queries: Sequence[targets.QueryRuns], comm: Communicator
) -> TrainingRows:
    source = as_source(rows.X)
    if not isinstance(source, Matrices):  # a stream is cut between queries already
        check_distinct([query for runs in queries for query in runs.ids or []], comm)
        return replace(rows, group=_sizes(queries))
    moved, start = [], 0
    for (index, length), runs in zip(blocks, queries, strict=True):
        own = slice(start, start + length)
        label, weight, score = ([] if each is None else [each[own]] for each in (rows.y, rows.weight, rows.init_score))
        X = source[own].matrices
        moved.append(QueryBlock(index, X, label, weight, score, list(runs.ids or []), runs.sizes.tolist()))
        start += length
    bring_together(moved, comm)
    return TrainingRows(
        X=Matrices([piece for block in moved for piece in block.X]),
        y=np.concatenate([piece for block in moved for piece in block.y]),
        weight=None if rows.weight is None else np.concatenate([piece for block in moved for piece in block.weight]),
        init_score=None if rows.init_score is None else np.concatenate([p for block in moved for p in block.score]),
        group=np.array([size for block in moved for size in block.sizes], np.int64),
        ids=_number_rows([(block.index, block.n_rows) for block in moved], comm),
    )


def _sizes(queries: Sequence[targets.QueryRuns]) -> np.ndarray:
    return np.concatenate([runs.sizes for runs in queries])
