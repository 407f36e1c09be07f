"""The training rows as bins: block by block, perhaps with several features in one byte."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pvtree.kernels.constants import BLOCK, MISSING_BIN, N_BINS


class Bundles(NamedTuple):
    """Which features share a byte of a row: a worker's own affair, found in its own rows.

    In no row is more than one feature of a bundle outside its usual bin (in sparse data: that of the value 0). Code 0
    says that all are in it; any other code stands for a bin of one feature, which has consecutive codes.
    """

    bundle_of: np.ndarray  # int64 (n_features,)
    first_code: np.ndarray  # int64 (n_features,)
    n_codes: np.ndarray  # int64 (n_features,): one for each unusual bin that occurs, perhaps none
    usual_bin: np.ndarray  # int64 (n_features,)
    code_bin: np.ndarray  # uint8 (n_bundles, N_BINS): the bin that a code stands for
    n_unusual: np.ndarray  # int64 (n_features,): rows outside the usual bin
    last_code: np.ndarray  # int64 (n_bundles,)

    def plan(self, block_start: np.ndarray, is_categorical: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """In which order the search goes through features, as kernels.bundles has it, and where each block begins.

        Block after block, and within a block those with most unusual rows first: where one has too few for a child, all
        that follow have too.
        """
        block = np.searchsorted(block_start, self.bundle_of, side="right") - 1
        order = np.lexsort((-self.n_unusual, block))
        # A single code of an ordered feature: then there is one boundary, between it and the usual bin.
        only = self.code_bin[self.bundle_of, np.minimum(self.first_code, N_BINS - 1)]
        is_pair = (self.n_codes == 1) & (is_categorical == 0) & (only != MISSING_BIN)
        lane = self.bundle_of - block_start[block]
        columns = [np.arange(len(block)), lane, self.first_code, self.n_codes, is_pair, self.n_unusual]
        starts = np.searchsorted(block[order], np.arange(len(block_start)))
        return np.stack(columns, axis=1)[order].astype(np.int64), starts

    def bins_of_codes(self, features: np.ndarray) -> np.ndarray:
        """uint8 (len(features), N_BINS): the bin that a code of its bundle means for each feature."""
        table = np.repeat(self.usual_bin[features, None], N_BINS, axis=1).astype(np.uint8)
        codes = np.arange(N_BINS)
        first = self.first_code[features, None]
        own = (codes >= first) & (codes < first + self.n_codes[features, None])
        table[own] = self.code_bin[self.bundle_of[features]][own]
        return table


class BinnedRows(NamedTuple):
    """The training rows as bins, block by block: ``bins[block, row * 16 + lane]``, or as codes of bundles."""

    bins: np.ndarray  # uint8 (n_blocks, n_rows * BLOCK)
    # int64 (n_blocks + 1,): block b holds features, or bundles of them, block_start[b]:block_start[b + 1]
    block_start: np.ndarray
    n_bins: np.ndarray  # int64 (n_features,): bins 1..n_bins are in use, beside MISSING_BIN
    is_categorical: np.ndarray  # uint8 (n_features,)
    bundles: Bundles | None = None

    @property
    def n_rows(self) -> int:
        return self.bins.shape[1] // BLOCK

    @property
    def n_features(self) -> int:
        return len(self.n_bins)
