"""Callbacks that print, keep, change and save, on one worker and on several."""

import numpy as np
import pytest

import pvtree
from pvtree.errors import InvalidParameterError, InvalidTypeError
from pvtree.training.callbacks import CallbackEnv, Training

rng = np.random.default_rng(0)
X = rng.normal(size=(300, 5))
y = X[:, 0] * 2 + np.sin(X[:, 1] * 3) + rng.normal(size=300) * 0.1
EVALUATED = {"eval_set": [(X[200:], y[200:])], "eval_metric": ["l2", "l1"]}


def small(**more):
    return pvtree.GBDTRegressor(**({"n_estimators": 6, "num_leaves": 5, "n_jobs": 1} | more))


def test_log_evaluation_prints_every_few_iterations(capsys):
    model = small().fit(X[:200], y[:200], **EVALUATED, callbacks=[pvtree.log_evaluation(period=4)])
    l2, l1 = (model.evals_result_["valid_0"][metric][3] for metric in ("l2", "l1"))
    assert capsys.readouterr().out == f"[4]\tvalid_0's l2: {l2:g}\tvalid_0's l1: {l1:g}\n"
    small().fit(X[:200], y[:200], **EVALUATED, verbose=5)
    assert capsys.readouterr().out.startswith("[5]\tvalid_0's l2: ")
    pvtree.log_evaluation()(CallbackEnv(None, None, 0, 0, 9, [("valid", "l2", 0.5, False, 0.25)]))
    pvtree.log_evaluation(show_stdv=False)(CallbackEnv(None, None, 1, 0, 9, [("valid", "l2", 0.5, False, 0.25)]))
    assert capsys.readouterr().out == "[1]\tvalid's l2: 0.5 + 0.25\n[2]\tvalid's l2: 0.5\n"


def test_record_evaluation_keeps_what_the_estimator_keeps(capsys):
    kept = {"old": {}}
    callbacks = [pvtree.early_stopping(2, verbose=False), pvtree.record_evaluation(kept), pvtree.log_evaluation()]
    model = small(n_estimators=60, learning_rate=1.0).fit(X[:200], y[:200], **EVALUATED, callbacks=callbacks)
    assert 0 < model.best_iteration_ < 58
    assert kept == model.evals_result_
    # Those that only look see the last iteration too, though early stopping stands before them.
    assert capsys.readouterr().out.count("\n") == len(kept["valid_0"]["l2"]) >= model.best_iteration_ + 2
    with pytest.raises(InvalidTypeError, match="eval_result must be a dictionary to write into, got list"):
        pvtree.record_evaluation([])


@pytest.mark.parametrize("learner", ["serial", "data"])
def test_reset_parameter_changes_the_next_trees_on_all_workers(learner):
    rates = [0.5, 0.5, 0.1, 0.1, 0.1, 0.1]
    more = {
        "tree_learner": learner,
        "n_workers": 1 if learner == "serial" else 3,
        "subsample": 0.8,
        "subsample_freq": 1,
    }
    scheduled = small(**more).fit(
        X, y, callbacks=[pvtree.reset_parameter(eta=rates, bagging_fraction=lambda i: 0.8 if i < 2 else 0.5)]
    )
    begun = small(**more, n_estimators=2, learning_rate=0.5).fit(X, y)
    stepwise = small(**more | {"subsample": 0.5}, n_estimators=4, learning_rate=0.1).fit(X, y, init_model=begun)
    assert scheduled.model_.trees == stepwise.model_.trees


def test_reset_parameter_goes_on_from_a_checkpoint(tmp_path):
    def schedule():
        return pvtree.reset_parameter(learning_rate=lambda i: 0.5 / (i + 1))

    def stop(env):
        if env.iteration == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        small().fit(X, y, callbacks=[schedule(), stop, pvtree.checkpoint(tmp_path, 2)])
    seen = []
    resumed = small().fit(X, y, callbacks=[schedule(), seen.append, pvtree.checkpoint(tmp_path, 2)])
    assert [env.iteration for env in seen] == [2, 3, 4, 5]  # the third was interrupted before it was saved
    assert resumed.model_ == small().fit(X, y, callbacks=[schedule()]).model_
    with pytest.raises(InvalidParameterError, match="checkpoint is given more than once"):
        small().fit(X, y, callbacks=[pvtree.checkpoint(tmp_path, 2)], checkpoint=tmp_path)


def test_what_cannot_change_is_refused():
    with pytest.raises(InvalidParameterError, match=r"^num_leaves cannot change during training; use one of"):
        pvtree.reset_parameter(num_leaves=[3, 4])
    with pytest.raises(InvalidTypeError, match="learning_rate must be a list with a value for each iteration"):
        pvtree.reset_parameter(learning_rate=0.1)
    with pytest.raises(
        InvalidParameterError, match="learning_rate must have a value for each of the 6 iterations, got"
    ):
        small().fit(X, y, callbacks=[pvtree.reset_parameter(learning_rate=[0.1])])
    with pytest.raises(InvalidParameterError, match="learning_rate must be a finite number of at least 0, got -1"):
        small().fit(X, y, callbacks=[pvtree.reset_parameter(learning_rate=lambda i: -1)])
    with pytest.raises(InvalidParameterError, match="only change between iterations of boosting"):
        Training("forest").reset_parameter({"min_child_samples": 3})
