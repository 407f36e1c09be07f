"""What decides about an ordered column's bins: how many there may be, how many rows each needs, ends that are given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from pvtree.kernels.binning.dense import choose_filled_bins, choose_thresholds
from pvtree.kernels.binning.sparse import choose_around_zero
from pvtree.kernels.constants import N_BINS
from pvtree.reading.zeros import NEARLY_ZERO

if TYPE_CHECKING:
    from pvtree.parameters.params import Params


@dataclass(frozen=True)
class BinRules:
    """The rules of all columns, and of those that have their own."""

    max_bin: int
    min_rows: int = 1
    own_max_bin: tuple[int, ...] = ()  # by column; () = max_bin for all
    forced: Mapping[int, tuple[float, ...]] = field(default_factory=dict)  # by column: ends of bins
    zero_as_missing: bool = False

    @classmethod
    def of(cls, params: Params) -> BinRules:
        forced, zeros = dict(params.forced_bins), params.zero_as_missing
        return cls(params.max_bin, params.min_data_in_bin, params.max_bin_by_feature, forced, zeros)

    def choose(self, feature: int, known: np.ndarray, n_missing: int, upper: np.ndarray) -> int:
        """Write the ends of a column's bins, but the last, to ``upper``; returns the number of bins.

        ``known`` is the sorted sample of its values that are not missing.
        """
        most, forced = self._most(feature), self._forced(feature)
        if self.zero_as_missing:
            is_zero = np.abs(known) <= NEARLY_ZERO
            known, n_missing = known[~is_zero], n_missing + int(is_zero.sum())
        if not len(forced):
            return self._choose(known, n_missing, most, upper)
        # Given ends first; the usual choice gets what is left of the bins.
        usual = np.full(N_BINS, np.inf)
        n_usual = self._choose(known, n_missing, most - len(forced), usual) - 1 if most - len(forced) > 1 else 0
        ends = np.union1d(forced, usual[:n_usual])
        upper[: len(ends)] = ends
        return 1 + len(ends)

    def choose_sparse(self, feature: int, known: np.ndarray, n_missing: int, n_zeros: int, upper: np.ndarray) -> int:
        """The same of ``known`` stored values, and zeros that are not stored."""
        if self.zero_as_missing:
            return self.choose(feature, known, n_missing + n_zeros, upper)
        if self.min_rows > 1 or n_zeros == 0 or len(self._forced(feature)):
            # How often each value occurs matters, or no zero does.
            whole = np.insert(known, np.searchsorted(known, 0.0), np.zeros(n_zeros))
            return self.choose(feature, whole, n_missing, upper)
        return 1 + int(choose_around_zero(known, n_zeros, self._most(feature), upper))

    def _choose(self, known: np.ndarray, n_missing: int, most: int, upper: np.ndarray) -> int:
        n_bins, n_below = self._choose_evenly(known, most, upper), int(np.searchsorted(known, 0.0))
        if n_missing == 0 or n_below in (0, len(known)) or known[n_below] == 0.0 or most < 2:
            return n_bins
        # No zero is known and some values are missing: these may be the small ones, and then a bin of values on both
        # sides of the gap would mix what is far apart. LightGBM ends a bin at 0 in every column.
        low, high = known[n_below - 1], known[n_below]
        if _ends_within(upper[: n_bins - 1], low, high):
            return n_bins
        upper[: n_bins - 1] = np.inf
        ends = upper[: self._choose_evenly(known, most - 1, upper) - 1]
        if not _ends_within(ends, low, high):
            at = int(np.searchsorted(ends, 0.0))
            cuts = [0, *np.searchsorted(known, ends, side="right"), len(known)]
            if min(n_below - cuts[at], cuts[at + 1] - n_below) >= self.min_rows:
                ends = np.insert(ends, at, 0.0)
        upper[: len(ends)] = ends
        return 1 + len(ends)

    def _choose_evenly(self, known: np.ndarray, most: int, upper: np.ndarray) -> int:
        if self.min_rows > 1:
            return 1 + int(choose_filled_bins(known, most, self.min_rows, upper))
        return 1 + int(choose_thresholds(known, most, upper))

    def _most(self, feature: int) -> int:
        return self.own_max_bin[feature] if self.own_max_bin else self.max_bin

    def _forced(self, feature: int) -> np.ndarray:
        return np.unique(self.forced.get(feature, ()))[: self._most(feature) - 1]


def _ends_within(ends: np.ndarray, low: float, high: float) -> bool:
    """Whether a bin ends between two neighbouring values."""
    return bool(np.any((ends >= low) & (ends < high)))
