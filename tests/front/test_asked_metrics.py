"""Which metrics a fit reports: those of fit and of the estimator, in LightGBM's order. Wrong names are refused."""

import lightgbm
import numpy as np
import pytest
from sklearn.metrics import log_loss

import pvtree
from pvtree import as_xgboost
from pvtree.errors import InvalidParameterError
from pvtree.objectives.losses import call_with

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 3))
y = (X[:, 0] > 0).astype(int)
GROUP = [10] * 6
FEW = {"n_estimators": 2, "verbose": -1}


def mine(y_true, y_pred):
    return "mine", 0.5, True


def reported(make, metric, eval_metric, **arguments):
    chosen = {} if metric is None else {"metric": metric}
    model = make(**FEW, **chosen).fit(X, y, eval_set=[(X, y)], eval_metric=eval_metric, **arguments)
    return list(model.evals_result_.get("training", []))


@pytest.mark.parametrize(
    ("metric", "eval_metric"),
    [
        ("auc", "binary_error"),
        ("auc", "auc"),
        ("auc", None),
        (["binary_logloss", "auc"], ["auc", "binary_error"]),
        ("binary_logloss,auc", "binary_error"),
        ("auc", mine),
        ("auc", [mine, "binary_error"]),
        ("None", "auc"),
        ("None", mine),
    ],
)
def test_metrics_of_fit_and_estimator_are_both_reported_as_in_lightgbm(metric, eval_metric):
    ours = reported(pvtree.GBDTClassifier, metric, eval_metric)
    assert ours == reported(lightgbm.LGBMClassifier, metric, eval_metric)


@pytest.mark.parametrize(
    ("metric", "eval_metric"), [("rmse", "l1"), ("mse", "l2"), (["l1", "l2"], "mse"), (["l1", "l2"], "rmse")]
)
def test_so_are_those_of_a_regressor(metric, eval_metric):
    ours = reported(pvtree.GBDTRegressor, metric, eval_metric)
    assert ours == reported(lightgbm.LGBMRegressor, metric, eval_metric)


def test_a_rankers_metric_is_measured_at_every_rank_once():
    ours = reported(pvtree.GBDTRanker, ["ndcg@5", "NDCG"], "ndcg", group=GROUP, eval_group=[GROUP], eval_at=[1, 3])
    assert ours == ["ndcg@1", "ndcg@3", "ndcg@5"]


def test_a_metric_of_both_is_called_once():
    calls = []

    def counted(y_true, y_pred):
        calls.append(len(y_true))
        return "counted", 1.0, True

    model = pvtree.GBDTRegressor(n_estimators=3, eval_metric=counted)
    model.fit(X, y, eval_set=[(X, y)], eval_metric=[counted])
    assert calls == [60] * 3


@pytest.mark.parametrize(
    "fit",
    [
        lambda: pvtree.GBDTClassifier().fit(X, y, eval_metric="acu"),
        lambda: pvtree.GBDTClassifier(metric="acu").fit(X, y),
        lambda: pvtree.RandomForestClassifier().fit(X, y, eval_metric=["acu"]),
        lambda: pvtree.train({"objective": "binary", "metric": "acu"}, pvtree.Dataset(X, y), 1),
        lambda: as_xgboost.XGBClassifier(eval_metric="acu").fit(X, y),
        lambda: as_xgboost.train({"objective": "binary:logistic", "eval_metric": "acu"}, as_xgboost.DMatrix(X, y), 1),
    ],
    ids=["fit", "estimator", "forest", "train", "xgboost", "xgboost.train"],
)
def test_a_misspelt_metric_is_refused_without_an_eval_set_too(fit):
    with pytest.raises(InvalidParameterError, match=r"eval_metric='acu' is unknown.*did you mean 'auc'"):
        fit()


def test_a_right_metric_without_an_eval_set_changes_nothing():
    fitted = pvtree.GBDTClassifier(n_estimators=2).fit(X, y, eval_metric="auc")
    assert fitted.evals_result_ == {}
    assert pvtree.train({"metric": "ndcg", "objective": "lambdarank"}, pvtree.Dataset(X, y, group=GROUP), 1).num_trees()


# -- What a metric of one's own is called with ----------------------------------------------------------------


def test_a_metric_is_always_called_with_labels_and_predictions():
    def optional(y_true, y_pred=None, eps=1e-15):
        assert y_pred.shape == y_true.shape
        assert eps == 1e-15
        return "optional", 0.0, False

    fitted = pvtree.GBDTClassifier(n_estimators=1).fit(X, y, eval_set=[(X, y)], eval_metric=optional)
    assert list(fitted.evals_result_["training"]) == ["binary_logloss", "optional"]


@pytest.mark.parametrize(
    ("function", "heard"),
    [
        (lambda y, p: (y, p), ("y", "p")),
        (lambda *given: given, ("y", "p")),
        (lambda y=0, p=0: (y, p), ("y", "p")),
        (lambda y, p, w: (y, p, w), ("y", "p", "w")),
        (lambda y, p, w, g: (y, p, w, g), ("y", "p", "w", "g")),
        (lambda y, p, w, /: (y, p, w), ("y", "p", "w")),
        (lambda y, p, weight, /: (y, p, weight), ("y", "p", "w")),
        (lambda y, p, weight=0: (y, p, weight), ("y", "p", "w")),
        (lambda y, p, group=0: (y, p, group), ("y", "p", "g")),
        (lambda y, p, group, weight: (y, p, group, weight), ("y", "p", "g", "w")),
        (lambda y, p, w, group=0: (y, p, w, group), ("y", "p", "w", "g")),
        (lambda y, p, *, sample_weight=0: (y, p, sample_weight), ("y", "p", "w")),
        (lambda y, p, eps=1, weight=0: (y, p, eps, weight), ("y", "p", 1, "w")),
    ],
)
def test_a_function_gets_what_its_arguments_name(function, heard):
    assert call_with(function, "y", "p", weight="w", group="g") == heard


def test_scikit_learns_metrics_work_where_xgboost_takes_them():
    weight = np.linspace(0.5, 2, 60)
    model = as_xgboost.XGBClassifier(n_estimators=3, eval_metric=log_loss)
    model.fit(X, y, eval_set=[(X, y)], sample_weight_eval_set=[weight])
    last = log_loss(y, model.predict_proba(X)[:, 1], sample_weight=weight)
    assert model.evals_result()["validation_0"]["log_loss"][-1] == pytest.approx(last)


# -- What the seed decides ------------------------------------------------------------------------------------


def test_the_seed_decides_how_gradients_are_rounded_where_nothing_is_sampled():
    relevance = np.digitize(X[:, 0] + X[:, 1], [-1, 0, 1])
    models = [
        pvtree.GBDTRanker(n_estimators=3, min_child_samples=5, random_state=seed).fit(X, relevance, group=GROUP).model_
        for seed in (1, 3, 1)
    ]
    assert models[0] == models[2] != models[1]


@pytest.mark.parametrize(
    ("group", "relevance", "n_estimators"),
    [([2] * 30, np.arange(60) % 2, 1), (GROUP, np.zeros(60), 5)],
    ids=["all gradients of one size", "no gradients"],
)
def test_seeds_give_one_model_where_there_is_nothing_to_round(group, relevance, n_estimators):
    """Gradients are rounded to fractions of the largest, so that equal ones, and zeros, are exact as they are."""
    models = [
        pvtree.GBDTRanker(n_estimators=n_estimators, min_child_samples=5, random_state=seed).fit(
            X, relevance, group=group
        )
        for seed in (1, 3)
    ]
    assert models[0].model_ == models[1].model_
