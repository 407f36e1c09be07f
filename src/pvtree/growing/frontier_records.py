"""What a frontier and the strategies hand to each other: elected features, merged histograms, splits on the wire."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

_NOTHING = np.empty(0, np.int64)


class Elected(NamedTuple):
    """The features to merge at each node of a frontier, in rising order, row after row."""

    start: np.ndarray  # int64 (n_nodes + 1,)
    feature: np.ndarray  # int64
    votes: np.ndarray = _NOTHING  # int64, like feature; empty where nobody voted

    @classmethod
    def of(cls, chosen: np.ndarray) -> Elected:
        """From flags (n_nodes, n_features)."""
        row, feature = np.nonzero(chosen)
        # Contiguous, as other strategies have it: numba would compile everything anew for columns of an array.
        return cls(np.searchsorted(row, np.arange(len(chosen) + 1)), np.ascontiguousarray(feature))

    @property
    def row(self) -> np.ndarray:
        """int64, like feature."""
        return np.repeat(np.arange(len(self.start) - 1), np.diff(self.start))


class Items(NamedTuple):
    """Merged histograms of a frontier, by row and rising feature; the same list on every worker."""

    start: np.ndarray  # int64 (n_nodes + 1,)
    feature: np.ndarray
    parent: np.ndarray  # the parent's item from which it is derived, messages.TRAVELS if it travels
    sibling: np.ndarray  # the sibling's item to subtract
    place: np.ndarray  # where the owner keeps it in its arena, -1 on other workers
    is_wide: np.ndarray  # by row: whether its items have one sum per field, or packed words
    arena: np.ndarray  # int64


def split_dtype(n_fields: int, has_categories: bool) -> np.dtype:
    """A split on the wire: no gaps, and no set of categories where no column has any."""
    fields = [
        ("gain", np.float64), ("feature", np.int32), ("split_bin", np.uint8), ("default_left", np.uint8),
        ("left_sums", np.int64, (n_fields,)),
    ]  # fmt: skip
    return np.dtype([*fields, ("left_set", np.uint64, (4,))] if has_categories else fields)
