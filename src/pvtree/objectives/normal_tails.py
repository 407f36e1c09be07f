"""The normal distribution's upper tail by sums, products and quotients, which have the same bits everywhere."""

from __future__ import annotations

import numpy as np

_FAR = 3.0  # from here on the continued fraction converges quickly
_TERMS = 60


def upper_tail(z: np.ndarray, density: np.ndarray) -> np.ndarray:
    """P(Z > z) of z >= 0, given the normal density at z."""
    near = z < _FAR
    # 1/2 - density (z + z^3/3 + z^5/15 + ...): each term is the last times z^2 / (2k + 1).
    small = np.where(near, z, 0.0)
    term, total = small.copy(), small.copy()
    for k in range(1, _TERMS):
        term = term * small * small / (2 * k + 1)
        total += term
    # Laplace's continued fraction: density / (z + 1/(z + 2/(z + 3/(z + ...)))).
    large = np.where(near, _FAR, z)
    fraction = large.copy()
    for k in range(_TERMS, 0, -1):
        fraction = large + k / fraction
    return np.where(near, 0.5 - density * total, density / fraction)
