"""Voting equals a brute-force PV-Tree in every ballot, elected set and split, grown one leaf at a time.

Integers are put straight into the grower, and they are few and small, so that ties happen at every step.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import pairwise
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import brute_pvtree as brute
import oracle
from pvtree.binning.binned_rows import BinnedRows
from pvtree.binning.shard import Shard
from pvtree.binning.thresholds import Thresholds, block_starts
from pvtree.comm import Communicator, local
from pvtree.find_split import voting
from pvtree.find_split.voting import Voting
from pvtree.growing.frontier import Frontier
from pvtree.growing.frontier_grower import FrontierGrower
from pvtree.growing.frontier_records import Elected
from pvtree.growing.layouts import Layout, class_layout, gradient_layout
from pvtree.growing.tree_memory import GrownTree, Rules
from pvtree.kernels.constants import BLOCK, ENTROPY, GRADIENT, N_BINS
from pvtree.kernels.elementary import log
from pvtree.kernels.team import Team
from pvtree.parameters.params import Params
from pvtree.reading.row_ids import RowIds
from pvtree.training.train import train
from small_data import KINDS, categories_of, independent_bins, make_columns

QUICK = settings(deadline=None, derandomize=True, database=None)
SMALLEST = 2.0**-1022
# The largest integer that a label's distance from the mean becomes, where only it and the count share a word.
MOST_STEPS = 2**36 - 1
LEAST_ROWS = 5  # of a worker that vote, where not all do: few, as there are few rows


@cache
def x_log_x(x: int) -> float:
    """With the project's own logarithm, tested by itself: ties hang on its last bit."""
    return x * float(log(float(x))) if x else 0.0


@dataclass(frozen=True)
class Case:
    """``n_classes`` 0 is (hessian, gradient). ``kind`` says how they are packed."""

    seed: int
    n_rows: int
    n_features: int
    n_workers: int
    n_classes: int = 0
    kind: str = "constant"  # "constant" | "real" | "precise", of hessians or of class weights
    n_values: int = 4
    order: str = "random"  # of the rows: "random" | "label" | "column"
    blocks: str = "equal"  # "equal" | "uneven" | "one has all"
    categorical: bool = False
    top_k: int = 2
    election_size: float = 2.0
    rules: dict[str, Any] = field(default_factory=dict)
    tree_share: float = 1.0
    node_share: float = 1.0
    packs: bool = True
    n_slots: int | None = None  # histograms that a worker can keep; None: enough
    most_pairs: int | None = None  # of siblings that are looked at together; None: all
    ballot_rows: int = 0  # that vote at the root; 0: all
    boundaries: int = 64  # between an ordered feature's bins that ballots by samples look at

    @property
    def layout(self) -> Layout:
        if self.n_classes:
            return class_layout(self.n_classes, "real" if self.kind == "precise" else self.kind)
        return gradient_layout(self.n_rows, self.kind.replace("precise", "real"), self.kind == "precise")


@dataclass(frozen=True)
class Data:
    bins: np.ndarray
    values: np.ndarray  # (n_rows, n_classes) or (n_rows, 2): hessian, gradient
    bounds: np.ndarray  # of the workers' blocks of rows
    categorical: tuple[int, ...]


def make_column(case: Case, before: list[np.ndarray], rng: np.random.Generator) -> np.ndarray:
    """A column of few bins, with or without missing values, or an earlier one again: as it was, mirrored, moved."""
    if before and rng.random() < 0.4:
        again = before[rng.integers(len(before))]
        return [again, np.where(again > 0, 1 + again.max() - again, 0), np.where(again > 0, again + 2, 0)][
            rng.integers(3)
        ]
    column = rng.integers(1, 2 + rng.integers(0, case.n_values), case.n_rows) * rng.integers(1, 3)
    return np.where(rng.random(case.n_rows) < 0.25, 0, column) if rng.random() < 0.4 else column


def make_data(case: Case) -> Data:
    rng = np.random.default_rng(case.seed)
    columns: list[np.ndarray] = []
    for _ in range(case.n_features):
        columns.append(make_column(case, columns, rng))
    bins = np.column_stack(columns)
    signal = (bins[:, :3] > 1).sum(axis=1) + rng.integers(0, 1 + rng.integers(1, 6), case.n_rows)
    if case.n_classes:
        label = (signal + (rng.random(case.n_rows) < 0.2) * rng.integers(0, 9, case.n_rows)) % case.n_classes
        weight = np.ones(case.n_rows, np.int64) if case.kind == "constant" else rng.integers(0, 4, case.n_rows)
        values = np.eye(case.n_classes, dtype=np.int64)[label] * weight[:, None]
    else:
        hessian = np.ones(case.n_rows, np.int64) if case.kind == "constant" else rng.integers(0, 4, case.n_rows)
        values = np.column_stack([hessian, signal - 3])
    order = {
        "random": np.arange(case.n_rows),
        "label": np.argsort(values @ np.arange(1, values.shape[1] + 1), kind="stable"),
        "column": np.argsort(bins[:, 0], kind="stable"),
    }[case.order]
    cuts = {
        "equal": np.arange(1, case.n_workers) * case.n_rows // case.n_workers,
        "uneven": np.sort(rng.integers(0, case.n_rows + 1, case.n_workers - 1)),
        "one has all": np.sort(rng.integers(0, 2, case.n_workers - 1)) * case.n_rows,
    }[case.blocks]
    categorical = tuple(np.flatnonzero(rng.random(case.n_features) < 0.4).tolist()) if case.categorical else ()
    return Data(bins[order], values[order], np.array([0, *cuts, case.n_rows]), categorical)


def rules_of(case: Case) -> Rules:
    neutral = {
        "reg_lambda": 0.0, "reg_alpha": 0.0, "min_count": 1, "min_hess": SMALLEST, "min_gain": 0.0, "grad_scale": 1.0,
        "hess_scale": 1.0, "gain_scale": 1.0, "cat_smooth": 0.0, "cat_l2": 0.0, "max_leaves": 0, "max_depth": -1,
    }  # fmt: skip
    n_in_tree = round(case.tree_share * case.n_features)
    return Rules(
        **{**neutral, **case.rules}, criterion=ENTROPY if case.n_classes else GRADIENT, noise=0.0, key=case.seed,
        hess_field=0 if case.n_classes or case.kind == "constant" else 1,
        n_sampled=0 if case.node_share == 1.0 else max(1, round(case.node_share * n_in_tree)),
    )  # fmt: skip


def tree_features_of(case: Case) -> np.ndarray:
    rng = np.random.default_rng(case.seed + 1)
    return np.sort(rng.permutation(case.n_features)[: round(case.tree_share * case.n_features)])


# The package's way


@dataclass(frozen=True)
class Election:
    ballots: list[list[int]]  # by worker
    elected: list[int]


@dataclass(frozen=True)
class Grown:
    """What one worker has in the end."""

    tree: GrownTree
    leaf_rows: dict[int, list[int]]  # by node in level order: the worker's rows, by their number in the whole data
    elections: dict[brute.Path, Election]
    votes: tuple[int, int, int, int]
    n_rounds: int  # how often splits of a frontier were looked for
    n_collectives: int  # in all rounds together


class Elections:
    """Looks on while workers elect, and knows nodes by their path from the root."""

    def __init__(self) -> None:
        self.by_frontier: dict[int, dict[brute.Path, Election]] = {}
        self.paths: dict[int, dict[int, brute.Path]] = {}
        self.elect = voting.elect

    def __call__(self, ballots: np.ndarray, n_elected: int, frontier: Frontier) -> Elected:
        elected = self.elect(ballots, n_elected, frontier)
        paths = self.paths.setdefault(id(frontier), {0: ()})
        for i, parent in enumerate(frontier.pairs):
            for side in range(2):
                paths[int(frontier.row_node[2 * i + side])] = (*paths[parent], side)
        nobody = np.iinfo(ballots.dtype).max
        seen = self.by_frontier.setdefault(id(frontier), {})
        for number, row in enumerate(np.flatnonzero(frontier.is_open)):
            own = [[int(f) for f in ballots[m, number] if f != nobody] for m in range(len(ballots))]
            chosen = elected.feature[elected.start[row] : elected.start[row + 1]].tolist()
            seen[paths[int(frontier.row_node[row])]] = Election(own, chosen)
        return elected


class CountedVoting(Voting):
    n_rounds = 0

    def find_splits(self, frontier: Frontier) -> None:
        self.n_rounds += 1
        super().find_splits(frontier)


def make_shard(data: Data, first: int, stop: int, team: Team) -> Shard:
    n_features = data.bins.shape[1]
    starts = block_starts(n_features, team.n_threads).astype(np.int64)
    blocks = np.zeros((len(starts) - 1, stop - first, BLOCK), np.uint8)
    for b, (start, end) in enumerate(pairwise(starts)):
        blocks[b, :, : end - start] = data.bins[first:stop, start:end]
    is_categorical = np.isin(np.arange(n_features), data.categorical).astype(np.uint8)
    n_bins = np.maximum(data.bins.max(axis=0), 1).astype(np.int64)
    binned = BinnedRows(blocks.reshape(len(blocks), -1), starts, n_bins, is_categorical)
    thresholds = Thresholds(np.zeros((n_features, N_BINS)), n_bins, is_categorical)
    return Shard(
        binned,
        thresholds,
        np.zeros(stop - first),
        None,
        None,
        RowIds.consecutive(stop - first, first, len(data.bins)),
        0,
    )


def load(grower: FrontierGrower, values: np.ndarray, layout: Layout) -> np.ndarray:
    """Pack the rows' statistics as ``Layout`` says; returns their sums."""
    memory, n_rows = grower.memory, len(values)
    memory.rows[0, :n_rows] = np.arange(n_rows)
    memory.words[0, :n_rows] = 1 + (values << layout.shift).sum(axis=1)
    if layout.n_planes > 1:
        memory.planes[0, :n_rows] = layout.plane[np.argmax(values, axis=1)]
    return memory.add_up(n_rows)


def grow(case: Case, data: Data, comm: Communicator, elections: Elections) -> Grown:
    first, stop = data.bounds[comm.rank : comm.rank + 2].tolist()
    layout, rules = case.layout, rules_of(case)
    with Team(1 + case.seed % 2) as team:
        shard = make_shard(data, first, stop, team)
        strategy = CountedVoting(comm, case.top_k, case.election_size, case.packs, case.ballot_rows)
        grower = FrontierGrower(shard, layout, rules.max_leaves, rules.n_sampled, team, comm, strategy)
        if case.n_slots is not None:
            grower.memory.make_pools(case.n_slots, 2**20)
        grower.most_pairs = case.most_pairs or grower.most_pairs
        values = data.values[first:stop, -len(layout.shift) :]
        sums = comm.allreduce(load(grower, values, layout), "scores")
        n_before = comm.traffic.total().calls
        tree = grower.grow(stop - first, sums, rules, tree_features_of(case))
        n_collectives = comm.traffic.total().calls - n_before
        strategy.finish_training()
        leaf_rows: dict[int, list[int]] = {}
        for leaf, start, end, buffer in zip(
            tree.run_leaf, [0, *tree.run_stop[:-1]], tree.run_stop, tree.run_buffer, strict=False
        ):
            leaf_rows.setdefault(int(leaf), []).extend((first + grower.memory.rows[buffer, start:end]).tolist())
        its_elections = elections.by_frontier.get(id(grower.frontier), {})
        return Grown(tree, leaf_rows, its_elections, tuple(strategy.votes[-1]), strategy.n_rounds, n_collectives)


# The brute force's way, and the comparison


def sampling(case: Case, data: Data) -> dict[str, Any]:
    """The rows and boundaries by which workers vote, if not by all; naively, in floating point."""
    rules = rules_of(case)
    if case.ballot_rows == 0 or (rules.n_sampled or len(tree_features_of(case))) <= int(
        case.election_size * case.top_k
    ):
        return {}
    key = oracle.hash_number(case.seed, 7)
    level = np.array(
        [math.floor(-2.0 * math.log2(oracle.hash_number(key, row) / 2.0**64)) for row in range(case.n_rows)]
    )

    def sample(own: np.ndarray, n_rows: int) -> np.ndarray:
        wanted = max(LEAST_ROWS, math.ceil(math.sqrt(n_rows / case.n_rows) * (case.ballot_rows / case.n_workers)))
        if len(own) <= wanted:
            return own
        last = np.sort(level[own])[::-1][wanted - 1]
        fewer, more = own[level[own] > last], own[level[own] >= last]
        return fewer if len(fewer) * len(more) >= wanted**2 else more

    # Plain data is searched 16 features at a time.
    is_plain = not data.categorical and not case.n_classes
    return {"sample": sample, "ballot_boundaries": case.boundaries, "block": 16 if is_plain else 1}


def brute_force(case: Case, data: Data) -> list[brute.Node]:
    rules = rules_of(case)
    names = ("reg_lambda", "reg_alpha", "min_count", "min_hess", "min_gain", "grad_scale", "hess_scale", "gain_scale",
             "cat_smooth", "cat_l2", "max_leaves", "max_depth")  # fmt: skip
    same = {name: getattr(rules, name) for name in names}
    worker = np.repeat(np.arange(case.n_workers), np.diff(data.bounds))
    rows = brute.Rows(data.bins, data.values, worker, case.n_workers, data.categorical)
    in_tree = tree_features_of(case).tolist()
    attributes_of: Callable[[brute.Path], Any] = lambda _: in_tree  # noqa: E731
    if rules.n_sampled:
        attributes_of = partial(oracle.draw_at_node, case.seed, features=in_tree, n_chosen=rules.n_sampled)
    return brute.build_tree(
        rows,
        brute.Rules(
            **same,
            x_log_x=x_log_x if case.n_classes else None,
            top_k=case.top_k,
            election_size=case.election_size,
            **sampling(case, data),
        ),
        attributes_of,
    )


def assert_same_splits(tree: GrownTree, nodes: list[brute.Node], data: Data, layout: Layout) -> None:
    splits = [node.split if node.children else None for node in nodes]
    assert_array_equal(tree.feature, [split.attribute if split else -1 for split in splits])
    n_values = len(layout.shift)
    assert_array_equal(tree.sums[:, : layout.n_planes].sum(axis=1), [len(node.rows) for node in nodes])
    assert_array_equal(tree.sums[:, layout.n_planes :], [node.sums[-n_values:] for node in nodes])
    assert_array_equal(tree.gain, [split.gain if split else 0.0 for split in splits])
    for i, split in enumerate(splits):
        if split is None:
            assert tree.left_child[i] == 0
        elif split.attribute in data.categorical:
            words = tree.left_set[i].tolist()
            assert {b for b in range(256) if words[b // 64] >> (b % 64) & 1} == split.goes_left
        else:
            assert (tree.split_bin[i], tree.default_left[i]) == (split.split_bin, split.default_left)


def expected_votes(nodes: list[brute.Node], n_workers: int) -> tuple[int, int, int, int]:
    """Splits whose attribute was on all ballots, on at least half, on fewer; ballots that named it.

    Of those that were voted about.
    """
    votes = [
        sum(node.split.attribute in ballot for ballot in node.ballots)
        for node in nodes
        if node.children and node.split and node.ballots is not None
    ]
    by_all = sum(v == n_workers for v in votes)
    by_half = sum(2 * v >= n_workers for v in votes) - by_all
    return by_all, by_half, len(votes) - by_all - by_half, sum(votes)


def check(case: Case, data: Data | None = None) -> tuple[list[brute.Node], list[Grown]]:
    data = data or make_data(case)
    elections = Elections()
    with (
        patch.object(voting, "elect", elections),
        patch("pvtree.growing.frontier.BALLOT_BOUNDARIES", case.boundaries),
        patch("pvtree.growing.ballot_sample.LEAST_ROWS", LEAST_ROWS),
    ):
        grown = local.run(lambda comm: grow(case, data, comm, elections), case.n_workers)
    nodes = brute_force(case, data)
    number = {node.path: i for i, node in enumerate(nodes)}
    for worker, its in enumerate(grown):
        assert_same_splits(its.tree, nodes, data, case.layout)
        for node in nodes:
            # Nodes that best-first growth did not come to may have been looked at in advance; the last ones need not.
            seen = its.elections.get(node.path)
            assert (seen is None) == (node.ballots is None) or (seen is None and node.is_last), node.path
            if seen is not None:
                assert seen.ballots == node.ballots, node.path
                assert seen.elected == node.elected, node.path
            if not node.children:
                first, stop = data.bounds[worker : worker + 2]
                own = node.rows[(node.rows >= first) & (node.rows < stop)].tolist()
                assert sorted(its.leaf_rows.get(number[node.path], [])) == own
        assert its.votes == expected_votes(nodes, case.n_workers)
        assert its.n_collectives <= 3 * its.n_rounds
        if case.most_pairs is None:
            assert its.n_rounds <= len(nodes[-1].path) + 2  # nodes are in level order: the last is one of the deepest
    return nodes, grown


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
}
CASES = st.fixed_dictionaries(CASES_OF)


@settings(QUICK, max_examples=100)
@given(CASES)
def test_gradient_trees_equal_the_brute_force(drawn: dict[str, Any]) -> None:
    check(Case(**drawn))


@settings(QUICK, max_examples=80)
@given(CASES, st.sampled_from([2, 2, 3, 4, 9]))
def test_class_trees_equal_the_brute_force(drawn: dict[str, Any], n_classes: int) -> None:
    check(Case(**drawn, n_classes=n_classes))


LEAF_WISE = {
    "n_rows": st.integers(90, 120), "n_features": st.just(12), "n_values": st.just(12), "order": st.just("random"),
    "blocks": st.just("equal"), "tree_share": st.just(1.0), "most_pairs": st.none(),
    "rules": st.fixed_dictionaries({"max_leaves": st.integers(4, 15), "min_count": st.integers(1, 3)}),
}  # fmt: skip


@settings(QUICK, max_examples=40)
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
@pytest.mark.parametrize("n_classes", [0, 3])
@pytest.mark.parametrize("limits", [{"max_leaves": 12}, {"max_depth": 4, "min_count": 30}])
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


@settings(QUICK, max_examples=150)
@given(st.integers(0, 2**32), st.integers(1, 6), st.integers(1, 9), st.integers(1, 4), st.integers(1, 9))
def test_elections_equal_the_brute_force(seed: int, n_workers: int, n_features: int, k: int, n_elected: int) -> None:
    """Short ballots of few features: ties of votes, and of votes and places, everywhere."""
    rng = np.random.default_rng(seed)
    is_open = rng.random(5) < 0.8
    ballots = np.full((n_workers, int(is_open.sum()), min(k, n_features)), 65535, np.uint16)
    for ballot in ballots.reshape(-1, ballots.shape[2]):
        named = rng.permutation(n_features)[: rng.integers(0, len(ballot) + 1)]
        ballot[: len(named)] = named
    frontier = SimpleNamespace(n_features=n_features, is_open=is_open, n_rows=len(is_open))
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
@settings(QUICK, max_examples=30)
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
