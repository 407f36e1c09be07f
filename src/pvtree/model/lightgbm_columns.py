"""Which columns the lists of category labels in LightGBM's text model belong to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

CONSTANT = "none"  # the entry in feature_infos of a column with one value

Fits = Callable[[int, int], bool]  # (number of labels, feature) -> whether the table may belong to the feature


def columns_of_tables(sizes: Sequence[int], codes: Mapping[int, np.ndarray], infos: Sequence[str]) -> list[int] | None:
    """The feature of each table of labels, deduced from the tables' sizes; None if that is ambiguous.

    Tables are in the order of the DataFrame's ``category`` columns. Usually these are the columns that have codes. But
    a column with one category has no codes, ordered categories are numbers to LightGBM, and a column of numbers that
    categorical_feature names has codes but no table.
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
    # Place the tables as far left as possible, then as far right: if both agree, there is no other way.
    return first if first is not None and last is not None and first == last[::-1] else None


def _placed(sizes: Sequence[int], features: Sequence[int], fits: Fits) -> list[int] | None:
    """Place each table at the first feature that it fits, after the feature of the previous table."""
    left = iter(features)
    places = [next((feature for feature in left if fits(size, feature)), None) for size in sizes]
    found = [place for place in places if place is not None]
    return found if len(found) == len(sizes) else None


def _is_within(info: str, size: int) -> bool:
    """Whether a range of numbers, such as [0:3], may hold the codes of ``size`` ordered categories."""
    try:
        low, high = (float(word) for word in info.strip("[]").split(":"))
    except ValueError:
        return False
    return low >= 0 and high < size
