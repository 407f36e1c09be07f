"""How finely sums are rounded: the levels of h and the steps of x in rounded_sums.py."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Grid(NamedTuple):
    """One precision: level i of h is levels[0, i] of all h, and there x is rounded by step * levels[1, i]."""

    levels: np.ndarray  # float64 (2, n_levels): fractions f from 0 to 1; sqrt(f (1 - f)), but never 0
    step: float


# Places of a tunnel are this many times as fine as it is wide, for h and for x: a finer grid costs as much in larger
# numbers as it saves in moves.
PLACES_H, PLACES_X = np.int64(4), np.int64(4)
# Below this share of a worker's hessian, and as close to all of it, h has one level: a few rows of a large node. Rare
# values of a feature make such small sums, whose scores may be large unless h is known well.
_LEAST_FRACTION = 1e-5
# f (1 - f) hardly depends on f around 1/2, so levels may be up to this many times as wide there.
_WIDEST = 2.0


def make_grid(step: float, spread: float) -> Grid:
    """``step``: the width of x's tunnel, in units of sqrt(threshold / n_workers) times its standard width.
    ``spread``: the width of h's tunnel, as the logarithm of the ratio of h / (A - h) at both ends."""
    odds = [1.0]
    while odds[-1] > _LEAST_FRACTION:
        f = odds[-1] / (1.0 + odds[-1])
        ratio = 1.0 + spread / PLACES_H / max(1.0 - 2.0 * f, 1.0 / _WIDEST) / 64.0
        for _ in range(6):  # (1 + t / 64)^64 instead of e^t, whose last bit depends on the machine
            ratio *= ratio
        odds.append(odds[-1] / ratio)
    left = [o / (1.0 + o) for o in odds[:0:-1]]
    fractions = np.array([0.0, *left, 0.5, *(1.0 - f for f in reversed(left)), 1.0])
    roots = np.sqrt(np.maximum(fractions * (1.0 - fractions), 0.5 * fractions[1]))
    return Grid(np.stack((fractions, roots)), float(step))


# A coarse round for all features in doubt, and a fine one for those it leaves open. Measured on 250,000 rows x 1000
# features, 8 workers: of 587 features in doubt at a node of tree 100 (854 of tree 200), 34 (98) stay in doubt after 14
# (16) bytes each, and 0 (0.3) after 31 (34) more bytes for these. That is a quarter less than the best single round,
# and an estimated 3 % more than three. Around these values the total is flat: within 10 % for coarse steps from 0.65 to
# 0.8.
ROUNDS: tuple[Grid, ...] = (make_grid(0.75, 0.5), make_grid(0.35, 0.35))
