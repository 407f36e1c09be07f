"""Counter-based randomness: a hash of (seed, tree, row or feature), the same however rows are spread."""

from __future__ import annotations

import numpy as np

from pvtree.kernels.jit import njit


@njit
def mix(x):
    """A bijection on 64 bits whose every output bit depends on every input bit (splitmix64's finalizer)."""
    x = np.uint64(x)
    x ^= x >> np.uint64(30)
    x *= np.uint64(0xBF58476D1CE4E5B9)
    x ^= x >> np.uint64(27)
    x *= np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return x


@njit
def hash_pair(key, counter):
    """The ``counter``-th number of the stream that ``key`` names."""
    return mix(np.uint64(key) + (np.uint64(counter) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15))


@njit
def unit_interval(x):
    """A hash as a number in [0, 1)."""
    return np.float64(x >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@njit
def sample_features(key, features, n_chosen, chosen):
    """Draw ``n_chosen`` of ``features`` without replacement into ``chosen``, by a partial shuffle that is undone."""
    n = len(features)
    swaps = np.empty(n_chosen, np.int64)
    for i in range(n_chosen):
        j = i + np.int64(hash_pair(key, i) % np.uint64(n - i))
        swaps[i] = j
        features[i], features[j] = features[j], features[i]
        chosen[i] = features[i]
    for i in range(n_chosen - 1, -1, -1):
        j = swaps[i]
        features[i], features[j] = features[j], features[i]


@njit
def keep_rows(start, stop, key, limit, first_row, kept):
    """Mark the rows whose hashed global id falls under ``limit``."""
    for i in range(start, stop):
        kept[i] = hash_pair(key, first_row + i) < limit


@njit
def bootstrap_multiplicities(start, stop, key, first_row, cumulative, multiplicity):
    """Draw Poisson(1) copies of each row by the hash of its global id.

    Departs from the paper: an ordinary bootstrap, exactly N of N rows, would need one machine to draw them.
    """
    for i in range(start, stop):
        u = unit_interval(hash_pair(key, first_row + i))
        copies = 0
        while copies < len(cumulative) and u >= cumulative[copies]:
            copies += 1
        multiplicity[i] = copies
