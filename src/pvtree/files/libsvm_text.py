"""Lines of libsvm files -> arrays, by numpy operations on whole blocks of text."""

from __future__ import annotations

import re
import warnings
from typing import NamedTuple

import numpy as np

COMMENT = re.compile(rb"#[^\n]*")
QUERY = re.compile(rb"(?<=\s)qid:")
QUERY_COLUMN = -1  # the number that qid: is given among the columns


class Lines(NamedTuple):
    """The rows of some lines; columns and values of row i are at [starts[i]:starts[i + 1]]."""

    label: np.ndarray  # float64
    qid: np.ndarray  # int64; empty if no row has one
    starts: np.ndarray  # int64 (n_rows + 1,)
    column: np.ndarray  # int64, ascending within a row
    value: np.ndarray  # float64


class BadLine(Exception):
    """What is wrong, and in which of the lines, from 0."""


def parse(text: bytes) -> Lines:
    """Whole lines; raises BadLine for anything that is not libsvm."""
    if b"#" in text:
        text = COMMENT.sub(b"", text)
    if b"-1:" in text and re.search(rb"\s-\d+:", text):
        raise BadLine("a column has a negative number", _line_of(text, re.search(rb"\s-\d+:", text).start()))  # type: ignore[union-attr]
    text = QUERY.sub(b"%d:" % QUERY_COLUMN, text)
    n_pairs = _count_pairs(text)
    numbers = _numbers(text.replace(b":", b" "), int(n_pairs.size + 2 * n_pairs.sum()))
    first = np.cumsum(1 + 2 * n_pairs) - (1 + 2 * n_pairs)  # where each row's label is
    is_label = np.zeros(numbers.size, np.bool_)
    is_label[first] = True
    pairs = numbers[~is_label].reshape(-1, 2)
    with np.errstate(invalid="ignore"):
        column = pairs[:, 0].astype(np.int64)
    row = np.repeat(np.arange(n_pairs.size), n_pairs)
    if (column != pairs[:, 0]).any():
        raise BadLine("a column is no whole number", None)
    if not np.all((row[1:] != row[:-1]) | (column[1:] > column[:-1])):
        raise BadLine("the columns of a row do not ascend", None)
    of_query = column == QUERY_COLUMN
    n_queries = np.bincount(row[of_query], minlength=n_pairs.size)
    if 0 < n_queries.sum() < n_pairs.size:
        raise BadLine("some rows have a qid: and others have none", int(n_queries.argmin()))
    starts = np.concatenate(([0], np.cumsum(n_pairs - n_queries)))
    qid = pairs[of_query, 1].astype(np.int64)
    return Lines(numbers[first], qid, starts, column[~of_query], pairs[~of_query, 1])


def _count_pairs(text: bytes) -> np.ndarray:
    """How many ``column:value`` each row has; every row must be a number and such pairs, without blanks in them."""
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
    at_end = (colons == 0) | (colons == letters.size - 1)
    if at_end.any() or is_blank[colons - 1].any() or is_blank[colons + 1].any():
        raise BadLine("a column or its value is missing", None)
    rows = np.cumsum(is_first) - 1
    return np.bincount(rows, minlength=int(is_first.sum())) - 1


def _numbers(text: bytes, n_expected: int) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)  # so numpy tells of what is no number
        try:
            numbers = np.fromstring(text, np.float64, sep=" ") if n_expected else np.empty(0)
        except (DeprecationWarning, ValueError):
            raise BadLine("a value is no number", None) from None
    if numbers.size != n_expected:
        raise BadLine("a value is no number", None)
    return numbers


def _line_of(text: bytes, at: int) -> int:
    return text.count(b"\n", 0, at + 1)
