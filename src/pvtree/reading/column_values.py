"""Parameters that have a value for each column: from what users write to one value per column of X."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from pvtree.errors import InvalidParameterError
from pvtree.parameters.paths import checked_path, shown_path

if TYPE_CHECKING:
    from pvtree.reading.tables import Columns


def column_index(column: Any, columns: Columns, parameter: str) -> int:
    """The number of a column that is given by name or number."""
    if isinstance(column, str):
        names: Iterable[str] = columns.names or ()
        if column not in names:
            raise InvalidParameterError(
                f"{parameter} names {column!r}, which is no column of X; use the names of X's columns, or their "
                f"indices from 0 to {columns.n_features - 1}."
            )
        return list(names).index(column)
    if not 0 <= column < columns.n_features:
        raise InvalidParameterError(
            f"{parameter} must hold column indices from 0 to {columns.n_features - 1}, got {column}."
        )
    return int(column)


def read_by_column(parameter: str, given: Any, columns: Columns, default: float) -> tuple[Any, ...]:
    """A number for each column; nothing where all columns have the default."""
    if given is None:
        return ()
    values = [default] * columns.n_features
    if isinstance(given, Mapping):
        for column, value in given.items():
            values[column_index(column, columns, parameter)] = value
    elif len(given) == columns.n_features:
        values = list(given)
    else:
        raise InvalidParameterError(
            f"{parameter} has {len(given)} values, but X has {columns.n_features} columns; give one for each column, "
            "or a dict by column."
        )
    kind = type(default)
    return tuple(map(kind, values)) if any(value != default for value in values) else ()


def read_json(path: Any, parameter: str, form: str) -> Any:
    """What a JSON file holds that a parameter names; ``form`` says what it should be."""
    try:
        with open(checked_path(path), encoding="utf-8") as file:
            return json.load(file)
    except OSError as error:
        raise InvalidParameterError(
            f"{parameter} is {shown_path(path)}, which cannot be read: {error.strerror}; give the path of a JSON file."
        ) from error
    except (ValueError, RecursionError):
        raise malformed(path, parameter, form) from None


def malformed(path: Any, parameter: str, form: str) -> InvalidParameterError:
    """The error about a file that is not what it should be."""
    return InvalidParameterError(f"{parameter} is {shown_path(path)}, which is not {form}; correct the file.")


_BINS = 'a list of objects such as {"feature": 0, "bin_upper_bound": [0.5]}'


def read_forced_bins(path: Any, columns: Columns) -> tuple[tuple[int, tuple[float, ...]], ...]:
    """(column, rising ends of bins) of LightGBM's file of forced bins."""
    if path is None:
        return ()
    listed = read_json(path, "forcedbins_filename", _BINS)
    try:
        found = {each["feature"]: np.unique(np.array(each["bin_upper_bound"], np.float64)) for each in listed}
    except (ValueError, TypeError, KeyError):
        raise malformed(path, "forcedbins_filename", _BINS) from None
    for column in found:
        check_column(column, path, "forcedbins_filename")
    by_index = {column_index(column, columns, "forcedbins_filename"): ends for column, ends in found.items()}
    return tuple((column, tuple(ends[np.isfinite(ends)].tolist())) for column, ends in sorted(by_index.items()))


def check_column(column: Any, path: Any, parameter: str) -> None:
    """Raise unless a file names a column by its number or name."""
    if isinstance(column, bool) or not isinstance(column, int | str):
        raise InvalidParameterError(
            f"{parameter} is {shown_path(path)}, where a feature is {column!r}; give the number or name of a column."
        )
