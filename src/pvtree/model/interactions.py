"""XGBoost's other ways to divide a prediction among features: SHAP interaction values, and values along the path."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from pvtree.model.contributions import quadrature
from pvtree.model.linear_leaves import refuse_linear
from pvtree.model.model import Model
from pvtree.model.predictor import Rows
from pvtree.model.tree import Tree
from pvtree.reading.sparse_rows import SparseRows
from pvtree.reading.tables import as_dense

ROWS_AT_ONCE = 1024

# By feature of a path: for each row 1 if it goes the path's way (o), else 0; the share of training rows that does (z).
Path = dict[int, tuple[np.ndarray, float]]


def interactions(model: Model, X: Any, n_threads: int = 1) -> np.ndarray:
    """SHAP interaction values, float64 (n, n_outputs, n_features + 1, n_features + 1).

    What two features add together is halved between [i, j] and [j, i]; [i, i] is what is left of the feature's SHAP
    value, and the last one is the expected score. So rows sum to SHAP values, and everything to the raw score.
    """
    refuse_linear(model, "pred_interactions")
    rows, n_features = model._rows(X), model.n_features
    out = np.zeros((len(rows), model.n_outputs, n_features + 1, n_features + 1))
    for own, block in _dense_blocks(rows, n_features):
        for tree, outputs in _with_outputs(model):
            for leaf, path in _leaves(tree, block):
                features, pairs = np.array(list(path)), _pairs(path)
                for value, output in zip(tree.value[leaf], outputs, strict=True):
                    out[own, output, features[:, None], features] += value * pairs
    out /= _n_averaged(model)
    single = as_dense(model.predict_contrib(rows, n_threads=n_threads)).reshape(out.shape[:3])
    diagonal = np.arange(n_features + 1)
    out[:, :, diagonal, diagonal] = single - out.sum(axis=3)
    return out


def path_values(model: Model, X: Any) -> np.ndarray:
    """float64 (n, n_outputs * (n_features + 1)): how the expected score changes on a row's way by feature.

    The last value of an output is the expected score. XGBoost calls this approx_contribs (Saabas, 2014).
    """
    refuse_linear(model, "approx_contribs")
    rows = model._rows(X)
    out = np.zeros((len(rows), model.n_outputs, model.n_features + 1))
    for own, block in _dense_blocks(rows, model.n_features):
        for tree, outputs in _with_outputs(model):
            mean, is_here = _means(tree), {0: np.ones(len(block))}
            out[own, outputs, -1] += mean[0]
            for node in np.flatnonzero(tree.feature >= 0).tolist():
                for child, goes in _children(tree, node, block):
                    is_here[child] = is_here[node] * goes
                    change = is_here[child][:, None] * (mean[child] - mean[node])
                    out[own, outputs, tree.feature[node]] += change
    out /= _n_averaged(model)
    out[:, :, -1] += model.init_score
    return out.reshape(len(out), -1)


def _n_averaged(model: Model) -> int:
    return max(1, model.n_iterations) if model.ensemble == "forest" else 1


def _with_outputs(model: Model) -> Iterator[tuple[Tree, np.ndarray]]:
    """Each tree and the outputs that its values are added to."""
    for number, tree in enumerate(model.trees):
        yield tree, np.arange(model.n_outputs) if tree.n_values > 1 else np.array([number % model.n_outputs])


def _dense_blocks(rows: Rows, n_features: int) -> Iterator[tuple[slice, np.ndarray]]:
    columns = np.arange(n_features)
    for first in range(0, len(rows), ROWS_AT_ONCE):
        own = slice(first, min(first + ROWS_AT_ONCE, len(rows)))
        yield own, rows.dense_columns(own, columns, columns) if isinstance(rows, SparseRows) else rows[own]


def _children(tree: Tree, node: int, block: np.ndarray) -> list[tuple[int, np.ndarray]]:
    """Both children of a node, each with 1 for the rows that would go there and 0 for the others."""
    x = block[:, tree.feature[node]].astype(np.float64)
    if tree.cat_set[node] >= 0:
        code = np.where((x >= 0.0) & (x < 256.0), x, 0.0).astype(np.int64)  # other codes are missing or unseen
        words = tree.cat_sets[tree.cat_set[node]][code >> 6]
        goes_left = (words >> (code & 63).astype(np.uint64)) & np.uint64(1) == 1
    else:
        goes_left = np.where(np.isnan(x), tree.default_left[node] == 1, x <= tree.threshold[node])
    left = int(tree.left_child[node])
    return [(left, goes_left.astype(np.float64)), (left + 1, (~goes_left).astype(np.float64))]


def _shares(tree: Tree, node: int) -> np.ndarray:
    """The parts of a node's training rows that go left and right; without rows it tells nothing about its children."""
    left = tree.left_child[node]
    return tree.count[left : left + 2] / tree.count[node] if tree.count[node] > 0 else np.full(2, 0.5)


def _means(tree: Tree) -> np.ndarray:
    """(n_nodes, n_values): the mean output of the training rows that reach a node."""
    mean = np.array(tree.value)
    for node in np.flatnonzero(tree.feature >= 0)[::-1]:
        left = tree.left_child[node]
        mean[node] = _shares(tree, node) @ mean[left : left + 2]
    return mean


def _leaves(tree: Tree, block: np.ndarray) -> Iterator[tuple[int, Path]]:
    """The leaves that two or more features lead to, with their paths."""
    paths: dict[int, Path] = {0: {}}
    for node in range(tree.n_nodes):
        path, feature = paths.pop(node), int(tree.feature[node])
        if feature < 0:
            if len(path) > 1:
                yield node, path
            continue
        o, z = path.get(feature, (1.0, 1.0))
        for (child, goes), share in zip(_children(tree, node, block), _shares(tree, node), strict=True):
            paths[child] = {**path, feature: (o * goes, z * float(share))}


def _pairs(path: Path) -> np.ndarray:
    """(n, d, d): the interactions of a leaf with the value 1, whose path has d features; the diagonal is 0.

    As kernels/predict/contributions.py has it for one feature,
    phi_ij = (o_i - z_i) (o_j - z_j) / 2  int_0^1  prod_{k != i, j} (t o_k + (1 - t) z_k) dt.
    """
    points, weights = quadrature(len(path))
    o = np.stack([each for each, _ in path.values()], axis=1)[:, :, None]
    z = np.array([share for _, share in path.values()])[:, None]
    factor = points * o + (1.0 - points) * z  # (n, d, points)
    # It is 0 only where neither the row nor a training row goes; then the leaf weighs nothing.
    own = np.divide(o - z, factor, out=np.zeros_like(factor), where=factor > 0.0)
    pairs: np.ndarray = (own * (weights * factor.prod(axis=1))[:, None, :]) @ own.transpose(0, 2, 1) / 2.0
    diagonal = np.arange(len(path))
    pairs[:, diagonal, diagonal] = 0.0
    return pairs
