"""Trees with numbers of training rows, and their expectations where some features are known: what SHAP values ask."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from naive_kernels import find_leaf_naive
from pvtree.model import Model, Tree


def with_counts(tree: Tree, rng: np.random.Generator, least: int = 1) -> Tree:
    """Counts as training makes them: those of children add up to their parent's."""
    count = rng.integers(least, 50, tree.n_nodes)
    for node in np.flatnonzero(tree.feature >= 0)[::-1]:
        count[node] = count[tree.left_child[node]] + count[tree.left_child[node] + 1]
    return replace(tree, count=count)


def counted(model: Model, seed: int, least: int = 1) -> Model:
    rng = np.random.default_rng(seed)
    return replace(model, trees=tuple(with_counts(tree, rng, least) for tree in model.trees))


def expectation(tree: Tree, row: np.ndarray, known: set[int], node: int = 0) -> np.ndarray:
    """The mean of the leaves, where unknown features send the row both ways, like the training rows."""
    if tree.feature[node] < 0:
        return tree.value[node]
    left = int(tree.left_child[node])
    if tree.feature[node] in known:
        goes = stump_side(tree, row, node)
        return expectation(tree, row, known, left + goes)
    if tree.count[node] == 0:
        part = 0.5
        return part * expectation(tree, row, known, left) + part * expectation(tree, row, known, left + 1)
    return sum(
        tree.count[child] / tree.count[node] * expectation(tree, row, known, child) for child in (left, left + 1)
    )


def stump_side(tree: Tree, row: np.ndarray, node: int) -> int:
    """0 or 1: which way a row goes at one node, asked of the tree that has this split alone."""
    alone = {name: np.array([getattr(tree, name)[node], 0, 0]) for name in ("threshold", "default_left")}
    stump = replace(
        tree, feature=[tree.feature[node], -1, -1], left_child=[1, 0, 0], cat_set=[tree.cat_set[node], -1, -1],
        value=np.zeros((3, 1)), gain=np.zeros(3), count=np.zeros(3), weight=np.zeros(3), **alone,
    )  # fmt: skip
    return find_leaf_naive(stump, row) - 1
