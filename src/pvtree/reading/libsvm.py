"""libsvm (svmlight) and LETOR files: a label, perhaps ``qid:``, then ``column:value`` where a value is not zero.

Columns have the numbers that the file gives them, from 0: a file that counts from 1 has a column 0 of zeros.
"""

from __future__ import annotations

import bz2
import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import numpy as np

from pvtree.comm.partition import query_bounds, row_bounds
from pvtree.errors import InvalidDataError
from pvtree.reading.libsvm_text import BadLine, Lines, parse

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

SUFFIXES = (".svm", ".libsvm", ".svmlight", ".letor", ".txt")
COMPRESSED: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open}  # read from the beginning to the end only
BLOCK_BYTES = 4 * 2**20  # that are parsed at a time, which takes some twenty times as much memory
LINE_BYTES = 2**26  # of the longest line: a small compressed file can hold an endless one


class LibsvmRows(NamedTuple):
    """What a file, or a part of it, holds."""

    X: csr_matrix
    y: np.ndarray
    qid: np.ndarray | None


def read_libsvm(path: Path, n_features: int | None = None, rank: int = 0, size: int = 1) -> LibsvmRows:
    """One rank's rows: about as many bytes as any other's, and whole queries.

    Columns beyond ``n_features`` are left out: a model that was trained without them gives them no meaning.
    """
    if size == 1:
        rows = joined(path, list(read_lines(path)), n_features)
        if not len(rows.y):
            raise InvalidDataError(f"{path} holds no rows; give a libsvm file with at least one row.")
        return rows
    n_all = widest(path) if n_features is None else n_features
    if path.suffix in COMPRESSED:
        return deal(joined(path, list(read_lines(path)), n_all), rank, size)
    cuts = [row_start(path, int(at)) for at in row_bounds(path.stat().st_size, size)]
    rows = joined(path, list(read_lines(path, cuts[rank], cuts[rank + 1])), n_all)
    if not len(rows.y) and has_queries(path):  # a rank without rows has queries if the others have
        return rows._replace(qid=np.empty(0, np.int64))
    return rows


def read_parts(path: Path, n_features: int) -> Iterator[LibsvmRows]:
    """The rows of a file, a few megabytes after the other."""
    for lines in read_lines(path):
        if len(lines.label):
            yield joined(path, [lines], n_features)


def read_lines(path: Path, start: int = 0, stop: int | None = None) -> Iterator[Lines]:
    """The lines that begin from byte ``start`` on and before ``stop``, which are beginnings of lines."""
    n_before = 0
    try:
        with COMPRESSED.get(path.suffix, open)(path, "rb") as file:
            file.seek(start)
            while stop is None or file.tell() < stop:
                n_bytes = BLOCK_BYTES if stop is None else min(BLOCK_BYTES, stop - file.tell())
                text = file.read(n_bytes) + (b"" if file.tell() == stop else file.readline(LINE_BYTES))
                if not text:
                    return
                try:
                    if len(text) >= LINE_BYTES and not text.endswith(b"\n"):
                        raise BadLine(f"a line is longer than {LINE_BYTES} bytes", text.count(b"\n"))
                    yield parse(text)
                except BadLine as bad:
                    what, line = bad.args
                    where = "" if line is None else f" in line {_lines_before(path, start) + n_before + line + 1}"
                    raise _unreadable(path, what + where) from None
                n_before += text.count(b"\n")
    except (OSError, EOFError) as error:
        raise _unreadable(path, getattr(error, "strerror", None) or str(error)) from error


def joined(path: Path, blocks: list[Lines], n_features: int | None) -> LibsvmRows:
    """The blocks of consecutive lines as one matrix."""
    from scipy.sparse import csr_matrix

    y, qid, column, value = (
        np.concatenate([getattr(block, name) for block in blocks] or [np.empty(0)])
        for name in ("label", "qid", "column", "value")
    )
    if len(qid) not in (0, len(y)):
        raise _unreadable(path, "some rows have a qid: and others have none")
    n_values = [np.diff(block.starts) for block in blocks]
    starts = np.concatenate(([0], np.cumsum(np.concatenate([*n_values, np.empty(0, np.int64)]), dtype=np.int64)))
    n_found = int(column.max(initial=0)) + 1
    X = csr_matrix((value, column.astype(np.int32), starts), (len(y), n_found))
    if n_features is not None and n_found > n_features:
        X = X[:, :n_features]
    elif n_features is not None:
        X.resize(len(y), n_features)
    is_whole = bool((y == np.floor(y)).all() and (np.abs(y) < 2.0**53).all())
    return LibsvmRows(X, y.astype(np.int64) if is_whole else y, qid.astype(np.int64) if len(qid) else None)


def widest(path: Path) -> int:
    """How many columns the whole file has, for a rank that reads a part of it."""
    return max((int(lines.column.max(initial=0)) for lines in read_lines(path)), default=0) + 1


def deal(rows: LibsvmRows, rank: int, size: int) -> LibsvmRows:
    """A rank's share of rows that are all in memory."""
    if rows.qid is None:
        bounds = row_bounds(len(rows.y), size)
    else:
        starts = np.flatnonzero(np.r_[True, rows.qid[1:] != rows.qid[:-1]])
        bounds = query_bounds(np.diff(np.r_[starts, len(rows.y)]), size)[0]
    own = slice(int(bounds[rank]), int(bounds[rank + 1]))
    return LibsvmRows(rows.X[own], rows.y[own], None if rows.qid is None else rows.qid[own])


def row_start(path: Path, at: int) -> int:
    """The first row that begins at byte ``at`` or later, and, where there are queries, begins one.

    The row after the cut is taken to belong to the query that is cut, so that who reads before the cut and who reads
    after it come to the same row.
    """
    if at == 0:
        return 0
    with open(path, "rb") as file:
        file.seek(at - 1)
        file.readline()
        start, line = _next_row(file)
        query = _query(line)
        while query is not None and _query(line) == query:
            start, line = _next_row(file)
        return start


def has_queries(path: Path) -> bool:
    with open(path, "rb") as file:
        return _query(_next_row(file)[1]) is not None


def _next_row(file: BinaryIO) -> tuple[int, bytes]:
    """Where the next row begins, and its text, empty at the end; comments and empty lines are no rows."""
    while True:
        start, line = file.tell(), file.readline()
        if not line or line.partition(b"#")[0].strip():
            return start, line


def _query(line: bytes) -> bytes | None:
    words = line.split(maxsplit=2)
    return words[1] if len(words) > 1 and words[1].startswith(b"qid:") else None


def _lines_before(path: Path, start: int) -> int:
    """Only for an error of a rank that reads from the middle of a file."""
    if not start:
        return 0
    with open(path, "rb") as file:
        return sum(file.read(min(BLOCK_BYTES, start - at)).count(b"\n") for at in range(0, start, BLOCK_BYTES))


def _unreadable(path: Path, reason: Any) -> InvalidDataError:
    return InvalidDataError(f"{path} cannot be read as libsvm ({reason}); fix the file, or give its format.")
