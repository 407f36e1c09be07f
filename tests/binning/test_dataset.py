"""Shards of several workers: together the rows, bins and thresholds of one worker who has everything."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from pvtree.binning.shard import Shard, make_shard, split_by_columns, split_by_rows
from pvtree.comm.local import run
from pvtree.errors import InvalidDataError
from pvtree.kernels.constants import BLOCK
from pvtree.kernels.team import Team
from pvtree.parameters.params import Params
from pvtree.reading.training_rows import TrainingRows

CODES = {1: 6, 5: 30}


def parameters(tree_learner: str, max_bin: int = 255, quantized_bins: float = 0.1) -> Params:
    return Params(tree_learner=tree_learner, max_bin=max_bin, quantized_bins=quantized_bins)


def rows_of(seed: int, n_rows: int, n_features: int = 7, dtype: type = np.float64) -> np.ndarray:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features))
    for feature, n_categories in CODES.items():
        X[:, feature] = rng.integers(0, n_categories + 1, n_rows)
    X[:, 2] = np.where(rng.random(n_rows) < 0.7, 0.0, X[:, 2])
    X[:, 3] = -1.0
    X[rng.random(X.shape) < 0.1] = np.nan
    return X.astype(dtype)


def shards_of(parts: list[TrainingRows], params: Params, n_threads: int = 1) -> list[Shard]:
    def work(comm):
        with Team(n_threads) as team:
            return make_shard(parts[comm.rank], CODES, params, team, comm)

    return run(work, len(parts), timeout=20)


def alone(part: TrainingRows, params: Params) -> Shard:
    with Team(1) as team:
        return make_shard(part, CODES, params, team)


def matrix(shard: Shard) -> np.ndarray:
    data = shard.data
    blocks = [
        data.bins[b].reshape(data.n_rows, BLOCK)[:, : data.block_start[b + 1] - data.block_start[b]]
        for b in range(len(data.block_start) - 1)
    ]
    return np.hstack([np.empty((data.n_rows, 0), np.uint8), *blocks])


def assert_same_thresholds(shard: Shard, whole: Shard) -> None:
    assert shard.thresholds.upper.tobytes() == whole.thresholds.upper.tobytes()
    assert_array_equal(shard.thresholds.n_bins, whole.thresholds.n_bins)
    assert_array_equal(shard.thresholds.is_categorical, whole.thresholds.is_categorical)
    assert_array_equal(np.flatnonzero(shard.thresholds.is_categorical), list(CODES))


@settings(max_examples=40)
@given(
    st.integers(0, 2**32), st.integers(1, 200), st.sampled_from([1, 2, 3, 5, 8]),
    st.sampled_from(["data", "voting", "quantized"]), st.sampled_from([np.float32, np.float64]),
    st.sampled_from([10**9, 50]),
)  # fmt: skip
def test_spread_rows_have_the_bins_of_one_worker(seed, n_rows, n_workers, tree_learner, dtype, sample_size) -> None:
    X, y, weight = rows_of(seed, n_rows, dtype=dtype), np.arange(n_rows) % 3, np.arange(n_rows) / 7
    params = parameters(tree_learner, 64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pvtree.reading.row_ids.SAMPLE_ROWS", sample_size)
        whole = alone(TrainingRows(X, y, weight), params)
        shards = shards_of(split_by_rows(TrainingRows(X, y, weight), n_workers), params)
    for shard in shards:
        assert_same_thresholds(shard, whole)
        assert_array_equal(shard.data.n_bins, whole.data.n_bins)
        assert_array_equal(shard.data.is_categorical, whole.data.is_categorical)
        assert shard.ids.n_all == n_rows and shard.first_feature == 0
    assert_array_equal(np.vstack([matrix(shard) for shard in shards]), matrix(whole))
    assert_array_equal(np.concatenate([shard.y for shard in shards]), y)
    assert_array_equal(np.concatenate([shard.weight for shard in shards]), weight)
    assert_array_equal(np.concatenate([shard.ids.numbers() for shard in shards]), np.arange(n_rows))


@settings(max_examples=20)
@given(st.integers(0, 2**32), st.integers(6, 40), st.sampled_from([1, 2, 3, 5, 8]), st.sampled_from([10**9, 50]))
def test_spread_columns_have_the_bins_of_one_worker(seed, n_features, n_workers, sample_size) -> None:
    X, y = rows_of(seed, 90, n_features), np.arange(90.0)
    params = parameters("attribute")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pvtree.reading.row_ids.SAMPLE_ROWS", sample_size)
        whole = alone(TrainingRows(X, y), params)
        shards = shards_of(split_by_columns(TrainingRows(X, y), n_workers), params)
    for shard in shards:
        assert_same_thresholds(shard, whole)
        own = slice(shard.first_feature, shard.first_feature + shard.data.n_features)
        assert_array_equal(matrix(shard), matrix(whole)[:, own])
        assert_array_equal(shard.data.n_bins, whole.data.n_bins[own])
        assert_array_equal(shard.data.is_categorical, whole.data.is_categorical[own])
        assert (shard.n_rows, shard.ids.n_all) == (90, 90)
        assert_array_equal(shard.ids.numbers(), np.arange(90))
        assert shard.n_all_features == n_features
    assert sum(shard.data.n_features for shard in shards) == n_features


def test_a_worker_of_columns_does_not_look_at_others() -> None:
    X, y = rows_of(1, 50, 12), np.zeros(50)
    whole = alone(TrainingRows(X, y), parameters("attribute"))
    parts = []
    for part in split_by_columns(TrainingRows(X, y), 3):
        hidden = np.full_like(X, -5.0)
        hidden[:, slice(*part.features)] = X[:, slice(*part.features)]
        parts.append(TrainingRows(hidden, y, features=part.features))
    for shard in shards_of(parts, parameters("attribute")):
        assert_same_thresholds(shard, whole)


def test_columns_spread_in_another_way_are_refused() -> None:
    X, y = rows_of(1, 50, 12), np.zeros(50)
    with pytest.raises(InvalidDataError, match="as split_by_columns does"):
        shards_of([TrainingRows(X, y, features=(0, 4)), TrainingRows(X, y, features=(4, 12))], parameters("attribute"))


def test_threads_change_nothing() -> None:
    X, y = rows_of(2, 9000, 40), np.zeros(9000)
    whole = alone(TrainingRows(X, y), parameters("quantized"))
    shards = shards_of(split_by_rows(TrainingRows(X, y), 2), parameters("quantized"), n_threads=3)
    assert_same_thresholds(shards[0], whole)
    assert_array_equal(np.vstack([matrix(shard) for shard in shards]), matrix(whole))


def test_queries_stay_whole() -> None:
    X, y, group = rows_of(3, 20), np.arange(20.0), np.array([1, 9, 2, 5, 3])
    parts = split_by_rows(TrainingRows(X, y, group=group), 3)
    assert [part.group.tolist() for part in parts] == [[1, 9], [2], [5, 3]]  # cut at rows 10 and 12, near 7 and 14
    for part in parts:
        assert part.group.sum() == len(part.y) == len(part.X) and part.ids.n_all == 20
        assert_array_equal(part.y, part.ids.numbers())


def test_parts_share_the_memory_of_the_whole() -> None:
    X, y = rows_of(4, 30), np.zeros(30)
    for part in split_by_rows(TrainingRows(X, y, y), 4) + split_by_columns(TrainingRows(X, y, y), 4):
        assert np.shares_memory(part.X, X) and np.shares_memory(part.y, y)
    assert [part.features for part in split_by_columns(TrainingRows(X, y), 8)][-2:] == [(6, 7), (7, 7)]


def test_quantized_bins_are_fewer_and_agree_with_their_thresholds() -> None:
    X, y = rows_of(5, 3000), np.zeros(3000)
    fine, coarse = (alone(TrainingRows(X, y), parameters(learner)) for learner in ("data", "quantized"))
    assert_array_equal(fine.thresholds.n_bins, [255, 6, 255, 1, 255, 30, 255])
    assert_array_equal(coarse.thresholds.n_bins, [26, 6, 26, 1, 26, 30, 26])
    assert_array_equal(coarse.data.n_bins, coarse.thresholds.n_bins)
    for feature in (0, 2, 4, 6):
        ends = coarse.thresholds.upper[feature, :25]
        known = ~np.isnan(X[:, feature])
        expected = np.where(known, 1 + np.searchsorted(ends, X[:, feature]), 0)
        assert_array_equal(matrix(coarse)[:, feature], expected)
    for feature in CODES:
        assert_array_equal(matrix(coarse)[:, feature], matrix(fine)[:, feature])
