"""Random but well-formed trees and rows, with every value that could trip a comparison."""

from __future__ import annotations

import numpy as np

from pvtree.model import Model, Tree

TINY = 5e-324
# 0.1 is not a float32, and its float32 neighbours are on either side of it.
CUTS = np.array([-np.inf, -1.5, -TINY, -0.0, 0.0, TINY, 0.1, 1.0, 16777217.0, 1e300, np.inf])
CODES = np.array([-1.0, -0.0, 1.0, 2.0, 63.0, 64.0, 128.0, 254.0, 255.0, 255.5, 256.0, 1e9, np.nan, np.inf, -np.inf])
N_NUMERIC, N_CATEGORICAL = 4, 2
N_FEATURES = N_NUMERIC + N_CATEGORICAL


def random_tree(rng: np.random.Generator, n_splits: int, n_values: int = 1, depth_first: bool = False) -> Tree:
    """A tree of n_splits splits; depth_first makes it as deep as it can be."""
    feature, left_child, cat_set = [], [], []
    n_nodes, n_sets, node = 1, 0, 0
    while node < n_nodes:
        pending = n_nodes - node  # nodes not yet decided, this one included
        done = (n_nodes - 1) // 2
        chance = rng.random() < 0.6 and not (depth_first and pending > 1)
        is_split = done < n_splits and (pending == 1 or chance)
        feature.append(int(rng.integers(N_FEATURES)) if is_split else -1)
        left_child.append(n_nodes if is_split else 0)
        is_categorical = is_split and feature[-1] >= N_NUMERIC
        cat_set.append(n_sets if is_categorical else -1)
        n_sets += is_categorical
        n_nodes += 2 * is_split
        node += 1
    return Tree(
        feature=np.array(feature),
        threshold=rng.choice(CUTS, n_nodes),
        left_child=np.array(left_child),
        default_left=rng.integers(0, 2, n_nodes),
        cat_set=np.array(cat_set),
        cat_sets=rng.integers(0, 2**64, (n_sets, 4), np.uint64),
        value=rng.normal(size=(n_nodes, n_values)),
        gain=np.where(np.array(feature) < 0, -np.inf, rng.random(n_nodes)),
        count=rng.integers(0, 1000, n_nodes),
        weight=rng.random(n_nodes),
    )


def random_rows(rng: np.random.Generator, n_rows: int) -> np.ndarray:
    """Values on, beside and far from the cuts; codes inside and outside 0..255."""
    with np.errstate(over="ignore"):
        as_float32 = CUTS.astype(np.float32)
    beside = [CUTS, np.nextafter(CUTS, np.inf), np.nextafter(CUTS, -np.inf), as_float32, [np.nan]]
    X = rng.choice(np.concatenate(beside).astype(np.float64), (n_rows, N_FEATURES))
    X[:, N_NUMERIC:] = rng.choice(CODES, (n_rows, N_CATEGORICAL))
    return X


def random_model(seed: int, sizes: list[int], n_outputs: int = 1, ensemble: str = "gbdt") -> Model:
    rng = np.random.default_rng(seed)
    n_values = n_outputs if ensemble == "forest" else 1
    return Model(
        trees=tuple(random_tree(rng, size, n_values, depth_first=i % 3 == 2) for i, size in enumerate(sizes)),
        objective="multiclass" if n_outputs > 1 else "regression",
        ensemble=ensemble,
        n_features=N_FEATURES,
        n_outputs=n_outputs,
        init_score=rng.normal(size=n_outputs),
    )


def chain(n_splits: int, n_features: int) -> Model:
    """One path through all features in turn, a leaf beside every step; zeros go all the way down."""
    n_nodes = 2 * n_splits + 1
    node = np.arange(n_nodes)
    is_inner = (node % 2 == 0) & (node < n_nodes - 1)
    tree = Tree(
        feature=np.where(is_inner, node // 2 % n_features, -1),
        threshold=np.full(n_nodes, -1.0),
        left_child=np.where(is_inner, node + 1, 0),
        default_left=np.zeros(n_nodes),
        cat_set=np.full(n_nodes, -1),
        cat_sets=np.empty((0, 4)),
        value=np.random.default_rng(n_splits).normal(size=(n_nodes, 1)),
        gain=np.zeros(n_nodes),
        count=(n_nodes - node + 1) // 2,
        weight=np.zeros(n_nodes),
    )
    return Model((tree,), "regression", "gbdt", n_features, 1, np.array([0.5]))
