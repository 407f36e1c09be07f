"""Finished trees as messages to other workers, which hold only what the receivers cannot compute themselves.
All workers have the same bins, so a threshold is sent as a bin and becomes the same threshold again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from pvtree.binning.thresholds import Thresholds
from pvtree.errors import CommunicationError
from pvtree.growing.tree_maker import thresholds_and_sets
from pvtree.kernels.growing.route import sum_upwards
from pvtree.model.tree import Tree


class BinnedTree(NamedTuple):
    """A tree of boosting that rows can walk by their bins."""

    tree: Tree  # with one value at each node
    split_bin: np.ndarray  # int64 (n_nodes,): its thresholds as bins; without meaning at categorical splits


def to_bytes(trees: Sequence[BinnedTree]) -> np.ndarray:
    """For each tree the number of its nodes, then its columns; columns of splits or leaves skip the other nodes.

    Nodes are in level order, so the i-th split has the children 2 i + 1 and 2 i + 2. A split has as many rows as its
    children together.
    """
    pieces = [np.empty(0, np.uint8)]
    for tree, split_bin in trees:
        is_leaf = tree.feature < 0
        columns = [
            np.array([tree.n_nodes], np.uint32),
            tree.feature,
            split_bin[~is_leaf].astype(np.uint8),
            tree.default_left[~is_leaf],
            tree.cat_sets.ravel(),
            tree.gain[~is_leaf],
            tree.value.ravel(),
            tree.weight,
            tree.count[is_leaf].astype(np.uint32),  # the rows of one worker fit into uint32
        ]
        pieces.extend(np.ascontiguousarray(column).view(np.uint8) for column in columns)
    return np.concatenate(pieces)


def from_bytes(message: np.ndarray, thresholds: Thresholds) -> list[BinnedTree]:
    """The trees of a message; it is checked, because kernels follow its indices."""
    return list(_trees(_Reader(message), thresholds))


def _trees(reader: _Reader, thresholds: Thresholds) -> Iterator[BinnedTree]:
    while not reader.at_end:
        n_nodes = int(reader.take(1, np.uint32)[0])
        feature = reader.take(n_nodes, np.int32)
        is_known = n_nodes > 0 and feature.min() >= -1 and feature.max() < len(thresholds.n_bins)
        _check(is_known, "it names an unknown column")
        is_leaf = feature < 0
        n_inner = n_nodes - int(is_leaf.sum())
        left_child = _children(is_leaf)
        split_bin = np.zeros(n_nodes, np.int64)
        split_bin[~is_leaf] = reader.take(n_inner, np.uint8)
        default_left = np.zeros(n_nodes, np.uint8)
        default_left[~is_leaf] = reader.take(n_inner, np.uint8)
        _check(default_left.max() <= 1, "a side is neither left nor right")
        threshold, cat_set = thresholds_and_sets(thresholds, feature, split_bin)
        cat_sets = reader.take(4 * (int(cat_set.max()) + 1), np.uint64).reshape(-1, 4)
        gain = np.zeros(n_nodes)
        gain[~is_leaf] = reader.take(n_inner, np.float64)
        value = reader.take(n_nodes, np.float64)
        weight = reader.take(n_nodes, np.float64)
        count = np.zeros((n_nodes, 1), np.int64)
        count[is_leaf, 0] = reader.take(n_nodes - n_inner, np.uint32)
        sum_upwards(left_child, count)
        tree = Tree(
            feature, threshold, left_child, default_left, cat_set, cat_sets, value[:, None], gain, count[:, 0], weight
        )
        yield BinnedTree(tree, split_bin)


def _children(is_leaf: np.ndarray) -> np.ndarray:
    """The left child of every node, 0 for a leaf; every node except the root must be the child of an earlier one."""
    inner = np.flatnonzero(~is_leaf)
    left = 2 * np.arange(len(inner)) + 1
    _check(len(is_leaf) == 2 * len(inner) + 1 and bool(np.all(left > inner)), "its nodes do not form a tree")
    left_child = np.zeros(len(is_leaf), np.int64)
    left_child[inner] = left
    return left_child


class _Reader:
    """Reads one array after the other from a message."""

    def __init__(self, message: np.ndarray) -> None:
        self.message, self.at = message, 0

    @property
    def at_end(self) -> bool:
        return self.at == len(self.message)

    def take(self, n: int, dtype: type[np.generic]) -> np.ndarray:
        stop = self.at + n * np.dtype(dtype).itemsize
        _check(stop <= len(self.message), "it is cut off")
        values = self.message[self.at : stop].copy().view(dtype)  # copied, because a view must be aligned
        self.at = stop
        return values


def _check(is_right: bool, wrong: str) -> None:
    if not is_right:
        raise CommunicationError(
            f"A tree that another worker sent cannot be read ({wrong}); run the same version of pvtree on all workers."
        )
