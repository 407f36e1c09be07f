"""The trees of a training, iteration by iteration: ordinary boosting, DART, Svore's or Yu's, or a forest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pvtree.binning.shard import Shard
from pvtree.comm.worker import Worker
from pvtree.growing.tree_maker import TreeMaker
from pvtree.model.model import Model
from pvtree.model.predictor import first_scores
from pvtree.model.tree import Tree
from pvtree.training.boosting import BoostingLoop
from pvtree.training.dart import Dart
from pvtree.training.forest import Planter, plant_forest
from pvtree.training.options import TrainOptions
from pvtree.training.separate_boosting import Svore, Yu

SEPARATE_LOOPS: dict[str, type[BoostingLoop]] = {"svore": Svore, "yu": Yu}


@dataclass(frozen=True)
class Ensemble:
    """A stream of iterations, and what a model must know about their trees."""

    iterations: Iterator[list[Tree]]  # at least as many as were asked for
    n_outputs: int
    init_score: np.ndarray  # (n_outputs,)
    n_parallel_trees: int  # trees that an iteration adds to each output
    maker: TreeMaker  # its parameters may change between two iterations
    dart: Dart | None = None  # which changes earlier trees


def make_ensemble(
    shard: Shard,
    options: TrainOptions,
    worker: Worker,
    n_parallel_trees: int,
    start: Model | None,
    start_scores: np.ndarray | None,
    first: int,
) -> Ensemble:
    """Iterations from the ``first`` on, which continue ``start``, whose scores of the shard's rows are
    ``start_scores``, if there is one."""
    params = options.params
    if params.ensemble == "forest":
        planter = Planter(shard, params, worker)
        trees = plant_forest(planter, options.stop - first, first)
        n_outputs = params.n_classes if params.criterion == "entropy" else params.n_targets
        return Ensemble(trees, n_outputs, np.zeros(n_outputs), n_parallel_trees, planter.maker)
    # A single worker has nobody to exchange trees with.
    kind: type[BoostingLoop] = (
        SEPARATE_LOOPS.get(params.tree_learner, BoostingLoop) if worker.comm.size > 1 else BoostingLoop
    )
    if params.boosting_type == "dart":
        kind = Dart
    elif params.averages and start is not None:  # all trees are fitted to the initial score
        start_scores = first_scores(start.init_score, shard.n_rows)
    loop = kind(shard, params, worker, start_scores)
    init_score = loop.init_score if start is None else start.init_score
    dart = loop if isinstance(loop, Dart) else None
    return Ensemble(loop.iterations(first), loop.n_outputs, init_score, n_parallel_trees, loop.maker, dart)
