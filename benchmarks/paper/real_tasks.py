"""Ranking and click data sets found in a folder: libsvm and LETOR files (also gzipped, with LightGBM's .query files
beside them) and CSV files with a header.

Files with "train" or "tr" in their name and files of the same beginning with "test", "vali" or "va" are one data set;
the other files of a folder are parts of one data set, of which the last is kept for testing.
"""

from __future__ import annotations

import csv
import gzip
import re
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import numpy as np

from made_tasks import Rows

LIBSVM_LINE = re.compile(r"\s*[-+.\deE]+( qid:\d+)?( +\d+:[-+.\deE]+)+ *(#.*)?\s*")
TRAIN_WORDS, TEST_WORDS = {"train", "tr", "training"}, {"test", "te", "vali", "va", "valid", "validation"}
LABEL_NAMES, QUERY_NAMES = ("label", "click", "clicked", "relevance", "target", "y"), ("qid", "query", "query_id")
LEAST_ROWS = 20  # of a sparse column that is not zero, for the column to be kept
MOST_LABELS = 10


@dataclass(frozen=True)
class RealTask:
    """A data set found in a folder."""

    name: str
    kind: str  # "ranking" | "binary"
    train: Rows
    test: Rows


def find(folder: Path) -> Iterator[RealTask]:
    """Every ranking or click data set below the folder."""
    for place in sorted({path.parent for path in folder.rglob("*") if path.is_file()}):
        for name, train, test in grouped(place):
            task = read_task(f"{place.name}{f'/{name}' if name else ''}", train, test)
            if task is not None:
                yield task


def grouped(place: Path) -> Iterator[tuple[str, list[Path], list[Path]]]:
    """The data sets of one folder: name, files to train on, files to test on."""
    by_beginning: dict[str, tuple[list[Path], list[Path]]] = {}
    parts = []
    for path in sorted(path for path in place.iterdir() if path.is_file() and is_table(path)):
        words = re.split(r"[._-]", path.name.lower())
        role = next((i for i, word in enumerate(words) if word in TRAIN_WORDS | TEST_WORDS), None)
        if role is None:
            parts.append(path)
        else:
            by_beginning.setdefault("-".join(words[:role]), ([], []))[words[role] in TEST_WORDS].append(path)
    for name, (train, test) in by_beginning.items():
        if train and test:
            yield name, train, test
        else:
            parts += train + test
    if parts:
        parts.sort()
        yield "", parts[:-1] or parts, parts[-1:] if len(parts) > 1 else []


def is_table(path: Path) -> bool:
    """Whether the first line is a libsvm row, or a CSV header with a label."""
    try:
        line = first_line(path)
    except (OSError, UnicodeDecodeError, EOFError):
        return False
    return LIBSVM_LINE.fullmatch(line) is not None or column_of(LABEL_NAMES, header_of(line)) is not None


def first_line(path: Path) -> str:
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        return file.readline(1 << 20)


def header_of(line: str) -> list[str]:
    return [name.strip().lower() for name in next(csv.reader([line]), [])]


def column_of(names: tuple[str, ...], header: list[str]) -> int | None:
    return next((header.index(name) for name in names if name in header), None) if len(header) > 1 else None


def read_task(name: str, train: list[Path], test: list[Path]) -> RealTask | None:
    """None if the labels are neither grades of queries nor binary."""
    tables = [read_table(path) for path in train + test]
    width = max(X.shape[1] for X, _, _ in tables)
    y = np.concatenate([labels for _, labels, _ in tables])
    has_queries = all(group is not None for _, _, group in tables)
    classes = np.unique(y)
    if len(classes) < 2 or len(classes) > (MOST_LABELS if has_queries else 2):
        return None
    if not has_queries:
        y = (y == classes[1]).astype(np.float32)
    X, kept = joined([X for X, _, _ in tables], width)
    group = np.concatenate([group for _, _, group in tables if group is not None]) if has_queries else None
    n_train = sum(len(labels) for _, labels, _ in tables[: len(train)])
    if not test:  # the last fifth
        n_train = cut_at(group, len(y) * 4 // 5)
    first, last = cut_rows(X[:, kept], y, group, n_train)
    return RealTask(name, "ranking" if has_queries else "binary", first, last)


def cut_at(group: np.ndarray | None, n_rows: int) -> int:
    """The end of a query, near ``n_rows``."""
    return n_rows if group is None else int(np.cumsum(group)[np.searchsorted(np.cumsum(group), n_rows)])


def cut_rows(X: np.ndarray, y: np.ndarray, group: np.ndarray | None, n_train: int) -> tuple[Rows, Rows]:
    n_queries = 0 if group is None else int(np.searchsorted(np.cumsum(group), n_train)) + 1
    groups = (None, None) if group is None else (group[:n_queries], group[n_queries:])
    return Rows(X[:n_train], y[:n_train], groups[0]), Rows(X[n_train:], y[n_train:], groups[1])


def joined(tables: list, width: int) -> tuple[np.ndarray, np.ndarray]:
    """All rows as one dense matrix of the columns that are frequent enough, and the indices of these columns."""
    import scipy.sparse

    if not any(scipy.sparse.issparse(X) for X in tables):
        X = np.concatenate(tables).astype(np.float32)
        return X, np.arange(X.shape[1])
    for X in tables:
        X.resize((X.shape[0], width))
    stacked = scipy.sparse.vstack(tables).tocsc()
    often = np.flatnonzero(np.diff(stacked.indptr) >= LEAST_ROWS)
    return stacked[:, often].toarray().astype(np.float32), np.arange(len(often))


def read_table(path: Path) -> tuple:
    """Attributes (sparse for libsvm), labels, and the sizes of queries or None."""
    if LIBSVM_LINE.fullmatch(first_line(path)):
        X, y, qid = read_libsvm(path)
        return X, y.astype(np.float32), sizes_beside(path) if len(qid) == 0 else run_lengths(qid)
    header = header_of(first_line(path))
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        values = np.genfromtxt(file, delimiter=",", skip_header=1, dtype=np.float64, ndmin=2)
    label, query = column_of(LABEL_NAMES, header), column_of(QUERY_NAMES, header)
    rest = [i for i in range(len(header)) if i not in (label, query)]
    sizes = None if query is None else run_lengths(values[:, query])
    return values[:, rest], values[:, label].astype(np.float32), sizes


def read_libsvm(path: Path) -> tuple:
    """scikit-learn requires ascending indices, which some files do not have."""
    from sklearn.datasets import load_svmlight_file

    with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
        try:
            return load_svmlight_file(file, query_id=True, zero_based=False)
        except ValueError:
            file.seek(0)
            return load_svmlight_file(BytesIO(b"".join(map(in_order, file))), query_id=True, zero_based=False)


def in_order(line: bytes) -> bytes:
    """The same line with its attributes in ascending order, the first of each."""
    words = line.split(b"#")[0].split()
    head = [word for word in words[:2] if b":" not in word or word.startswith(b"qid:")]
    values: dict[int, bytes] = {}
    for word in words[len(head) :]:
        values.setdefault(int(word.split(b":")[0]), word)
    return b" ".join([*head, *(values[index] for index in sorted(values))]) + b"\n"


def sizes_beside(path: Path) -> np.ndarray | None:
    """Query sizes as in LightGBM: a file NAME.query with one size per line."""
    beside = path.with_name(f"{path.name.removesuffix('.gz')}.query")
    return np.loadtxt(beside, np.int64, ndmin=1) if beside.exists() else None


def run_lengths(qid: np.ndarray) -> np.ndarray:
    """Sizes of the queries, whose rows are contiguous."""
    begins = np.flatnonzero(np.concatenate(([True], qid[1:] != qid[:-1])))
    return np.diff(np.append(begins, len(qid)))
