"""Histograms from all workers to the owners of features: in every form they add up to those of all rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from growing_rows import make_rules
from packed_rows import FULL, random_values
from pvtree.find_split.histogram_messages import HistogramMessages
from pvtree.growing.frontier_records import Items
from pvtree.kernels.wire.messages import PACKED, PLAIN, SPARSE, TRAVELS
from thoroughness import examples
from worker_rows import Workers, any_features, any_rows

SETTINGS = examples(30)
FORMS = {"plain": PLAIN, "packed": PACKED, "sparse": SPARSE}
WHOLE = np.array([0, 4]), np.arange(4)  # the root and all of four features
# A layout of each kind, and those whose words take only 512 rows: large nodes of few rows.
NAMES = [
    "gradient constant", "gradient copies", "gradient real", "gradient precise", "1 classes constant",
    "2 classes constant", "3 classes copies", "3 classes real", "9 classes constant", "9 classes real",
]  # fmt: skip


def plain_bytes(workers: Workers, items: Items, to: int) -> int:
    """Of the items that travel to a worker: 8 for each bin and plane, or field where all rows exceed a word."""
    layout, total = workers.layout, 0
    for row, node in enumerate(workers.row_node):
        n_words = layout.n_fields if len(workers.rows_of[node]) > layout.capacity else layout.n_planes
        for item in range(items.start[row], items.start[row + 1]):
            if workers.owner[items.feature[item]] == to and items.parent[item] == TRAVELS:
                total += n_words * (workers.n_bins[items.feature[item]] + 1)
    return 8 * total


def exchange(
    workers: Workers, form: np.int64, start: np.ndarray, feature: np.ndarray, parent: Any = None
) -> np.ndarray:
    """Write, carry over and read all messages, and check what owners then have; returns the bytes from and to each."""
    all_items = [workers.items(rank, start, feature, parent) for rank in range(workers.size)]
    posts = [
        HistogramMessages(frontier, items, workers.owner, form, rank, workers.size)
        for rank, (frontier, items) in enumerate(zip(workers, all_items, strict=True))
    ]
    sent = [post.write() for post in posts]
    for rank, post in enumerate(posts):
        post.read([messages[rank].copy() for messages in sent])
    for frontier in workers:  # histograms were only kept to write messages
        a = frontier.memory.arrays
        assert (frontier.memory.nodes["slot"][: frontier.n_made] == -1).all()
        assert_array_equal(a["n_free"], [a["n_narrow_slots"], a["n_wide_slots"]])
    for rank, items in enumerate(all_items):
        untouched = np.ones(len(items.arena), bool)
        for row, node in enumerate(workers.row_node):
            for item in range(start[row], start[row + 1]):
                assert (items.place[item] >= 0) == (workers.owner[feature[item]] == rank)
                if items.place[item] >= 0 and items.parent[item] == TRAVELS:
                    expected = workers.histogram(node, feature[item])
                    assert_array_equal(workers.kept(items, item, node), expected)
                    n_words = len(expected) if items.is_wide[row] else workers.layout.n_planes
                    stride = workers.frontiers[0].memory.arrays["stride"]
                    untouched[items.place[item] :][: n_words * stride] = False
        assert (items.arena[untouched] == -1).all()  # what does not travel is not written
    n_bytes = np.array([[len(message) for message in messages] for messages in sent])
    for to in range(workers.size):
        assert (n_bytes[:, to] <= plain_bytes(workers, all_items[to], to)).all()
        if form == PLAIN:
            assert (n_bytes[:, to] == plain_bytes(workers, all_items[to], to)).all()
        assert n_bytes[to, to] == plain_bytes(workers, all_items[to], to)  # nobody packs for itself
    return n_bytes


@SETTINGS
@given(
    name=st.sampled_from(NAMES),
    form=st.sampled_from(sorted(FORMS)),
    seed=st.integers(0, 2**32),
    n_workers=st.sampled_from([1, 2, 3, 5]),
    n_rows=st.sampled_from([1, 5, 40, 300, 1500]),
    n_features=st.sampled_from([1, 4, 19]),
    most_bins=st.sampled_from([1, 12, 255]),
    n_slots=st.sampled_from([0, 1, 100]),
)
def test_owners_get_the_histograms_of_all_rows(
    name: str, form: str, seed: int, n_workers: int, n_rows: int, n_features: int, most_bins: int, n_slots: int
) -> None:
    """At the root and two levels down, with workers and nodes that have no rows, and room for few histograms."""
    rng = np.random.default_rng(seed)
    bins, worker_of = any_rows(rng, n_rows, n_features, n_workers, most_bins)
    values = random_values(name, n_rows, rng, extreme=bool(rng.integers(2)))
    rules = make_rules(name, max_depth=3)
    workers = Workers(name, bins, values, worker_of, n_workers, rules, pool=(n_slots, 2**20))
    exchange(workers, FORMS[form], *any_features(rng, workers.frontiers[0]))
    for _ in range(2):
        parents = workers.split_any(rng)
        if len(parents) == 0:
            return
        workers.look_at_children(parents)
        start, feature = any_features(rng, workers.frontiers[0])
        parent = np.where(rng.random(len(feature)) < 0.3, 0, TRAVELS)
        exchange(workers, FORMS[form], start, feature, parent)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["gradient constant", "gradient real", "3 classes copies", "9 classes constant"])
def test_more_rows_than_a_word_takes(name: str, form: str) -> None:
    """One worker has more than a word's rows of a node, one none, one a few; then a child of each kind."""
    rng = np.random.default_rng(1)
    n_rows = FULL + 4000
    bins = rng.integers(0, 9, (n_rows, 3))
    bins[:, 0] = np.where(np.arange(n_rows) < FULL + 1000, 1, 2)
    worker_of = np.where(rng.random(n_rows) < 0.02, 2, 0)
    worker_of[-3000:] = rng.choice([0, 3], 3000)
    workers = Workers(name, bins, random_values(name, n_rows, rng), worker_of, 4, make_rules(name))
    assert (np.bincount(worker_of)[[0, 1]] > [FULL, -1]).all() and 1 not in worker_of
    features = np.arange(3)
    exchange(workers, FORMS[form], np.array([0, 3]), features)
    workers.look_at_children(workers.split({0: (0, 1)}))
    assert [len(rows) > FULL for rows in workers.rows_of] == [True, True, False]
    exchange(workers, FORMS[form], np.array([0, 3, 6]), np.tile(features, 2))


def gbdt_workers(n_rows: int, n_bins: int) -> Workers:
    """Two workers with about as many rows, in four features."""
    rng = np.random.default_rng(0)
    name = "gradient real"
    bins = rng.integers(1, n_bins + 1, (n_rows, 4))
    bins[0] = n_bins
    return Workers(name, bins, random_values(name, n_rows, rng), np.arange(n_rows) % 2, 2, make_rules(name))


@pytest.mark.parametrize(("n_rows", "share"), [(20, 0.03), (200, 0.12), (2000, 0.65)])
def test_packing_shortens_messages(n_rows: int, share: float) -> None:
    workers = gbdt_workers(n_rows, n_bins=255)
    plain, packed, sparse = (exchange(workers, form, *WHOLE)[0, 1] for form in (PLAIN, PACKED, SPARSE))
    assert packed < share * plain
    assert packed <= sparse <= plain


def test_a_message_that_packing_would_lengthen_goes_plain() -> None:
    """Every bin full of the largest gradients: a bitmap before the words is all that the sparse form can add."""
    workers = gbdt_workers(4000, n_bins=20)
    n_bytes = exchange(workers, SPARSE, *WHOLE)
    assert n_bytes[0, 1] == plain_bytes(workers, workers.items(1, *WHOLE), 1)


@pytest.mark.parametrize("form", [PACKED, SPARSE])
def test_few_rows_travel_as_rows(form: np.int64) -> None:
    """Six features of one row: the row itself once, and a bin for each feature, not six histograms."""
    name, bins = "gradient real", np.full((2, 12), 200)
    workers = Workers(name, bins, np.full((2, 2), 9), np.array([0, 1]), 2, make_rules(name))
    n_bytes = exchange(workers, form, np.array([0, 12]), np.arange(12))
    assert n_bytes[0, 1] < 20
