"""The paper's two baselines that exchange whole trees (Svore, Yu): each worker grows trees on its own rows alone, and
every iteration is made from the finished trees of all workers. Bins and the initial score are common to all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pvtree.binning.shard import Shard
from pvtree.comm import Communicator
from pvtree.comm.worker import Worker
from pvtree.errors import CommunicationError
from pvtree.model.tree import Tree
from pvtree.parameters.params import Params
from pvtree.reading.training_rows import TrainingRows
from pvtree.training.boosting import BoostingLoop
from pvtree.training.tree_bytes import BinnedTree, from_bytes, to_bytes

Candidate = list[BinnedTree]  # what one worker would add in an iteration: a tree for each output


class SeparateBoosting(BoostingLoop):
    """Boosting by whole trees; ``_agree`` makes an iteration from the trees that each worker has grown alone."""

    def __init__(self, shard: Shard, params: Params, worker: Worker, start_scores: np.ndarray | None = None) -> None:
        super().__init__(shard, params, worker, start_scores, grows_with=Worker.alone(worker.team))
        self.comm = worker.comm
        self.all_rows = np.arange(shard.n_rows, dtype=np.uint32)

    def _one(self, iteration: int, grad: np.ndarray, hess: np.ndarray) -> list[Tree]:
        # Each worker grows trees on its own rows only.
        own = self._own_trees(iteration, grad, hess) if has_rows(self.shard) else []
        # Every worker receives all trees; a worker without rows has sent none.
        sent = self.comm.allgather(to_bytes(own), "trees")
        candidates = [from_bytes(message, self.shard.thresholds) for message in sent if len(message)]
        if any(len(candidate) != self.n_outputs for candidate in candidates):
            raise CommunicationError(
                "A worker sent too few or too many trees; run the same version of pvtree on all workers."
            )
        added = self._agree(candidates, grad, hess)
        self._add(added, self.scores)
        return [tree for tree, _ in added]

    def _own_trees(self, iteration: int, grad: np.ndarray, hess: np.ndarray) -> Candidate:
        draw = self._draw(iteration, 0, grad, hess)
        grown = self._grow(iteration, grad, hess, draw, draw.others[:0], self.scores)
        return [BinnedTree(tree, its.split_bin) for its, tree in grown]

    def _add(self, trees: Sequence[BinnedTree], scores: np.ndarray) -> None:
        """Add the trees' outputs for all rows of this worker, in the order in which a model adds them."""
        for number, (tree, split_bin) in enumerate(trees):
            self.maker.add_walked(tree, split_bin, self.all_rows, scores[number % self.n_outputs])

    def _agree(self, candidates: list[Candidate], grad: np.ndarray, hess: np.ndarray) -> list[BinnedTree]:
        """The trees to add, the same on every worker."""
        raise NotImplementedError


class Svore(SeparateBoosting):
    """Winner takes all (Svore and Burges, 2011): add the trees with the lowest loss on the rows of all workers."""

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
        # The sums over all workers decide; a tie goes to the first worker.
        losses = self.comm.allreduce(losses, "scores")
        return candidates[int(np.argmin(np.nan_to_num(losses, nan=math.inf, posinf=math.inf)))]


class Yu(SeparateBoosting):
    """Output ensemble (Yu and Skillicorn, 2001): add the mean of all workers' trees, as a sum of trees with smaller
    values."""

    def _agree(self, candidates: list[Candidate], grad: np.ndarray, hess: np.ndarray) -> list[BinnedTree]:
        n = len(candidates)
        if n == 1:
            return candidates[0]
        return [
            BinnedTree(replace(tree, value=tree.value / n), split_bin)
            for candidate in candidates
            for tree, split_bin in candidate
        ]


def has_rows(rows: TrainingRows | Shard) -> bool:
    """Whether a worker can grow a tree: rows of weight 0 do not count."""
    return len(rows.y) > 0 and (rows.weight is None or bool(np.any(rows.weight > 0)))


def count_parallel_trees(rows: TrainingRows | Shard, params: Params, comm: Communicator) -> int:
    """How many trees an iteration adds to each output: one or num_parallel_tree, or with an output
    ensemble one per worker with rows."""
    if params.tree_learner != "yu" or comm.size == 1:
        return params.num_parallel_tree
    return int(comm.allreduce(np.array([has_rows(rows)], np.int64), "trees")[0])
