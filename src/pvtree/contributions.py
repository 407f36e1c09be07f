"""What each feature adds to a prediction: a model's trees prepared for SHAP values, and run over blocks of rows."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from pvtree.kernels import contributions as kernels
from pvtree.predictor import Rows
from pvtree.sparse_rows import SparseRows
from pvtree.team import Team

if TYPE_CHECKING:
    from pvtree.model import Model

BLOCK_ROWS = 64  # a tree's nodes stay in the cache while this many rows go down it
MIN_THREAD_ROWS = 16


def contributions(model: Model, X: Rows, first: int, end: int, n_threads: int) -> np.ndarray:
    """``Model.predict_contrib`` with trees first..end; X has the model's columns."""
    out = np.zeros((len(X), model.n_outputs, model.n_features + 1))
    if end > first and len(X):
        prepared = model._explainer
        with Team(min(n_threads, 1 + len(X) // MIN_THREAD_ROWS)) as team:
            team.for_blocks(prepared.add, len(X), X, first, end, out, min_block=MIN_THREAD_ROWS)
    if model.ensemble == "forest":
        out /= max(1, (end - first) // model.trees_per_iteration)
    out[:, :, -1] += model.init_score
    return out.reshape(len(X), model.n_outputs * (model.n_features + 1))


class Explainer:
    """The trees of a model one after the other, with what is the same for all rows."""

    def __init__(self, model: Model) -> None:
        self.n_outputs = model.n_outputs
        trees = model.trees
        sizes = np.array([tree.n_nodes for tree in trees], np.int64)
        roots = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        n_sets = np.array([len(tree.cat_sets) for tree in trees], np.int64)

        def stack(name: str, dtype: type, offset: np.ndarray | None = None) -> np.ndarray:
            parts: list[np.ndarray] = [getattr(tree, name).astype(dtype) for tree in trees]
            if offset is not None:
                parts = [part + start for part, start in zip(parts, offset, strict=True)]
            return np.concatenate(parts)

        feature = stack("feature", np.int64)
        left_child = stack("left_child", np.int64, roots[:-1])
        cat_set = stack("cat_set", np.int64)
        cat_set = np.where(cat_set < 0, -1, cat_set + np.repeat(np.cumsum(n_sets) - n_sets, sizes))
        value = np.ascontiguousarray(np.concatenate([tree.value for tree in trees]).T)  # (n_values, nodes)
        count = stack("count", np.int64)

        parent, above = np.empty(feature.size, np.int64), np.empty(feature.size, np.int64)
        share, reach = np.empty(feature.size), np.empty(feature.size)
        paths = (parent, above, share, reach)
        n_different = [
            kernels.trace_paths(start, stop, feature, left_child, count, *paths) for start, stop in pairwise(roots)
        ]
        # The mean over the training rows, by their shares on the way: with it, all values sum up to the score.
        expected = np.add.reduceat(np.where(feature < 0, value * reach, 0.0), roots[:-1], axis=1)
        self.points = [quadrature(most) for most in n_different]
        self.most_nodes, self.most_points = int(sizes.max()), max(points.shape[1] for points in self.points)
        self._packed: tuple[Any, ...] = (
            roots, feature, stack("threshold", np.float64), left_child, stack("default_left", np.uint8), cat_set,
            np.concatenate([tree.cat_sets for tree in trees]), value, parent, above, share, expected,
        )  # fmt: skip

    def add(self, start: int, stop: int, X: Rows, first: int, end: int, out: np.ndarray) -> None:
        """Add the SHAP values of rows start..stop to OUT out (n, n_outputs, n_features + 1)."""
        scratch = np.empty((3, self.most_nodes, self.most_points))
        known = np.ones(self.most_nodes)
        for at in range(start, stop, BLOCK_ROWS):
            rows = slice(at, min(at + BLOCK_ROWS, stop))
            block = np.ascontiguousarray(X.dense(rows) if isinstance(X, SparseRows) else X[rows], np.float64)
            for tree in range(first, end):
                kernels.add_contributions(
                    block, tree, self.n_outputs, *self._packed, self.points[tree], scratch, known, out[rows]
                )


_RULES: dict[int, np.ndarray] = {}


def quadrature(n_features: int) -> np.ndarray:
    """(2, n): points and weights that integrate polynomials of degree n_features - 1 from 0 to 1 exactly."""
    n = max(1, (n_features + 1) // 2)
    if n not in _RULES:
        points, weights = np.polynomial.legendre.leggauss(n)
        _RULES[n] = np.stack([(points + 1.0) / 2.0, weights / 2.0])
    return _RULES[n]
