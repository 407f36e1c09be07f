"""Ballots counted by tellers give the election of those who gather them, at a price that workers do not raise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from pvtree.comm import Communicator, local
from pvtree.find_split import tellers
from pvtree.find_split.exchange import Exchange
from pvtree.parameters.params import Params
from pvtree.training.train import train


def made_ballots(rng: np.random.Generator, n_workers: int, n_nodes: int, k: int, n_features: int) -> np.ndarray:
    """uint16 (workers, nodes, k): different names on each; some name fewer, and no vote is the largest number."""
    ballots = rng.random((n_workers, n_nodes, n_features)).argsort(axis=2)[:, :, :k].astype(np.uint16)
    blank = np.arange(k) >= rng.integers(0, k + 1, (n_workers, n_nodes, 1))
    return np.where(blank, np.uint16(np.iinfo(np.uint16).max), ballots)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 7), st.integers(0, 9), st.integers(1, 4), st.integers(1, 9))
def test_tellers_elect_what_everybody_would(seed, n_workers, n_nodes, k, n_elected):
    ballots = made_ballots(np.random.default_rng(seed), n_workers, n_nodes, k, 9)
    expected = tellers.elect(ballots, 9, n_elected)

    def count(comm: Communicator):
        return tellers.count_by_tellers(ballots[comm.rank], 9, n_elected, Exchange(comm))

    for found in local.run(count, n_workers):
        for mine, all_know in zip(found, expected, strict=True):
            assert_array_equal(mine, all_know)


def test_trees_and_votes_do_not_depend_on_who_counts(monkeypatch: pytest.MonkeyPatch):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(600, 12))
    y = (X[:, 0] + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=600) > 0).astype(np.float64)
    params = Params(objective="binary", n_estimators=3, num_leaves=8, tree_learner="voting", n_workers=3, top_k=3)
    expected = train(X, y, params)
    monkeypatch.setattr(tellers, "BYTES_OF_A_COLLECTIVE", 0)
    result = train(X, y, params)
    assert_array_equal(result.model.predict_raw(X), expected.model.predict_raw(X))
    assert result.votes == expected.votes
    calls = [each.traffic.by_phase["ballots"].calls for each in (result, expected)]
    assert calls[0] == 2 * calls[1] > 0
    assert train(X, y, replace(params, n_workers=1)).traffic.total_bytes == 0


def test_the_price_of_a_node_does_not_grow_with_the_workers():
    ballots = made_ballots(np.random.default_rng(0), 32, 64, 8, 40)

    def sent(comm: Communicator) -> int:
        tellers.count_by_tellers(ballots[comm.rank], 40, 16, Exchange(comm))
        return comm.traffic["ballots"].bytes

    few, many = (np.mean(local.run(sent, size)) for size in (4, 32))
    assert many < 2 * few  # gathered, they would take ten times the bytes
