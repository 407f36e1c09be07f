"""Rows in several parts are sampled, binned and cut as the same rows in one matrix are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from pvtree.binning.thresholds import bin_rows, choose_own_bins, choose_shared_bins
from pvtree.comm import Communicator
from pvtree.comm.local import run
from pvtree.errors import InvalidDataError
from pvtree.kernels.team import Team
from pvtree.reading.sources import Matrices, as_source


def awkward_matrix(seed: int, n_rows: int, dtype: type = np.float64) -> np.ndarray:
    """More than one block of columns, column 3 of 5 categories."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 19))
    X[:, 1] = np.round(X[:, 1])
    X[:, 3] = rng.integers(0, 6, n_rows)
    X[rng.random(X.shape) < 0.1] = np.nan
    return X.astype(dtype)


def in_parts(X: np.ndarray, seed: int, n_parts: int) -> list[np.ndarray]:
    """Cut anywhere, also into parts without rows, in both memory layouts."""
    cuts = np.sort(np.random.default_rng(seed).integers(0, len(X) + 1, n_parts - 1))
    return [np.asfortranarray(part) if i % 2 else part for i, part in enumerate(np.split(X, cuts))]


@settings(max_examples=30)
@given(
    st.integers(0, 2**32), st.integers(1, 400), st.integers(1, 6), st.sampled_from([np.float32, np.float64]),
    st.booleans(), st.sampled_from([1, 3]),
)  # fmt: skip
def test_parts_are_binned_as_the_whole(seed, n_rows, n_parts, dtype, takes_all, n_threads) -> None:
    X = awkward_matrix(seed, n_rows, dtype)
    rows = np.arange(n_rows) if takes_all else np.flatnonzero(np.random.default_rng(seed).random(n_rows) < 0.3)
    source = Matrices(in_parts(X, seed, n_parts))
    assert source.shape == X.shape and source.dtype == dtype
    with Team(n_threads) as team:
        whole = choose_own_bins(X, rows, (0, 19), {3: 5}, 16, team)
        parts = choose_own_bins(source, rows, (0, 19), {3: 5}, 16, team)
        assert whole.upper.tobytes() == parts.upper.tobytes()
        bins = bin_rows(source, parts, 0, 19, team).bins
        assert_array_equal(bins, bin_rows(X, whole, 0, 19, team).bins)
        some = bin_rows(source, parts, 2, 7, team).bins
        assert_array_equal(some.reshape(n_rows, 16)[:, :5], bins[0].reshape(n_rows, 16)[:, 2:7])


def test_several_threads_read_many_rows_of_several_parts() -> None:
    X = awkward_matrix(0, 20_000)
    rows = np.arange(0, 20_000, 3)
    with Team(3) as team:
        whole = choose_own_bins(X, rows, (0, 19), {}, 255, team)
        source = Matrices([X[:7001], X[7001:12_000], X[12_000:]])
        parts = choose_own_bins(source, rows, (0, 19), {}, 255, team)
        assert whole.upper.tobytes() == parts.upper.tobytes()
        assert_array_equal(bin_rows(source, parts, 0, 19, team).bins, bin_rows(X, whole, 0, 19, team).bins)


def test_workers_whose_rows_are_in_parts_choose_the_same_bins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pvtree.binning.thresholds.IN_FLIGHT", 20_000)  # several exchanges
    X = awkward_matrix(1, 500)
    shares = [X[:123], X[123:123], X[123:]]

    def choose(comm: Communicator) -> bytes:
        source = Matrices(in_parts(shares[comm.rank], comm.rank, 3))
        with Team(1) as team:
            return choose_shared_bins(source, np.arange(len(source)), {3: 5}, 32, team, comm).upper.tobytes()

    with Team(1) as team:
        alone = choose_own_bins(X, np.arange(500), (0, 19), {3: 5}, 32, team)
    assert run(choose, 3, timeout=20) == [alone.upper.tobytes()] * 3


@settings(max_examples=30)
@given(st.integers(0, 2**32), st.integers(0, 30), st.integers(1, 5), st.integers(0, 31), st.integers(0, 31))
def test_rows_can_be_cut_out(seed, n_rows, n_parts, start, stop) -> None:
    X = awkward_matrix(seed, n_rows)
    part = Matrices(in_parts(X, seed, n_parts))[start:stop]
    assert part.shape == X[start:stop].shape
    assert_array_equal(part.matrix(), X[start:stop])
    assert_array_equal(np.concatenate(list(part.blocks())), X[start:stop])


def test_a_matrix_is_its_own_source_and_is_not_copied() -> None:
    X = awkward_matrix(2, 10)
    source = as_source(X)
    assert source.matrix() is X and next(source.blocks()) is X
    assert as_source(source) is source
    assert np.shares_memory(source[3:7].matrix(), X)


def test_the_dtype_is_that_of_the_rows() -> None:
    narrow, wide = np.zeros((3, 2), np.float32), np.zeros((3, 2))
    assert Matrices([narrow, wide[:0]]).dtype == np.float32
    assert Matrices([narrow, wide]).dtype == np.float64
    assert Matrices([wide[:0]]).dtype == np.float64


def test_parts_with_different_columns_are_refused() -> None:
    with pytest.raises(InvalidDataError, match="from 2 to 3 columns"):
        Matrices([np.zeros((1, 3)), np.zeros((1, 2))])
