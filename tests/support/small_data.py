"""Columns with everything that could trip a split: few and many values, gaps, infinities, nothing at all."""

from __future__ import annotations

import numpy as np

from oracle import bin_values
from pvtree.binning.thresholds import choose_own_bins
from pvtree.kernels.team import Team

KINDS = ("few", "many", "gaps", "infinite", "extreme", "constant", "missing", "category")
N_CATEGORIES = {"category": 12, "many categories": 200}
_EXTREME = np.array([-1e308, -1e-310, -5e-324, -0.0, 0.0, 5e-324, 1e-310, 1.0, np.nextafter(1.0, 2.0), 1e308])


def make_column(kind: str, n_rows: int, rng: np.random.Generator) -> np.ndarray:
    match kind:
        case "few":
            return rng.integers(-1, 3, n_rows).astype(np.float64)
        case "many":
            return rng.normal(size=n_rows)
        case "gaps":
            return np.where(rng.random(n_rows) < 0.3, np.nan, rng.integers(0, 20, n_rows) / 7.0)
        case "infinite":
            return rng.choice(np.array([-np.inf, -1.0, 0.0, 2.5, np.inf, np.nan]), n_rows)
        case "extreme":
            return rng.choice(_EXTREME, n_rows)
        case "constant":
            return np.full(n_rows, 3.0)
        case "missing":
            return np.full(n_rows, np.nan)
    codes = rng.integers(0, N_CATEGORIES[kind] + 1, n_rows).astype(np.float64)  # 0 is missing
    return np.where((codes == 0) & (rng.random(n_rows) < 0.5), np.nan, codes)


def make_columns(kinds: tuple[str, ...], n_rows: int, rng: np.random.Generator) -> np.ndarray:
    return np.column_stack([make_column(kind, n_rows, rng) for kind in kinds])


def categories_of(kinds: tuple[str, ...]) -> dict[int, int]:
    return {i: N_CATEGORIES[kind] for i, kind in enumerate(kinds) if kind in N_CATEGORIES}


def independent_bins(X: np.ndarray, categorical: dict[int, int], max_bin: int) -> tuple[np.ndarray, list[np.ndarray]]:
    """Bins (n_rows, n_features) by searchsorted over the package's thresholds, and those thresholds."""
    with Team(1) as team:
        thresholds = choose_own_bins(X, np.arange(len(X)), (0, X.shape[1]), categorical, max_bin, team)
    upper = [thresholds.upper[f, : thresholds.n_bins[f] - 1] for f in range(X.shape[1])]
    columns = []
    for f in range(X.shape[1]):
        codes = np.nan_to_num(X[:, f], nan=0.0)
        columns.append(codes if f in categorical else bin_values(X[:, f], upper[f]))
    return np.column_stack(columns).astype(np.int64), upper
