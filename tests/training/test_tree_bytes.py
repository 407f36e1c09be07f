"""Trees as messages: what arrives is what was sent, and nothing that is no tree gets through."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pvtree.binning.thresholds import Thresholds
from pvtree.errors import CommunicationError
from pvtree.model import Tree
from pvtree.training.tree_bytes import BinnedTree, from_bytes, to_bytes
from random_trees import N_FEATURES, N_NUMERIC, random_tree

UPPER = np.full((N_FEATURES, 256), np.inf)
UPPER[:N_NUMERIC, :254] = np.random.default_rng(0).normal(size=(N_NUMERIC, 254)).cumsum(axis=1)
THRESHOLDS = Thresholds(UPPER, np.full(N_FEATURES, 255), (np.arange(N_FEATURES) >= N_NUMERIC).astype(np.uint8))
QUICK = settings(max_examples=60)


def n_bytes(tree: Tree) -> int:
    """The length of one tree's message."""
    n_inner = tree.n_nodes - tree.n_leaves
    return 4 + 20 * tree.n_nodes + 10 * n_inner + 4 * tree.n_leaves + 32 * len(tree.cat_sets)


def grown_tree(seed: int, n_splits: int) -> BinnedTree:
    """As the trainer makes them: nothing but a value, rows and a weight at a leaf, thresholds that end bins."""
    rng = np.random.default_rng(seed)
    tree = random_tree(rng, n_splits)
    is_leaf, count = tree.feature < 0, rng.integers(0, 2**32, tree.n_nodes)
    for node in np.flatnonzero(~is_leaf)[::-1]:
        count[node] = count[tree.left_child[node]] + count[tree.left_child[node] + 1]
    split_bin = np.where(is_leaf, 0, rng.integers(0, 256, tree.n_nodes))  # 255 is the last bin: all numbers go left
    has_threshold = ~is_leaf & (tree.cat_set < 0)
    return BinnedTree(
        Tree(
            feature=tree.feature,
            threshold=[
                (np.inf if b == 255 else UPPER[f, max(b, 1) - 1]) if has else 0.0
                for f, b, has in zip(tree.feature, split_bin, has_threshold, strict=True)
            ],
            left_child=tree.left_child,
            default_left=np.where(is_leaf, 0, tree.default_left),
            cat_set=tree.cat_set,
            cat_sets=tree.cat_sets,
            value=rng.choice([np.nan, np.inf, -0.0, 5e-324, 1.5], (tree.n_nodes, 1)),
            gain=np.where(is_leaf, 0.0, tree.gain),
            count=count,
            weight=tree.weight,
        ),
        split_bin,
    )


@QUICK
@given(st.lists(st.tuples(st.integers(0, 99), st.integers(0, 40)), max_size=4))
def test_what_arrives_is_what_was_sent(sizes):
    sent = [grown_tree(*size) for size in sizes]
    message = to_bytes(sent)
    assert message.dtype == np.uint8 and len(message) == sum(n_bytes(tree) for tree, _ in sent)
    arrived = from_bytes(message, THRESHOLDS)
    assert [tree for tree, _ in arrived] == [tree for tree, _ in sent]
    for (_, before), (_, after) in zip(sent, arrived, strict=True):
        assert after.dtype == np.int64 and np.array_equal(before, after)


@QUICK
@given(st.integers(0, 99), st.integers(0, 9), st.integers(0, 400), st.binary(min_size=1, max_size=9), st.booleans())
def test_bytes_of_no_tree_are_refused_or_harmless(seed, n_splits, at, noise, cuts):
    """A message that was cut off or altered is refused, or it is some tree whose walks end inside it."""
    good = to_bytes([grown_tree(seed, n_splits)]).tobytes()
    at = min(at, len(good) - 1)
    bad = good[:at] if cuts else good[:at] + noise + good[at + len(noise) :]
    try:
        trees = from_bytes(np.frombuffer(bad, np.uint8), THRESHOLDS)
    except CommunicationError as refusal:
        assert "cannot be read" in str(refusal)
        return
    assert not cuts or at == 0  # nothing is the message of a worker without rows
    for tree, split_bin in trees:
        inner = np.flatnonzero(tree.feature >= 0)
        left = tree.left_child[inner]
        assert np.all(left > inner) and np.all(left + 1 < tree.n_nodes) and tree.feature.max() < N_FEATURES
        assert (
            tree.default_left.max() <= 1 and tree.cat_set.max() < len(tree.cat_sets) and len(split_bin) == tree.n_nodes
        )


@pytest.mark.parametrize(
    ("feature", "reason"),
    [
        ([], "it names an unknown column"),
        ([0, -1], "do not form a tree"),
        ([-1, -1, 0], "do not form a tree"),  # children before their parent
        ([0, -1, -1, 1, -1], "do not form a tree"),  # a parent that is nobody's child
        ([N_FEATURES, -1, -1], "it names an unknown column"),
        ([-2, -1, -1], "it names an unknown column"),
        ([0, -1, -1], "cut off"),
    ],
)
def test_what_is_wrong_is_said(feature, reason):
    words = np.array([len(feature), *feature], np.int32)
    with pytest.raises(CommunicationError, match=f"cannot be read \\(.*{reason}.*; run the same version"):
        from_bytes(words.view(np.uint8), THRESHOLDS)
