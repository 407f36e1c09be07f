"""CSV files -> a temporary Parquet file, from which rows are read in a stream like those of any other.

CSV has no types. They are found by reading all rows once, so that they do not depend on which rows come first; then
the rows are read again in these types. Only a few megabytes are in memory at a time.
"""

from __future__ import annotations

import contextlib
import io
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from pvtree.comm.partition import query_bounds, row_bounds
from pvtree.errors import InvalidDataError, PvtreeError
from pvtree.reading.arrow_columns import (
    as_array,
    check_named,
    check_present,
    check_unique,
    is_text,
    load_pyarrow,
    reason_of,
)
from pvtree.reading.parquet import ParquetTable

if TYPE_CHECKING:
    import pyarrow as pa

SUFFIXES = (".csv", ".tsv")
BLOCK_BYTES = 4 * 2**20  # that are parsed at a time
GROUP_BYTES = 32 * 2**20  # of a row group of the temporary file
HEAD_BYTES = 4096  # where files without text are found out


@dataclass(frozen=True)
class CsvForm:
    """How a CSV file is written; without a header columns are named by their numbers from 0."""

    header: bool = True
    delimiter: str | None = None  # None: a tab in .tsv files, else a comma

    def delimiter_of(self, path: Path) -> str:
        return self.delimiter or ("\t" if ".tsv" in path.suffixes else ",")


@dataclass(frozen=True)
class Wanted:
    """What of a CSV file is read; None: all columns, in the types that they are found to have."""

    features: Sequence[str] | None = None
    types: Mapping[str, pa.DataType] | None = None  # of columns whose type is known before


def read_csv(
    path: Path,
    paths: Sequence[Path],
    form: CsvForm,
    wanted: Wanted,
    label: str | None = None,
    weight: str | None = None,
    qid: str | None = None,
    rank: int = 0,
    size: int = 1,
) -> ParquetTable:
    """One rank's rows of ``paths``, the files of ``path``: whole queries, about as many rows as any other's."""
    special = [name for name in (label, weight, qid) if name is not None]
    scan = Scan(paths, form, wanted, special)
    rows = slice(0, None)
    types = scan.types(qid)
    if scan.n_rows == 0:
        raise InvalidDataError(f"{path} holds no rows; give CSV files with at least one row.")
    if size > 1:
        bounds = row_bounds(scan.n_rows, size) if qid is None else query_bounds(scan.query_sizes(), size)[0]
        rows = slice(int(bounds[rank]), int(bounds[rank + 1]))
    folder = temporary_folder(path)
    target = Path(folder.name) / "rows.parquet"
    try:
        write_parquet(scan.batches(types), types, target, rows)
        return ParquetTable(target, label, weight, qid, features=wanted.features, converted_from=path, owner=folder)
    except BaseException as error:
        folder.cleanup()
        if isinstance(error, OSError):
            raise no_room(path, error) from error
        raise


def temporary_folder(path: Path) -> tempfile.TemporaryDirectory[str]:
    """Deleted when the last table of its rows is let go."""
    try:
        return tempfile.TemporaryDirectory(prefix="pvtree-")
    except OSError as error:
        raise no_room(path, error) from error


def no_room(path: Path, error: OSError) -> InvalidDataError:
    reason = error.strerror or str(error)
    return InvalidDataError(
        f"The temporary copy of {path} cannot be written ({reason}); set TMPDIR to a folder that has room for it."
    )


class Scan:
    """Files with the same columns, read from the first row to the last as often as need be."""

    def __init__(self, paths: Sequence[Path], form: CsvForm, wanted: Wanted, special: Sequence[str]) -> None:
        self.paths, self.form = paths, form
        self.names = read_names(paths[0], form)
        for path in paths[1:]:
            if read_names(path, form) != self.names:
                raise InvalidDataError(f"{path} has other columns than {paths[0]}; write all files with the same.")
        named = [*special, *(wanted.features or ())]
        if named and self.names[0] not in named:
            check_delimiter(self.names, paths[0])
        if form.header and (len(set(self.names)) < len(self.names) or not set(named) <= set(self.names)):
            check_header(self.names, paths[0])
        for name in special:
            check_named(name, self.names, paths[0])
        if wanted.features is not None:
            check_present(wanted.features, self.names, paths[0])
        self.read = self.names if wanted.features is None else list(dict.fromkeys([*wanted.features, *special]))
        check_unique(self.read, self.names, paths[0])
        self.known = wanted.types or {}
        self.n_rows = 0
        self.query_starts: list[np.ndarray] = []

    def types(self, qid: str | None = None) -> dict[str, pa.DataType]:
        """The narrowest type that fits all values of each column; counts rows on the way, and the rows of queries."""
        arrow = load_pyarrow()
        found = {name: arrow.null() for name in self.read}
        before = None
        for batch in self.batches(dict.fromkeys(self.read, arrow.string())):
            for name in self.read:
                if name not in self.known:
                    found[name] = widened(found[name], batch.column(name))
            if qid is not None and len(batch):
                ids = as_array(arrow.chunked_array([batch.column(qid)]), qid)
                begins = np.r_[before is None or ids[0] != before, ids[1:] != ids[:-1]]
                self.query_starts.append(np.flatnonzero(begins) + self.n_rows)
                before = ids[-1]
            self.n_rows += len(batch)
        return {name: self.known.get(name, kind) for name, kind in found.items()}

    def query_sizes(self) -> np.ndarray:
        return np.diff(np.r_[np.concatenate(self.query_starts), self.n_rows])

    def batches(self, types: Mapping[str, pa.DataType]) -> Iterator[pa.RecordBatch]:
        for path in self.paths:
            with told_in_a_sentence(path), opened(path, self.form, self.names, types) as reader:
                yield from reader


def widened(kind: pa.DataType, column: pa.Array) -> pa.DataType:
    """The first type from ``kind`` on that fits the texts of one more block, in the end text."""
    import pyarrow.compute as pc

    arrow = load_pyarrow()
    if len(column) == column.null_count or is_text(kind):
        return kind
    numbers, flags = [arrow.int64(), arrow.float64()], [arrow.bool_()]
    times = [arrow.timestamp("s"), arrow.timestamp("us"), arrow.timestamp("ns")]
    chains = [numbers, flags, times]
    if not arrow.types.is_null(kind):  # a column of numbers never becomes one of dates
        chains = [chain[chain.index(kind) :] for chain in chains if kind in chain]
    texts = pc.utf8_trim_whitespace(column)
    for candidate in (each for chain in chains for each in chain):
        if candidate == arrow.bool_() and not only_true_and_false(texts):
            continue
        with contextlib.suppress(arrow.ArrowInvalid):
            pc.cast(texts, candidate)
            return candidate
    return arrow.string()


def only_true_and_false(texts: pa.Array) -> bool:
    """Arrow takes 1 and 0 for these too, here they are numbers."""
    import pyarrow.compute as pc

    words = load_pyarrow().array(["true", "false"])
    return bool(pc.all(pc.is_in(pc.utf8_lower(texts.drop_null()), words)).as_py())


def write_parquet(
    batches: Iterator[pa.RecordBatch], types: Mapping[str, pa.DataType], target: Path, rows: slice
) -> None:
    """The rows from rows.start to rows.stop, in row groups of about GROUP_BYTES."""
    from pyarrow import parquet

    arrow = load_pyarrow()
    schema = arrow.schema(list(types.items()))
    waiting: list[pa.RecordBatch] = []
    texts = [name for name, kind in types.items() if is_text(kind)]
    whole = [name for name, kind in types.items() if kind == arrow.int64()]  # to know how large they are
    start = 0
    with parquet.ParquetWriter(target, schema, use_dictionary=texts, write_statistics=whole) as writer:

        def flush() -> None:
            if waiting:
                writer.write_table(arrow.Table.from_batches(waiting), row_group_size=2**31 - 1)
                waiting.clear()

        for batch in batches:
            first, stop = max(rows.start - start, 0), len(batch) if rows.stop is None else rows.stop - start
            start += len(batch)
            part = batch.slice(first, max(0, min(stop, len(batch)) - first))
            if len(part):
                waiting.append(part)
            if sum(each.nbytes for each in waiting) >= GROUP_BYTES:
                flush()
        flush()


def read_names(path: Path, form: CsvForm) -> list[str]:
    """The header, or numbers in its place."""
    with told_in_a_sentence(path):
        check_not_empty(path)
        with opened(path, form) as reader:
            names: list[str] = reader.schema.names
    return names if form.header else [str(i) for i in range(len(names))]


def check_delimiter(names: Sequence[str], path: Path) -> None:
    """A header that is one name is often several, with something else than a comma between them."""
    between = next((each for each in ";\t|" if each in names[0]), None)
    if len(names) == 1 and between is not None:
        shown = "tab" if between == "\t" else f"'{between}'"
        raise InvalidDataError(
            f"{path} has one column only, {names[0][:60]!r}; if columns are separated by {shown}, say so: "
            f"--delimiter {shown}, or delimiter={between!r} in Python."
        )


def check_header(names: Sequence[str], path: Path) -> None:
    """Names that are numbers are most often the first row of a file without a header."""
    number = next((name for name in names if is_number(name)), None)
    if number is not None:
        raise InvalidDataError(
            f"The first line of {path} holds the number {number!r} where names of columns are expected; if the file "
            "has no header, say so: --no-header, or header=False in Python, and name columns by their numbers from 0."
        )


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def check_not_empty(path: Path) -> None:
    with load_pyarrow().input_stream(str(path), compression="detect") as file:
        head = file.read(HEAD_BYTES)
    if not head.strip():
        raise InvalidDataError(f"{path} is empty; give a CSV file with rows.")


class Text(io.RawIOBase):
    """The bytes of a file; a zero among them, which Arrow takes for a letter, is refused wherever it stands."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self.file, self.path, self.n_before = file, path, 0

    def readable(self) -> bool:
        return True

    def read(self, n_bytes: int = -1) -> bytes:
        block = self.file.read(n_bytes)
        if b"\0" in block:
            at = self.n_before + block.index(b"\0")
            raise InvalidDataError(
                f"{self.path} is no CSV file, its byte {at} is zero, which no text holds; give a CSV file in UTF-8."
            )
        self.n_before += len(block)
        return block


@contextlib.contextmanager
def opened(
    path: Path, form: CsvForm, names: Sequence[str] | None = None, types: Mapping[str, pa.DataType] | None = None
) -> Iterator[pa.csv.CSVStreamingReader]:
    from pyarrow import csv

    read = csv.ReadOptions(use_threads=False, block_size=BLOCK_BYTES)
    if not form.header:
        read.autogenerate_column_names = names is None
        read.column_names = names or []
    parse = csv.ParseOptions(delimiter=form.delimiter_of(path), newlines_in_values=True)
    convert = csv.ConvertOptions(strings_can_be_null=True)
    if types is not None:
        convert.column_types = dict(types)
        convert.include_columns = list(types)
    with (
        load_pyarrow().input_stream(str(path), compression="detect") as file,
        csv.open_csv(Text(file, path), read, parse, convert) as reader,
    ):
        yield reader


@contextlib.contextmanager
def told_in_a_sentence(path: Path) -> Iterator[None]:
    """Whatever pyarrow or the system find wrong."""
    try:
        yield
    except PvtreeError:
        raise
    except (load_pyarrow().ArrowException, OSError, UnicodeDecodeError, ValueError) as error:
        raise InvalidDataError(
            f"{path} cannot be read as CSV ({reason_of(error)}); fix the file, or give its format."
        ) from error
