"""Workers that an engine has joined: leaving the others out is refused, and some callbacks run on all."""

from __future__ import annotations

import numpy as np
import pytest

import pvtree
from pvtree.comm import Solo, local
from pvtree.comm.connect import current, joined
from pvtree.errors import InvalidParameterError

SMALL = {"n_estimators": 3, "num_leaves": 4, "min_child_samples": 2}
X = np.random.default_rng(0).normal(size=(60, 3))
Y = X.sum(axis=1)


def test_a_training_that_leaves_the_others_out_is_refused():
    regressor, comm = pvtree.GBDTRegressor(**SMALL), Solo()
    comm.size = 2
    with joined(comm, "engine.get_comm()"):
        assert current() is comm
        with pytest.raises(InvalidParameterError, match=r"on 2 workers, but .* no comm .*comm=engine.get_comm\(\)"):
            regressor.fit(X, Y)
        regressor.fit(X, Y, comm=Solo())  # this is meant
    with joined(Solo(), "engine.get_comm()"):
        regressor.fit(X, Y)
    assert current() is None
    regressor.fit(X, Y)


def test_callbacks_that_watch_run_on_all_workers_after_the_checkpoint(tmp_path):
    class Watch:
        on_all_workers = True

        def __init__(self):
            self.seen = []

        def __call__(self, env):
            n_trees = env.model.model().n_iterations
            self.seen.append(
                (env.iteration, n_trees, env.evaluation_result_list[0].value, (tmp_path / "kept").exists())
            )

    def train(comm):
        own, watch, ordinary = slice(comm.rank, None, 3), Watch(), []
        regressor = pvtree.GBDTRegressor(**SMALL).fit(
            X[own], Y[own], eval_set=[(X[own], Y[own])], comm=comm, callbacks=[watch, ordinary.append],
            checkpoint=tmp_path / "kept", checkpoint_freq=1,
        )  # fmt: skip
        return watch.seen, len(ordinary), regressor.evals_result_["valid_0"]["l2"]

    answers = local.run(train, 3)
    metrics = answers[0][2]
    assert [answer[0] for answer in answers] == [[(i, i + 1, metrics[i], True) for i in range(3)]] * 3
    assert [answer[1] for answer in answers] == [3, 0, 0]
