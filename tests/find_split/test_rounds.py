"""Strategies look for the splits of a tree once a level, whatever the number of leaves is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest

from pvtree.comm import Communicator
from pvtree.find_split import Strategy
from pvtree.growing.frontier import Frontier
from pvtree.model import Tree
from pvtree.parameters.params import Params
from pvtree.training import boosting, forest
from pvtree.training.train import train
from small_data import categories_of
from strategy_cases import LEARNERS, Case, make_rows

pytestmark = pytest.mark.filterwarnings("ignore::pvtree.training.skew.SkewWarning")


def depth_of(tree: Tree) -> int:
    depth = np.zeros(tree.n_nodes, np.int64)
    for node in np.flatnonzero(tree.feature >= 0):  # parents come before their children
        depth[tree.left_child[node] : tree.left_child[node] + 2] = depth[node] + 1
    return int(depth.max())


@contextmanager
def counted_rounds() -> Iterator[list[tuple[int, int]]]:
    """(rounds, collectives) of each tree, as worker 0 sees them."""
    seen: list[tuple[int, int]] = []
    make = boosting.make_strategy

    def make_counted(params: Params, comm: Communicator) -> Strategy:
        strategy = make(params, comm)
        begin_tree, find_splits, finish_tree = strategy.begin_tree, strategy.find_splits, strategy.finish_tree
        now = {"rounds": 0, "calls": 0}

        def begin(frontier: Frontier) -> None:
            now.update(rounds=0, calls=comm.traffic.total().calls)
            begin_tree(frontier)

        def find(frontier: Frontier) -> None:
            now["rounds"] += 1
            find_splits(frontier)

        def finish(frontier: Frontier, is_split: np.ndarray) -> None:
            finish_tree(frontier, is_split)
            if comm.rank == 0:
                seen.append((now["rounds"], comm.traffic.total().calls - now["calls"]))

        strategy.begin_tree, strategy.find_splits, strategy.finish_tree = begin, find, finish  # type: ignore[method-assign]
        return strategy

    with patch.object(boosting, "make_strategy", make_counted), patch.object(forest, "make_strategy", make_counted):
        yield seen


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize(("num_leaves", "top_k"), [(0, 4), (2, 1), (6, 4), (15, 1), (31, 4)])
def test_rounds_follow_the_depth_and_not_the_leaves(learner: str, num_leaves: int, top_k: int) -> None:
    case = Case("regression", {"num_leaves": num_leaves}, n_rows=400)
    rows = make_rows(case)
    params = replace(case.settled(), tree_learner=learner, n_workers=3, top_k=top_k)
    with counted_rounds() as seen:
        model = train(rows.X, rows.y, params, categorical=categories_of(case.kinds)).model
    assert len(seen) == len(model.trees) == 2
    for (n_rounds, n_collectives), tree in zip(seen, model.trees, strict=True):
        assert tree.n_nodes > 2
        assert depth_of(tree) <= n_rounds <= depth_of(tree) + 2
        assert n_collectives <= 3 * n_rounds
