"""A training that was interrupted and goes on from its checkpoint ends with the model of one that was not."""

import json
import os

import numpy as np
import pytest

from pvtree import GBDTClassifier, GBDTRanker, GBDTRegressor, RandomForestRegressor
from pvtree.comm import local
from pvtree.errors import InvalidParameterError, PeerFailedError
from pvtree.training.callbacks import early_stopping
from thoroughness import checkered

SMALL = {"num_leaves": 7, "min_child_samples": 5, "max_bin": 31, "verbosity": 0}
KINDS = {
    "values": (GBDTRegressor, {"subsample": 0.7, "subsample_freq": 2, "colsample_bytree": 0.8}),
    "classes": (GBDTClassifier, {"colsample_bynode": 0.7}),
    "ranking": (GBDTRanker, {}),
    "forest": (RandomForestRegressor, {"num_leaves": 12}),
}


class Interrupted(Exception):
    pass


def crash_after(n_iterations):
    def callback(env):
        if env.iteration + 1 == n_iterations:
            raise Interrupted

    return callback


def data(kind):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(300, 6)).astype(np.float32)
    X[rng.random(X.shape) < 0.1] = np.nan
    signal = np.nan_to_num(X[:, :3]).sum(axis=1) + rng.normal(size=300)
    y = {"classes": np.digitize(signal, [-1, 1]), "ranking": np.digitize(signal, [0, 1, 2])}.get(kind, signal)
    return X, y


def fit(kind, folder=None, n_workers=1, crash=None, comm=None, learner="data", every=3, **changes):
    """On virtual workers of one fit, or as one of the workers behind ``comm``, each with its block of the rows."""
    make, options = KINDS[kind]
    X, y = data(kind)
    noisy = np.where(np.arange(300) % 3 == 0, np.roll(y, 7), y)  # else learning by heart would never be punished
    own = slice(0, None) if comm is None else slice(100 * comm.rank, 100 * (comm.rank + 1))
    held = slice(own.start or 0, (own.stop or 300) - 30)
    options = {"n_estimators": 14, "random_state": 4, **SMALL, **options, **changes}
    estimator = make(tree_learner=learner, n_workers=n_workers, **options)
    queries = {}
    if kind == "ranking":
        queries = {"qid": np.arange(300)[own] // 10, "eval_qid": [np.arange(300)[held] // 10]}
    return estimator.fit(
        X[own], y[own], eval_set=[(X[held], noisy[held])], callbacks=[crash_after(crash)] if crash else None,
        checkpoint=folder, checkpoint_freq=every, comm=comm, **queries,
    )  # fmt: skip


def same(one, other):
    assert one.model_.to_json() == other.model_.to_json()
    assert one.evals_result_ == other.evals_result_
    assert one.best_iteration_ == other.best_iteration_


@pytest.mark.parametrize(("kind", "workers"), checkered(KINDS, [(1, 1), (3, 1), (1, 3), (2, 5)]))
def test_any_number_of_workers_ends_with_the_same_model(kind, workers, tmp_path):
    before, after = workers
    whole = fit(kind)
    with pytest.raises(Interrupted):
        fit(kind, tmp_path, before, crash=8)
    assert os.listdir(tmp_path) == ["checkpoint.json"]
    assert json.loads((tmp_path / "checkpoint.json").read_text())["n_iterations"] == 6
    same(fit(kind, tmp_path, after), whole)


@pytest.mark.parametrize("learner", ["data", "voting", "attribute"])
def test_spread_rows(learner, tmp_path):
    """Interrupted twice, once before the first checkpoint; the folder is only worker 0's at first."""
    whole = local.run(lambda comm: fit("values", comm=comm, learner=learner, top_k=1), 3)[0]

    def part(crash):
        def work(comm):
            return fit("values", tmp_path, comm=comm, learner=learner, crash=crash, top_k=1)

        return local.run(work, 3)

    for crash in (2, 8):
        with pytest.raises((Interrupted, PeerFailedError)):
            part(crash)
    for each in part(None):
        same(each, whole)


def test_early_stopping_remembers(tmp_path):
    options = {"n_estimators": 60, "learning_rate": 0.6, "early_stopping_rounds": 5}
    whole = fit("classes", **options)
    assert 2 < whole.best_iteration_ < 50
    for crash in (1, whole.best_iteration_ + 2, whole.best_iteration_ + 4):
        with pytest.raises(Interrupted):
            fit("classes", tmp_path, crash=crash, every=1, **options)
    same(fit("classes", tmp_path, n_workers=2, **options), whole)
    same(fit("classes", tmp_path, **options), whole)  # it had come to its end


def test_other_callbacks_are_not_called_again(tmp_path):
    with pytest.raises(Interrupted):
        fit("values", tmp_path, crash=8)
    X, y = data("values")
    seen = []
    make, options = KINDS["values"]
    estimator = make(tree_learner="data", n_estimators=14, random_state=4, **SMALL, **options)
    estimator.fit(
        X, y, eval_set=[(X[:270], y[:270])], checkpoint=tmp_path,
        callbacks=[lambda env: seen.append(env.iteration), early_stopping(3)],
    )  # fmt: skip
    assert seen == list(range(6, 14))


def test_more_trees_than_before(tmp_path):
    fit("forest", tmp_path, n_estimators=9)
    same(fit("forest", tmp_path), fit("forest"))
    assert fit("forest", tmp_path, n_estimators=4).n_iter_ == 4


def test_another_training_is_refused(tmp_path):
    fit("values", tmp_path)
    with pytest.raises(InvalidParameterError, match=r"another training: learning_rate was 0\.1 and is 0\.3.*delete"):
        fit("values", tmp_path, learning_rate=0.3)
    with pytest.raises(InvalidParameterError, match="another training"):
        fit("classes", tmp_path)


def test_voting_on_other_workers_says_that_the_model_will_differ(tmp_path):
    with pytest.raises(Interrupted):
        fit("values", tmp_path, n_workers=3, crash=8, learner="voting", top_k=1)
    with pytest.warns(UserWarning, match="distributed differently over the workers"):
        fit("values", tmp_path, n_workers=2, learner="voting", top_k=1)
