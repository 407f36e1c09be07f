"""Rows find their child: in order, none lost, for any number of chunks; and walk finished trees as they grew."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from growing_rows import grow_loaded, make_grower, make_rules
from packed_rows import LAYOUTS, as_blocks, pack, random_values
from pvtree.kernels.growing.route import (
    CHUNK,
    add_leaf_values,
    add_routed_values,
    fill_sides,
    in_set,
    mark_sides,
    scatter,
)
from pvtree.kernels.team import Team

ZERO = np.int64(0)


def test_sides_of_ordered_bins_and_of_sets() -> None:
    goes_left = np.empty(256, np.uint8)
    no_set = np.zeros(4, np.uint64)
    for default_left in (0, 1):
        fill_sides(np.uint8(0), np.int64(100), np.int64(default_left), no_set, goes_left)
        assert_array_equal(goes_left, [default_left] + [1] * 100 + [0] * 155)
    chosen = [0, 1, 63, 64, 127, 128, 200, 255]
    left_set = np.zeros(4, np.uint64)
    for b in chosen:
        left_set[b // 64] |= np.uint64(1) << np.uint64(b % 64)
    fill_sides(np.uint8(1), ZERO, ZERO, left_set, goes_left)
    assert_array_equal(np.flatnonzero(goes_left), chosen)
    assert [b for b in range(256) if in_set(left_set, np.int64(b))] == chosen


@pytest.mark.parametrize("with_planes", [False, True])
@pytest.mark.parametrize("source", [0, 1])
def test_rows_words_and_planes_move_together_and_keep_their_order(source: int, with_planes: bool) -> None:
    rng = np.random.default_rng(0)
    n, start, stop = 1000, 130, 900
    bins = rng.integers(0, 256, (n, 5))
    block = as_blocks(bins, np.array([0, 5])).bins[0]
    rows = np.zeros((2, n), np.uint32)
    rows[source] = rng.permutation(n)
    words = rng.integers(-(2**60), 2**60, (2, n))
    planes = rng.integers(0, 3, (2, n if with_planes else 0)).astype(np.uint8)
    before = rows[source].copy(), words[source].copy(), planes[source].copy()
    goes_left = rng.integers(0, 2, 256).astype(np.uint8)
    side = np.full(n, 7, np.uint8)
    n_left = mark_sides(block, np.int64(3), rows[source], start, stop, goes_left, side)
    is_left = goes_left[bins[before[0][start:stop], 3]] == 1
    assert n_left == is_left.sum()
    assert_array_equal(side[start:stop], is_left)
    assert (side[:start] == 7).all() and (side[stop:] == 7).all()
    scatter(source, 1 - source, rows, words, planes, start, stop, side, start, start + n_left)
    after: list[np.ndarray] = [rows, words, planes]
    for moved, old in zip(after, before, strict=True):
        if old.size:
            part = old[start:stop]
            assert_array_equal(moved[1 - source, start:stop], np.concatenate([part[is_left], part[~is_left]]))
            assert_array_equal(moved[source], old)


@pytest.mark.parametrize("n_threads", [1, 2, 3])
@pytest.mark.parametrize("n_rows", [CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 7])
@pytest.mark.parametrize("name", ["gradient constant", "9 classes constant"])
def test_partitions_are_stable_and_complete_for_any_number_of_chunks(name: str, n_rows: int, n_threads: int) -> None:
    rng = np.random.default_rng(1)
    bins = rng.integers(0, 40, (n_rows, 2))
    values = random_values(name, n_rows, rng)
    rules = make_rules(name, max_leaves=6)
    with Team(n_threads) as team:
        grower = make_grower(name, bins, values, team, rules)
        tree = grow_loaded(grower, n_rows, rules, np.arange(2))
    assert (np.diff(tree.run_stop) > 0).all() and tree.run_stop[-1] == n_rows and len(tree.run_stop) == 6
    leaf_start = [0, *tree.run_stop[:-1]]
    words, planes = pack(values, name)
    seen = []
    for start, stop, buffer, leaf in zip(leaf_start, tree.run_stop, tree.run_buffer, tree.run_leaf, strict=True):
        here = grower.memory.rows[buffer, start:stop].astype(np.int64)
        assert (np.diff(here) > 0).all()  # they came in rising order
        assert_array_equal(grower.memory.words[buffer, start:stop], words[here])
        if LAYOUTS[name].n_planes > 1:
            assert_array_equal(grower.memory.planes[buffer, start:stop], planes[here])
        assert tree.sums[leaf, : LAYOUTS[name].n_planes].sum() == stop - start
        seen.append(here)
    assert_array_equal(np.sort(np.concatenate(seen)), np.arange(n_rows))


@pytest.mark.parametrize("blocks", [[0, 500], [0, 1, 250, 251, 500], [0, 77, 78, 79, 499, 500]])
def test_leaf_values_reach_their_rows_whatever_the_blocks(blocks: list[int]) -> None:
    rng = np.random.default_rng(2)
    rows = np.stack([rng.permutation(500), rng.permutation(500)]).astype(np.uint32)
    run_stop, run_buffer = np.array([1, 78, 79, 400, 500]), np.array([0, 1, 1, 0, 1])
    value = rng.normal(size=5)
    scores, expected = np.zeros(500), np.zeros(500)
    for start, stop in pairwise(blocks):
        add_leaf_values(start, stop, rows, run_stop, run_buffer, value, scores)
    for place in range(500):
        leaf = int(np.searchsorted(run_stop, place, side="right"))
        expected[rows[run_buffer[leaf], place]] += value[leaf]
    assert_array_equal(scores, expected)


def test_rows_outside_the_sample_walk_the_tree() -> None:
    rng = np.random.default_rng(3)
    bins = rng.integers(0, 256, (200, 20))
    starts = np.array([0, 16, 20])
    left_set = np.array([[5, 0, 2**63, 1]], np.uint64)  # bins 0, 2, 191, 192
    feature = np.array([3, 18, 7, 0, 0, 0, 0])
    split_bin, default_left = np.array([120, 0, 60, 0, 0, 0, 0]), np.array([1, 0, 0, 0, 0, 0, 0])
    cat_set, left_child = np.array([-1, 0, -1, -1, -1, -1, -1], np.int32), np.array([1, 3, 5, 0, 0, 0, 0])
    bins[::9, 3], bins[::4, 18], bins[::7, 7] = 0, 191, 0
    value = np.arange(7.0)
    row_ids = rng.permutation(200)[:150].astype(np.uint32)
    block = np.searchsorted(starts, feature, side="right") - 1
    scores, expected = np.full(200, 0.5), np.full(200, 0.5)
    add_routed_values(
        0, 150, as_blocks(bins, starts).bins, row_ids, block, feature - starts[block],
        np.empty((0, 256), np.uint8), split_bin, default_left, cat_set, left_set, left_child, value, scores,
    )  # fmt: skip
    for row in row_ids:
        b = bins[row]
        under_left = 3 if b[18] in (0, 2, 191, 192) else 4
        under_right = 5 if 0 < b[7] <= 60 else 6
        expected[row] += value[under_left if b[3] <= 120 else under_right]  # missing, bin 0, goes left there
    assert_array_equal(scores, expected)
