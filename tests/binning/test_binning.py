"""Thresholds of equal mass between values, the same however rows are spread, and bins that searchsorted agrees with."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_array_equal

import oracle
from pvtree.binning import thresholds as binning
from pvtree.binning.bin_rules import BinRules
from pvtree.binning.binned_rows import BinnedRows
from pvtree.binning.thresholds import Thresholds, bin_rows, block_starts, choose_own_bins, choose_shared_bins
from pvtree.comm import Communicator
from pvtree.comm.local import run
from pvtree.errors import InvalidDataError
from pvtree.kernels.binning.dense import midpoint
from pvtree.kernels.constants import BLOCK
from pvtree.kernels.team import StoppedError, Team
from pvtree.reading import sources
from pvtree.reading.row_ids import RowIds

ANY_FLOAT = st.floats(allow_nan=False, allow_infinity=True)


def bin_all(X: np.ndarray, max_bin: int = 255, n_threads: int = 1, **categorical: int) -> tuple[BinnedRows, Thresholds]:
    codes = {int(k[1:]): v for k, v in categorical.items()}
    with Team(n_threads) as team:
        thresholds = choose_own_bins(X, RowIds.consecutive(len(X)).sample(), (0, X.shape[1]), codes, max_bin, team)
        return bin_rows(X, thresholds, 0, X.shape[1], team), thresholds


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


@settings(max_examples=100)
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


@settings(max_examples=60)
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


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(2, 40), st.integers(1, 12))
def test_no_bin_has_values_on_both_sides_of_missing_zeros(seed: int, max_bin: int, min_rows: int) -> None:
    rng = np.random.default_rng(seed)
    values = rng.normal(rng.normal(), 1.0, 200)
    known = np.sort(values[np.abs(values) > 0.3])
    n_below, rules, upper = np.searchsorted(known, 0.0), BinRules(max_bin, min_rows), np.full(256, np.inf)
    n_bins = rules.choose(0, known, 200 - len(known), upper)
    assert n_bins <= max_bin
    assert (np.diff(upper[: n_bins - 1]) > 0).all() and (upper[n_bins - 1 :] == np.inf).all()
    cuts = np.array([0, *np.searchsorted(known, upper[: n_bins - 1], side="right"), len(known)])
    assert n_bins == 1 or np.diff(cuts).min() >= min_rows
    # A bin has both signs only if one of the two halves would be too small.
    assert n_below in cuts or min(n_below - cuts[cuts < n_below][-1], cuts[cuts > n_below][0] - n_below) < min_rows


def test_bins_end_at_zero_only_where_values_are_missing_and_none_is_zero() -> None:
    known = np.concatenate([np.arange(-7.0, 0.0), np.arange(1.0, 5.0)])  # 11 values, 5 bins: one holds -1 and 1
    even, around = np.full(256, np.inf), np.full(256, np.inf)
    assert BinRules(5).choose(0, known, 0, even) == 5
    assert not ((even >= -1) & (even < 1)).any()
    assert BinRules(5).choose(0, known, 3, around) == 5
    assert 0.0 in around
    for rules, values, n_missing in (
        (BinRules(5, zero_as_missing=True), np.insert(known, 7, 0.0), 0),
        (BinRules(5), known, 1),
    ):
        again = np.full(256, np.inf)
        assert rules.choose(0, values, n_missing, again) == 5
        assert_array_equal(again, around)
    with_zero = np.full(256, np.inf)
    BinRules(5).choose(0, np.insert(known, 7, 0.0), 3, with_zero)
    assert 0.0 not in with_zero


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


def test_rows_outside_the_sample_are_binned_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pvtree.reading.row_ids.SAMPLE_ROWS", 500)
    X = np.random.default_rng(3).normal(size=(5000, 2))
    data, thresholds = bin_all(X, 32)
    assert_array_equal(as_matrix(data), expected_bins(X, thresholds))
    mass = np.bincount(as_matrix(data)[:, 0], minlength=33)[1:] / 5000 * 32
    assert mass.min() > 0.3 and mass.max() < 2.5  # 16 sampled rows a bin


def test_no_columns_and_no_rows() -> None:
    with np.errstate(all="raise"):
        assert_array_equal(block_starts(0, 3), [0])
    data, thresholds = bin_all(np.empty((7, 0)))
    assert (data.n_rows, data.n_features) == (7, 0) and thresholds.upper.shape == (0, 256)
    data, thresholds = bin_all(np.empty((0, 3)))
    assert (data.n_rows, data.n_features) == (0, 3) and (thresholds.n_bins == 1).all()


def test_zeros_of_both_signs_are_one_value_in_any_order() -> None:
    zeros = np.array([0.0, -0.0] * 20 + [np.inf])
    for column in (zeros, -zeros[:-1], zeros[::-1]):
        _, thresholds = bin_all(np.append(column, np.inf)[:, None])
        assert thresholds.n_bins[0] == 2 and not np.signbit(thresholds.upper[0, 0])


def bin_together(parts: list[np.ndarray], codes: dict[int, int], max_bin: int, n_threads: int = 1) -> list[Thresholds]:
    """What each worker chooses, where rows are spread."""
    n_all = sum(len(part) for part in parts)
    firsts = np.cumsum([0] + [len(part) for part in parts])

    def choose(comm: Communicator) -> Thresholds:
        X = parts[comm.rank]
        sample = RowIds.consecutive(len(X), int(firsts[comm.rank]), n_all).sample()
        with Team(n_threads) as team:
            return choose_shared_bins(X, sample, codes, max_bin, team, comm)

    return run(choose, len(parts), timeout=20)


def assert_same(one: Thresholds, other: Thresholds) -> None:
    assert one.upper.tobytes() == other.upper.tobytes()
    assert_array_equal(one.n_bins, other.n_bins)
    assert_array_equal(one.is_categorical, other.is_categorical)


def awkward_columns(rng: np.random.Generator, n_rows: int) -> np.ndarray:
    """Columns of every kind that binning treats differently, column 2 of 9 categories."""
    X = rng.normal(size=(n_rows, 7))
    X[:, 1] = np.round(X[:, 1])  # zeros of both signs
    X[:, 2] = rng.integers(0, 10, n_rows)
    X[:, 3] = 7.0
    X[:, 4] = np.where(rng.random(n_rows) < 0.8, 0.0, X[:, 4])
    X[rng.random(n_rows) < 0.1, 5] = np.inf
    X[rng.random(X.shape) < 0.1] = np.nan
    X[:, 6] = np.nan
    return X


@settings(max_examples=40)
@given(
    st.integers(0, 2**32), st.integers(1, 300), st.sampled_from([1, 2, 3, 5, 8]), st.sampled_from([2, 16, 255]),
    st.sampled_from([np.float32, np.float64]), st.sampled_from([10**9, 100]), st.sampled_from([2**24, 3000, 1]),
)  # fmt: skip
def test_bins_do_not_depend_on_the_workers(seed, n_rows, n_workers, max_bin, dtype, sample_size, in_flight) -> None:
    rng = np.random.default_rng(seed)
    X = awkward_columns(rng, n_rows).astype(dtype)
    bounds = np.sort(rng.integers(0, n_rows + 1, n_workers - 1))  # often with workers that have no rows
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pvtree.reading.row_ids.SAMPLE_ROWS", sample_size)
        patch.setattr("pvtree.binning.thresholds.IN_FLIGHT", in_flight)
        _, alone = bin_all(X, max_bin, f2=9)
        for thresholds in bin_together(np.split(X, bounds), {2: 9}, max_bin):
            assert_same(thresholds, alone)


def test_workers_with_threads_and_other_memory_layouts_agree_too() -> None:
    X = awkward_columns(np.random.default_rng(5), 20_000)
    X = np.hstack([X, X[:, [0, 4]] * 3, np.exp(X[:, :1])])
    _, alone = bin_all(X, 64, f2=9)
    parts = [np.asfortranarray(X[:9000]), X[9000:9001], X[9001:]]
    for thresholds in bin_together(parts, {2: 9}, 64, n_threads=3):
        assert_same(thresholds, alone)


def test_values_travel_as_float32_only_if_all_have_float32() -> None:
    X = np.random.default_rng(6).normal(size=(400, 3)).astype(np.float32)
    wide = X.astype(np.float64) + 1e-9
    _, alone = bin_all(np.vstack([X[:200], wide[200:]]))
    sent = {}
    for name, parts in {
        "narrow": [X[:200], X[200:], np.empty((0, 3))],
        "mixed": [X[:200], wide[200:], np.empty((0, 3))],
    }.items():

        def choose(comm: Communicator, parts: list[np.ndarray] = parts) -> tuple[Thresholds, int]:
            with Team(1) as team:
                part = parts[comm.rank]
                thresholds = choose_shared_bins(part, np.arange(len(part)), {}, 255, team, comm)
            told = 8 * (1 + 2 + thresholds.n_bins[comm.rank] - 1)  # one column each
            agreed = 2 * (5 * 8 - ((comm.rank + 1) * 40 // 3 - comm.rank * 40 // 3))
            return thresholds, comm.traffic.total().bytes - 2 * told - agreed

        results = run(choose, 3, timeout=20)
        sent[name] = [n_bytes for _, n_bytes in results]
        if name == "mixed":
            assert_same(results[0][0], alone)
    assert sent == {"narrow": [200 * 4 * 2, 200 * 4 * 2, 0], "mixed": [200 * 8 * 2, 200 * 8 * 2, 0]}


def test_workers_with_different_columns_are_told_so() -> None:
    with pytest.raises(InvalidDataError, match="from 2 to 3 columns"):
        bin_together([np.zeros((4, 3)), np.zeros((4, 2))], {}, 255)


def test_no_exchange_is_larger_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(7).normal(size=(600, 40))
    monkeypatch.setattr("pvtree.binning.thresholds.IN_FLIGHT", 20_000)
    largest = []

    def choose(comm: Communicator) -> None:
        plain = comm.alltoall

        def watched(buffers, phase):
            received = plain(buffers, phase)
            largest.append(max(sum(b.nbytes for b in buffers), sum(b.nbytes for b in received)))
            return received

        comm.alltoall = watched  # type: ignore[method-assign]
        with Team(1) as team:
            choose_shared_bins(X[comm.rank * 200 :][:200], np.arange(200), {}, 255, team, comm)

    run(choose, 3, timeout=20)
    assert max(largest) <= 20_000 and len(largest) == 3 * 4  # 14 columns of the first owner, 4 at once


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16, np.uint8, bool, ">f4"])
def test_bins_do_not_depend_on_how_values_lie_in_memory(dtype, monkeypatch):
    """Kernels take some of these as they are; the others are converted a part at a time."""
    rng = np.random.default_rng(4)
    plain = rng.integers(0, 2 if dtype is bool else 90, (300, 35)).astype(dtype)
    (expected, _), sample = bin_all(plain.astype(np.float64)), np.sort(rng.permutation(300)[:200])
    spread = np.zeros((300, 70), dtype)
    spread[:, ::2] = plain
    frozen = plain.copy()
    frozen.flags.writeable = False
    monkeypatch.setattr(binning, "ROWS_CONVERTED", 64)
    monkeypatch.setattr(sources, "_COPIED", 50)
    for X in (plain, np.asfortranarray(plain), spread[:, ::2], frozen, plain[::-1][::-1]):
        assert bin_all(X)[0].bins.tobytes() == expected.bins.tobytes()
        source = sources.Matrices([X[:100], X[100:]])
        columns = np.empty((3, 200), source.dtype)
        with Team(2) as team:
            source.sample_columns(sample, np.array([30, 2, 7]), columns, team)
        np.testing.assert_array_equal(columns, plain[sample][:, [30, 2, 7]].T)


def test_binning_ends_when_its_team_is_stopped(monkeypatch):
    """Ctrl-C on one thread stops the team, and the others end after the rows that they are at."""
    X = np.arange(3200.0).reshape(200, 16)
    thresholds = bin_all(X)[1]
    monkeypatch.setattr(binning, "ROWS_AT_ONCE", 10)
    kernel, calls = binning.bin_columns, []

    def stop_soon(*args):
        calls.append(args[0][:, 0].tolist())
        kernel(*args)
        if len(calls) == 3:
            team.stop()

    monkeypatch.setattr(binning, "bin_columns", stop_soon)
    with Team(1) as team, pytest.raises(StoppedError):
        bin_rows(X, thresholds, 0, 16, team)
    assert calls == [X[at : at + 10, 0].tolist() for at in (0, 10, 20)]


def test_columns_without_room_for_their_thresholds_are_refused(monkeypatch):
    def no_room(*args):
        raise MemoryError

    monkeypatch.setattr(binning.np, "full", no_room)
    with pytest.raises(InvalidDataError, match=r"3 columns, whose thresholds take 0\.0 GB"):
        binning._undecided(3, {})
