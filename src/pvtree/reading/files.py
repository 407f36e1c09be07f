"""Files in: Parquet, CSV and libsvm files as rows to train on, to evaluate or to predict for."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pvtree.errors import InvalidDataError, InvalidParameterError, InvalidTypeError, public
from pvtree.parameters.paths import shown_path
from pvtree.reading.arrow_columns import is_text, load_pyarrow
from pvtree.reading.csv_tables import SUFFIXES as CSV_SUFFIXES
from pvtree.reading.csv_tables import CsvForm, Wanted, read_csv
from pvtree.reading.libsvm import SUFFIXES as LIBSVM_SUFFIXES
from pvtree.reading.libsvm import read_libsvm, read_parts
from pvtree.reading.parquet import ParquetTable
from pvtree.reading.tables import Columns, Scalar

FORMATS = {"parquet": (".parquet", ".pq"), "csv": CSV_SUFFIXES, "libsvm": LIBSVM_SUFFIXES}
PACKED = (".gz", ".bz2", ".zst")
BLOCK_BYTES = 16 * 2**20  # of numbers that are predicted for at a time


@dataclass(frozen=True)
class FileRows:
    """What fit takes: ``fit(rows.X, rows.y, rows.weight)``, of a ranker also ``qid=rows.qid``."""

    X: Any  # a table that is read in a stream, or the matrix of a libsvm file
    y: np.ndarray | None = None
    weight: np.ndarray | None = None
    qid: np.ndarray | None = None

    def __len__(self) -> int:
        return int(self.X.shape[0])


@dataclass(frozen=True)
class Place:
    """Which file or folder, and how to read it."""

    path: Path
    format: str
    paths: tuple[Path, ...]  # of CSV, which may be a folder of files
    form: CsvForm

    @classmethod
    def of(cls, path: str | os.PathLike[str], format: str | None = None, form: CsvForm | None = None) -> Place:
        place = Path(path)
        if format is not None and format not in FORMATS:
            raise InvalidParameterError(f"format must be one of {', '.join(FORMATS)}, got {format!r}.")
        if not place.exists():
            raise InvalidDataError(
                f"There is no file or folder {shown_path(place)}; give a Parquet, CSV or libsvm file."
            )
        found = format or (_format_of_folder(place) if place.is_dir() else format_of(place))
        if found == "libsvm" and place.is_dir():
            raise InvalidDataError(f"{place} is a folder; libsvm is read from one file, give its name.")
        paths = _files_in(place, CSV_SUFFIXES) if found == "csv" and place.is_dir() else [place]
        if not paths:
            raise InvalidDataError(f"The folder {place} holds no CSV files; give one that does.")
        return cls(place, found, tuple(paths), form or CsvForm())


@public
def read_file(
    path: str | os.PathLike[str],
    label: str | int | None = None,
    weight: str | int | None = None,
    qid: str | int | None = None,
    *,
    format: str | None = None,
    header: bool = True,
    delimiter: str | None = None,
    like: Any = None,
    rank: int = 0,
    size: int = 1,
) -> FileRows:
    """Rows of a Parquet or CSV file, of a folder of such files, or of a libsvm or LETOR file.

    ``label``, ``weight`` and ``qid`` name columns, all others are features; in CSV without a ``header`` columns are
    known by their numbers from 0. libsvm files have the label, and perhaps qid, in their rows. The ``format`` is told
    by the file's suffix, else "parquet", "csv" or "libsvm". ``like`` is a Model, a fitted estimator, or rows read
    before: the same columns are picked, in the same types. Of ``size`` ranks each reads its own share of the rows.
    Parquet and CSV files are never in memory as a whole; see docs/data.md.
    """
    place = Place.of(path, format, CsvForm(header, delimiter))
    label, weight, qid = (None if name is None else str(name) for name in (label, weight, qid))
    return read_rows(place, label, weight, qid, _expected(like), rank, size)


@dataclass(frozen=True)
class Expected:
    """What the columns must be; None where that is for the file to say."""

    names: tuple[str, ...] | None = None
    n_features: int | None = None
    types: dict[str, Any] | None = None  # Arrow's, by column
    label_type: Any = None


def read_rows(
    place: Place,
    label: str | None = None,
    weight: str | None = None,
    qid: str | None = None,
    expected: Expected | None = None,
    rank: int = 0,
    size: int = 1,
) -> FileRows:
    expected = expected or Expected()
    if place.format == "libsvm":
        _check_no_columns(place, label, weight, qid)
        found = read_libsvm(place.path, expected.n_features, rank, size)
        return FileRows(found.X, found.y, None, found.qid)
    if place.format == "parquet":
        table = ParquetTable(place.path, label, weight, qid, rank, size, features=expected.names)
    else:
        types = dict(expected.types or {})
        if label is not None and expected.label_type is not None:
            types[label] = expected.label_type
        wanted = Wanted(expected.names, types)
        table = read_csv(place.path, place.paths, place.form, wanted, label, weight, qid, rank, size)
    return FileRows(table, table.y, table.weight, table.qid)


def blocks(X: Any, columns: Columns) -> Iterator[np.ndarray]:
    """The rows of what ``read_rows`` gave, as matrices that a model predicts for, a few megabytes at a time."""
    n_rows = max(1, BLOCK_BYTES // 8 // columns.n_features)
    if isinstance(X, ParquetTable):
        yield from X.encode(columns).small_blocks(n_rows)
        return
    from pvtree.reading.inputs import read_like

    for start in range(0, X.shape[0], n_rows):
        part = X[start : start + n_rows]
        yield read_like(part.toarray() if hasattr(part, "toarray") else part, columns, "The model")


def stream(place: Place, columns: Columns, classes: Sequence[Scalar] | None) -> Iterator[np.ndarray]:
    """The rows of a file as matrices that the model predicts for; only a few megabytes are in memory at a time."""
    from pvtree.reading.inputs import check_columns

    if place.format == "libsvm":
        for rows in read_parts(place.path, columns.n_features):
            yield from blocks(rows.X, columns)
        return
    table = read_rows(place, expected=expected_by(columns, classes)).X
    check_columns(table, columns, "the model")
    yield from blocks(table, columns)


def expected_by(columns: Columns, classes: Sequence[Scalar] | None) -> Expected:
    """What a model was trained on. Categories have their type; numbers may be written as any type of numbers."""
    types = {}
    for j, categories in columns.categories.items():
        if columns.names is not None:
            types[columns.names[j]] = _arrow_type(categories)
    label_type = None if classes is None else _arrow_type(classes)
    return Expected(columns.names, columns.n_features, types, label_type)


def format_of(path: Path) -> str:
    """By the suffix of a file's name."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in PACKED:
        suffixes.pop()
    for format, known in FORMATS.items():
        if suffixes and suffixes[-1] in known:
            return format
    listed = ", ".join(suffix for known in FORMATS.values() for suffix in known)
    raise InvalidDataError(
        f"The suffix of {path} does not tell its format; name it with one of {listed}, or give the format: parquet, "
        "csv or libsvm."
    )


def _format_of_folder(folder: Path) -> str:
    return "csv" if not _files_in(folder, FORMATS["parquet"]) and _files_in(folder, CSV_SUFFIXES) else "parquet"


def _files_in(folder: Path, suffixes: tuple[str, ...]) -> list[Path]:
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        raise InvalidDataError(f"The folder {folder} cannot be read ({error.strerror}); give one that can.") from error
    there = [folder / name for name in names if not name.startswith((".", "_"))]
    return [path for path in there if set(path.suffixes[-2:]) & set(suffixes) and path.is_file()]


def _check_no_columns(place: Place, label: str | None, weight: str | None, qid: str | None) -> None:
    for what, name in (("label", label), ("weight", weight), ("qid", qid)):
        if name is not None:
            raise InvalidParameterError(
                f"{place.path} is a libsvm file, whose rows hold label and qid themselves, without names; leave "
                f"{what}={name!r} out."
            )


def _expected(like: Any) -> Expected:
    if like is None:
        return Expected()
    if isinstance(like, FileRows):
        return expected_as(like)
    model = getattr(like, "model_", like)
    columns = getattr(model, "columns", None)
    if not isinstance(columns, Columns):
        raise InvalidTypeError(
            f"like must be a Model, a fitted estimator or what read_file has returned, got {type(like).__name__}."
        )
    return expected_by(columns, model.classes)


def expected_as(rows: FileRows) -> Expected:
    """The columns of another file: what is text there is text; numbers may be of any type."""
    if not isinstance(rows.X, ParquetTable):
        return Expected(n_features=int(rows.X.shape[1]))
    arrow, table, types = load_pyarrow(), rows.X, {}
    for name in table.columns:
        kind = table.schema.field(name).type
        kind = kind.value_type if arrow.types.is_dictionary(kind) else kind
        if is_text(kind):
            types[name] = kind
    has_texts = rows.y is not None and rows.y.dtype == object and any(isinstance(label, str) for label in rows.y[:1])
    return Expected(tuple(table.columns), len(table.columns), types, arrow.string() if has_texts else None)


def _arrow_type(values: Sequence[Any]) -> Any:
    """The type that holds these categories or classes."""
    arrow = load_pyarrow()
    kinds = {type(value) for value in values}
    if kinds == {bool}:
        return arrow.bool_()
    if kinds == {int}:
        return arrow.int64()
    return arrow.float64() if kinds <= {int, float} and kinds else arrow.string()
