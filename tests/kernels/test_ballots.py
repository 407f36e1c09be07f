"""Local and global voting against the slow and obvious way: sort, count, sort."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import oracle
from growing_rows import make_rules
from packed_rows import random_values
from pvtree.find_split import voting
from pvtree.kernels.wire import ballots as kernels
from thoroughness import examples
from worker_rows import Workers, any_rows, brute_rules, brute_values

SETTINGS = examples(60)
BALLOTS = [np.uint16, np.uint32]


def no_vote(dtype: Any) -> int:
    return int(np.iinfo(dtype).max)


# Local voting


def naive_ballot(gains: np.ndarray, allowed: np.ndarray, is_open: bool, k: int, blank: int) -> list[int]:
    features = [f for f in range(len(gains)) if allowed[f] and gains[f] > -np.inf] if is_open else []
    features.sort(key=lambda f: (-gains[f], f))
    return [*features[:k], *[blank] * (k - len(features))]


@SETTINGS
@given(
    seed=st.integers(0, 2**32),
    n_rows=st.integers(1, 5),
    n_features=st.integers(1, 12),
    k=st.integers(1, 15),
    n_levels=st.sampled_from([1, 3, 1000]),
    dtype=st.sampled_from(BALLOTS),
)
def test_a_ballot_has_the_best_features(
    seed: int, n_rows: int, n_features: int, k: int, n_levels: int, dtype: Any
) -> None:
    """With few levels most gains are equal; some features have no split, and some nodes are closed."""
    rng = np.random.default_rng(seed)
    gains = rng.integers(1, n_levels + 1, (n_rows, n_features)) / 7.0
    gains[rng.random(gains.shape) < rng.choice([0.0, 0.3, 0.9])] = -np.inf
    allowed = (rng.random(gains.shape) < rng.choice([0.4, 1.0])).astype(np.uint8)
    votes = rng.random(n_rows) < 0.8
    ballots = np.full((n_rows, k), 7, dtype)
    kernels.top_k(0, n_rows, votes, gains, allowed, no_vote(dtype), ballots)
    expected = [naive_ballot(gains[row], allowed[row], votes[row], k, no_vote(dtype)) for row in range(n_rows)]
    assert_array_equal(ballots, expected)


def test_only_the_rows_asked_for_are_filled_in() -> None:
    ballots = np.full((4, 1), 9, np.uint16)
    kernels.top_k(1, 3, np.ones(4, bool), np.ones((4, 2)), np.ones((4, 2), np.uint8), 65535, ballots)
    assert ballots[:, 0].tolist() == [9, 0, 0, 9]


@examples(25)
@given(
    name=st.sampled_from(["gradient constant", "gradient real", "3 classes copies"]),
    seed=st.integers(0, 2**32),
    n_workers=st.sampled_from([1, 2, 3, 5]),
    n_rows=st.sampled_from([10, 40, 300]),
    min_count=st.sampled_from([1, 4, 10]),
)
def test_local_gains_follow_the_rules_at_a_workers_size(
    name: str, seed: int, n_workers: int, n_rows: int, min_count: int
) -> None:
    """ADR 0009: of each worker's own rows, with all that counts rows divided by the number of workers."""
    rng = np.random.default_rng(seed)
    bins, worker_of = any_rows(rng, n_rows, 5, n_workers)
    rules = make_rules(
        name, min_count=min_count, min_gain=1e9, reg_lambda=3.0, reg_alpha=2.0, cat_smooth=5.0, cat_l2=4.0, max_depth=2,
        min_hess=2.5,
    )  # fmt: skip
    workers = Workers(name, bins, random_values(name, n_rows, rng), worker_of, n_workers, rules, categorical=(3,))
    for level in range(2):
        if level == 1:
            parents = workers.frontiers[0].with_open_children(workers.split_any(rng, share=1.0))
            if len(parents) == 0:
                return
            workers.look_at_children(parents)
        for rank, frontier in enumerate(workers):
            expected = naive_gains(workers, rank, rules, n_workers)
            assert_allclose(frontier.local_gains(), expected, rtol=1e-12)
            # The wrapper leaves out closed nodes.
            ballots = voting.top_k(frontier, 2)
            assert ballots.dtype == np.uint16 and ballots.shape == (frontier.is_open.sum(), 2)
            for ballot, gains in zip(ballots, frontier.local_gains()[frontier.is_open], strict=True):
                assert ballot.tolist() == naive_ballot(gains, np.ones(5), True, 2, 65535)


def naive_gains(workers: Workers, rank: int, rules: Any, n_workers: int) -> np.ndarray:
    names = ("min_hess", "reg_lambda", "reg_alpha", "cat_smooth", "cat_l2")
    divided = {name: getattr(rules, name) / n_workers for name in names}
    local = replace(brute_rules(rules), min_count=-(-rules.min_count // n_workers), min_gain=0.0, **divided)
    values = brute_values(workers.values, rules)
    gains = np.full((len(workers.row_node), workers.n_features), -np.inf)
    for row, node in enumerate(workers.row_node):
        if not workers.frontiers[rank].is_open[row]:
            continue
        rows = np.intersect1d(workers.rows_of[node], workers.own_rows[rank])
        here = oracle.Node(rows, values[rows].sum(axis=0), ())
        for feature in range(workers.n_features):
            best = oracle.find_best_split(here, workers.bins, values, (3,), np.array([feature]), local)
            gains[row, feature] = best.gain if best else -np.inf
    return gains


@pytest.mark.parametrize(("k", "width"), [(2, 2), (9, 5)])
def test_a_ballot_is_no_longer_than_the_list_of_features(k: int, width: int) -> None:
    rng = np.random.default_rng(0)
    bins, worker_of = any_rows(rng, 60, 5, 1)
    name = "gradient constant"
    workers = Workers(name, bins, random_values(name, 60, rng), worker_of, 1, make_rules(name))
    assert voting.top_k(workers.frontiers[0], k).shape == (1, width)


# Global voting


def naive_election(ballots: np.ndarray, n_elected: int, blank: int) -> tuple[list[int], list[int]]:
    """(features in rising order, their votes) of one node's ballots (workers, k)."""
    votes: Counter[int] = Counter()
    places: Counter[int] = Counter()
    for ballot in ballots.tolist():
        for place, feature in enumerate(ballot):
            if feature != blank:
                votes[feature] += 1
                places[feature] += place
    ranking = sorted(votes, key=lambda f: (-votes[f], places[f], f))
    elected = sorted(ranking[:n_elected])
    return elected, [votes[f] for f in elected]


def any_ballots(rng: np.random.Generator, shape: tuple[int, int, int], n_features: int, dtype: Any) -> np.ndarray:
    """Blanks only at a ballot's end, as workers fill them in; small worlds make ties."""
    n_workers, n_rows, k = shape
    ballots = np.full(shape, no_vote(dtype), dtype)
    for m in range(n_workers):
        for row in range(n_rows):
            n = int(rng.integers(0, min(k, n_features) + 1))
            ballots[m, row, :n] = rng.permutation(n_features)[:n]
    return ballots


@SETTINGS
@given(
    seed=st.integers(0, 2**32),
    shape=st.tuples(st.integers(1, 6), st.integers(1, 4), st.integers(1, 6)),
    n_features=st.integers(1, 12),
    n_elected=st.integers(1, 14),
    dtype=st.sampled_from(BALLOTS),
)
def test_the_features_on_most_ballots_are_elected(
    seed: int, shape: tuple[int, int, int], n_features: int, n_elected: int, dtype: Any
) -> None:
    rng = np.random.default_rng(seed)
    ballots = any_ballots(rng, shape, n_features, dtype)
    # Some nodes of the frontier are closed: they have no ballots, and elect nothing.
    is_open = np.ones(shape[1] + int(rng.integers(0, 3)), bool)
    is_open[rng.permutation(len(is_open))[: len(is_open) - shape[1]]] = False
    frontier: Any = SimpleNamespace(n_nodes=len(is_open), n_features=n_features, is_open=is_open)
    elected = voting.elect(ballots, n_elected, frontier)
    open_rows = iter(range(shape[1]))
    for row in range(len(is_open)):
        span = slice(elected.start[row], elected.start[row + 1])
        expected: tuple[list[int], list[int]] = ([], [])
        if is_open[row]:
            expected = naive_election(ballots[:, next(open_rows)], n_elected, no_vote(dtype))
        assert (elected.feature[span].tolist(), elected.votes[span].tolist()) == expected
    assert elected.start[0] == 0 and elected.start[-1] == len(elected.feature) == len(elected.votes)


def elect(ballots: list[list[int]], n_features: int, n_elected: int, dtype: Any = np.uint16) -> list[int]:
    frontier: Any = SimpleNamespace(n_nodes=1, n_features=n_features, is_open=np.array([True]))
    return voting.elect(np.array(ballots, dtype)[:, None], n_elected, frontier).feature.tolist()


def test_ties_go_by_places_and_then_by_the_lower_feature() -> None:
    blank = no_vote(np.uint16)
    assert elect([[5, 1], [1, 5], [7, 3]], 9, 2) == [1, 5]  # two votes beat one
    assert elect([[9, 2], [4, 2]], 10, 2) == [2, 4]  # both others came first once
    assert elect([[3, 8], [blank, blank]], 10, 1) == [3]  # one vote each, but 3 was the first
    assert elect([[1, 6, 2], [2, 6, 1]], 10, 1) == [1]  # equal votes and equal places
    assert elect([[1, 6, 2], [6, 2, 1]], 10, 1) == [6]  # equal votes, better places


def test_features_beyond_the_short_ballots() -> None:
    """From 65535 features on a ballot's numbers take four bytes, and 65535 is a feature like any other."""
    blank = no_vote(np.uint32)
    ballots = [[69_999, 65_535, 3], [65_535, 69_999, blank]]
    assert elect(ballots, 70_000, 2, np.uint32) == [65_535, 69_999]
    assert elect(ballots, 70_000, 3, np.uint32) == [3, 65_535, 69_999]
    assert elect([[65_534, 0]], 65_535, 1, np.uint32) == [65_534]


@pytest.mark.parametrize(("n_features", "dtype"), [(65_534, np.uint16), (65_535, np.uint32)])
def test_ballots_are_as_short_as_the_features_allow(n_features: int, dtype: Any) -> None:
    """Two bytes, as long as one number is left that is no feature."""
    gains = np.full((1, n_features), -np.inf)
    gains[0, -1] = 1.0
    frontier: Any = SimpleNamespace(
        n_nodes=1, n_features=n_features, is_open=np.array([True]), allowed=np.ones((1, n_features), np.uint8),
        local_gains=lambda *_: gains, ballot_sample=None,
    )  # fmt: skip
    ballots = voting.top_k(frontier, 2)
    assert ballots.dtype == dtype
    assert ballots.tolist() == [[n_features - 1, no_vote(dtype)]]
