"""SHAP values: what each feature adds to a prediction. Trees are prepared once, then run over blocks of rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from pvtree.kernels.predict import contributions as kernels
from pvtree.kernels.team import Team
from pvtree.model.linear_leaves import refuse_linear
from pvtree.model.predictor import Rows
from pvtree.reading.sparse_rows import SparseRows

if TYPE_CHECKING:
    from pvtree.model.model import Model

BLOCK_ROWS = 64  # a tree's nodes stay in the cache while this many rows go down it
BLOCK_CELLS = 2**21  # values in a block; wide rows make blocks of fewer rows
BLOCK_STEPS = 2**24  # nodes x points x rows per kernel call, which then takes less than a tenth of a second
MOST_POINTS = 64  # points summed in one pass over a tree; the scratch holds this many numbers per node
MIN_THREAD_ROWS = 16

# Takes a block's rows and its values, float64 (rows, n_outputs, used columns).
Put = Callable[[slice, np.ndarray], None]


def contributions(model: Model, X: Rows, first: int, end: int, n_threads: int, base: np.ndarray) -> Any:
    """``Model.predict_contrib`` of trees first..end on top of the scores ``base``; X has the model's columns."""
    refuse_linear(model, "pred_contrib")
    n_averaged = max(1, (end - first) // model.trees_per_iteration) if model.ensemble == "forest" else 1
    prepared = model._explainer if end > first else None
    expected = base if prepared is None else prepared.expected(first, end) / n_averaged + base
    columns = np.empty(0, np.int64) if prepared is None else prepared.columns

    def run(put: Put) -> None:
        if prepared is not None and len(X):
            with Team(min(n_threads, 1 + len(X) // MIN_THREAD_ROWS)) as team:
                team.for_blocks(
                    lambda start, stop: prepared.run(start, stop, X, first, end, n_averaged, team, put), len(X),
                    min_block=MIN_THREAD_ROWS,
                )  # fmt: skip

    if isinstance(X, SparseRows):
        return _sparse(X, columns, expected, model.n_features + 1, run)
    out = np.zeros((len(X), model.n_outputs, model.n_features + 1))
    out[:, :, -1] = expected

    def put(rows: slice, values: np.ndarray) -> None:
        out[rows, :, columns] = values

    run(put)
    return out.reshape(len(X), out.shape[1] * out.shape[2])


def _sparse(X: SparseRows, columns: np.ndarray, expected: np.ndarray, width: int, run: Callable[[Put], None]) -> Any:
    """Sparse matrices of X's own kind, one per output. Only columns that the trees use are ever dense."""
    stored_columns = np.append(columns, width - 1)
    parts: list[dict[int, tuple[np.ndarray, ...]]] = [{} for _ in expected]  # by output and first row

    def put(rows: slice, values: np.ndarray) -> None:
        for of_output, its_values, last in zip(parts, values.transpose(1, 0, 2), expected, strict=True):
            block = np.column_stack([its_values, np.full(len(its_values), last)])
            row, place = np.nonzero(block)
            of_output[rows.start] = np.bincount(row, minlength=len(block)), stored_columns[place], block[row, place]

    run(put)
    if not parts[0]:  # no rows or no trees
        put(slice(0, len(X)), np.zeros((len(X), len(expected), len(columns))))
    matrices = []
    for of_output in parts:
        in_order = [of_output[first] for first in sorted(of_output)]
        counts, indices, data = (np.concatenate(each) for each in zip(*in_order, strict=True))
        of_output.clear()
        matrices.append(X.like(data, indices, np.append(0, np.cumsum(counts)), (len(X), width)))
    return matrices if len(matrices) > 1 else matrices[0]


class Explainer:
    """A model's trees stacked into arrays, with everything that is the same for all rows.

    Columns that no split reads are left out. ``columns`` lists the others, and trees refer to positions in this list.
    """

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
        self.columns = np.unique(feature[feature >= 0])
        slot = np.where(feature < 0, -1, np.searchsorted(self.columns, feature))
        left_child = stack("left_child", np.int64, roots[:-1])
        cat_set = stack("cat_set", np.int64)
        cat_set = np.where(cat_set < 0, -1, cat_set + np.repeat(np.cumsum(n_sets) - n_sets, sizes))
        value = np.ascontiguousarray(np.concatenate([tree.value for tree in trees]).T)  # (n_values, nodes)
        count = stack("count", np.int64)

        parent, above = np.empty(slot.size, np.int64), np.empty(slot.size, np.int64)
        share, reach = np.empty(slot.size), np.empty(slot.size)
        paths = (np.full(len(self.columns), -1), parent, above, share, reach)
        n_different = [
            kernels.trace_paths(start, stop, slot, left_child, count, *paths) for start, stop in pairwise(roots)
        ]
        # Each tree's mean output over the training rows. Adding it makes all values sum to the raw score.
        self._expected = np.add.reduceat(np.where(slot < 0, value * reach, 0.0), roots[:-1], axis=1)
        self.points = [list(_pieces(quadrature(most))) for most in n_different]
        self.most_nodes, n_points = int(sizes.max()), max(its[0].shape[1] for its in self.points)
        n_cells = max(1, self.n_outputs * len(self.columns))
        self.block_rows = max(1, min(BLOCK_ROWS, BLOCK_CELLS // n_cells, BLOCK_STEPS // (self.most_nodes * n_points)))
        self._scratch_shape = (3, self.most_nodes, n_points)
        self._packed: tuple[Any, ...] = (
            roots, slot, stack("threshold", np.float64), left_child, stack("default_left", np.uint8), cat_set,
            np.concatenate([tree.cat_sets for tree in trees]), value, parent, above, share,
        )  # fmt: skip

    def expected(self, first: int, end: int) -> np.ndarray:
        """float64 (n_outputs,): the sum of the mean outputs of trees first..end over the training rows."""
        sums = np.zeros(self.n_outputs)
        for tree in range(first, end):
            at = tree % self.n_outputs
            sums[slice(None) if len(self._expected) > 1 else slice(at, at + 1)] += self._expected[:, tree]
        return sums

    def run(
        self, start: int, stop: int, X: Rows, first: int, end: int, n_averaged: int, team: Team, put: Put
    ) -> None:  # fmt: skip
        """Compute the SHAP values of rows start..stop and hand each block of them to ``put``."""
        scratch, known = np.empty(self._scratch_shape), np.ones(self.most_nodes)
        slots = X.slots(self.columns) if isinstance(X, SparseRows) else self.columns
        for at in range(start, stop, self.block_rows):
            rows = slice(at, min(at + self.block_rows, stop))
            if isinstance(X, SparseRows):
                block = X.dense_columns(rows, self.columns, slots)
            else:
                block = X[rows][:, self.columns]
            block = np.ascontiguousarray(block, np.float64)
            out = np.zeros((len(block), self.n_outputs, len(self.columns)))
            for tree in range(first, end):
                for points in self.points[tree]:
                    team.check()
                    kernels.add_contributions(block, tree, self.n_outputs, *self._packed, points, scratch, known, out)
            out /= n_averaged
            put(rows, out)


_RULES: dict[int, np.ndarray] = {}


def quadrature(n_features: int) -> np.ndarray:
    """(2, n): points and weights that integrate the polynomial of kernels/predict/contributions.py over [0, 1].

    Gauss's rule with d / 2 points is exact for every polynomial of degree d - 1. Ours is a product of d factors that
    are not negative on [0, 1], so 5 sqrt(d) points suffice. On the ellipse with foci 0 and 1 whose semi-axes sum to
    exp(s) / 2, the polynomial is at most cosh(s)**d <= exp(d s s / 2) times its maximum on [0, 1]. So the rule's error
    is about exp(d s s / 2 - 2 n s) of that maximum, which is exp(-50) for s = 2 n / d. The integral is at least
    1 / (d + 1) of the maximum.
    """
    from scipy.special import roots_legendre

    n = max(1, min((n_features + 1) // 2, math.ceil(5 * math.sqrt(n_features))))
    if n not in _RULES:
        points, weights = roots_legendre(n)
        _RULES[n] = np.stack([(points + 1.0) / 2.0, weights / 2.0])
    return _RULES[n]


def _pieces(rule: np.ndarray) -> Iterator[np.ndarray]:
    for at in range(0, rule.shape[1], MOST_POINTS):
        yield np.ascontiguousarray(rule[:, at : at + MOST_POINTS])
