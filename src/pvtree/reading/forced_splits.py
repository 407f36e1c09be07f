"""LightGBM's file of forced splits: nested objects with a feature, a threshold, and splits of the two sides."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pvtree.errors import InvalidParameterError
from pvtree.parameters.params import ForcedSplit
from pvtree.parameters.paths import shown_path
from pvtree.reading.column_values import check_column, column_index, malformed, read_json

if TYPE_CHECKING:
    from pvtree.reading.tables import Columns

_NAME = "forcedsplits_filename"
_FORM = 'an object such as {"feature": 0, "threshold": 0.5, "left": {...}}'
_MOST_DEPTH = 64


def read_forced_splits(path: Any, columns: Columns) -> tuple[ForcedSplit, ...]:
    """The root's split, or nothing."""
    if path is None:
        return ()
    document = read_json(path, _NAME, _FORM)
    return () if document in ({}, None) else (_split(document, columns, path, 0),)


def _split(given: Any, columns: Columns, path: Any, depth: int) -> ForcedSplit:
    is_split = isinstance(given, dict) and {"feature", "threshold"} <= given.keys() and depth < _MOST_DEPTH
    if not is_split or given.keys() - {"feature", "threshold", "left", "right"}:
        raise malformed(path, _NAME, _FORM)
    feature, threshold = given["feature"], given["threshold"]
    check_column(feature, path, _NAME)
    what = f"{_NAME} is {shown_path(path)}, where"
    if isinstance(threshold, bool) or not isinstance(threshold, int | float) or not abs(threshold) < 1e300:
        raise InvalidParameterError(f"{what} a threshold is {threshold!r}; give a finite number.")
    column = column_index(feature, columns, _NAME)
    if column in columns.categories and column not in columns.ordered:
        raise InvalidParameterError(f"{what} feature {feature!r} has categories; give columns of numbers.")
    sides = [given.get(side) for side in ("left", "right")]
    below = [None if side in (None, {}) else _split(side, columns, path, depth + 1) for side in sides]
    return ForcedSplit(column, float(threshold), *below)


def listed_splits(splits: tuple[ForcedSplit | None, ...]) -> Iterator[ForcedSplit]:
    """All of them."""
    for split in splits:
        if split is not None:
            yield split
            yield from listed_splits((split.left, split.right))
