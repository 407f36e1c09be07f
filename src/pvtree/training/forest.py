"""Random forests and single trees: trees do not depend on each other, and split by information or variance gain."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from queue import SimpleQueue

import numpy as np

from pvtree.binning.shard import Shard
from pvtree.comm.worker import Worker
from pvtree.find_split import make_strategy
from pvtree.growing.many_classes import ManyClassTreeMaker, repeated
from pvtree.growing.sampling import bootstrap_copies, counted_rows, is_empty
from pvtree.growing.tree_maker import ClassTreeMaker, GradientTreeMaker, weight_kind
from pvtree.kernels.team import Team
from pvtree.model.tree import Tree
from pvtree.objectives.fixed_point import exact_mean
from pvtree.parameters.params import Params


class Planter:
    """Grows the trees of a forest on one shard, one at a time."""

    def __init__(self, shard: Shard, params: Params, worker: Worker, grown_on: Shard | None = None) -> None:
        """``grown_on`` is what trees of several columns of classes grow on; planters may share it."""
        # The gains of Definition 2.1 do not smooth categories.
        self.shard, self.params, self.worker = shard, replace(params, cat_smooth=0.0, cat_l2=0.0), worker
        params = self.params
        kind = weight_kind(shard.weight, params.bootstrap)
        self.weight = np.empty(0) if shard.weight is None else shard.weight
        self.counted = shard.counted
        strategy = make_strategy(params, worker.comm)
        self.maker: ClassTreeMaker | GradientTreeMaker
        self.grown_on = grown_on or (repeated(shard, len(params.target_sizes)) if params.target_sizes else shard)
        if params.target_sizes:
            self.maker = ManyClassTreeMaker(shard, kind, params, worker, strategy, self.grown_on)
        elif params.criterion == "entropy":
            self.maker = ClassTreeMaker(shard, kind, params, worker, strategy)
        else:
            self.maker = GradientTreeMaker(shard, kind, params, worker, strategy)
            # Centred labels use the bits of the fixed-point sums for the differences between rows. The sign follows
            # from a leaf's value, -G / H.
            targets = np.ascontiguousarray(np.atleast_2d(shard.y.T))  # (n_targets, n_rows)
            self.means = [exact_mean(target, shard.weight, worker.by_rows) for target in targets]
            centred = np.array(self.means)[:, None] - targets
            self.grad = centred if shard.weight is None else centred * shard.weight

    def plant(self, number: int) -> list[Tree]:
        """The ``number``-th tree of each target; it depends only on its number, not on the trees before it."""
        rows, copies = None, np.empty(0, np.uint8)
        if self.params.bootstrap:
            copies = bootstrap_copies(self.params, number, self.shard.ids, self.worker.team)
            rows = np.flatnonzero(copies).astype(np.uint32)
        rows = counted_rows(rows, self.counted)
        # A bootstrap sample that left no row on any worker is replaced by all rows.
        if rows is not None and self.params.bootstrap and is_empty(rows, self.worker.by_rows):
            rows, copies = counted_rows(None, self.counted), np.ones(self.shard.n_rows, np.uint8)
        if isinstance(self.maker, ClassTreeMaker):
            return [self.maker.make(self.shard.y, self.weight, number, rows, copies)[1]]
        trees = []
        for k, (grad, mean) in enumerate(zip(self.grad, self.means, strict=True)):
            tree = self.maker.make(grad, self.weight, number * len(self.means) + k, rows, copies)[1]
            trees.append(replace(tree, value=tree.value + mean))
        return trees


def plant_forest(planter: Planter, n_trees: int, first: int) -> Iterator[list[Tree]]:
    """Trees in order. A single worker grows one tree per thread; several workers grow each tree together."""
    worker = planter.worker
    if n_trees == 1 or worker.team.n_threads == 1 or worker.comm.size > 1:
        for number in range(first, first + n_trees):
            yield planter.plant(number)
        return
    n_threads = min(worker.team.n_threads, n_trees)
    idle: SimpleQueue[Planter] = SimpleQueue()
    teams = [Team(1) for _ in range(n_threads)]
    for team in teams:
        idle.put(Planter(planter.shard, planter.params, Worker.alone(team), planter.grown_on))

    def plant(number: int) -> list[Tree]:
        planter = idle.get()
        try:
            return planter.plant(number)
        finally:
            idle.put(planter)

    with ThreadPoolExecutor(n_threads, "pvtree-forest") as pool:
        waiting: deque[Future[list[Tree]]] = deque()
        try:
            for number in range(first, first + n_trees):
                waiting.append(pool.submit(plant, number))
                if len(waiting) > 2 * n_threads:  # bounds the trees that are finished but not yet taken
                    yield waiting.popleft().result()
            last = [future.result() for future in waiting]
            waiting.clear()
        finally:
            for future in waiting:
                future.cancel()
            for team in teams:  # else the pool would wait for trees that nobody needs any more
                team.stop()
    yield from last  # after the threads have ended: nobody need ask once more for that
