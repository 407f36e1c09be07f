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

    def choose(self, feature: int, known: np.ndarray, upper: np.ndarray) -> int:
        """Write the ends of a column's bins, but the last, to ``upper``; returns the number of bins.

        ``known`` is the sorted sample of its values that are not missing.
        """
        most, forced = self._most(feature), self._forced(feature)
        if self.zero_as_missing:
            known = known[np.abs(known) > NEARLY_ZERO]
        if not len(forced):
            return self._choose(known, most, upper)
        # Given ends first; the usual choice gets what is left of the bins.
        usual = np.full(N_BINS, np.inf)
        n_usual = self._choose(known, most - len(forced), usual) - 1 if most - len(forced) > 1 else 0
        ends = np.union1d(forced, usual[:n_usual])
        upper[: len(ends)] = ends
        return 1 + len(ends)

    def choose_sparse(self, feature: int, known: np.ndarray, n_zeros: int, upper: np.ndarray) -> int:
        """The same of ``known`` stored values, and zeros that are not stored."""
        if self.zero_as_missing or self.min_rows > 1 or len(self._forced(feature)):
            # How often each value occurs matters, or zeros do not.
            n_zeros = 0 if self.zero_as_missing else n_zeros
            whole = np.insert(known, np.searchsorted(known, 0.0), np.zeros(n_zeros))
            return self.choose(feature, whole, upper)
        return 1 + int(choose_around_zero(known, n_zeros, self._most(feature), upper))

    def _choose(self, known: np.ndarray, most: int, upper: np.ndarray) -> int:
        if self.min_rows > 1:
            return 1 + int(choose_filled_bins(known, most, self.min_rows, upper))
        return 1 + int(choose_thresholds(known, most, upper))

    def _most(self, feature: int) -> int:
        return self.own_max_bin[feature] if self.own_max_bin else self.max_bin

    def _forced(self, feature: int) -> np.ndarray:
        return np.unique(self.forced.get(feature, ()))[: self._most(feature) - 1]
