"""Gradient boosting: each iteration fits a tree per output to the loss's gradients and adds it to the scores."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from pvtree.binning.shard import Shard
from pvtree.comm.worker import Worker
from pvtree.find_split import make_strategy
from pvtree.growing.sampling import counted_rows, draws_rows, is_empty, subsample_rows
from pvtree.growing.tree_maker import GradientTreeMaker
from pvtree.growing.tree_memory import GrownTree
from pvtree.model.predictor import first_scores
from pvtree.model.tree import Tree
from pvtree.objectives.losses import make_loss
from pvtree.objectives.quantiles import group_quantiles
from pvtree.parameters.params import Params


class BoostingLoop:
    """Boosting on one worker's shard; ``iterations`` yields the trees of each iteration."""

    def __init__(
        self,
        shard: Shard,
        params: Params,
        worker: Worker,
        start_scores: np.ndarray | None = None,
        grows_with: Worker | None = None,
    ) -> None:
        """``grows_with`` grows the trees, if not all workers of ``worker`` do it together."""
        self.shard, self.team = shard, worker.team
        self.worker = worker if grows_with is None else grows_with
        self.by_rows = worker.by_rows
        self.loss = make_loss(params, shard.y, shard.weight, shard.group)
        self.n_outputs = self.loss.n_outputs
        if params.objective in ("rank_xendcg", "cox"):
            self.loss.numbers, self.loss.comm = shard.ids.numbers(), worker.by_rows
        if start_scores is None:
            self.init_score = self._first_score(params)
            start_scores = first_scores(self.init_score, shard.n_rows, shard.init_score)
        self.scores = np.ascontiguousarray(start_scores, np.float64)  # (n_outputs, n_rows)
        self.constant_hessian = self.loss.constant_hessian and shard.weight is None
        hessian = "constant" if self.constant_hessian else "real"
        strategy = make_strategy(params, self.worker.comm)
        self.maker = GradientTreeMaker(shard, hessian, params, self.worker, strategy)

    def _first_score(self, params: Params) -> np.ndarray:
        """(n_outputs,): where all scores start; rows with scores of their own start from those alone."""
        if self.shard.init_score is not None:
            return np.zeros(self.n_outputs)
        if params.base_score is not None:
            return np.full(self.n_outputs, self.loss.raw_score(params.base_score))
        if not params.boost_from_average:
            return np.zeros(self.n_outputs)
        return self.loss.init_scores(self.by_rows)

    @property
    def params(self) -> Params:
        """The tree maker's parameters, which callbacks may change between two iterations."""
        return self.maker.params

    def iterations(self, first: int) -> Iterator[list[Tree]]:
        """Endless stream of lists of n_outputs trees; ``first`` is the number of the first iteration."""
        grad = np.empty_like(self.scores)
        hess = np.empty_like(self.scores)
        iteration = first
        while True:
            self.loss.iteration = iteration
            self.loss.gradients(self.scores, grad, hess, self.team)
            yield self._one(iteration, grad, hess)
            iteration += 1

    def _one(self, iteration: int, grad: np.ndarray, hess: np.ndarray) -> list[Tree]:
        rows, others = self._sample(iteration)
        # A worker with all columns walks the rows that were not drawn down the finished tree. A worker that lacks
        # columns cannot, so they travel with the others while the tree grows.
        passengers, walkers = (others, others[:0]) if self.worker.lacks_columns else (others[:0], others)
        trees: list[Tree] = []
        for grown, tree in self._grow(iteration, grad, hess, rows, passengers):
            self.maker.add_to_scores(grown, tree, walkers, self.scores[len(trees)])
            trees.append(tree)
        return trees

    def _grow(
        self, iteration: int, grad: np.ndarray, hess: np.ndarray, rows: np.ndarray | None, passengers: np.ndarray
    ) -> Iterator[tuple[GrownTree, Tree]]:
        """A tree for every output; the leaves of its rows are known until the next tree is made."""
        for output in range(self.n_outputs):
            grown, tree = self.maker.make(
                grad[output],
                hess[output, :0] if self.constant_hessian else hess[output],
                iteration * self.n_outputs + output,
                rows,
                shrinkage=self.params.learning_rate,
                passengers=passengers,
            )
            if self.loss.renewal_level is not None:
                tree = self._renewed(grown, tree, self.loss.y - self.scores[output], passengers)
            yield grown, tree

    def _renewed(self, grown: GrownTree, tree: Tree, residual: np.ndarray, passengers: np.ndarray) -> Tree:
        """The tree with the quantile of the residuals in each leaf, over the rows of all workers that grew it."""
        assert self.loss.renewal_level is not None  # else a leaf's value is -G / H
        rows, leaf = self.maker.rows_of_leaves(grown)
        if len(passengers):
            counts = ~np.isin(rows, passengers)
            rows, leaf = rows[counts], leaf[counts]
        weight = self.loss.quantile_weight
        quantile = group_quantiles(
            residual[rows], leaf, tree.n_nodes, self.loss.renewal_level, None if weight is None else weight[rows],
            self.worker.by_rows,
        )  # fmt: skip
        if self.params.max_delta_step > 0.0:
            quantile = np.clip(quantile, -self.params.max_delta_step, self.params.max_delta_step)
        value = np.where(tree.feature < 0, self.params.learning_rate * quantile, tree.value[:, 0])
        return replace(tree, value=value[:, None])

    def _sample(self, iteration: int) -> tuple[np.ndarray | None, np.ndarray]:
        """The rows that grow this iteration's trees (None for all), and the others, which only get scores."""
        n_rows = self.shard.n_rows
        rows = subsample_rows(self.params, iteration, self.shard.ids, self.team)
        rows = counted_rows(rows, self.shard.counted)
        # A draw that left no row on any worker is replaced by all rows.
        if rows is not None and draws_rows(self.params) and is_empty(rows, self.worker.by_rows):
            rows = counted_rows(None, self.shard.counted)
        if rows is None:
            return None, np.empty(0, np.uint32)
        is_other = np.ones(n_rows, np.bool_)
        is_other[rows] = False
        return rows, np.flatnonzero(is_other).astype(np.uint32)
