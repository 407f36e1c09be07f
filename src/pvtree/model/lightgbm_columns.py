"""Columns in LightGBM's text model: their names, and which of them its lists of category labels belong to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

CONSTANT = "none"  # what feature_infos has of a column with one value

Fits = Callable[[int, int], bool]  # whether a table of so many labels may be that of a feature


def columns_of_tables(sizes: Sequence[int], codes: Mapping[int, np.ndarray], infos: Sequence[str]) -> list[int] | None:
    """The feature of each table of labels, by the tables' sizes; None if the file leaves it open.

    Tables stand in the order of the DataFrame's ``category`` columns. Most often these are the columns that have codes.
    But a column of one category has none, one of ordered categories is a number to LightGBM, and a column of numbers
    that was named in categorical_feature has codes and no table.
    """

    def fits(size: int, feature: int) -> bool:
        if feature in codes:
            return not len(codes[feature]) or int(codes[feature][-1]) < size
        return infos[feature] == CONSTANT or _is_within(infos[feature], size)

    coded = sorted(codes)
    if len(sizes) == len(coded) and all(fits(size, feature) for size, feature in zip(sizes, coded, strict=True)):
        return coded
    features = range(len(infos))
    first, last = _placed(sizes, features, fits), _placed(sizes[::-1], features[::-1], fits)
    # As far to the left as can be, and as far to the right: where these are the same, there is no other way.
    return first if first is not None and last is not None and first == last[::-1] else None


def _placed(sizes: Sequence[int], features: Sequence[int], fits: Fits) -> list[int] | None:
    """Each table at the first feature after the table before that it fits."""
    left = iter(features)
    places = [next((feature for feature in left if fits(size, feature)), None) for size in sizes]
    found = [place for place in places if place is not None]
    return found if len(found) == len(sizes) else None


def _is_within(info: str, size: int) -> bool:
    """Whether a range of numbers, such as [0:3], may be one of the codes of so many ordered categories."""
    try:
        low, high = (float(word) for word in info.strip("[]").split(":"))
    except ValueError:
        return False
    return low >= 0 and high < size
