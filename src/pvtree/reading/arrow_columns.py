"""Columns of Arrow tables: which types can be trained on, and their values as numpy arrays, without pandas."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from pvtree.errors import InvalidDataError, InvalidParameterError, MissingDependencyError
from pvtree.reading.tables import Scalar

if TYPE_CHECKING:
    import pyarrow as pa

UNITS_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
SECONDS_PER_DAY = 86_400


def load_pyarrow(who_needs: str = "Parquet and CSV files need") -> ModuleType:
    try:
        import pyarrow
    except ImportError as error:
        raise MissingDependencyError(
            f"{who_needs} pyarrow ({error}); install it: pip install 'pvtree[parquet]'."
        ) from error
    return pyarrow


def reason_of(error: Exception) -> str:
    """The first line of another library's message, to be quoted: it may hold bytes of a hostile file."""
    text = str(getattr(error, "strerror", None) or error).split("\n")[0]
    return " ".join("".join(c if c.isprintable() else "?" for c in text).split()).rstrip(".")


def check_same(schema: pa.Schema, path: Path, first: pa.Schema, first_path: Path) -> None:
    theirs, ours = ({field.name: type_name(field.type) for field in each} for each in (schema, first))
    missing = [name for name in ours if name not in theirs]
    unknown = [name for name in theirs if name not in ours]
    differing = [name for name in ours if name in theirs and ours[name] != theirs[name]]
    what = ""
    if missing:
        what = f"lacks the column {missing[0]!r}"
    elif unknown:
        what = f"has the column {unknown[0]!r} too"
    elif differing:
        name = differing[0]
        what = f"holds {theirs[name]} values in the column {name!r} instead of {ours[name]}"
    elif schema.names != first.names:
        what = "has the columns in another order"
    if what:
        raise InvalidDataError(f"{path} {what}, unlike {first_path}; write all files with the same columns and types.")


def check_named(name: str, names: Sequence[str], path: Path) -> None:
    """A column that the user has named must be there."""
    if name not in names:
        near = _same_letters(name, names) or difflib.get_close_matches(name, names, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(map(repr, names[:10]))}."
        raise InvalidParameterError(f"{path} has no column {name!r}; {hint}")


def _same_letters(name: str, names: Iterable[str]) -> list[str]:
    """The names that differ in blanks and capitals only."""
    letters = "".join(name.split()).lower()
    return [each for each in names if "".join(each.split()).lower() == letters]


def check_unique(wanted: Iterable[str], names: Sequence[str], path: Path | str) -> None:
    """Of two columns with one name, nobody can tell which is meant."""
    if len(set(names)) == len(names):
        return
    counts = Counter(names)
    for name in wanted:
        if counts[name] > 1:
            raise InvalidDataError(f"{path} has several columns named {name!r}; give each its own name.")


def check_present(features: Sequence[str], names: Sequence[str], path: Path) -> None:
    """The columns that a model was trained on must be there, others may be."""
    there = set(names)
    missing = [name for name in features if name not in there]
    if missing:
        shown = ", ".join(map(repr, missing[:5])) + (f" and {len(missing) - 5} more" if len(missing) > 5 else "")
        near = next(((found[0], name) for name in missing if (found := _same_letters(name, names))), None)
        remedy = "add what is missing." if near is None else f"did you mean {near[0]!r}? Rename it to {near[1]!r}."
        raise InvalidDataError(f"{path} lacks {shown}, which the model was trained on; {remedy}")


def check_kind(name: str, kind: pa.DataType, categories: Sequence[Scalar] | None, path: Path | str) -> None:
    """Text where numbers were trained on, or the reverse, would be taken for missing values."""
    are_texts = categories is not None and any(isinstance(value, str) for value in categories)
    if categories is None and is_text(kind.value_type if load_pyarrow().types.is_dictionary(kind) else kind):
        raise InvalidDataError(
            f"The column {name!r} of {path} holds text, but the model knows it as numbers; make it numbers."
        )
    if are_texts and not (is_category(kind) or load_pyarrow().types.is_null(kind)):
        raise InvalidDataError(
            f"The column {name!r} of {path} holds {kind} values, but the model knows it as text; make it text."
        )


def type_name(kind: pa.DataType) -> str:
    """What must be the same in all files: not how many bytes the codes of a dictionary take."""
    types = load_pyarrow().types
    if types.is_dictionary(kind):
        return f"categories of {type_name(kind.value_type)}"
    return "string" if is_text(kind) else str(kind)


def is_text(kind: pa.DataType) -> bool:
    types = load_pyarrow().types
    return types.is_string(kind) or types.is_large_string(kind) or str(kind) == "string_view"


def is_category(kind: pa.DataType) -> bool:
    return is_text(kind) or load_pyarrow().types.is_dictionary(kind)


def pandas_marks(schema: pa.Schema) -> tuple[set[str], set[str]]:
    """Columns that a DataFrame had as categories, and as its index: pandas writes that beside the schema."""
    try:
        metadata = schema.pandas_metadata or {}
        marked = {column["field_name"] for column in metadata["columns"] if column["pandas_type"] == "categorical"}
        return marked, {name for name in metadata["index_columns"] if isinstance(name, str)}
    except (KeyError, TypeError, ValueError):  # written by others, or long ago
        return set(), set()


def fits_float32(kind: pa.DataType) -> bool:
    types = load_pyarrow().types
    is_short = types.is_integer(kind) and kind.bit_width <= 16
    return is_short or str(kind) in ("float", "halffloat", "bool", "null")


def is_wide_integer(kind: pa.DataType) -> bool:
    return bool(load_pyarrow().types.is_integer(kind)) and kind.bit_width == 64


def integers(column: pa.ChunkedArray) -> np.ndarray:
    """Those of a column of integers, as they are; 0 for missing ones."""
    return np.asarray(column.fill_null(0).to_numpy())


def check_type(name: str, kind: pa.DataType, path: Path | str) -> None:
    types = load_pyarrow().types
    is_number = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind) or types.is_boolean(kind)
    is_time = types.is_date(kind) or types.is_timestamp(kind)
    if not (is_number or is_time or is_category(kind) or types.is_null(kind)):
        raise InvalidDataError(
            f"The column {name!r} of {path} holds {kind} values, which are neither numbers nor text; "
            "convert it or leave it out."
        )


def as_numbers(column: pa.ChunkedArray) -> np.ndarray:
    """Floats with NaN for nulls. Dates and timestamps are seconds since 1970, whichever of them a file has."""
    arrow = load_pyarrow()
    kind, divisor = column.type, 1
    if arrow.types.is_dictionary(kind):
        return as_numbers(column.cast(kind.value_type))
    if arrow.types.is_null(kind):
        return np.full(len(column), np.nan, np.float32)
    if arrow.types.is_timestamp(kind):
        column, divisor = column.cast(arrow.int64()), UNITS_PER_SECOND[kind.unit]
    elif arrow.types.is_date64(kind):
        column, divisor = column.cast(arrow.int64()), UNITS_PER_SECOND["ms"]
    elif arrow.types.is_date32(kind):
        return as_numbers(column.cast(arrow.int32())) * SECONDS_PER_DAY
    if not arrow.types.is_floating(kind):
        column = column.cast(arrow.float32() if fits_float32(kind) else arrow.float64(), safe=False)
    values: np.ndarray = column.to_numpy(zero_copy_only=False)
    return values if divisor == 1 else values / divisor


def encoded(column: pa.ChunkedArray, name: str) -> Iterator[tuple[list[Any], np.ndarray]]:
    """Chunk by chunk: its values, and for every row the place of its own among them, -1 for missing."""
    arrow = load_pyarrow()
    for chunk in column.chunks:
        coded = chunk if arrow.types.is_dictionary(chunk.type) else chunk.dictionary_encode()
        codes = coded.indices.cast(arrow.int64()).fill_null(-1)
        try:
            values = coded.dictionary.to_pylist()
        except UnicodeDecodeError as error:  # Arrow does not look at what it is told is text
            raise InvalidDataError(f"The column {name!r} holds text that is not UTF-8; write it as UTF-8.") from error
        numbers = codes.to_numpy(zero_copy_only=False)
        if len(numbers) and not -1 <= numbers.min() <= numbers.max() < len(values):  # nor at codes of damaged files
            raise InvalidDataError(f"The column {name!r} has a value outside its dictionary; write the file again.")
        yield values, numbers


def count_categories(column: pa.ChunkedArray, name: str) -> Counter[Scalar]:
    """How often each value occurs; missing ones are not counted."""
    counts: Counter[Scalar] = Counter()
    for values, codes in encoded(column, name):
        numbers = np.bincount(codes[codes >= 0], minlength=len(values)).tolist()
        for value, n in zip(values, numbers, strict=True):
            if n and value is not None and value == value:
                counts[checked_category(value, name)] += n
    return counts


def bins_of(column: pa.ChunkedArray, bin_of: Mapping[Scalar, int], name: str) -> np.ndarray:
    """Every row's bin, 0 for missing and unknown values."""
    parts = [
        np.array([bin_of.get(value, 0) for value in values] + [0], np.float32)[codes]  # the last entry answers -1
        for values, codes in encoded(column, name)
    ]
    return np.concatenate(parts) if parts else np.empty(0, np.float32)


def as_array(column: pa.ChunkedArray, name: str) -> np.ndarray:
    """Labels, weights and query ids. Equal texts are one object, so that a row takes 8 bytes."""
    arrow = load_pyarrow()
    if is_category(column.type):
        parts = [np.array([*values, None], object)[codes] for values, codes in encoded(column, name)]
        return np.concatenate(parts) if parts else np.empty(0, object)
    if arrow.types.is_decimal(column.type):
        return as_numbers(column)
    return column.to_numpy(zero_copy_only=False)


def checked_category(value: Any, name: str) -> Scalar:
    """Categories travel in model files, so they are of the kinds that JSON knows."""
    if type(value) not in (str, bool, int, float):
        raise InvalidDataError(
            f"The categories of column {name!r} are {type(value).__name__}; convert them to strings or numbers."
        )
    return value  # type: ignore[no-any-return]
