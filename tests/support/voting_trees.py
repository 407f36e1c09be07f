"""A PV-Tree grown by the package's workers, compared with the brute force in every ballot, elected set and split."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import pairwise
from typing import Any
from unittest.mock import patch

import numpy as np
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
from pvtree.reading.row_ids import RowIds

SMALLEST = 2.0**-1022
LEAST_ROWS = 5  # of a worker that vote, where not all do: few, as there are few rows
LEAST_FIRST_ROWS = 3
# The largest integer that a label's distance from the mean becomes, where only it and the count share a word.
MOST_STEPS = 2**36 - 1


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
    candidates: int = 4  # for every name on a ballot, if there are more than twice as many features

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
        "max_output": np.inf,
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
    drawn = [oracle.hash_number(key, row) / 2.0**64 for row in range(case.n_rows)]
    level = np.floor(-2.0 * np.log2(drawn)).astype(int)

    def sample(own: np.ndarray, n_rows: int, at_first: bool) -> np.ndarray:
        wanted = max(LEAST_ROWS, math.ceil(math.sqrt(n_rows / case.n_rows) * (case.ballot_rows / case.n_workers)))
        if at_first:
            wanted = max(LEAST_FIRST_ROWS, wanted // 4)
        if len(own) <= wanted:
            return own
        last = np.sort(level[own])[::-1][wanted - 1]
        fewer, more = own[level[own] > last], own[level[own] >= last]
        return fewer if len(fewer) * len(more) >= wanted**2 else more

    # Plain data is searched 16 features at a time.
    is_plain = not data.categorical and not case.n_classes
    return {
        "sample": sample, "ballot_boundaries": case.boundaries, "block": 16 if is_plain else 1, "scales": is_plain,
        "candidates": case.candidates if is_plain else None,
    }  # fmt: skip


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
        patch("pvtree.growing.ballot_sample.BALLOT_BOUNDARIES", case.boundaries),
        patch("pvtree.growing.ballot_sample.CANDIDATES", case.candidates),
        patch("pvtree.growing.ballot_sample.LEAST_ROWS", LEAST_ROWS),
        patch("pvtree.growing.ballot_sample.LEAST_FIRST_ROWS", LEAST_FIRST_ROWS),
        patch("pvtree.find_split.voting._WORTH_SAMPLING", 0),
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
