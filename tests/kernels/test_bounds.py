"""Bounds of what a feature could gain: no split of all rows gains more, however they are spread over workers."""

from __future__ import annotations

from itertools import combinations
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import oracle
from growing_rows import make_rules
from packed_rows import FULL, random_values
from pvtree.find_split.bounds import Bounds
from pvtree.growing.frontier_records import Elected
from pvtree.kernels.bounds import wire as bound_wire
from pvtree.kernels.bounds.local import NO_HESSIAN
from thoroughness import examples
from worker_rows import Workers, any_rows, brute_rules, brute_values

SETTINGS = examples(50)
NAMES = ["gradient constant", "gradient real", "2 classes constant", "2 classes real", "3 classes copies"]
CATEGORICAL = (1, 4)
PENALTIES: dict[str, dict[str, Any]] = {
    "plain": {},
    "lambda": {"reg_lambda": 7.5},
    "alpha": {"reg_alpha": 900.0},
    "all": {"reg_lambda": 7.5, "reg_alpha": 900.0, "cat_l2": 10.0, "grad_scale": 0.013, "hess_scale": 0.7},
}


def make_workers(
    name: str, seed: int, n_workers: int, n_rows: int, penalties: str, most_bins: int = 6, sort: bool = False
) -> tuple[Workers, Any]:
    rng = np.random.default_rng(seed)
    rules = make_rules(name, max_leaves=3, **PENALTIES[penalties])
    bins, worker_of = any_rows(rng, n_rows, 6, n_workers, most_bins)
    values = random_values(name, n_rows, rng)
    if sort:  # every worker has rows of similar labels
        worker_of = np.sort(worker_of)[np.argsort(np.argsort(values[:, -1], kind="stable"))]
    return Workers(name, bins, values, worker_of, n_workers, rules, categorical=CATEGORICAL), rules


def bounds_of(workers: Workers) -> np.ndarray:
    """(rows of the frontier, features): what all workers' bounds come to at the owners, over the wire."""
    nobody = Elected(np.zeros(len(workers.row_node) + 1, np.int64), np.empty(0, np.int64))
    bounds = []
    for rank, frontier in enumerate(workers):
        frontier.local_gains(with_bounds=True)
        comm: Any = SimpleNamespace(rank=rank, size=workers.size)
        bounds.append(Bounds(frontier, nobody, comm))
    messages = [own.write() for own in bounds]
    upper = np.empty((len(workers.row_node), workers.n_features))
    for rank, own in enumerate(bounds):
        upper[:, rank :: workers.size] = own.read([sent[rank] for sent in messages])[0]
    return upper


def best_gain(workers: Workers, rules: Any, rows: np.ndarray, feature: int) -> float:
    """Of every boundary and side of missing values, or of every set of categories: in steps, without any minimum."""
    brute, values = brute_rules(rules), brute_values(workers.values, rules)
    column, sums = workers.bins[rows, feature], values[rows].sum(axis=0)
    present = np.unique(column).tolist()
    if feature in CATEGORICAL:
        sets = [set(chosen) for n in range(1, len(present)) for chosen in combinations(present, n)]
        extra = rules.cat_l2
    else:
        starts = [{0}, set()] if 0 in present else [set()]
        sets = [start | set(range(1, b + 1)) for start in starts for b in range(1, max(present) + 1)]
        extra = 0.0
    left = np.array([values[rows[np.isin(column, list(chosen))]].sum(axis=0) for chosen in sets]).reshape(-1, len(sums))
    weight = left.sum(axis=1) if brute.entropy else left[:, 0]
    total = sums.sum() if brute.entropy else sums[0]
    left = left[(weight > 0) & (weight < total)]
    return float(oracle.split_scores(left, sums, brute, extra).max(initial=-np.inf)) - oracle.own_score(sums, brute)


@SETTINGS
@given(
    name=st.sampled_from(NAMES),
    seed=st.integers(0, 2**32),
    n_workers=st.sampled_from([2, 3, 8]),
    n_rows=st.sampled_from([3, 12, 60]),
    penalties=st.sampled_from(sorted(PENALTIES)),
    sort=st.booleans(),
)
def test_no_split_gains_more_than_its_bound(
    name: str, seed: int, n_workers: int, n_rows: int, penalties: str, sort: bool
) -> None:
    workers, rules = make_workers(name, seed, n_workers, n_rows, penalties, sort=sort)
    for _ in range(2):  # the root, then its children, where workers may have no rows
        upper = bounds_of(workers)
        for row, node in enumerate(workers.row_node):
            if workers.frontiers[0].is_open[row]:
                for feature in range(workers.n_features):
                    assert upper[row, feature] >= best_gain(workers, rules, workers.rows_of[node], feature)
        parents = workers.split_any(np.random.default_rng(seed), share=1.0)
        if len(parents) == 0:
            return
        workers.look_at_children(parents)


@pytest.mark.parametrize("penalties", ["plain", "lambda"])
@pytest.mark.parametrize("name", NAMES)
def test_a_single_workers_bound_is_the_gain_itself(name: str, penalties: str) -> None:
    """Nothing is lost but the rounding of the wire, which a single worker does not use."""
    for seed in range(5):
        workers, rules = make_workers(name, seed, 1, 60, penalties)
        upper = bounds_of(workers)[0]
        for feature in range(workers.n_features):
            gain = best_gain(workers, rules, np.arange(60), feature)
            if gain > 0.0 and not (feature in CATEGORICAL and name.startswith("3")):
                assert_allclose(upper[feature], gain, rtol=1e-7)


@pytest.mark.parametrize("name", ["gradient constant", "gradient real"])
def test_features_side_by_side_have_the_bounds_of_single_ones(name: str) -> None:
    """Packed words go through vector registers; the wide histograms of large nodes do not."""
    rng = np.random.default_rng(3)
    bins, values = rng.integers(0, 200, (60, 19)), random_values(name, 60, rng)
    copies = FULL // 60 + 2
    small = Workers(name, bins, values, np.zeros(60, np.int64), 1, make_rules(name, max_leaves=3))
    rows = np.tile(np.arange(60), copies)
    large = Workers(name, bins[rows], values[rows], np.zeros(len(rows), np.int64), 1, make_rules(name, max_leaves=3))
    assert_allclose(bounds_of(large), bounds_of(small) * copies, rtol=1e-9)


@SETTINGS
@given(
    values=st.lists(st.one_of(st.floats(0.0, 1e250), st.floats(0.0, 1e-290), st.just(np.inf)), min_size=1, max_size=9),
    n_sides=st.sampled_from([1, 2]),
)
def test_on_the_wire_bounds_are_rounded_upwards_and_little(values: list[float], n_sides: int) -> None:
    steps = bound_wire.octave_steps()
    assert_allclose(steps, 2.0 ** (-np.arange(8) / 8), rtol=1e-15)
    bounds = np.array([values, values[::-1]])[:, None, :]
    asked = np.ones((1, len(values)), np.uint8)
    bits, at = np.zeros(64 + 2 * 64 * len(values), np.uint64), np.zeros(2, np.int64)
    # Worker 1 of 2 writes what worker 0 owns: every second one.
    start, smallest = np.array([0, len(bits), len(bits)]), np.array([int(min(values[0], 1e9))])
    bound_wire.write_bounds(2, 1, asked, n_sides, bounds, smallest, steps, start, at, bits)
    sums, floor = np.zeros((2, 1, (len(values) + 1) // 2)), np.array([2**40])
    bound_wire.add_bounds(2, 0, asked, n_sides, steps, bits, sums, floor)
    assert 127 / 128 * smallest[0] - 1 <= floor[0] <= smallest[0]
    exact, rounded = bounds[:n_sides, :, ::2], sums[:n_sides]
    assert (rounded >= exact).all()
    assert_array_equal(rounded[exact == 0.0], 0.0)
    largest = exact[exact < 1e200].max(initial=0.0)
    near = (exact < 1e200) & (exact > 1e-8 * largest) & (exact > 1e-280)
    assert (rounded[near] <= 1.0906 * exact[near]).all()


def test_a_worker_without_rows_does_not_lower_the_smallest_hessian() -> None:
    words = np.zeros(3, np.uint64)
    bound_wire.put_floor(NO_HESSIAN, words, np.int64(0))
    assert bound_wire.get_floor(words, np.int64(0))[0] == NO_HESSIAN


def test_bounds_of_broken_messages_are_numbers() -> None:
    rng, asked, steps = np.random.default_rng(0), np.ones((3, 8), np.uint8), bound_wire.octave_steps()
    for _ in range(200):
        data = rng.integers(0, 2**63, 12).astype(np.uint64)
        sums = np.zeros((2, 3, 4))
        bound_wire.add_bounds(2, 0, asked, 2, steps, data, sums, np.zeros(3, np.int64))
        assert (sums >= 0.0).all()
