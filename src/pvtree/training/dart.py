"""DART (Rashmi and Gilad-Bachrach, 2015): an iteration is fitted without some of the iterations before it, which then
count less.

A tree's values are those it was grown with, times its weight. The weights after each iteration are kept, so that a
training can stop at any iteration and resume from it with the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pvtree.binning.shard import Shard
from pvtree.comm.worker import Worker
from pvtree.growing.sampling import drop_chances
from pvtree.growing.tree_memory import GrownTree
from pvtree.model.tree import Tree
from pvtree.parameters.params import Params
from pvtree.training.boosting import BoostingLoop

Weights = list[tuple[int, float]]  # (iteration, its new weight) of all weights that an iteration sets


class Dart(BoostingLoop):
    """Boosting that knows each row's leaf in every tree of this training, so that it can take trees out of the scores.

    Scores are sums of the trees in their order, as a model's are.
    """

    def __init__(self, shard: Shard, params: Params, worker: Worker, start_scores: np.ndarray | None = None) -> None:
        super().__init__(shard, params, worker, start_scores)
        self.start = self.scores.copy()
        self.per_iteration = self.n_outputs * self.n_parallel
        self.grown: list[Tree] = []  # as they were grown
        self.trees: list[Tree] = []  # with their values times their weights
        self.leaves: list[np.ndarray] = []  # of each tree the leaf of every row
        self.history: list[Weights] = []
        self.dropped: list[int] = []  # what this iteration leaves out

    def resume(self, trees: Sequence[Tree], leaves: np.ndarray, history: list[Weights]) -> None:
        """Go on from these trees, with their leaves (n_rows, n_trees) and weights."""
        self.grown, self.history = list(trees), list(history)
        self.leaves = [_narrow(leaf) for leaf in leaves.T]
        self.trees = self.trees_after(len(history))
        self._add_up(())

    def trees_after(self, n_iterations: int) -> list[Tree]:
        """The trees as they were after this many iterations."""
        weight = weights_after(self.history[:n_iterations])
        return [_scaled(tree, weight[i // self.per_iteration]) for i, tree in self._numbered(n_iterations)]

    def _numbered(self, n_iterations: int) -> list[tuple[int, Tree]]:
        return list(enumerate(self.grown[: n_iterations * self.per_iteration]))

    def _leave_out(self, iteration: int) -> None:
        self.dropped = draw_dropped(self.params, iteration, weights_after(self.history))
        if self.dropped:
            self._add_up(self.dropped)

    def _add_up(self, dropped: Sequence[int]) -> None:
        """Sum up all trees except those of the ``dropped`` iterations."""
        kept = [i for i in range(len(self.trees)) if i // self.per_iteration not in dropped]
        self.scores[:] = self.start

        def add(start: int, stop: int) -> None:
            for i in kept:
                value = self.trees[i].value[self.trees[i].feature < 0, 0]
                self.scores[i % self.n_outputs, start:stop] += value[self.leaves[i][start:stop]]

        self.team.for_blocks(add, self.scores.shape[1])

    def _one(self, iteration: int, grad: np.ndarray, hess: np.ndarray) -> list[Tree]:
        self.grown += super()._one(iteration, grad, hess)
        factor, new = _normalised(self.params, len(self.dropped))
        weight, own = weights_after(self.history), len(self.history)
        self.history.append([*((i, weight[i] * factor) for i in self.dropped), (own, new)])
        for i, changed in self.history[-1]:
            first = i * self.per_iteration
            scaled = [_scaled(tree, changed) for tree in self.grown[first : first + self.per_iteration]]
            self.trees[first : first + self.per_iteration] = scaled
        if self.dropped or new != 1.0:
            self._add_up(())
        return self.trees[-self.per_iteration :]

    def _take(self, grown: GrownTree, tree: Tree, walkers: np.ndarray, output: int) -> None:
        is_leaf = tree.feature < 0
        leaf = np.zeros(self.shard.n_rows)
        # Each row walks to a leaf whose value is its number among the leaves.
        numbered = replace(tree, value=np.where(is_leaf, np.cumsum(is_leaf) - 1.0, 0.0)[:, None])
        self.maker.add_to_scores(grown, numbered, walkers, leaf)
        self.leaves.append(_narrow(leaf))
        if not self.dropped:
            self.maker.add_to_scores(grown, tree, walkers, self.scores[output])


def draw_dropped(params: Params, iteration: int, weight: Sequence[float]) -> list[int]:
    """The earlier iterations that this one leaves out, in ascending order.

    In LightGBM, the limit ``max_drop`` ends the drawing from the first iteration on, so that late ones are hardly left
    out. Here all have their chance: the expected number keeps to the limit, and beyond it the highest numbers drawn go.
    """
    n = len(weight)
    skip, chance = drop_chances(params, iteration, n)
    if n == 0 or skip < params.skip_drop:
        return []
    rate = min(params.drop_rate, params.max_drop / n) if params.max_drop > 0 else params.drop_rate
    share = np.ones(n) if params.uniform_drop else np.asarray(weight) * (n / sum(weight))
    with np.errstate(divide="ignore", invalid="ignore"):
        order = np.argsort(chance / share, kind="stable")
    n_dropped = int(np.count_nonzero(chance < rate * share))
    if params.max_drop > 0:
        n_dropped = min(n_dropped, params.max_drop)
    if n_dropped == 0 and params.one_drop:
        n_dropped = 1
    return sorted(order[:n_dropped].tolist())


def weights_after(history: Sequence[Weights]) -> list[float]:
    """The weight of each iteration, after all of these."""
    weight: list[float] = []
    for changes in history:
        weight.append(1.0)
        for i, value in changes:
            weight[i] = value
    return weight


def _normalised(params: Params, k: int) -> tuple[float, float]:
    """(factor of the weights of the k iterations that were left out, weight of the new one)."""
    if k == 0:
        return 1.0, 1.0
    if not params.xgboost_dart_mode:
        return k / (k + 1), 1 / (k + 1)
    rate = params.learning_rate
    if params.normalize_type == "forest":
        return 1 / (1 + rate), 1 / (1 + rate)
    return k / (k + rate), 1 / (k + rate)


def _scaled(tree: Tree, weight: float) -> Tree:
    return tree if weight == 1.0 else replace(tree, value=tree.value * weight)


def _narrow(leaf: np.ndarray) -> np.ndarray:
    """Numbers of leaves in as few bytes as hold them."""
    most = leaf.max(initial=0)
    return leaf.astype(np.uint8 if most < 256 else np.uint16 if most < 65536 else np.uint32)
