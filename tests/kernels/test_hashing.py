"""Hashes: the same as in plain integers, evenly spread, and draws without replacement."""

from __future__ import annotations

import numpy as np
import pytest

import oracle
from pvtree.kernels.hashing import bootstrap_multiplicities, hash_pair, keep_rows, sample_features, unit_interval

BIG = 2**64 - 1


@pytest.mark.parametrize("key", [0, 1, 12345, 2**63, BIG])
def test_hash_equals_plain_integers(key: int) -> None:
    for counter in (0, 1, 2, 1000, 2**40):
        assert int(hash_pair(np.uint64(key), np.int64(counter))) == oracle.hash_number(key, counter)


def test_unit_interval_never_reaches_one() -> None:
    assert unit_interval(np.uint64(0)) == 0.0
    assert 0.9999 < unit_interval(np.uint64(BIG)) < 1.0


def test_every_bit_is_set_half_of_the_time_and_neighbours_are_unrelated() -> None:
    n = 20_000
    numbers = np.array([hash_pair(np.uint64(7), np.int64(i)) for i in range(n)], np.uint64)
    bits = (numbers[:, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)
    assert len(np.unique(numbers)) == n
    four_sigma = 4 * 0.5 / np.sqrt(n)
    assert (np.abs(bits.mean(axis=0) - 0.5) < four_sigma + 0.005).all()
    assert abs((bits[1:] ^ bits[:-1]).mean() - 0.5) < 0.002
    # Other keys are other streams.
    other = np.array([hash_pair(np.uint64(8), np.int64(i)) for i in range(n)], np.uint64)
    assert abs(np.corrcoef(numbers.astype(float), other.astype(float))[0, 1]) < 0.03


def test_kept_rows_and_copies_follow_the_global_row_id() -> None:
    n, key = 5000, np.uint64(99)
    limit = np.uint64(2**62)
    cumulative = np.cumsum([0.4, 0.3, 0.2])
    kept, copies = np.empty(n, np.bool_), np.empty(n, np.uint8)
    keep_rows(0, n, key, limit, 0, kept)
    bootstrap_multiplicities(0, n, key, 0, cumulative, copies)
    assert abs(kept.mean() - 0.25) < 0.03
    np.testing.assert_allclose(np.bincount(copies) / n, [0.4, 0.3, 0.2, 0.1], atol=0.03)
    for first in (0, 1, 1234):
        some, fewer = np.empty(100, np.bool_), np.empty(100, np.uint8)
        keep_rows(0, 100, key, limit, first, some)
        bootstrap_multiplicities(0, 100, key, first, cumulative, fewer)
        np.testing.assert_array_equal(some, kept[first : first + 100])
        np.testing.assert_array_equal(fewer, copies[first : first + 100])


@pytest.mark.parametrize(("n", "n_chosen"), [(1, 1), (10, 3), (10, 10), (100, 37)])
def test_features_are_drawn_without_replacement_and_the_list_is_left_as_it_was(n: int, n_chosen: int) -> None:
    features, chosen = np.arange(n) * 3, np.empty(n_chosen, np.int64)
    sample_features(np.uint64(5), features, np.int64(n_chosen), chosen)
    np.testing.assert_array_equal(chosen, oracle.draw(5, list(range(0, 3 * n, 3)), n_chosen))
    assert len(set(chosen.tolist())) == n_chosen
    np.testing.assert_array_equal(features, np.arange(n) * 3)


def test_every_feature_is_drawn_equally_often() -> None:
    chosen, drawn = np.empty(4, np.int64), np.zeros(20)
    for key in range(3000):
        sample_features(np.uint64(key), np.arange(20), np.int64(4), chosen)
        drawn[chosen] += 1
    assert (np.abs(drawn / 3000 - 0.2) < 5 * np.sqrt(0.2 * 0.8 / 3000)).all()
