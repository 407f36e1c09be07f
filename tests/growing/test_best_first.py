"""A frontier's own steps: which nodes best-first growth splits, children, sides of rows, and where rows end up."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import oracle
from growing_rows import assert_same, brute_force, load, make_rules
from packed_rows import LAYOUTS, as_blocks, random_values
from pvtree.binning.thresholds import block_starts
from pvtree.comm import Solo
from pvtree.find_split.serial import Serial
from pvtree.growing.frontier_grower import FrontierGrower
from pvtree.growing.tree_memory import GrownTree
from pvtree.kernels.growing import frontier as kernels
from pvtree.kernels.growing.records import NODE, TREE, fill_record
from pvtree.kernels.team import Team
from pvtree.reading.row_ids import RowIds
from thoroughness import examples
from worker_rows import Workers, any_rows, as_set

SETTINGS = examples(60)


# Best-first growth, a leaf at a time and a frontier at a time

Path = tuple[int, ...]  # 0 for left, 1 for right, from the root


def gains_of_paths(seed: int, n_levels: int, leaf_share: float, shrink: float) -> Callable[[Path], float]:
    """The gain of any node of an endless tree. With few levels many are equal; -inf where there is no split."""

    def gain(path: Path) -> float:
        rng = np.random.default_rng([seed, len(path), *path])
        if rng.random() < leaf_share:
            return -math.inf
        return float(rng.integers(1, n_levels + 1)) * shrink ** len(path)

    return gain


def children_of_path(path: Path) -> list[Path]:
    return [(*path, 0), (*path, 1)]


def grow_one_at_a_time(
    root: Any, gain: Callable[[Any], float], children: Callable[[Any], list[Any]], max_leaves: int,
    depthwise: bool = False,
) -> list[Any]:  # fmt: skip
    """What is split, in turn: always the leaf of the largest gain, of equals the one made first."""
    leaves, splits = [root], []
    while len(leaves) != max_leaves:
        best = max(leaves, key=gain)  # the first of equals
        if depthwise:
            best = next((leaf for leaf in leaves if gain(leaf) > -math.inf), best)
        if gain(best) == -math.inf:
            break
        leaves.remove(best)
        leaves += children(best)
        splits.append(best)
    return splits


def grow_by_frontiers(gain: Callable[[Path], float], max_leaves: int, depthwise: bool = False) -> tuple[set[Path], int]:
    """The splits kept in the end, and how often a frontier was evaluated."""
    paths: list[Path] = [()]
    nodes = np.zeros(4096, NODE)
    nodes[0]["gain"] = gain(())
    n_rounds = 1
    while True:
        is_split = np.full(len(paths), 9, np.uint8)
        last = kernels.best_first(len(paths), max_leaves, int(depthwise), nodes, is_split)
        is_new = (is_split == 1) & (nodes["left_child"][: len(paths)] == 0)
        # Nobody need know the children of what is split last.
        parents = [node for node in np.flatnonzero(is_new) if node != last]
        if len(parents) == 0:
            return {path for path, split in zip(paths, is_split, strict=True) if split}, n_rounds
        for parent in parents:
            nodes[parent]["left_child"] = len(paths)
            paths += children_of_path(paths[parent])
        n_rounds += 1
        for child in range(len(paths) - 2 * len(parents), len(paths)):
            nodes[child]["gain"] = gain(paths[child])


@examples(160)
@given(
    seed=st.integers(0, 2**32),
    n_levels=st.sampled_from([1, 2, 3, 1000]),
    leaf_share=st.sampled_from([0.0, 0.1, 0.4]),
    shrink=st.sampled_from([1.0, 0.5, 1.3]),
    max_leaves=st.integers(2, 24),
    depthwise=st.booleans(),
)
def test_frontiers_keep_the_splits_of_one_leaf_at_a_time(
    seed: int, n_levels: int, leaf_share: float, shrink: float, max_leaves: int, depthwise: bool
) -> None:
    """The claim of ADR 0007: the same splits, in at most one round more than the tree is deep."""
    gain = gains_of_paths(seed, n_levels, leaf_share, shrink)
    expected = grow_one_at_a_time((), gain, children_of_path, max_leaves, depthwise)
    found, n_rounds = grow_by_frontiers(gain, max_leaves, depthwise)
    assert found == set(expected)
    depth = max((len(path) + 1 for path in expected), default=0)
    assert n_rounds <= depth + 1


def test_the_age_of_a_node_is_its_number_in_the_run() -> None:
    """Node 3 was made after nodes 1 and 2 here; in the run 5 and 6 come before it, so they win a tie."""
    nodes = np.zeros(7, NODE)
    nodes["gain"] = [9.0, 5.0, 7.0, 3.0, 3.0, 3.0, 3.0]
    nodes["left_child"][:3] = [1, 3, 5]
    is_split = np.empty(7, np.uint8)
    for max_leaves, expected in [(2, [0]), (3, [0, 2]), (4, [0, 1, 2]), (5, [0, 1, 2, 5]), (6, [0, 1, 2, 5, 6])]:
        last = kernels.best_first(7, max_leaves, 0, nodes, is_split)
        assert np.flatnonzero(is_split).tolist() == expected
        assert last == {2: 0, 3: 2, 4: 1, 5: 5, 6: 6}[max_leaves]


def test_without_a_budget_every_node_with_a_gain_is_split() -> None:
    nodes = np.zeros(6, NODE)
    nodes["gain"] = [1.0, -math.inf, 1e-300, -math.inf, 5.0, 5.0]
    is_split = np.full(6, 7, np.uint8)
    assert kernels.best_first(5, 0, 0, nodes, is_split) == -1
    assert is_split.tolist() == [1, 0, 1, 0, 1, 7]  # the last is not made yet


def test_a_budget_that_is_not_used_up_has_no_last_split() -> None:
    nodes = np.zeros(3, NODE)
    nodes["gain"], nodes["left_child"][0] = [1.0, -math.inf, -math.inf], 1
    is_split = np.empty(3, np.uint8)
    assert [kernels.best_first(3, max_leaves, 0, nodes, is_split) for max_leaves in (2, 3, 9)] == [0, -1, -1]


# The finished tree


def any_tree(seed: int, max_leaves: int) -> Workers:
    """A tree split anywhere, whose splits then get random gains: so some were made in advance."""
    rng = np.random.default_rng(seed)
    n_rows, n_workers = 200, 2
    bins, worker_of = any_rows(rng, n_rows, 4, n_workers, most_bins=6)
    name = "9 classes constant" if seed % 2 else "gradient real"
    rules = make_rules(name, max_leaves=max_leaves)
    workers = Workers(name, bins, random_values(name, n_rows, rng), worker_of, n_workers, rules)
    for _ in range(4):
        parents = workers.split_any(rng)
        if len(parents) == 0:
            break
        workers.look_at_children(parents)
    n_made = len(workers.rows_of)
    gains = rng.integers(1, 4, n_made)
    for frontier in workers:
        assert frontier.n_made == n_made
        nodes = frontier.memory.nodes[:n_made]
        nodes["gain"] = np.where(nodes["left_child"] > 0, gains, -math.inf)
    return workers


@examples(25)
@given(st.integers(0, 2**32), st.sampled_from([0, 2, 3, 5, 9]))
def test_finished_trees_are_in_level_order_and_every_row_is_in_its_leaf(seed: int, max_leaves: int) -> None:
    workers = any_tree(seed, max_leaves=max_leaves)
    for frontier, own in zip(workers, workers.own_rows, strict=True):
        nodes = frontier.memory.nodes
        tree, is_split = frontier.finish()

        def gain(node: int, nodes: np.ndarray = nodes) -> float:
            return nodes[node]["gain"]

        def children(node: int, nodes: np.ndarray = nodes) -> list[int]:
            return [nodes[node]["left_child"], nodes[node]["left_child"] + 1]

        assert_array_equal(np.flatnonzero(is_split), sorted(grow_one_at_a_time(0, gain, children, max_leaves)))
        order = [0]  # level by level, as far as nodes are kept
        for node in order:  # grows while it is walked
            if is_split[node]:
                order += children(node)
        left_child = [order.index(nodes[node]["left_child"]) if is_split[node] else 0 for node in order]
        assert_array_equal(tree.left_child, left_child)
        assert_array_equal(tree.sums, [workers.fields[workers.rows_of[node]].sum(axis=0) for node in order])
        for name, of_leaf in (("feature", -1), ("split_bin", 0), ("gain", 0.0)):
            expected = [nodes[node][name] if is_split[node] else of_leaf for node in order]
            assert_array_equal(getattr(tree, name), expected)
        check_runs(tree, workers, order, own, frontier.memory.rows)


def check_runs(tree: GrownTree, workers: Workers, order: list[int], own: np.ndarray, rows: np.ndarray) -> None:
    """Runs follow each other to the last place, none is empty, and each place's row belongs to the run's leaf."""
    assert (np.diff(tree.run_stop, prepend=0) > 0).all()
    assert (tree.run_stop[-1] if len(tree.run_stop) else 0) == len(own)
    place_run = np.repeat(np.arange(len(tree.run_stop)), np.diff(tree.run_stop, prepend=0))
    row = rows[tree.run_buffer[place_run], np.arange(len(own))]
    assert_array_equal(np.sort(row), np.arange(len(own)))
    for each, leaf in zip(own[row], tree.run_leaf[place_run], strict=True):
        assert tree.left_child[leaf] == 0
        assert each in workers.rows_of[order[leaf]]


def test_a_worker_without_rows_has_no_runs() -> None:
    name = "gradient constant"
    bins = np.arange(20)[:, None]
    workers = Workers(name, bins, np.ones((20, 1), np.int64), np.zeros(20), 2, make_rules(name))
    workers.split({0: (0, 7)})
    for frontier, n_runs in zip(workers, (2, 0), strict=True):
        tree, _ = frontier.finish()
        assert len(tree.feature) == 3 and len(tree.run_leaf) == len(tree.run_stop) == n_runs


# A whole tree


class InParts(FrontierGrower):
    """Takes a level's pairs two at a time."""

    def grow(self, *args) -> GrownTree:
        self.most_pairs = 2
        return super().grow(*args)


@pytest.mark.parametrize("max_leaves", [0, 4, 15])
@pytest.mark.parametrize("name", ["gradient constant", "gradient precise", "3 classes copies", "9 classes real"])
def test_the_sequential_strategy_grows_the_tree_of_the_brute_force(name: str, max_leaves: int) -> None:
    rng = np.random.default_rng(7)
    n_rows, n_features = 560, 19  # more than a word takes, more than a block
    bins, _ = any_rows(rng, n_rows, n_features, 1)
    values = random_values(name, n_rows, rng)
    rules = make_rules(name, max_leaves=max_leaves, min_count=4, max_depth=-1 if max_leaves else 5)
    nodes = brute_force(name, bins, values, rules, (2, 17))
    assert len(nodes) > 6
    data = as_blocks(bins, block_starts(n_features, 1).astype(np.int64), (2, 17))
    shard = SimpleNamespace(
        data=data, first_feature=0, n_all_features=n_features, ids=RowIds.consecutive(data.n_rows),
        thresholds=SimpleNamespace(is_categorical=data.is_categorical),
    )  # fmt: skip
    for grower_type in (FrontierGrower, InParts):
        with Team(2) as team:
            grower: Any = grower_type(shard, LAYOUTS[name], max_leaves, 0, team, Solo(), Serial())  # type: ignore[arg-type]
            for _ in range(2):  # nothing is left from the first
                load(grower, name, values)
                grown = grower.grow(n_rows, grower.memory.add_up(n_rows), rules, np.arange(n_features))
                assert_same(name, grown, nodes, (2, 17))
                # Histograms are kept for one level, those that nobody subtracts from are given back.
                made = grower.memory.nodes[: grower.frontier.n_made]
                assert len(np.unique(made["depth"][made["slot"] >= 0])) <= 1


# Single steps


def test_children_are_what_the_split_leaves() -> None:
    rng = np.random.default_rng(0)
    name = "9 classes constant"
    bins, worker_of = any_rows(rng, 60, 3, 2)
    rules = make_rules(name, min_count=9, max_depth=3)
    workers = Workers(name, bins, random_values(name, 60, rng), worker_of, 2, rules)
    seen = set()
    for depth in range(3):
        parents = workers.split_any(rng, share=1.0)
        for frontier in workers:
            nodes, sums = frontier.memory.nodes, frontier.memory.arrays["sums"]
            for parent in parents:
                left = nodes[parent]["left_child"]
                for side in range(2):
                    child, rows = nodes[left + side], workers.rows_of[left + side]
                    assert_array_equal(sums[left + side], workers.fields[rows].sum(axis=0))
                    assert (child["n_rows"], child["depth"], child["left_child"]) == (len(rows), depth + 1, 0)
                    assert child["path"] == oracle.hash_number(int(nodes[parent]["path"]), side)
                    assert (child["slot"], child["gain"]) == (-1, -math.inf)
                    assert child["is_open"] == (len(rows) >= 18 and depth + 1 < 3)
                    seen.add((depth, int(child["is_open"])))
        workers.look_at_children(parents)
    assert seen >= {(0, 1), (1, 0), (1, 1), (2, 0)}


@examples(25)
@given(st.integers(0, 2**32), st.integers(1, 11), st.integers(1, 5))
def test_nodes_draw_the_same_features_however_columns_are_spread(seed: int, n_sampled: int, n_workers: int) -> None:
    rng = np.random.default_rng(seed)
    n_features = 13
    tree_features = np.sort(rng.permutation(n_features)[:11])
    paths = [(), (0,), (1,), (0, 1), (1, 1, 0)]
    nodes = np.zeros(9, NODE)
    row_node = rng.permutation(9)[: len(paths)]
    for node, path in zip(row_node, paths, strict=True):
        name = 1
        for side in path:
            name = oracle.hash_number(name, side)
        nodes[node]["path"] = name
    key = int(rng.integers(0, 2**64, dtype=np.uint64))
    expected = np.zeros((len(paths), n_features), np.uint8)
    for row, path in enumerate(paths):
        expected[row, oracle.draw_at_node(key, path, tree_features.tolist(), n_sampled)] = 1
    assert (expected.sum(axis=1) == n_sampled).all()
    bounds = np.sort(np.append(rng.integers(0, n_features + 1, n_workers - 1), [0, n_features]))
    for first, stop in pairwise(bounds):
        allowed = np.full((len(paths), stop - first), 7, np.uint8)
        chosen = np.empty((len(paths), n_sampled), np.int64)
        values = {"allowed": allowed, "chosen": chosen, "n_evaluated": len(paths), "n_features": stop - first}
        record = fill_record(TREE, {**values, "first_feature": first, "n_sampled": n_sampled, "key": key})
        given = tree_features.copy()
        kernels.draw_features(row_node, given, record, nodes)
        assert_array_equal(allowed, expected[:, first:stop])
        assert_array_equal(given, tree_features)


@SETTINGS
@given(st.lists(st.integers(0, 40), max_size=6), st.integers(0, 2**32))
def test_sides_travel_as_bits(sizes: list[int], seed: int) -> None:
    """Of the parents given, in their order; other places keep what they have."""
    rng = np.random.default_rng(seed)
    nodes = np.zeros(len(sizes), NODE)
    stops = np.cumsum(sizes, dtype=np.int64)
    nodes["start"], nodes["stop"] = stops - sizes, stops
    side = rng.integers(0, 2, sum(sizes)).astype(np.uint8)
    parents = rng.permutation(len(sizes))[: rng.integers(0, len(sizes) + 1)]
    places = np.concatenate([np.empty(0, np.int64), *(np.arange(stops[p] - sizes[p], stops[p]) for p in parents)])
    bits = np.full((len(places) + 7) // 8, 255, np.uint8)
    assert kernels.pack_sides(parents, nodes, side, bits) == len(places)
    assert_array_equal(bits, np.packbits(side[places], bitorder="little"))
    elsewhere = np.full(len(side), 9, np.uint8)
    kernels.unpack_sides(parents, nodes, elsewhere, bits)
    expected = np.full(len(side), 9, np.uint8)
    expected[places] = side[places]
    assert_array_equal(elsewhere, expected)


@examples(25)
@given(st.integers(0, 2**32), st.sampled_from(["gradient real", "9 classes constant"]), st.integers(0, 20))
def test_rows_go_to_the_side_that_their_bins_say(seed: int, name: str, first_feature: int) -> None:
    """Ordered and categorical splits, missing values on either side, of one worker's columns; the order is kept."""
    rng = np.random.default_rng(seed)
    n_rows, n_features = 120, 18
    bins, _ = any_rows(rng, n_rows, n_features, 1, most_bins=255)
    values = random_values(name, n_rows, rng)
    workers = Workers(name, bins, values, np.zeros(n_rows), 1, make_rules(name), categorical=(3, 17))
    frontier = workers.frontiers[0]
    memory, nodes = frontier.memory, frontier.memory.nodes
    order = rng.permutation(n_rows)
    for array in (memory.rows, memory.words, memory.planes):
        array[:, : array.shape[1]] = array[0][order[: array.shape[1]]]
    bounds = np.sort(np.append(rng.integers(0, n_rows + 1, 2), [0, n_rows]))
    parents = np.array([4, 0, 2])
    before, sides = {}, {}
    for parent, start, stop in zip(parents, bounds[:-1], bounds[1:], strict=True):
        feature, default_left = int(rng.choice([0, 3, 16, 17])), int(rng.integers(2))
        split_bin, left = int(rng.integers(0, 256)), np.flatnonzero(rng.random(256) < 0.5)
        buffer = int(rng.integers(2))
        memory.arrays["left_set"][parent] = as_set(left.tolist())
        nodes[parent]["start"], nodes[parent]["stop"], nodes[parent]["buffer"] = start, stop, buffer
        nodes[parent]["feature"], nodes[parent]["split_bin"] = feature + first_feature, split_bin
        nodes[parent]["default_left"], nodes[parent]["left_child"] = default_left, 10 + 2 * parent
        rows = memory.rows[buffer, start:stop].copy()
        column = bins[rows, feature]
        ordered = np.where(column == 0, default_left == 1, column <= split_bin)
        sides[parent] = np.isin(column, left) if feature in (3, 17) else ordered
        planes = memory.planes[buffer, start:stop] if memory.planes.size else np.zeros(stop - start)
        before[parent] = np.stack([rows, memory.words[buffer, start:stop], planes], axis=1)
    frontier.record["first_feature"] = first_feature
    kernels.mark_rows(0, 3, parents, frontier.record, nodes)
    for parent, start, stop in zip(parents, bounds[:-1], bounds[1:], strict=True):
        assert_array_equal(memory.arrays["side"][start:stop], sides[parent])
    kernels.scatter_rows(0, 3, parents, frontier.record, nodes)
    for parent in parents:
        start, stop, buffer = nodes[parent]["start"], nodes[parent]["stop"], 1 - nodes[parent]["buffer"]
        left, right = nodes[10 + 2 * parent], nodes[11 + 2 * parent]
        middle = start + sides[parent].sum()
        assert (left["start"], left["stop"], right["start"], right["stop"]) == (start, middle, middle, stop)
        planes = memory.planes[buffer, start:stop] if memory.planes.size else np.zeros(stop - start)
        after = np.stack([memory.rows[buffer, start:stop], memory.words[buffer, start:stop], planes], axis=1)
        side = sides[parent]
        assert_array_equal(after, np.concatenate([before[parent][side], before[parent][~side]]))
