"""Fewer, coarser bins for the paper's data-parallel baseline with quantized histograms (tree_learner="quantized")."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pvtree.binning.binned_rows import BinnedRows, Bundles
from pvtree.binning.thresholds import Thresholds
from pvtree.kernels.binning.dense import choose_thresholds, count_bins, recode_bins
from pvtree.kernels.constants import N_BINS
from pvtree.kernels.team import Team

if TYPE_CHECKING:
    from pvtree.comm import Communicator
    from pvtree.parameters.params import Params

_AT_ONCE = 1024  # features whose codes are counted together
_PARTS = 4096  # a feature's mass is told apart to this share: far finer than any coarse bin


def coarsen(
    data: BinnedRows, thresholds: Thresholds, sample: np.ndarray, params: Params, team: Team, comm: Communicator | None
) -> tuple[BinnedRows, Thresholds]:
    """Merge bins down to the fraction ``quantized_bins`` of ``max_bin``; the data's bins are overwritten.

    The mass of a bin is that of the sampled rows of all workers, so coarse bins do not depend on the partition.
    """
    n_coarse = max(2, round(params.quantized_bins * params.max_bin))
    merged = np.flatnonzero((thresholds.is_categorical == 0) & (thresholds.n_bins > n_coarse))
    mass = count_rows(data, sample, team)[merged]  # (merged features, N_BINS)
    if comm is not None:
        mass = comm.allreduce(mass, "bins")
    coarse, new_bin = merge_bins(thresholds, merged, mass, n_coarse)
    return recoded(data, new_bin, team)._replace(n_bins=coarse.n_bins), coarse


def missing_as_zero(data: BinnedRows, thresholds: Thresholds, first: int, team: Team) -> BinnedRows:
    """Put missing values of ordered columns into the bin of 0; the data's bins are overwritten.

    The data's columns are those from ``first`` on.
    """
    new_bin = np.tile(np.arange(N_BINS, dtype=np.uint8), (data.n_features, 1))
    for feature in np.flatnonzero(data.is_categorical == 0):
        ends = thresholds.upper[first + feature, : data.n_bins[feature] - 1]
        new_bin[feature, 0] = 1 + np.searchsorted(ends, 0.0)
    return recoded(data, new_bin, team)


def recoded(data: BinnedRows, new_bin: np.ndarray, team: Team) -> BinnedRows:
    """The data with new_bin[feature, bin] in place of each bin; its bins are overwritten."""
    if data.bundles is not None:  # codes stay; what they mean changes
        return data._replace(bundles=_recoded(data.bundles, new_bin))
    _recode(data, new_bin, team)
    return data


def count_rows(data: BinnedRows, rows: np.ndarray, team: Team) -> np.ndarray:
    """How many of ``rows`` are in each bin: int64 (n_features, N_BINS), the missing bin first."""
    starts = data.block_start
    counts = np.zeros((starts[-1], N_BINS), np.int64)  # of features or of bundles

    def count(first: int, last: int) -> None:
        for block in range(first, last):
            start, stop = starts[block], starts[block + 1]
            count_bins(data.bins[block], rows, stop - start, counts[start:stop])

    team.for_blocks(count, len(starts) - 1, min_block=1)
    return counts if data.bundles is None else _count_features(data.bundles, counts)


def _count_features(bundles: Bundles, code_counts: np.ndarray) -> np.ndarray:
    """By bin of each feature, from how many rows have each code of its bundle."""
    features = np.arange(len(bundles.bundle_of))
    counts = np.zeros((len(features), N_BINS), np.int64)
    for start in range(0, len(features), _AT_ONCE):
        some = features[start : start + _AT_ONCE, None]
        of_codes = code_counts[bundles.bundle_of[some[:, 0]]]
        np.add.at(counts, (some, bundles.bins_of_codes(some[:, 0])), of_codes)
    return counts


def merge_bins(
    thresholds: Thresholds, merged: np.ndarray, mass: np.ndarray, n_coarse: int
) -> tuple[Thresholds, np.ndarray]:
    """Coarse thresholds of the ``merged`` features, and uint8 (n_features, N_BINS): the new number of every bin.

    Neighbours are merged to about equal mass by the rule that chose the bins: a bin heavier than an even share
    stays alone. A coarse bin ends where the last of its bins did.
    """
    upper, n_bins = thresholds.upper.copy(), thresholds.n_bins.copy()
    new_bin = np.tile(np.arange(N_BINS, dtype=np.uint8), (len(n_bins), 1))
    cuts = np.empty(N_BINS)
    for feature, rows in zip(merged, mass, strict=True):
        bins = np.arange(1, n_bins[feature] + 1)
        # Mass in small whole units: each bin number repeated that often is a sorted sample of the feature.
        units = -(-rows[bins] * _PARTS // max(1, rows[bins].sum()))
        n_cuts = choose_thresholds(np.repeat(bins.astype(np.float64), units), n_coarse, cuts)
        last = np.floor(cuts[:n_cuts]).astype(np.int64)  # the last bin of every coarse bin but the topmost
        new_bin[feature, bins] = 1 + np.searchsorted(last, bins)
        upper[feature, :n_cuts] = thresholds.upper[feature, last - 1]
        upper[feature, n_cuts:] = np.inf
        n_bins[feature] = n_cuts + 1
    return Thresholds(upper, n_bins, thresholds.is_categorical), new_bin


def _recoded(bundles: Bundles, new_bin: np.ndarray) -> Bundles:
    code_bin = bundles.code_bin.copy()
    for feature, (bundle, first, n_codes) in enumerate(zip(*bundles[:3], strict=True)):
        own = code_bin[bundle, first : first + n_codes]
        own[:] = new_bin[feature, own]
    usual_bin = new_bin[np.arange(len(new_bin)), bundles.usual_bin].astype(np.int64)
    return bundles._replace(code_bin=code_bin, usual_bin=usual_bin)


def _recode(data: BinnedRows, new_bin: np.ndarray, team: Team) -> None:
    starts = data.block_start

    def recode(first: int, last: int) -> None:
        for block in range(first, last):
            start, stop = starts[block], starts[block + 1]
            recode_bins(data.bins[block], stop - start, new_bin[start:stop])

    team.for_blocks(recode, len(starts) - 1, min_block=1)
