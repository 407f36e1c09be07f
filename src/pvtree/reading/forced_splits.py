"""LightGBM's file of forced splits: nested objects with a feature, a threshold, and splits of the two sides."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from pvtree.errors import InvalidParameterError
from pvtree.parameters.params import ForcedSplit
from pvtree.parameters.paths import checked_path, shown_path
from pvtree.reading.column_values import column_index

if TYPE_CHECKING:
    from pvtree.reading.tables import Columns

_NAME = "forcedsplits_filename"
_MOST_DEPTH = 64


def read_forced_splits(path: Any, columns: Columns) -> tuple[ForcedSplit, ...]:
    """The root's split, or nothing."""
    if path is None:
        return ()
    shown = shown_path(path)
    try:
        with open(checked_path(path), encoding="utf-8") as file:
            document = json.load(file)
    except OSError as error:
        raise InvalidParameterError(
            f"{_NAME} is {shown}, which cannot be read: {error.strerror}; give the path of a JSON file."
        ) from error
    except (ValueError, RecursionError):
        raise InvalidParameterError(f"{_NAME} is {shown}, which is not JSON; correct the file.") from None
    return () if document in ({}, None) else (_split(document, columns, shown, 0),)


def _split(given: Any, columns: Columns, shown: str, depth: int) -> ForcedSplit:
    is_split = isinstance(given, dict) and {"feature", "threshold"} <= given.keys() and depth < _MOST_DEPTH
    if not is_split or given.keys() - {"feature", "threshold", "left", "right"}:
        raise InvalidParameterError(
            f'{_NAME} is {shown}, which is not an object such as {{"feature": 0, "threshold": 0.5, "left": ...}}; '
            "correct the file."
        )
    feature, threshold = given["feature"], given["threshold"]
    if isinstance(feature, bool) or not isinstance(feature, int | str):
        raise InvalidParameterError(
            f"{_NAME} is {shown}, where a feature is {feature!r}; give the number or name of a column."
        )
    if isinstance(threshold, bool) or not isinstance(threshold, int | float) or not np.isfinite(threshold):
        raise InvalidParameterError(f"{_NAME} is {shown}, where a threshold is {threshold!r}; give a finite number.")
    column = column_index(feature, columns, _NAME)
    if column in columns.categories and column not in columns.ordered:
        raise InvalidParameterError(
            f"{_NAME} is {shown}, where feature {feature!r} has categories; give columns of numbers."
        )
    sides = [given.get(side) for side in ("left", "right")]
    below = [None if side in (None, {}) else _split(side, columns, shown, depth + 1) for side in sides]
    return ForcedSplit(column, float(threshold), *below)


def listed_splits(splits: tuple[ForcedSplit | None, ...]) -> Iterator[ForcedSplit]:
    """All of them."""
    for split in splits:
        if split is not None:
            yield split
            yield from listed_splits((split.left, split.right))
