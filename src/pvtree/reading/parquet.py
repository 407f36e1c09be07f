"""Parquet files as a table that is read in a stream: a few columns of one row group at a time, without pandas."""

from __future__ import annotations

import copy
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pvtree.comm.partition import query_bounds
from pvtree.errors import InvalidDataError, InvalidParameterError
from pvtree.parameters.paths import shown_path
from pvtree.reading.arrow_columns import (
    as_array,
    check_kind,
    check_named,
    check_present,
    check_same,
    check_type,
    check_unique,
    count_categories,
    integers,
    is_category,
    is_text,
    is_wide_integer,
    load_pyarrow,
    pandas_marks,
    reason_of,
)
from pvtree.reading.arrow_table import ArrowSource
from pvtree.reading.number_columns import EXACT, rounded
from pvtree.reading.sources import ReadColumns
from pvtree.reading.tables import Columns, Scalar, Table

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

BUFFER_BYTES = 2**16  # of every column, where rows are read through all columns
AT_ONCE = 4  # columns that are there twice, as Arrow reads them and as numbers


@dataclass(frozen=True)
class Piece:
    """Rows of one row group; most often all of them."""

    path: Path
    row_group: int
    rows: slice | np.ndarray  # places inside the row group, ascending
    n_rows: int
    owner: Any = field(default=None, compare=False, repr=False)  # whoever deletes a temporary file when it is let go

    def take(self, rows: slice | np.ndarray) -> Piece:
        """Some of these rows: a slice with both ends, or a mask."""
        places = np.arange(self.n_rows)[rows]
        if isinstance(self.rows, slice) and isinstance(rows, slice):
            begin = self.rows.start
            return replace(self, rows=slice(begin + rows.start, begin + rows.stop), n_rows=len(places))
        kept = np.arange(self.rows.start, self.rows.stop) if isinstance(self.rows, slice) else self.rows
        return replace(self, rows=kept[places], n_rows=len(places))

    def inside(self, start: int, stop: int) -> slice | np.ndarray:
        """Which of the row group's rows start..stop, counted from ``start``, are of this piece."""
        if isinstance(self.rows, slice):
            return slice(max(self.rows.start, start) - start, max(min(self.rows.stop, stop), start) - start)
        return self.rows[(self.rows >= start) & (self.rows < stop)] - start


class ParquetTable(Table):
    """One rank's rows of a Parquet file, or of a folder of them in the order of their names.

    Row groups are dealt out in contiguous blocks of about equally many rows; where ``qid`` names a column, a query
    belongs to the rank that it begins on. All columns but label, weight, qid and a DataFrame's index are features, or
    those that ``features`` names. ``converted_from`` is the user's file where this one was made from it, by ``owner``.
    """

    columns: list[str]

    def __init__(
        self,
        path: str | os.PathLike[str],
        label: str | None = None,
        weight: str | None = None,
        qid: str | None = None,
        rank: int = 0,
        size: int = 1,
        *,
        features: Sequence[str] | None = None,
        converted_from: Path | None = None,
        owner: Any = None,
    ) -> None:
        paths = find_files(Path(path))
        self.path = converted_from or Path(path)
        self.schema: pa.Schema = read_schema(paths[0])
        groups = read_row_groups(paths, self.schema, owner)
        if not groups and converted_from is None:
            raise InvalidDataError(f"{self.path} holds no rows; give Parquet files with at least one row.")
        special = [name for name in (label, weight, qid) if name is not None]
        self._check_names(special)
        self.marked, index = pandas_marks(self.schema)
        self.columns = [name for name in self.schema.names if name not in {*special, *index}]
        if features is not None:
            check_present(features, self.schema.names, self.path)
            self.columns = list(features)
        if not self.columns:
            raise InvalidDataError(f"{self.path} holds no columns to learn from beside {', '.join(special)}; add some.")
        check_unique([*self.columns, *special], self.schema.names, self.path)
        for name in self.columns:
            check_type(name, self.schema.field(name).type, converted_from or paths[0])
        pieces = deal(groups, rank, size) if qid is None or size == 1 else deal_queries(groups, qid, rank, size)
        self._hold(pieces)
        self.y = self._read_array(label)
        self.weight = self._read_array(weight)
        self.qid = self._read_array(qid)

    def __len__(self) -> int:
        return self.shape[0]

    def category_columns(self) -> list[int]:
        """Columns of text, and those that their writer has marked as categories."""
        fields = map(self.schema.field, self.columns)
        return [j for j, field in enumerate(fields) if is_category(field.type) or field.name in self.marked]

    def typed_columns(self) -> list[int]:
        return [j for j in self.category_columns() if not is_text(self.schema.field(self.columns[j]).type)]

    def count_values(self, j: int) -> dict[Scalar, int]:
        """How often each value of column j is in this rank's rows; missing ones are not counted."""
        counts: Counter[Scalar] = Counter()
        for piece in self.pieces:
            counts.update(count_categories(read_column(piece, self.columns[j]), self.columns[j]))
        return dict(counts)

    def rounded_columns(self) -> list[int]:
        wide = [j for j, name in enumerate(self.columns) if is_wide_integer(self.schema.field(name).type)]
        return [j for j in wide if any(holds_rounded(piece, self.columns[j]) for piece in self.pieces)]

    def encode(self, columns: Columns) -> ParquetRows:
        """The rows as binning reads them, with the categories that fit has learnt."""
        for j, name in enumerate(self.columns):
            check_kind(name, self.schema.field(name).type, columns.categories.get(j), self.path)
        return ParquetRows(self.pieces, self.columns, self.schema, columns.categories)

    def take(self, keep: np.ndarray) -> ParquetTable:
        """The table without the rows that the mask leaves out."""
        kept = copy.copy(self)
        kept._hold(cut_pieces(self.pieces, keep))
        kept.y, kept.weight, kept.qid = (None if a is None else a[keep] for a in (self.y, self.weight, self.qid))
        return kept

    def _hold(self, pieces: list[Piece]) -> None:
        self.pieces = pieces
        self.shape = (sum(piece.n_rows for piece in pieces), len(self.columns))

    def _check_names(self, special: Sequence[str]) -> None:
        names = self.schema.names
        twice = [name for name, n in Counter(names).items() if n > 1]
        if twice:
            raise InvalidDataError(f"{self.path} has several columns named {twice[0]!r}; give each its own name.")
        for name in special:
            check_named(name, names, self.path)
            if special.count(name) > 1:
                raise InvalidParameterError(
                    f"The column {name!r} cannot be two of label, weight and query id; name different columns."
                )

    def _read_array(self, name: str | None) -> np.ndarray | None:
        if name is None:
            return None
        arrays = [as_array(read_column(piece, name), name) for piece in self.pieces]
        if not arrays:
            return as_array(self.schema.empty_table().column(name), name)
        return np.concatenate(arrays)


class ParquetRows(ArrowSource):
    """Row groups as parts; what was read is given back before the next is read."""

    def __init__(
        self,
        pieces: Sequence[Piece],
        names: Sequence[str],
        schema: pa.Schema,
        categories: Mapping[int, tuple[Scalar, ...]],
    ) -> None:
        super().__init__([piece.n_rows for piece in pieces], [schema.field(name) for name in names], categories)
        self.pieces, self.schema = list(pieces), schema

    @contextmanager
    def reading(self, part: int) -> Iterator[ReadColumns]:
        piece = self.pieces[part]
        with opened(piece.path) as file:

            def read(features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
                matrix = self.room(piece.n_rows, len(features))
                for first in range(0, len(features), AT_ONCE):
                    self._read_few(file, piece, features[first : first + AT_ONCE], matrix[:, first:])
                return matrix, np.arange(len(features))

            yield read
        load_pyarrow().default_memory_pool().release_unused()

    def _read_few(self, file: pq.ParquetFile, piece: Piece, features: np.ndarray, matrix: np.ndarray) -> None:
        table = file.read_row_group(piece.row_group, [self.names[j] for j in features], use_threads=False)
        for c, j in enumerate(features.tolist()):
            matrix[:, c] = self.encode_column(table.column(self.names[j]), j)[piece.rows]

    def small_blocks(self, n_rows: int) -> Iterator[np.ndarray]:
        """The rows in matrices of all columns, with so many rows at most, however long the row groups are."""
        arrow = load_pyarrow()
        for piece in self.pieces:
            with opened(piece.path, BUFFER_BYTES) as file:
                start = 0
                for batch in file.iter_batches(n_rows, [piece.row_group], self.names, use_threads=False):
                    table = arrow.Table.from_batches([batch])
                    rows = piece.inside(start, start + len(table))
                    matrix = np.empty((len(table), len(self.names)), self.dtype)
                    for j, name in enumerate(self.names):
                        matrix[:, j] = self.encode_column(table.column(name), j)
                    start += len(table)
                    yield matrix[rows]

    def __getitem__(self, rows: slice) -> ParquetRows:
        keep = np.zeros(len(self), np.bool_)
        keep[rows] = True
        return ParquetRows(cut_pieces(self.pieces, keep), self.names, self.schema, self.categories)


def find_files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise InvalidDataError(
            f"There is no file or folder {shown_path(path)}; give a Parquet file or a folder of *.parquet files."
        )
    paths = sorted(p for p in path.glob("*.parquet") if p.is_file() and not p.name.startswith((".", "_")))
    if not paths:
        raise InvalidDataError(f"The folder {path} holds no *.parquet files; give one that does.")
    return paths


def read_schema(path: Path) -> pa.Schema:
    with opened(path) as file:
        schema = file.schema_arrow
        schema.names  # noqa: B018  Arrow reads them as UTF-8 only when it is asked for them
        return schema


def read_row_groups(paths: Sequence[Path], schema: pa.Schema, owner: Any = None) -> list[Piece]:
    """All row groups that have rows; every file must have the columns of the first."""
    pieces = []
    for path in paths:
        with opened(path) as file:
            check_same(file.schema_arrow, path, schema, paths[0])
            for group in range(file.num_row_groups):
                n_rows = file.metadata.row_group(group).num_rows
                if n_rows:
                    pieces.append(Piece(path, group, slice(0, n_rows), n_rows, owner))
    return pieces


def deal(groups: Sequence[Piece], rank: int, size: int) -> list[Piece]:
    """A rank's row groups: contiguous, cut nearest to even shares of the rows; may be none."""
    _, bounds = query_bounds(np.array([group.n_rows for group in groups]), size)
    return list(groups[bounds[rank] : bounds[rank + 1]])


def deal_queries(groups: Sequence[Piece], qid: str, rank: int, size: int) -> list[Piece]:
    """The same, then moved to where queries begin: no rank has a part of a query."""
    _, bounds = query_bounds(np.array([group.n_rows for group in groups]), size)
    starts = [first_query(groups, int(bounds[r]), qid) for r in (rank, rank + 1)]  # (row group, row in it)
    pieces = []
    for g in range(starts[0][0], min(starts[1][0] + 1, len(groups))):
        first = starts[0][1] if g == starts[0][0] else 0
        stop = starts[1][1] if g == starts[1][0] else groups[g].n_rows
        if first < stop:
            pieces.append(groups[g].take(slice(first, stop)))
    return pieces


def first_query(groups: Sequence[Piece], group: int, qid: str) -> tuple[int, int]:
    """Where the first query begins that does not begin before ``group``."""
    if group in (0, len(groups)):
        return group, 0
    before = as_array(read_column(groups[group - 1], qid), qid)[-1]
    while group < len(groups):
        differs = as_array(read_column(groups[group], qid), qid) != before
        if differs.any():
            return group, int(differs.argmax())
        group += 1
    return group, 0


def cut_pieces(pieces: Sequence[Piece], keep: np.ndarray) -> list[Piece]:
    """The pieces without the rows that the mask leaves out; one that loses all of them is never opened again."""
    kept, start = [], 0
    for piece in pieces:
        mask = keep[start : start + piece.n_rows]
        start += piece.n_rows
        n_kept = int(mask.sum())
        first = int(mask.argmax())
        if n_kept:
            is_run = bool(mask[first : first + n_kept].all())
            kept.append(piece.take(slice(first, first + n_kept) if is_run else mask))
    return kept


@contextmanager
def opened(path: Path, buffer_size: int = 0) -> Iterator[pq.ParquetFile]:
    """Each thread opens a file for itself. Whatever pyarrow finds wrong becomes one sentence.

    With a ``buffer_size`` so many bytes of each column are read at a time, else a row group's column at once.
    """
    arrow = load_pyarrow()
    from pyarrow import parquet

    try:
        stamp = path.stat()
        footer = read_footer(path, stamp.st_mtime_ns, stamp.st_size)
        with parquet.ParquetFile(
            path, metadata=footer, memory_map=False, pre_buffer=False, buffer_size=buffer_size
        ) as file:
            yield file
    except (arrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise InvalidDataError(
            f"{path} cannot be read as Parquet ({reason_of(error)}); write it again, or leave it out of the data."
        ) from error


@lru_cache(4)  # few: the footer of a wide file takes megabytes
def read_footer(path: Path, _changed: int, _n_bytes: int) -> pq.FileMetaData:
    """Kept for the next look into the same file, unless the file has changed."""
    from pyarrow import parquet

    return parquet.read_metadata(path)


def holds_rounded(piece: Piece, name: str) -> bool:
    """Whether float64 does not hold some integer of a column; most often its statistics say that it holds all."""
    with opened(piece.path) as file:
        group = file.metadata.row_group(piece.row_group)
        place = file.schema_arrow.names.index(name)
        if len(file.schema_arrow.names) == group.num_columns and group.column(place).is_stats_set:
            statistics = group.column(place).statistics
            if statistics.has_min_max and statistics.max <= EXACT and statistics.min >= -EXACT:
                return False
    return rounded(integers(read_column(piece, name))) is not None


def read_column(piece: Piece, name: str) -> pa.ChunkedArray:
    with opened(piece.path) as file:
        column = file.read_row_group(piece.row_group, [name], use_threads=False).column(name)
        if isinstance(piece.rows, slice):
            return column.slice(piece.rows.start, piece.n_rows)
        return column.take(load_pyarrow().array(piece.rows))
