"""Voting equals a brute-force PV-Tree in every ballot, elected set and split, grown one leaf at a time.

Integers are put straight into the grower, and they are few and small, so that ties happen at every step.
"""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import brute_pvtree as brute
import oracle
import pvtree
from pvtree.comm.base import Solo
from pvtree.find_split import voting
from pvtree.parameters.params import Params
from pvtree.training.train import train
from small_data import KINDS, categories_of, independent_bins, make_columns
from thoroughness import checkered, examples
from voting_trees import MOST_STEPS, SMALLEST, Case, Data, check, x_log_x

RULES = st.fixed_dictionaries(
    {
        "min_count": st.sampled_from([1, 1, 1, 2, 5, 8]),
        "max_leaves": st.sampled_from([0, 0, 2, 3, 4, 5, 7, 11, 15]),
        "max_depth": st.sampled_from([-1, -1, -1, 1, 3]),
        "min_gain": st.sampled_from([0.0, 0.0, 0.0, 0.7]),
        "min_hess": st.sampled_from([SMALLEST, SMALLEST, SMALLEST, 3.0]),
        "reg_lambda": st.sampled_from([0.0, 0.0, 1.0, 2.5]),
        "reg_alpha": st.sampled_from([0.0, 0.0, 1.5]),
        "cat_smooth": st.sampled_from([0.0, 2.0]),
        "cat_l2": st.sampled_from([0.0, 3.0]),
        "hess_scale": st.sampled_from([1.0, 0.25]),
        "gain_scale": st.sampled_from([1.0, 0.013]),
    }
)

CASES_OF: dict[str, st.SearchStrategy[Any]] = {
    "seed": st.integers(0, 2**32),
    "n_rows": st.one_of(st.integers(5, 120), st.integers(60, 120)),
    "n_features": st.one_of(st.integers(3, 12), st.integers(8, 12)),
    "n_workers": st.sampled_from([1, 2, 3, 3, 5, 5]),
    "kind": st.sampled_from(["constant", "real"]),
    "n_values": st.sampled_from([1, 2, 4, 6, 12]),
    "order": st.sampled_from(["random", "random", "random", "label", "column"]),
    "blocks": st.sampled_from(["equal", "equal", "equal", "uneven", "uneven", "one has all"]),
    "categorical": st.booleans(),
    "top_k": st.integers(1, 3),
    "election_size": st.sampled_from([1.0, 1.5, 2.0]),
    "rules": RULES,
    "tree_share": st.sampled_from([1.0, 1.0, 0.7]),
    "node_share": st.sampled_from([1.0, 1.0, 0.6]),
    "packs": st.booleans(),
    "n_slots": st.sampled_from([None, None, 0, 2, 5]),
    "most_pairs": st.sampled_from([None, None, 1, 3]),
    "ballot_rows": st.sampled_from([0, 0, 1, 40, 90]),
    "boundaries": st.sampled_from([64, 64, 2, 3, 5]),
    "candidates": st.sampled_from([4, 1, 1, 2]),
}
CASES = st.fixed_dictionaries(CASES_OF)


@examples(30)
@given(CASES)
def test_gradient_trees_equal_the_brute_force(drawn: dict[str, Any]) -> None:
    check(Case(**drawn))


@examples(20)
@given(CASES, st.sampled_from([2, 2, 3, 4, 9]))
def test_class_trees_equal_the_brute_force(drawn: dict[str, Any], n_classes: int) -> None:
    check(Case(**drawn, n_classes=n_classes))


LEAF_WISE = {
    "n_rows": st.integers(90, 120), "n_features": st.just(12), "n_values": st.just(12), "order": st.just("random"),
    "blocks": st.just("equal"), "tree_share": st.just(1.0), "most_pairs": st.none(),
    "rules": st.fixed_dictionaries({"max_leaves": st.integers(4, 15), "min_count": st.integers(1, 3)}),
}  # fmt: skip


@examples(12)
@given(st.fixed_dictionaries({**CASES_OF, **LEAF_WISE}), st.sampled_from([0, 2, 3]))
def test_splits_made_in_advance_leave_no_trace(drawn: dict[str, Any], n_classes: int) -> None:
    """Leaf budgets that are used up: some nodes turn out not to be wanted once others are known."""
    check(Case(**drawn, n_classes=n_classes))


@pytest.mark.parametrize("n_classes", [0, 2, 3])
def test_some_nodes_are_looked_at_in_advance_and_dropped(n_classes: int) -> None:
    nodes, grown = check(Case(6, 120, 12, 3, n_classes, n_values=12, rules={"max_leaves": 9}))
    assert set(grown[0].elections) - {node.path for node in nodes}


# Nodes of more rows than a packed word can take have a sum per field; these layouts' words take 512 rows. Workers
# then hold packed words of a node whose merged histogram has none, and children become small enough for words again.
@pytest.mark.parametrize(
    ("n_classes", "limits"), checkered([0, 3], [{"max_leaves": 12}, {"max_depth": 4, "min_count": 30}])
)
@pytest.mark.parametrize(("packs", "boundaries"), [(True, 64), (False, 5)])
def test_large_nodes_equal_the_brute_force(
    n_classes: int, limits: dict[str, int], packs: bool, boundaries: int
) -> None:
    nodes, _ = check(
        Case(
            5, 2500, 8, 3, n_classes, "precise", 20, categorical=True, top_k=2, rules=limits, packs=packs,
            boundaries=boundaries, ballot_rows=0 if packs else 1200,
        )
    )  # fmt: skip
    sizes = [len(node.rows) for node in nodes if node.ballots]
    assert max(sizes) > 512 > min(sizes)


@pytest.mark.parametrize(("n_values", "boundaries"), [(60, 64), (120, 64), (125, 42), (125, 31), (125, 12)])
def test_ballots_look_at_evenly_spaced_boundaries_of_many_bins(n_values: int, boundaries: int) -> None:
    """Every bin, every second, third, fourth and every tenth; columns of the same block have other numbers of bins."""
    check(
        Case(
            8,
            500,
            18,
            2,
            0,
            "real",
            n_values,
            top_k=3,
            rules={"max_leaves": 8, "min_count": 3},
            boundaries=boundaries,
            ballot_rows=10**6,
        )
    )


@pytest.mark.parametrize(("n_values", "n_features", "kind"), [(12, 150, "constant"), (125, 40, "real")])
def test_many_features_are_looked_at_twice(n_values: int, n_features: int, kind: str) -> None:
    """In more than a line of 128 features, and with bins in groups; some rows are sampled even at the second look."""
    nodes, _ = check(
        Case(
            3, 400, n_features, 2, 0, kind, n_values, top_k=2, rules={"max_leaves": 6, "min_count": 7}, candidates=3,
            ballot_rows=150,
        )
    )  # fmt: skip
    assert any(node.ballots and len(node.ballots[0]) == 2 for node in nodes)


@pytest.mark.parametrize("older", [0, 1])
def test_of_equal_gains_the_node_that_one_leaf_at_a_time_makes_first_is_split(older: int) -> None:
    """The half of the larger gain is split first, though both in the same round, so its children are older."""
    by_bin = np.array([-21, -19, -12, -12, 9, 11, 20, 20])  # bins 1 and 2 are as far apart as 5 and 6
    if older == 0:
        by_bin = np.array([-20, -20, -11, -9, 12, 12, 19, 21])
    column = np.tile(np.arange(1, 9), 10)
    bins = np.column_stack([np.ones_like(column), column, column % 2 + 1, column])
    data = Data(bins, np.column_stack([np.ones_like(column), by_bin[column - 1]]), np.array([0, 30, 80]), ())
    first, second = (older, 1 - older), (1 - older, 1 - older)  # the two nodes of equal gain
    for max_leaves, tied in ((5, {first}), (6, {first, second})):
        nodes, _ = check(Case(0, 80, 4, 2, top_k=1, rules={"max_leaves": max_leaves}), data)
        assert {node.path for node in nodes if node.children} == {(), (0,), (1,)} | tied


@examples(50)
@given(st.integers(0, 2**32), st.integers(1, 6), st.integers(1, 9), st.integers(1, 4), st.integers(1, 9))
def test_elections_equal_the_brute_force(seed: int, n_workers: int, n_features: int, k: int, n_elected: int) -> None:
    """Short ballots of few features: ties of votes, and of votes and places, everywhere."""
    rng = np.random.default_rng(seed)
    is_open = rng.random(5) < 0.8
    ballots = np.full((n_workers, int(is_open.sum()), min(k, n_features)), 65535, np.uint16)
    for ballot in ballots.reshape(-1, ballots.shape[2]):
        named = rng.permutation(n_features)[: rng.integers(0, len(ballot) + 1)]
        ballot[: len(named)] = named
    frontier = SimpleNamespace(n_features=n_features, is_open=is_open, n_nodes=len(is_open))
    elected = voting.elect(ballots, n_elected, frontier)
    number = 0
    for row in range(len(is_open)):
        its = [[int(f) for f in ballot if f != 65535] for ballot in ballots[:, number]] if is_open[row] else []
        number += is_open[row]
        expected = sorted(brute.global_voting(its, n_elected))
        assert elected.feature[elected.start[row] : elected.start[row + 1]].tolist() == expected
        votes = [sum(f in ballot for ballot in its) for f in expected]
        assert elected.votes[elected.start[row] : elected.start[row + 1]].tolist() == votes


def as_oracle_nodes(nodes: list[brute.Node]) -> list[oracle.Node]:
    """For ``oracle.assert_same_tree``, which wants to know about children only whether there are any."""
    same = []
    for node in nodes:
        split = node.split and oracle.Split(
            node.split.gain,
            node.split.attribute,
            node.split.split_bin,
            node.split.goes_left,
            node.split.default_left,
        )
        same.append(oracle.Node(node.rows, np.array(node.sums), node.path, split, node.children))
    return same


@pytest.mark.filterwarnings("ignore::pvtree.training.skew.SkewWarning")
@examples(10)
@given(
    st.integers(0, 2**32), st.integers(1, 150), st.integers(2, 6), st.sampled_from([0, 0, 2, 3, 9]), st.integers(1, 3),
    st.lists(st.sampled_from(KINDS), min_size=2, max_size=9).map(tuple), st.sampled_from([0, 3, 8]), st.integers(1, 6),
)  # fmt: skip
def test_training_by_voting_equals_the_brute_force(
    seed: int,
    n_rows: int,
    n_workers: int,
    n_classes: int,
    top_k: int,
    kinds: tuple[str, ...],
    max_leaves: int,
    least: int,
) -> None:
    """From a matrix to a model: the same blocks of rows, bins, integers and rules reach the grower."""
    rng = np.random.default_rng(seed)
    X = make_columns(kinds, n_rows, rng)
    y = np.nan_to_num(X[:, : 1 + len(kinds) // 2], nan=1.0, posinf=2.0, neginf=-1.0).clip(-3, 3).sum(axis=1).round()
    y = (y + rng.integers(0, 3, n_rows)) % n_classes if n_classes else y + rng.integers(0, 3, n_rows)
    params = Params(
        ensemble="forest", objective="classification" if n_classes else "regression", n_classes=max(n_classes, 1),
        criterion="entropy" if n_classes else "variance", n_estimators=1, bootstrap=False, verbosity=0,
        num_leaves=max_leaves, min_child_samples=least, min_child_weight=0.0, cat_smooth=0.0, cat_l2=0.0, max_bin=7,
        tree_learner="voting", n_workers=n_workers, top_k=top_k, election_size=1.0,
    )  # fmt: skip
    categorical = categories_of(kinds)
    model = train(X, y, params, categorical=categorical).model
    bins, upper = independent_bins(X, categorical, 7)
    rules = brute.Rules(min_count=least, max_leaves=max_leaves, top_k=top_k, election_size=1.0)
    if n_classes:
        values = np.eye(n_classes, dtype=np.int64)[y.astype(np.int64)]
        rules = replace(rules, x_log_x=x_log_x, gain_scale=1.0 / (n_rows * np.log(2.0)))
    else:
        gradient = math.fsum(y) / n_rows - y
        largest = float(np.abs(gradient).max())
        scale = largest / MOST_STEPS if largest > 0 else 1.0
        values = np.column_stack([np.ones(n_rows, np.int64), oracle.quantize(gradient, scale, key=None)])
        rules = replace(rules, grad_scale=scale, gain_scale=1.0 / n_rows)
    worker = np.repeat(np.arange(n_workers), [len(block) for block in np.array_split(y, n_workers)])
    nodes = brute.build_tree(brute.Rows(bins, values, worker, n_workers, categorical), rules)
    oracle.assert_same_tree(model.trees[0], as_oracle_nodes(nodes), upper, categorical, gain_rtol=0.0)


def test_one_worker_votes_only_where_that_saves_work() -> None:
    """Of a small table it adds up everything, as the sequential algorithm does, and makes its model."""
    alone = voting.Voting(Solo(), top_k=2, election_size=2.0, packs=True, ballot_rows=50)
    assert alone.n_ballot_rows(400, 40_000) == 0
    assert alone.n_ballot_rows(1200, 100_000) == 50
    assert alone.n_ballot_rows(4, 10**9) == 0  # all four are elected
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(500, 60)), rng.integers(0, 2, 500)
    models = [
        pvtree.GBDTClassifier(n_estimators=2, tree_learner=learner, ballot_rows=20, top_k=2, verbosity=0).fit(X, y)
        for learner in ("serial", "voting")
    ]
    assert_array_equal(*(model.predict_proba(X) for model in models))
