"""Merging elected histograms: what travels, what follows by subtraction, and the splits found, against all rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import oracle
from growing_rows import make_rules
from packed_rows import FULL, random_values
from pvtree.comm import Communicator, local
from pvtree.find_split.exchange import Exchange
from pvtree.find_split.merging import Merging
from pvtree.growing.frontier_records import Elected, Items
from pvtree.growing.tree_memory import Rules
from pvtree.kernels.wire.merge import place_items, plan_items
from pvtree.kernels.wire.messages import PACKED, PLAIN, SPARSE, TRAVELS
from thoroughness import examples
from worker_rows import Workers, any_features, any_rows, as_set, brute_rules, brute_values

SETTINGS = examples(60)
NONE = -1


# What travels


class Family(NamedTuple):
    """Two siblings: who is open, rows, elected features, and those known of their parent (None: it is not there)."""

    is_open: tuple[bool, bool]
    n_rows: tuple[int, int]
    elected: tuple[list[int], list[int]]
    known: list[int] | None


def rising(most: int = 9) -> st.SearchStrategy[list[int]]:
    return st.sets(st.integers(0, most)).map(sorted)


@st.composite
def families(draw: st.DrawFn) -> Family:
    is_open = draw(st.sampled_from([(True, True), (True, False), (False, True)]))
    elected = tuple(draw(rising()) if each else [] for each in is_open)
    n_rows = draw(st.tuples(st.integers(0, 4), st.integers(0, 4)))
    return Family(is_open, n_rows, elected, draw(st.none() | rising()))  # type: ignore[arg-type]


class Plan(NamedTuple):
    start: np.ndarray
    feature: np.ndarray
    parent: np.ndarray
    sibling: np.ndarray
    known: np.ndarray  # features of the items of the frontier before

    def row(self, row: int) -> dict[int, int]:
        """Items of a row by their features."""
        return {int(self.feature[item]): item for item in range(self.start[row], self.start[row + 1])}


def as_lists(rows: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    start = np.concatenate(([0], np.cumsum([len(row) for row in rows]))).astype(np.int64)
    return start, np.array([feature for row in rows for feature in row], np.int64)


def make_plan(pairs: list[Family]) -> Plan:
    """The parents stand in the frontier before in reverse order, with a row between them that is nobody's parent."""
    before: list[list[int]] = []
    parent_row = np.full(len(pairs), NONE)
    for i in reversed(range(len(pairs))):
        if pairs[i].known is not None:
            before.append([0, 5, 9])
            parent_row[i] = len(before)
            before.append(pairs[i].known)  # type: ignore[arg-type]
    elected_start, elected = as_lists([row for pair in pairs for row in pair.elected])
    known_start, known = as_lists(before)
    is_open = np.array([each for pair in pairs for each in pair.is_open])
    n_rows = np.array([each for pair in pairs for each in pair.n_rows])
    start, *columns = np.full(2 * len(pairs) + 1, -7), *(np.full(2 * len(elected), -7) for _ in range(3))
    plan_items(
        len(pairs), parent_row, is_open, n_rows, elected_start, elected, known_start, known, start, *columns
    )  # fmt: skip
    return Plan(start, *(column[: start[-1]] for column in columns), known)


@SETTINGS
@given(st.lists(families(), min_size=1, max_size=5))
def test_what_travels_and_what_follows(pairs: list[Family]) -> None:
    plan = make_plan(pairs)
    assert plan.start[0] == 0
    for i, pair in enumerate(pairs):
        rows = [plan.row(2 * i), plan.row(2 * i + 1)]
        smaller = 0 if pair.n_rows[0] <= pair.n_rows[1] else 1
        larger = 1 - smaller
        known = set(pair.known or [])
        union = set(pair.elected[0]) | set(pair.elected[1])
        # Known features are derived for the larger child if it is open, elected there or not.
        derived = known & union if pair.is_open[larger] else set()
        assert list(rows[smaller]) == sorted(set(pair.elected[smaller]) | derived)
        assert list(rows[larger]) == sorted(set(pair.elected[larger]) | derived)
        for feature, item in rows[smaller].items():
            assert (plan.parent[item], plan.sibling[item]) == (TRAVELS, NONE), feature
        for feature, item in rows[larger].items():
            if feature not in derived:
                assert (plan.parent[item], plan.sibling[item]) == (TRAVELS, NONE)
                continue
            assert plan.known[plan.parent[item]] == feature
            assert plan.sibling[item] == rows[smaller][feature]


@SETTINGS
@given(st.lists(families(), min_size=1, max_size=5))
def test_with_everything_known_only_the_smaller_child_travels(pairs: list[Family]) -> None:
    pairs = [pair._replace(known=list(range(10)), is_open=(True, True)) for pair in pairs]
    plan = make_plan(pairs)
    for i, pair in enumerate(pairs):
        smaller = 2 * i + int(pair.n_rows[0] > pair.n_rows[1])
        travels = {row: plan.parent[plan.start[row] : plan.start[row + 1]] == TRAVELS for row in (2 * i, 2 * i + 1)}
        assert travels[smaller].all() and not travels[4 * i + 1 - smaller].any()


def test_the_parent_is_found_in_its_own_row() -> None:
    """Both parents know feature 3, at different places of the frontier before."""
    pair = Family((True, True), (1, 2), ([3], []), [1, 3])
    plan = make_plan([pair, pair])
    assert plan.parent.tolist() == [TRAVELS, 9, TRAVELS, 4]  # rows before: 0 5 9 | 1 3 | 0 5 9 | 1 3


def test_at_the_root_everything_travels() -> None:
    start, columns = np.empty(2, np.int64), np.empty((3, 4), np.int64)
    nothing = np.empty(0, np.int64)
    plan_items(
        0, nothing, np.array([True]), np.array([9]), np.array([0, 2]), np.array([4, 6]), np.zeros(1, np.int64), nothing,
        start, *columns,
    )  # fmt: skip
    assert start.tolist() == [0, 2]
    assert columns[:, :2].tolist() == [[4, 6], [TRAVELS, TRAVELS], [NONE, NONE]]


@SETTINGS
@given(
    st.lists(st.tuples(st.integers(0, 20), rising()), min_size=1, max_size=5), st.integers(1, 3), st.integers(1, 3),
    st.integers(1, 4), st.integers(1, 9),
)  # fmt: skip
def test_owners_have_room_for_each_of_their_items(
    rows: list[tuple[int, list[int]]], n_workers: int, n_planes: int, n_values: int, stride: int
) -> None:
    capacity, n_fields = 10, n_planes + n_values
    start, feature = as_lists([features for _, features in rows])
    n_rows, owner = np.array([n for n, _ in rows]), np.arange(10) % n_workers
    size = np.where(n_rows > capacity, n_fields, n_planes) * stride
    size_of = np.repeat(size, np.diff(start))
    for rank in range(n_workers):
        place = np.empty(len(feature), np.int64)
        total = place_items(rank, owner, n_rows, capacity, n_planes, n_fields, stride, start, feature, place)
        is_own = owner[feature] == rank
        assert_array_equal(place[~is_own], NONE)
        assert_array_equal(place[is_own], np.cumsum(size_of[is_own]) - size_of[is_own])
        assert total == size_of[is_own].sum()


# A whole merge on several workers, one frontier after another


class Merged(NamedTuple):
    items: Items
    splits: np.ndarray  # of the open nodes, as Frontier.own_splits tells


class Merger:
    """All workers' mergings, which remember the frontier before; threads only while a merge runs."""

    def __init__(self, workers: Workers, form: np.int64) -> None:
        self.workers, self.form = workers, form
        self.mergings: list[Merging | None] = [None] * workers.size

    def merge(self, elected: Elected) -> list[Merged]:
        def work(comm: Communicator) -> Merged:
            frontier = self.workers.frontiers[comm.rank]
            merging = self.mergings[comm.rank]
            if merging is None:
                merging = self.mergings[comm.rank] = Merging(Exchange(comm), self.form)
            merging.exchange = Exchange(comm)
            merging.merge(frontier, elected)
            assert merging.before is not None
            return Merged(merging.before, frontier.own_splits().copy())

        return local.run(work, self.workers.size, timeout=20)

    def check(self, elected: Elected, rules: Rules, categorical: tuple[int, ...] = ()) -> list[Merged]:
        merged = self.merge(elected)
        for rank, each in enumerate(merged):
            self.check_items(rank, each.items, elected)
            self.check_splits(rank, each.splits, elected, rules, categorical)
        return merged

    def check_items(self, rank: int, items: Items, elected: Elected) -> None:
        """Travelled or derived: each is the histogram of all rows, at its owner."""
        workers = self.workers
        for row, node in enumerate(workers.row_node):
            span = slice(items.start[row], items.start[row + 1])
            assert set(elected.feature[elected.start[row] : elected.start[row + 1]]) <= set(items.feature[span])
            for item in range(span.start, span.stop):
                if items.place[item] >= 0:
                    expected = workers.histogram(node, items.feature[item])
                    assert_array_equal(workers.kept(items, item, node), expected)

    def check_splits(
        self, rank: int, splits: np.ndarray, elected: Elected, rules: Rules, categorical: tuple[int, ...]
    ) -> None:
        """The best of the elected features that the worker owns, and of no other that happens to be known."""
        workers, frontier = self.workers, self.workers.frontiers[rank]
        values = brute_values(workers.values, rules)
        for split, row in zip(splits, np.flatnonzero(frontier.is_open), strict=True):
            own = elected.feature[elected.start[row] : elected.start[row + 1]]
            own = own[own % workers.size == rank]
            rows = workers.rows_of[workers.row_node[row]]
            node = oracle.Node(rows, values[rows].sum(axis=0), ())
            best = oracle.find_best_split(node, workers.bins, values, categorical, own, brute_rules(rules))
            if best is None:
                assert split["gain"] == -np.inf
                continue
            np.testing.assert_allclose(split["gain"], best.gain, rtol=1e-12)
            assert (split["feature"], split["default_left"]) == (best.feature, best.default_left)
            is_left = np.isin(workers.bins[rows, best.feature], list(best.goes_left))
            assert_array_equal(split["left_sums"], workers.fields[rows[is_left]].sum(axis=0))
            if best.feature in categorical:
                assert_array_equal(split["left_set"], as_set(best.goes_left))
            else:
                assert split["split_bin"] == best.split_bin


NAMES = [
    "gradient constant",
    "gradient real",
    "gradient precise",
    "3 classes copies",
    "3 classes real",
    "9 classes real",
]


@examples(25)
@given(
    name=st.sampled_from(NAMES),
    form=st.sampled_from([PLAIN, PACKED, SPARSE]),
    seed=st.integers(0, 2**32),
    n_workers=st.sampled_from([2, 3]),
    n_rows=st.sampled_from([4, 60, 1200]),
    elects_all=st.booleans(),
    min_count=st.sampled_from([1, 5]),
)
def test_merged_histograms_and_their_splits(
    name: str, form: np.int64, seed: int, n_workers: int, n_rows: int, elects_all: bool, min_count: int
) -> None:
    """Down a tree that is split anywhere; layouts whose words take 512 rows have large parents of small children."""
    rng = np.random.default_rng(seed)
    bins, worker_of = any_rows(rng, n_rows, 7, n_workers)
    rules = make_rules(name, max_leaves=99, min_count=min_count, reg_lambda=0.5)
    values = random_values(name, n_rows, rng)
    workers = Workers(name, bins, values, worker_of, n_workers, rules, categorical=(2, 5))
    merger = Merger(workers, form)
    for _ in range(4):
        if not workers.frontiers[0].is_open.any():
            return
        allowed = workers.frontiers[0].allowed_features()
        elected = allowed if elects_all else Elected(*any_features(rng, workers.frontiers[0]))
        merger.check(elected, rules, (2, 5))
        parents = workers.frontiers[0].with_open_children(workers.split_any(rng))
        if len(parents) == 0:
            return
        workers.look_at_children(parents)


@pytest.mark.parametrize(
    ("name", "form"),
    [*((name, form) for name in ("gradient constant", "gradient real") for form in (PLAIN, PACKED, SPARSE)),
     ("9 classes constant", PACKED)],
)  # fmt: skip
def test_children_of_a_node_too_large_for_words(name: str, form: np.int64) -> None:
    """A wide parent less a narrow child leaves a wide one, then a narrow one."""
    rng = np.random.default_rng(2)
    n_rows = FULL + 2000
    bins = rng.integers(0, 6, (n_rows, 3))
    bins[:, 0] = np.where(np.arange(n_rows) < 1500, 1, np.where(np.arange(n_rows) < 4000, 2, 3))
    rules = make_rules(name, max_leaves=99)
    workers = Workers(name, bins, random_values(name, n_rows, rng), rng.integers(0, 2, n_rows), 2, rules)
    merger = Merger(workers, form)
    travelled = []
    for split in ({0: (0, 1)}, {2: (0, 2)}, None):
        for merged in merger.check(workers.frontiers[0].allowed_features(), rules):
            travelled.append((merged.items.parent == TRAVELS).tolist())
        if split is not None:
            workers.look_at_children(workers.split(split))
    root, children = [True] * 3, [True] * 3 + [False] * 3  # the second child is the larger one, each time
    assert travelled == [root] * 2 + [children] * 4
    assert [len(rows) > FULL for rows in workers.rows_of] == [True, False, True, False, False]


def test_a_parent_that_was_not_merged_just_before_is_not_subtracted_from() -> None:
    """A wide level is taken in parts: when the second comes, its parents' histograms are gone."""
    rng = np.random.default_rng(3)
    name = "gradient real"
    bins = rng.integers(0, 6, (200, 3))
    rules = make_rules(name, max_leaves=99)
    workers = Workers(name, bins, random_values(name, 200, rng), rng.integers(0, 2, 200), 2, rules)
    merger = Merger(workers, PACKED)
    merger.check(workers.frontiers[0].allowed_features(), rules)
    workers.look_at_children(workers.split({0: (0, 2)}))
    merger.check(workers.frontiers[0].allowed_features(), rules)
    workers.split({1: (1, 2), 2: (2, 2)})
    for parent, n_travelled in ((1, 3), (2, 6)):
        workers.look_at_children(np.array([parent]))
        for merged in merger.check(workers.frontiers[0].allowed_features(), rules):
            assert (merged.items.parent == TRAVELS).sum() == n_travelled


def test_a_new_tree_knows_nothing_of_the_last() -> None:
    rng = np.random.default_rng(0)
    name = "gradient real"
    bins, worker_of = any_rows(rng, 50, 4, 2)
    workers = Workers(name, bins, random_values(name, 50, rng), worker_of, 2, make_rules(name))
    merger = Merger(workers, PACKED)
    merger.merge(workers.frontiers[0].allowed_features())
    for merging in merger.mergings:
        assert merging is not None and merging.before is not None
        merging.forget()
        assert merging.before is None
