"""Gradient boosting: each iteration fits a tree per output to the loss's gradients and adds it to the scores."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from pvtree.binning.shard import Shard
from pvtree.comm.worker import Worker
from pvtree.find_split import make_strategy
from pvtree.growing.tree_maker import GradientTreeMaker
from pvtree.growing.tree_memory import GrownTree
from pvtree.model.predictor import first_scores
from pvtree.model.tree import Tree
from pvtree.objectives.loss import Loss
from pvtree.objectives.losses import make_loss
from pvtree.objectives.quantiles import group_quantiles
from pvtree.parameters.params import Params
from pvtree.training.linear_fit import LinearFit
from pvtree.training.row_draws import RowDraw, draw_rows, may_weigh


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
        self.averages, self.n_parallel = params.averages, params.num_parallel_tree
        self.loss = make_loss(params, shard.y, shard.weight, shard.group)
        self.n_outputs = self.loss.n_outputs
        if params.objective in ("rank_xendcg", "cox") or shard.y.ndim == 2:
            for loss in {self.loss.of_output(k) for k in range(self.n_outputs)}:
                loss.numbers, loss.comm = shard.ids.numbers(), worker.by_rows
        if start_scores is None:
            self.init_score = self._first_score(params)
            start_scores = first_scores(self.init_score, shard.n_rows, shard.init_score)
        self.scores = np.ascontiguousarray(start_scores, np.float64)  # (n_outputs, n_rows)
        self.constant_hessian = self.loss.constant_hessian and shard.weight is None and not may_weigh(params)
        hessian = "constant" if self.constant_hessian else "real"
        strategy = make_strategy(params, self.worker.comm)
        self.maker = GradientTreeMaker(shard, hessian, params, self.worker, strategy)
        self.linear = LinearFit(shard, params.linear_lambda, self.worker) if params.linear_tree else None

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
        """Endless stream of lists of the trees of an iteration; ``first`` is the number of the first iteration."""
        grad = np.empty_like(self.scores)
        hess = np.empty_like(self.scores)
        iteration = first
        while True:
            self._leave_out(iteration)
            self.loss.iteration = iteration
            if not self.averages or iteration == first:
                self.loss.gradients(self.scores, grad, hess, self.team)
            yield self._one(iteration, grad, hess)
            iteration += 1

    def _leave_out(self, iteration: int) -> None:
        """Take trees out of the scores before an iteration; only DART does."""

    def _one(self, iteration: int, grad: np.ndarray, hess: np.ndarray) -> list[Tree]:
        trees: list[Tree] = []
        # Parallel trees are fitted to the same scores; leaves that return quantiles look at these.
        is_renewed = self.loss.of_output(0).renewal_level is not None
        before = self.scores.copy() if self.n_parallel > 1 and is_renewed else self.scores
        for parallel in range(self.n_parallel):
            draw = self._draw(iteration, parallel, grad, hess)
            # A worker with all columns walks the rows that were not drawn down the finished tree. A worker that lacks
            # columns cannot, so they travel with the others while the tree grows.
            none = draw.others[:0]
            passengers, walkers = (draw.others, none) if self.worker.lacks_columns else (none, draw.others)
            number = iteration * self.n_parallel + parallel
            for output, (grown, tree) in enumerate(self._grow(number, grad, hess, draw, passengers, before)):
                self._take(grown, tree, walkers, output)
                trees.append(tree)
        return trees

    def _take(self, grown: GrownTree, tree: Tree, walkers: np.ndarray, output: int) -> None:
        """Add a tree to the scores; the trees of a mean are all fitted to the initial score."""
        if tree.linear is not None and self.linear is not None:
            self.scores[output] += self.linear.outputs(tree)
        elif not self.averages:
            self.maker.add_to_scores(grown, tree, walkers, self.scores[output])

    def _draw(self, iteration: int, parallel: int, grad: np.ndarray, hess: np.ndarray) -> RowDraw:
        return draw_rows(self.shard, self.params, iteration, parallel, grad, hess, self.worker)

    def _grow(
        self,
        number: int,
        grad: np.ndarray,
        hess: np.ndarray,
        draw: RowDraw,
        passengers: np.ndarray,
        scores: np.ndarray,
    ) -> Iterator[tuple[GrownTree, Tree]]:
        """A tree for every output; the leaves of its rows are known until the next tree is made."""
        if draw.factor is not None:
            grad, hess = grad * draw.factor, hess * draw.factor
        shrinkage = 1.0 if self.averages else self.params.learning_rate / self.n_parallel
        for output in range(self.n_outputs):
            own_hess = hess[output, :0] if self.constant_hessian else hess[output]
            grown, tree = self.maker.make(
                grad[output],
                own_hess,
                number * self.n_outputs + output,
                draw.rows,
                shrinkage=shrinkage,
                passengers=passengers,
            )
            loss = self.loss.of_output(output)
            if loss.renewal_level is not None:
                tree = self._renewed(grown, tree, loss, scores[output], draw, passengers, shrinkage)
            if self.linear is not None and number >= self.n_parallel:  # as in LightGBM, not in the first iteration
                tree = self.linear.fitted(self.maker, grown, tree, grad[output], own_hess, draw.others, shrinkage)
            yield grown, tree

    def _renewed(
        self,
        grown: GrownTree,
        tree: Tree,
        loss: Loss,
        scores: np.ndarray,
        draw: RowDraw,
        passengers: np.ndarray,
        shrinkage: float,
    ) -> Tree:
        """The tree with the quantile of the residuals in each leaf, over the rows of all workers that grew it."""
        assert loss.renewal_level is not None  # else a leaf's value is -G / H
        rows, leaf = self.maker.rows_of_leaves(grown)
        if len(passengers):
            counts = ~np.isin(rows, passengers)
            rows, leaf = rows[counts], leaf[counts]
        weight, residual = loss.quantile_weight, loss.y - scores
        if draw.factor is not None:
            weight = draw.factor if weight is None else weight * draw.factor
        quantile = group_quantiles(
            residual[rows], leaf, tree.n_nodes, loss.renewal_level, None if weight is None else weight[rows],
            self.worker.by_rows,
        )  # fmt: skip
        if self.params.max_delta_step > 0.0:
            quantile = np.clip(quantile, -self.params.max_delta_step, self.params.max_delta_step)
        value = np.where(tree.feature < 0, shrinkage * quantile, tree.value[:, 0])
        return replace(tree, value=value[:, None])
