"""top_k="auto": each level finds the number of votes that costs the least, and follows it when it moves."""

from __future__ import annotations

import numpy as np
import pytest

import pvtree
from pvtree.find_split import exact_voting
from pvtree.find_split.top_k_by_level import _RUNGS, TopKByLevel


def run(chosen: TopKByLevel, n_trees: int, best: list[int], noise: float = 0.0) -> list[list[int]]:
    """Trees whose bytes at a level grow with the distance from its best k; returns the k of every tree and level."""
    rng = np.random.default_rng(0)
    seen = []
    for _ in range(n_trees):
        ks = [chosen[level] for level in range(len(best))]
        n_open = 2 ** np.arange(len(best))
        cost = [
            1000.0 * (1.0 + abs(np.log(k / b))) * (1.0 + noise * rng.standard_normal())
            for k, b in zip(ks, best, strict=True)
        ]
        chosen.learn(np.array(cost) * n_open, n_open.tolist())
        seen.append(ks)
    return seen


def test_every_level_finds_its_own_number_of_votes() -> None:
    seen = run(TopKByLevel("auto"), 60, best=[1, 3, 50], noise=0.02)
    # It tries both neighbours from time to time, and is at the best one every other tree.
    for level, best in enumerate((1, 3, 50)):
        last = [ks[level] for ks in seen[-12:]]
        near = {_RUNGS[max(0, _RUNGS.index(best) + step)] for step in (-1, 0, 1)}
        assert set(last) <= near
        assert last.count(best) >= 6


def test_the_number_of_votes_follows_what_is_cheapest() -> None:
    chosen = TopKByLevel("auto")
    run(chosen, 40, best=[2])
    seen = run(chosen, 60, best=[32])
    assert [ks[0] for ks in seen[-8:]].count(32) >= 4


def test_a_given_number_of_votes_stays() -> None:
    assert run(TopKByLevel(7), 5, best=[1, 50]) == [[7, 7]] * 5


def test_votes_are_not_chosen_where_that_would_change_the_model() -> None:
    X, y = np.zeros((10, 2)), np.arange(10) % 2
    with pytest.raises(pvtree.InvalidParameterError, match="tree_learner='exact_voting'"):
        pvtree.GBDTClassifier(tree_learner="voting", top_k="auto", n_workers=2).fit(X, y)
    with pytest.raises(pvtree.InvalidParameterError, match="top_k must be an integer of at least 1"):
        pvtree.GBDTClassifier(tree_learner="exact_voting", top_k="many", n_workers=2).fit(X, y)
    with pytest.warns(UserWarning, match="audit does nothing"):
        pvtree.GBDTClassifier(tree_learner="data", audit=3, n_workers=2, verbosity=0, n_estimators=1).fit(X, y)


def test_collectives_count_as_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """If beginning one costs nothing, fewer votes are chosen, and proofs take more collectives."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(4_000, 60)).astype(np.float32)
    y = (X[:, :12] @ np.linspace(1, 2, 12) + 3 * rng.normal(size=4_000) > 0).astype(int)
    options = {"tree_learner": "exact_voting", "n_workers": 3, "top_k": "auto", "n_estimators": 24, "num_leaves": 15}
    calls, models = [], set()
    for n_bytes in (0, 10**8):
        monkeypatch.setattr(exact_voting, "BYTES_OF_A_COLLECTIVE", n_bytes)
        model = pvtree.GBDTClassifier(**options, verbosity=0).fit(X, y)
        calls.append(model.traffic_.calls_per_tree)
        models.add(model.model_.to_json())
    assert calls[1] < 0.95 * calls[0]
    assert len(models) == 1
