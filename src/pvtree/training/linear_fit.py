"""linear_tree: a finished tree gets a linear function of the path's features in each leaf.

The functions follow from sums over all workers' rows that do not depend on the order of rows, so every worker solves
the same equations and gets the same bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from pvtree.binning.shard import Shard
from pvtree.comm.worker import Worker
from pvtree.growing.tree_maker import TreeMaker
from pvtree.growing.tree_memory import GrownTree
from pvtree.kernels.constants import N_BINS
from pvtree.model.linear_leaves import LinearLeaves, tree_outputs
from pvtree.model.tree import Tree
from pvtree.objectives.fixed_point import exact_sums
from pvtree.reading.sparse_rows import SparseRows

# Features that others determine to this share of their variance, or whose variance is this share of their squares, get
# no coefficient: rounding would decide about it.
_COLLINEAR, _CONSTANT = 1e-9, 1e-12


class LeafSums(NamedTuple):
    """Sums over a leaf's rows, with x measured from the features' centres."""

    n_rows: int  # in which all its features are known
    h: float
    g: float
    hx: np.ndarray  # (n_features,)
    gx: np.ndarray  # (n_features,)
    hxx: np.ndarray  # (n_features, n_features)


class LinearFit:
    """Fits leaves by Newton's method: each minimises sum g f + h f^2 / 2 + linear_lambda |coefs|^2 / 2 over its f."""

    def __init__(self, shard: Shard, ridge: float, worker: Worker) -> None:
        assert shard.raw is not None  # kept for linear trees
        self.raw, self.ridge, self.worker, self.n_rows = shard.raw, ridge, worker, shard.n_rows
        self.comm = worker.by_rows if self.raw.numbers is None else worker.comm
        upper, n_bins = shard.thresholds.upper, shard.thresholds.n_bins
        self.is_ordered = shard.thresholds.is_categorical == 0
        # Sums of squares keep more digits if numbers are measured from the middle of their range.
        middle = upper[np.arange(len(n_bins)), np.minimum(np.maximum(n_bins - 2, 0) // 2, N_BINS - 1)]
        self.centre = np.where(np.isfinite(middle), middle, 0.0)
        self.node = np.empty(0, np.int64)  # the leaf of each of the shard's rows in the newest tree

    def fitted(
        self,
        maker: TreeMaker,
        grown: GrownTree,
        tree: Tree,
        grad: np.ndarray,
        hess: np.ndarray,
        others: np.ndarray,
        shrinkage: float,
    ) -> Tree:
        """The tree with linear leaves; ``others`` are rows that it did not grow on, ``hess`` is empty if it is 1."""
        self.node = self._leaves(maker, grown, tree, others)
        counts = np.ones(self.n_rows, np.bool_)
        counts[others] = False
        features = path_features(tree, self.is_ordered)
        leaves = [leaf for leaf in np.flatnonzero(tree.feature < 0).tolist() if len(features[leaf])]
        hess = hess if len(hess) else np.ones(self.n_rows)
        node = np.where(counts, self.node, -1)
        rank = self.worker.comm.rank
        sums = self._sums(leaves, features, *(self.raw.own(each, rank) for each in (node, grad, hess)))
        const = np.array(tree.value[:, 0])
        n_terms = np.zeros(tree.n_nodes, np.int64)
        terms = []
        for leaf, its in zip(leaves, sums, strict=True):
            centre = self.centre[features[leaf]]
            found = solve(its, self.ridge)
            if found is None:
                continue
            intercept, coef = found
            kept = np.flatnonzero(coef)
            const[leaf] = shrinkage * (intercept - sum((coef * centre).tolist()))
            n_terms[leaf] = len(kept)
            terms.append((features[leaf][kept], shrinkage * coef[kept]))
        if not n_terms.any():
            return tree
        of_terms = (np.concatenate(each) for each in zip(*terms, strict=True))
        return replace(tree, linear=LinearLeaves(const, n_terms, *of_terms))

    def outputs(self, tree: Tree) -> np.ndarray:
        """What the newest tree adds to each of the shard's rows."""
        node = self.raw.own(self.node, self.worker.comm.rank)
        return self.raw.of_shard(tree_outputs(tree, node, self.raw.X), self.worker.comm)

    def _leaves(self, maker: TreeMaker, grown: GrownTree, tree: Tree, others: np.ndarray) -> np.ndarray:
        node = np.full(self.n_rows, -1)
        rows, leaf = maker.rows_of_leaves(grown)  # where columns are spread, these are all rows
        node[rows] = leaf
        walkers = others[node[others] < 0]
        if len(walkers):
            numbers = np.zeros(self.n_rows)
            numbered = replace(tree, value=np.arange(tree.n_nodes, dtype=np.float64)[:, None])
            maker.add_walked(numbered, grown.split_bin, walkers, numbers)
            node[walkers] = numbers[walkers].astype(np.int64)
        return node

    def _sums(
        self, leaves: list[int], features: list[np.ndarray], node: np.ndarray, grad: np.ndarray, hess: np.ndarray
    ) -> list[LeafSums]:
        """Of each of the leaves, over the rows of all workers."""
        order = np.argsort(node, kind="stable")
        begins = np.searchsorted(node[order], leaves)
        ends = np.searchsorted(node[order], leaves, side="right")

        def arrays() -> Iterator[np.ndarray]:
            for leaf, begin, end in zip(leaves, begins.tolist(), ends.tolist(), strict=True):
                rows = order[begin:end]
                x = _numbers(self.raw.X, rows, features[leaf]) - self.centre[features[leaf]]
                is_known = np.isfinite(x).all(axis=1)
                x, g, h = x[is_known], grad[rows[is_known]], hess[rows[is_known]]
                yield from (h, g)
                for i in range(x.shape[1]):
                    hx = h * x[:, i]
                    yield from (hx, g * x[:, i])
                    yield from (hx * x[:, j] for j in range(i + 1))

        with np.errstate(over="ignore"):  # of numbers beyond 1e150; their leaves stay constant
            found = iter(exact_sums(arrays, self.comm, "scores") if leaves else [])
        return [_leaf_sums(found, len(features[leaf])) for leaf in leaves]


def _leaf_sums(found: Iterator[tuple[float, int]], n_features: int) -> LeafSums:
    """The next sums of ``found``, in the order in which ``LinearFit._sums`` makes them."""
    (h, n_rows), (g, _) = next(found), next(found)
    hx, gx, hxx = np.zeros(n_features), np.zeros(n_features), np.zeros((n_features, n_features))
    for i in range(n_features):
        hx[i], gx[i] = next(found)[0], next(found)[0]
        for j in range(i + 1):
            hxx[i, j] = hxx[j, i] = next(found)[0]
    return LeafSums(n_rows, h, g, hx, gx, hxx)


def path_features(tree: Tree, is_ordered: np.ndarray) -> list[np.ndarray]:
    """For each node, the ordered features that its ancestors split by, in rising order."""
    found: list[set[int]] = [set() for _ in range(tree.n_nodes)]
    for node in np.flatnonzero(tree.feature >= 0).tolist():
        feature, left = int(tree.feature[node]), int(tree.left_child[node])
        found[left] = found[left + 1] = found[node] | ({feature} if is_ordered[feature] else set())
    return [np.array(sorted(each), np.int64) for each in found]


def solve(sums: LeafSums, ridge: float) -> tuple[float, np.ndarray] | None:
    """(the value at the centres, a coefficient for each feature, 0 if it has none); None if the leaf stays constant.

    Written out, because libraries of linear algebra differ in the last bits.
    """
    n = len(sums.hx)
    everything = np.concatenate([[sums.h, sums.g], sums.hx, sums.gx, sums.hxx.ravel()])
    if sums.n_rows < n + 1 or not sums.h > 0.0 or not np.isfinite(everything).all():
        return None
    spread = sums.hxx - sums.hx[:, None] * (sums.hx / sums.h)
    rest = sums.gx - sums.hx * (sums.g / sums.h)
    least = np.maximum(_COLLINEAR * np.diag(spread), _CONSTANT * np.diag(sums.hxx))
    spread[np.diag_indices(n)] += ridge
    is_used = np.zeros(n, np.bool_)
    for i in range(n):
        is_used[i] = spread[i, i] > max(least[i], 0.0)
        for j in range(i + 1, n) if is_used[i] else ():
            factor = spread[j, i] / spread[i, i]
            spread[j, i:] -= factor * spread[i, i:]
            rest[j] -= factor * rest[i]
    coef = np.zeros(n)
    for i in np.flatnonzero(is_used)[::-1].tolist():
        later = sum((spread[i, i + 1 :] * coef[i + 1 :]).tolist())
        coef[i] = (-rest[i] - later) / spread[i, i]
    value = -(sums.g + sum((coef * sums.hx).tolist())) / sums.h
    return (value, coef) if np.isfinite(coef).all() and np.isfinite(value) else None


def _numbers(X: np.ndarray | SparseRows, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """float64 (len(rows), len(columns))."""
    if isinstance(X, SparseRows):
        taken = X.take(rows)
        return taken.dense_columns(slice(None), columns, taken.slots(columns)).astype(np.float64)
    return X[rows[:, None], columns].astype(np.float64)
