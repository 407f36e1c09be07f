"""Lines of libsvm files -> arrays, by numpy operations on whole blocks of text."""

from __future__ import annotations

import re
import warnings
from typing import NamedTuple, NoReturn

import numpy as np

COMMENT = re.compile(rb"#[^\n]*")
QUERY = re.compile(rb"(?<=\s)qid:(\S*)")
NEGATIVE_COLUMN = re.compile(rb"\s-[^\s:]*:")
WHOLE_NUMBER = re.compile(rb"[+-]?0*([0-9]{1,19})(\.0*)?")
POINT_ZERO = re.compile(rb"\.0*(?= |$)")
NOT_IN_NUMBERS = re.compile(rb"[^0-9+ -]|[+-](?![0-9])")
QUERY_COLUMN = -1  # the number that qid: is given among the columns
MAX_COLUMN = 2**31 - 2  # columns and their number are counted in 32 bits


class Lines(NamedTuple):
    """The rows of some lines; columns and values of row i are at [starts[i]:starts[i + 1]]."""

    label: np.ndarray  # float64
    qid: np.ndarray  # int64; empty if no row has one
    starts: np.ndarray  # int64 (n_rows + 1,)
    column: np.ndarray  # int64, from 0 to MAX_COLUMN, ascending within a row
    value: np.ndarray  # float64


class BadLine(Exception):
    """What is wrong, and in which of the lines, from 0."""


def parse(text: bytes) -> Lines:
    """Whole lines; raises BadLine for anything that is not libsvm."""
    if b"#" in text:
        text = COMMENT.sub(b"", text)
    between = QUERY.split(text) if b"qid:" in text else [text]  # text, id, text, id, ..., text
    qid = _query_ids(between[1::2], text)
    marked = (b"%d:0" % QUERY_COLUMN).join(between[::2])
    line, n_pairs = _count_pairs(marked)
    numbers = _numbers(marked.replace(b":", b" "), int(n_pairs.size + 2 * n_pairs.sum()))
    first = np.cumsum(1 + 2 * n_pairs) - (1 + 2 * n_pairs)  # where each row's label is
    is_label = np.zeros(numbers.size, np.bool_)
    is_label[first] = True
    pairs = numbers[~is_label].reshape(-1, 2)
    row = np.repeat(np.arange(n_pairs.size), n_pairs)
    of_query = pairs[:, 0] == QUERY_COLUMN
    if np.count_nonzero(pairs[:, 0] < 0) > len(qid):  # each qid: has made one such column, the file has others
        at = NEGATIVE_COLUMN.search(text)
        raise BadLine("a column has a negative number", None if at is None else _line_of(text, at.end()))
    column = _columns(pairs[:, 0], line[row])
    n_queries = np.bincount(row[of_query], minlength=n_pairs.size)
    if 0 < n_queries.sum() < n_pairs.size:
        raise BadLine("some rows have a qid: and others have none", int(line[n_queries.argmin()]))
    descends = (row[1:] == row[:-1]) & (column[1:] <= column[:-1])
    if descends.any():
        raise BadLine("the columns of a row do not ascend", int(line[row[1:][descends.argmax()]]))
    starts = np.concatenate(([0], np.cumsum(n_pairs - n_queries)))
    return Lines(numbers[first], qid, starts, column[~of_query], pairs[~of_query, 1])


def _columns(numbers: np.ndarray, line: np.ndarray) -> np.ndarray:
    """Compared as floats: converting NaN or 1e300 to integers gives whatever the processor likes."""
    is_whole = numbers == np.floor(numbers)
    if not is_whole.all():
        raise BadLine("a column is not a whole number", int(line[is_whole.argmin()]))
    is_small = numbers <= MAX_COLUMN
    if not is_small.all():
        raise BadLine(f"a column has a number above {MAX_COLUMN}", int(line[is_small.argmin()]))
    return numbers.astype(np.int64)


def _query_ids(words: list[bytes], text: bytes) -> np.ndarray:
    """Not by way of float64, which takes ids from 2**53 on for their neighbours."""
    joined = b" ".join(words)
    if b"." in joined:
        joined = POINT_ZERO.sub(b"", joined)
    if NOT_IN_NUMBERS.search(joined):
        _refuse_query(text)
    try:
        ids = _numbers(joined, len(words), np.int64)
    except BadLine:
        _refuse_query(text)
    ends = np.iinfo(np.int64)
    at_ends = (ids == ends.min) | (ids == ends.max)  # numpy gives these for numbers beyond them, too
    if at_ends.any() and not all(map(_is_id, words)):
        _refuse_query(text)
    return ids


def _is_id(word: bytes) -> bool:
    whole = WHOLE_NUMBER.fullmatch(word)
    return whole is not None and -(2**63) <= int(word.partition(b".")[0]) < 2**63


def _refuse_query(text: bytes) -> NoReturn:
    bad = next((query for query in QUERY.finditer(text) if not _is_id(query[1])), None)
    line = None if bad is None else _line_of(text, bad.start())
    raise BadLine("a qid: is not a whole number from -2**63 to 2**63 - 1", line)


def _count_pairs(text: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Of each row its line and how many ``column:value`` it has.

    Every row must be a number and such pairs, without blanks in them.
    """
    letters = np.frombuffer(text, np.uint8)
    is_blank = (letters == 32) | ((letters >= 9) & (letters <= 13))
    begins = ~is_blank & np.concatenate(([True], is_blank[:-1]))  # of words
    word = np.cumsum(begins) - 1  # of each letter
    line_of_word = (np.cumsum(letters == 10) - (letters == 10))[begins]
    is_first = np.concatenate((np.ones(min(1, line_of_word.size), np.bool_), line_of_word[1:] != line_of_word[:-1]))
    colons = np.flatnonzero(letters == 58)
    if not np.array_equal(word[colons], np.flatnonzero(~is_first)):
        n_colons = np.bincount(word[colons], minlength=line_of_word.size)
        bad = np.flatnonzero(n_colons != ~is_first)
        raise BadLine("a row is no label with column:value pairs after it", int(line_of_word[bad[0]]))
    ended = np.concatenate(([True], is_blank, [True]))  # whether no letter is at each place from -1 on
    is_bare = ended[colons] | ended[colons + 2]
    if is_bare.any():
        raise BadLine("a column or its value is missing", _line_of(text, int(colons[is_bare.argmax()])))
    rows = np.cumsum(is_first) - 1
    return line_of_word[is_first], np.bincount(rows, minlength=int(is_first.sum())) - 1


def _numbers(text: bytes, n_expected: int, dtype: type = np.float64) -> np.ndarray:
    numbers = _read_numbers(text, dtype) if n_expected else np.empty(0, dtype)
    if numbers is None or numbers.size != n_expected:
        lines = enumerate(text.split(b"\n"))
        bad = (i for i, line in lines if (read := _read_numbers(line, dtype)) is None or read.size != len(line.split()))
        raise BadLine("a value is no number", next(bad, None))
    return numbers


def _read_numbers(text: bytes, dtype: type) -> np.ndarray | None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)  # so numpy tells of what is no number
        try:
            return np.fromstring(text, dtype, sep=" ") if text.strip() else np.empty(0, dtype)
        except (DeprecationWarning, ValueError):
            return None


def _line_of(text: bytes, at: int) -> int:
    return text.count(b"\n", 0, at)
