"""The paper's other two ways to boost on several workers: each grows trees of its own rows, without a word about
splits, and every iteration is made of all workers' finished trees. Bins and the initial score are common to all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pvtree.binning.shard import Part, Shard
from pvtree.comm import Communicator
from pvtree.comm.worker import Worker
from pvtree.errors import CommunicationError
from pvtree.model.tree import Tree
from pvtree.parameters.params import Params
from pvtree.training.boosting import Booster
from pvtree.training.tree_bytes import BinnedTree, from_bytes, to_bytes

Candidate = list[BinnedTree]  # what one worker would add in an iteration: a tree for each output


class SeparateBooster(Booster):
    """Boosting by whole trees: ``_agree`` says what becomes of the trees that each worker has grown by itself."""

    def __init__(self, shard: Shard, params: Params, worker: Worker, start_scores: np.ndarray | None = None) -> None:
        super().__init__(shard, params, worker, start_scores, grows_with=Worker.alone(worker.team))
        self.comm = worker.comm
        self.all_rows = np.arange(shard.n_rows, dtype=np.uint32)

    def _one(self, iteration: int, grad: np.ndarray, hess: np.ndarray) -> list[Tree]:
        # Each worker grows trees on its own rows only.
        own = self._own_trees(iteration, grad, hess) if has_rows(self.shard) else []
        # Everybody gets everybody's trees; who has no rows has sent none.
        sent = self.comm.allgather(to_bytes(own), "trees")
        candidates = [from_bytes(message, self.shard.thresholds) for message in sent if len(message)]
        if any(len(candidate) != self.n_outputs for candidate in candidates):
            raise CommunicationError("A worker sent too few or too many trees; run the same pvtree on all workers.")
        added = self._agree(candidates, grad, hess)
        self._add(added, self.scores)
        return [tree for tree, _ in added]

    def _own_trees(self, iteration: int, grad: np.ndarray, hess: np.ndarray) -> Candidate:
        rows, others = self._sample(iteration)
        return [
            BinnedTree(tree, grown.split_bin) for grown, tree in self._grow(iteration, grad, hess, rows, others[:0])
        ]

    def _add(self, trees: Sequence[BinnedTree], scores: np.ndarray) -> None:
        """Add the trees' outputs for all rows of this worker, in the order in which a model adds them."""
        for number, (tree, split_bin) in enumerate(trees):
            self.maker.add_walked(tree, split_bin, self.all_rows, scores[number % self.n_outputs])

    def _agree(self, candidates: list[Candidate], grad: np.ndarray, hess: np.ndarray) -> list[BinnedTree]:
        """The trees to add, the same on every worker."""
        raise NotImplementedError


class Svore(SeparateBooster):
    """Winner takes all (Svore and Burges, 2011): the trees with the lowest loss on the rows of all workers."""

    def _agree(self, candidates: list[Candidate], grad: np.ndarray, hess: np.ndarray) -> list[BinnedTree]:
        if len(candidates) == 1:
            return candidates[0]
        # Every worker tries all candidates on its own rows.
        losses = np.empty(len(candidates))
        moved = np.empty_like(self.scores)
        for number, candidate in enumerate(candidates):
            np.copyto(moved, self.scores)
            self._add(candidate, moved)
            losses[number] = self.loss.total(moved, self.scores, grad, hess)
        # The sums over all workers decide; of equal losses the first worker's.
        losses = self.comm.allreduce(losses, "scores")
        return candidates[int(np.argmin(np.nan_to_num(losses, nan=math.inf, posinf=math.inf)))]


class Yu(SeparateBooster):
    """Output ensemble (Yu and Skillicorn, 2001): the mean of all workers' trees, which is the sum of all of them with
    smaller values."""

    def _agree(self, candidates: list[Candidate], grad: np.ndarray, hess: np.ndarray) -> list[BinnedTree]:
        n = len(candidates)
        if n == 1:
            return candidates[0]
        return [
            BinnedTree(replace(tree, value=tree.value / n), split_bin)
            for candidate in candidates
            for tree, split_bin in candidate
        ]


def make_booster(shard: Shard, params: Params, worker: Worker, start_scores: np.ndarray | None = None) -> Booster:
    """The loop of boosting that ``params.tree_learner`` asks for; a single worker's is always the same."""
    separate = {"svore": Svore, "yu": Yu}
    kind = separate.get(params.tree_learner, Booster) if worker.comm.size > 1 else Booster
    return kind(shard, params, worker, start_scores)


def has_rows(rows: Part | Shard) -> bool:
    """Whether a worker can grow a tree: rows of weight 0 do not count."""
    return len(rows.y) > 0 and (rows.weight is None or bool(np.any(rows.weight > 0)))


def count_parallel_trees(rows: Part | Shard, params: Params, comm: Communicator) -> int:
    """How many trees an iteration adds to each output: one, or with an output ensemble one of each worker."""
    if params.tree_learner != "yu" or comm.size == 1:
        return 1
    return int(comm.allreduce(np.array([has_rows(rows)], np.int64), "trees")[0])
