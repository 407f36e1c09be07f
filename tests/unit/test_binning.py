"""Thresholds of equal mass between values, the same however rows are spread, and bins that searchsorted agrees with."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_array_equal

import oracle
from pvtree.binning import Thresholds, bin_rows, block_starts, sample_rows
from pvtree.dtypes import BLOCK, BinnedRows
from pvtree.kernels.binning import midpoint
from pvtree.team import Team

ANY_FLOAT = st.floats(allow_nan=False, allow_infinity=True)


def bin_all(X: np.ndarray, max_bin: int = 255, n_threads: int = 1, **categorical: int) -> tuple[BinnedRows, Thresholds]:
    with Team(n_threads) as team:
        return bin_rows(X, {int(k[1:]): v for k, v in categorical.items()}, max_bin, team)


def as_matrix(data: BinnedRows) -> np.ndarray:
    """(n_rows, n_features) from the blocks."""
    n_rows = data.bins.shape[1] // BLOCK
    blocks = [
        data.bins[b].reshape(n_rows, BLOCK)[:, : data.block_start[b + 1] - data.block_start[b]]
        for b in range(len(data.block_start) - 1)
    ]
    return np.hstack(blocks)


def expected_bins(X: np.ndarray, thresholds: Thresholds) -> np.ndarray:
    columns = [
        oracle.bin_values(X[:, f].astype(np.float64), thresholds.upper[f, : thresholds.n_bins[f] - 1])
        for f in range(X.shape[1])
    ]
    return np.column_stack(columns)


@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(ANY_FLOAT, ANY_FLOAT)
def test_a_midpoint_is_below_the_right_value_and_not_below_the_left(a: float, b: float) -> None:
    low, high = min(a, b), max(a, b)
    if low < high:
        assert low <= midpoint(low, high) < high


@pytest.mark.parametrize(
    ("low", "high", "middle"),
    [
        (1.0, 2.0, 1.5),
        (-1.5e308, 1.5e308, 0.0),
        (1.0, np.nextafter(1.0, 2.0), 1.0),
        (0.0, 5e-324, 0.0),
        (1.0, np.inf, 1.0),
        (-np.inf, 1.0, -np.inf),
        (-np.inf, np.inf, -np.inf),
        (1e308, 1.7e308, 1.35e308),
    ],
)
def test_midpoints_at_the_ends_of_floats(low: float, high: float, middle: float) -> None:
    assert midpoint(low, high) == middle


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(arrays(np.float64, st.integers(1, 60), elements=st.floats()), st.sampled_from([2, 3, 10, 255]))
def test_few_distinct_values_get_a_bin_each(column: np.ndarray, max_bin: int) -> None:
    data, thresholds = bin_all(column[:, None], max_bin)
    bins = as_matrix(data)[:, 0]
    known = column[~np.isnan(column)]
    distinct = np.unique(known)
    assert_array_equal(bins == 0, np.isnan(column))
    assert_array_equal(bins, expected_bins(column[:, None], thresholds)[:, 0])
    assert thresholds.n_bins[0] <= max_bin and bins.max() <= thresholds.n_bins[0]
    ends = thresholds.upper[0, : thresholds.n_bins[0] - 1]
    assert (np.diff(ends) > 0).all() and (thresholds.upper[0, len(ends) :] == np.inf).all()
    if len(distinct) <= max_bin:
        assert thresholds.n_bins[0] == max(1, len(distinct))
        assert len(np.unique(bins[bins > 0])) == len(distinct)
    assert (np.diff(bins[~np.isnan(column)][np.argsort(known)].astype(int)) >= 0).all()


@pytest.mark.parametrize("max_bin", [2, 16, 100, 255])
def test_many_values_are_spread_evenly(max_bin: int) -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=20_000), np.exp(3 * rng.normal(size=20_000))])
    data, thresholds = bin_all(X, max_bin)
    assert_array_equal(thresholds.n_bins, max_bin)
    for f in range(2):
        mass = np.bincount(as_matrix(data)[:, f], minlength=max_bin + 1)[1:] / 20_000 * max_bin
        assert mass.min() > 0.8 and mass.max() < 1.2


def test_a_heavy_value_has_a_bin_of_its_own_and_the_others_share_the_rest() -> None:
    rng = np.random.default_rng(1)
    x = np.where(rng.random(20_000) < 0.6, 0.0, rng.normal(size=20_000))
    data, thresholds = bin_all(x[:, None], 64)
    bins = as_matrix(data)[:, 0]
    assert len(np.unique(x[bins == bins[x == 0.0][0]])) == 1
    mass = np.bincount(bins, minlength=65)[1:]
    others = np.delete(mass, bins[x == 0.0][0] - 1)
    assert thresholds.n_bins[0] == 64 and others.max() <= 20_000 / 64 * 1.1


def test_infinities_are_ordinary_values() -> None:
    x = np.array([-np.inf, -np.inf, -1.0, 0.0, 1.0, np.inf, np.nan])
    data, thresholds = bin_all(x[:, None])
    assert_array_equal(as_matrix(data)[:, 0], [1, 1, 2, 3, 4, 5, 0])
    assert_array_equal(thresholds.upper[0, :4], [-np.inf, -0.5, 0.5, 1.0])
    # The last bin has no end: a split after it sends every number left.
    assert_array_equal(thresholds.of(np.zeros(5, np.int64), np.arange(1, 6)), [-np.inf, -0.5, 0.5, 1.0, np.inf])


def test_columns_without_values_or_with_a_single_one() -> None:
    X = np.column_stack([np.full(50, np.nan), np.full(50, 7.0), np.full(50, np.inf)])
    data, thresholds = bin_all(X)
    assert_array_equal(thresholds.n_bins, 1)
    assert_array_equal(as_matrix(data), np.tile([0, 1, 1], (50, 1)))


def layouts_of(X: np.ndarray) -> dict[str, np.ndarray]:
    wide = np.zeros((2 * X.shape[0], 3 * X.shape[1]), X.dtype)
    wide[::2, ::3] = X
    backwards = np.ascontiguousarray(X[::-1, ::-1])
    plain = {"C": np.ascontiguousarray(X), "F": np.asfortranarray(X)}
    return plain | {"strided": wide[::2, ::3], "backwards": backwards[::-1, ::-1]}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("layout", ["C", "F", "strided", "backwards"])
def test_bins_equal_searchsorted_in_any_memory_layout(dtype: type, layout: str) -> None:
    rng = np.random.default_rng(2)
    X: np.ndarray = rng.normal(size=(1500, 21)).astype(dtype)  # more than a tile of rows, and two blocks of features
    X[rng.random(X.shape) < 0.1] = np.nan
    X[:, 3] = np.round(X[:, 3])
    X[:, 4] = 0.1  # not a float32
    X[::5, 5] = np.inf
    given = layouts_of(X)[layout]
    assert_array_equal(given, X)
    data, thresholds = bin_all(given, n_threads=2)
    assert_array_equal(as_matrix(data), expected_bins(X, thresholds))
    plain, same_thresholds = bin_all(X.astype(np.float64))
    assert_array_equal(same_thresholds.upper, thresholds.upper)
    assert_array_equal(as_matrix(plain), as_matrix(data))


def test_categories_are_their_own_bins_and_unknown_codes_are_missing() -> None:
    X = np.array([[0.0], [1.0], [5.0], [6.0], [-3.0], [np.nan], [np.inf], [1e300]])
    data, thresholds = bin_all(X, f0=5)
    assert_array_equal(as_matrix(data)[:, 0], [0, 1, 5, 0, 0, 0, 0, 0])
    assert thresholds.n_bins[0] == 5 and data.is_categorical[0] == 1


@pytest.mark.parametrize("n_threads", [1, 2, 3, 7])
@pytest.mark.parametrize("n_features", [1, 3, 4, 5, 16, 17, 33, 100])
def test_blocks_cover_all_features_with_at_most_16_each(n_features: int, n_threads: int) -> None:
    starts = block_starts(n_features, n_threads)
    sizes = np.diff(starts)
    assert starts[0] == 0 and starts[-1] == n_features
    assert (sizes > 0).all() and (sizes <= 16).all()
    assert (starts[:-1] % 4 == 0).all()


def test_the_sample_of_rows_does_not_depend_on_how_they_are_spread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pvtree.binning.SAMPLE_ROWS", 1000)
    whole = sample_rows(10_000)
    assert 850 < len(whole) < 1150
    key = 0x5EED_B125
    under = [row for row in range(10_000) if oracle.hash_number(key, row) < 2**64 // 10]
    assert_array_equal(whole, under)
    assert_array_equal(sample_rows(1000), np.arange(1000))


def test_rows_outside_the_sample_are_binned_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pvtree.binning.SAMPLE_ROWS", 500)
    X = np.random.default_rng(3).normal(size=(5000, 2))
    data, thresholds = bin_all(X, 32)
    assert_array_equal(as_matrix(data), expected_bins(X, thresholds))
    mass = np.bincount(as_matrix(data)[:, 0], minlength=33)[1:] / 5000 * 32
    assert mass.min() > 0.3 and mass.max() < 2.5  # 16 sampled rows a bin
