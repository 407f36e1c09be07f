import numpy as np
import pytest
from sklearn.base import clone

import pvtree
from estimator_samples import data, fitted, small
from pvtree import as_xgboost
from pvtree.errors import InvalidDataError, InvalidParameterError, InvalidTypeError
from pvtree.training.callbacks import early_stopping

# -- Evaluation, stopping, going on -------------------------------------------------------------------------


def test_evaluation_results():
    X, y = data(400)
    model = small(pvtree.GBDTClassifier)
    model.fit(X[:200], y[:200], eval_set=[(X[:200], y[:200]), (X[200:], y[200:])], eval_metric=["auc", "logloss"])
    assert list(model.evals_result_) == ["valid_0", "valid_1"]
    assert {name: len(v) for name, v in model.evals_result_["valid_1"].items()} == {
        "auc": 5,
        "binary_logloss": 5,
    }
    p = model.predict_proba(X[200:])[:, 1]
    expected = -np.log(np.where(y[200:] == 1, p, 1 - p)).mean()
    assert model.evals_result_["valid_1"]["binary_logloss"][-1] == pytest.approx(expected)
    assert model.best_iteration_ == 0
    assert model.n_iter_ == 5


def test_the_training_data_is_named_so():
    X, y = data()
    model = small(pvtree.GBDTRegressor).fit(X, y, eval_set=[(X, y), (X.copy(), y)])
    assert list(model.evals_result_) == ["training", "valid_1"]
    assert model.evals_result_["training"] == model.evals_result_["valid_1"]
    model.fit(X, y, eval_set=(X, y), eval_names="mine", eval_metric="rmse")
    assert list(model.evals_result_["mine"]) == ["rmse", "l2"]


def test_evaluation_weights():
    X, y = data()
    weight = np.arange(len(X), dtype=float)
    model = small(pvtree.GBDTRegressor).fit(X, y, eval_set=[(X, y)], eval_sample_weight=[weight])
    expected = np.average((model.predict(X) - y) ** 2, weights=weight)
    assert model.evals_result_["training"]["l2"][-1] == pytest.approx(expected)


def test_sets_and_stopping_as_other_arguments_of_fit():
    X, y = data(400)
    train, held, rest = (X[:200], y[:200]), (X[200:300], y[200:300]), (X[300:], y[300:])
    model = small(pvtree.GBDTRegressor, n_estimators=30, learning_rate=0.5)
    stopping = clone(model).set_params(early_stopping_rounds=2).fit(*train, eval_set=[held, rest])
    assert 0 < stopping.best_iteration_ < 30
    for several in (tuple, list):
        model.fit(
            *train, eval_X=several([held[0], rest[0]]), eval_y=several([held[1], rest[1]]), early_stopping_rounds=2
        )
        assert model.model_ == stopping.model_ and model.evals_result_ == stopping.evals_result_
    assert model.early_stopping_rounds is None
    assert list(model.fit(*train, eval_X=held[0].tolist(), eval_y=held[1].tolist()).evals_result_) == ["valid_0"]
    assert model.n_iter_ == 30
    theirs = as_xgboost.XGBRegressor(n_estimators=30, verbosity=0).fit(
        *train, eval_X=held[0], eval_y=held[1], early_stopping_rounds=2
    )
    assert theirs.best_iteration < 29 and list(theirs.evals_result()) == ["validation_0"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"eval_set": [(0, 0)], "eval_X": 0, "eval_y": 0, "eval_group": [[1]]},
            "Specify either 'eval_set' or 'eval_X'",
        ),
        ({"eval_X": 0, "eval_group": [[1]]}, "You must specify eval_X and eval_y"),
        ({"eval_X": (0, 0), "eval_y": (0,), "eval_group": [[1]]}, "If eval_X is a tuple"),
        ({"base_margin": [0.0]}, "base_margin is not an argument of GBDTRanker.fit; pass init_score instead"),
        ({"eval_sets": []}, "eval_sets is not an argument of GBDTRanker.fit; did you mean eval_set?"),
        ({"num_leaf": 4}, r"num_leaf is not an argument of GBDTRanker.fit; .* set_params\(num_leaves="),
        ({"frobnicate": 4}, "its arguments are X, y, sample_weight, group, qid, init_score, eval_set"),
        ({"early_stopping_rounds": -1}, "early_stopping_rounds must be"),
    ],
)
def test_wrong_arguments_of_fit(arguments, message):
    X, y = data(n_classes=4)
    with pytest.raises((InvalidParameterError, InvalidDataError), match=message):
        small(pvtree.GBDTRanker).fit(X, y, group=[200], init_model=None, eval_init_score=None, **arguments)


def test_arguments_of_fit_that_other_estimators_have():
    X, y = data()
    with pytest.raises(InvalidParameterError, match=r"group is not an argument of GBDTRegressor.fit; .* GBDTRanker"):
        small(pvtree.GBDTRegressor).fit(X, y, group=[200])
    with pytest.raises(InvalidParameterError, match="leave early_stopping_rounds out"):
        small(pvtree.RandomForestRegressor).fit(X, y, eval_set=[(X, y)], early_stopping_rounds=2)


def test_early_stopping_keeps_the_best_iteration():
    X, y = data(400)
    y = np.where(np.random.default_rng(1).random(400) < 0.3, 1 - y, y)
    model = small(pvtree.GBDTClassifier, n_estimators=200, learning_rate=0.5, early_stopping_rounds=3)
    model.fit(X[:200], y[:200], eval_set=[(X[200:], y[200:])])
    losses = model.evals_result_["valid_0"]["binary_logloss"]
    assert len(losses) < 200
    assert model.best_iteration_ == np.argmin(losses) + 1 == model.n_iter_ == len(losses) - 3
    assert model.best_score_ == {"valid_0": {"binary_logloss": min(losses)}}
    p = model.predict_proba(X[200:])[:, 1]
    assert -np.log(np.where(y[200:] == 1, p, 1 - p)).mean() == pytest.approx(min(losses))
    twin = clone(model).set_params(early_stopping_rounds=None)
    twin.fit(X[:200], y[:200], eval_set=[(X[200:], y[200:])], callbacks=[early_stopping(3)])
    np.testing.assert_array_equal(twin.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize("eval_set", [None, "training"])
def test_early_stopping_needs_other_data(eval_set):
    X, y = data()
    with pytest.raises(InvalidDataError, match="early_stopping_rounds needs data that is not trained on"):
        small(pvtree.GBDTClassifier, early_stopping_rounds=2).fit(X, y, eval_set=eval_set and [(X, y)])


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"eval_set": [1]}, "eval_set must be a list of pairs"),
        ({"eval_set": 3}, "eval_set must be a list of pairs"),
        ({"eval_set": [([[0.0]], [0])]}, "X has 1 features, but the model is expecting 4"),
        (
            {"eval_set": [(np.zeros((1, 4)), [7])]},
            "y of eval_set 0 has the label 7, but the classes are 0, 1",
        ),
        (
            {"eval_set": [(np.zeros((1, 4)), [0])], "eval_names": ["a", "b"]},
            "Length of eval_names",
        ),
        ({"eval_set": [(np.zeros((1, 4)), [0])] * 2, "eval_names": ["a", "a"]}, "different strings"),
        ({"eval_set": [(np.zeros((1, 4)), [0])], "eval_sample_weight": [[-1]]}, "must not be negative"),
        ({"eval_set": [(np.zeros((1, 4)), [0])], "eval_metric": "acu"}, "did you mean 'auc'"),
        ({"eval_set": [(np.zeros((1, 4)), [0])], "eval_metric": 3}, "eval_metric must be"),
        ({"callbacks": [3]}, "callbacks must be a list of functions"),
        ({"callbacks": print}, "callbacks must be a list of functions"),
        ({"init_model": 3}, "init_model must be a Model"),
    ],
)
def test_bad_arguments_of_fit(arguments, sentence):
    X, y = data()
    with pytest.raises((InvalidDataError, InvalidParameterError, InvalidTypeError), match=sentence):
        small(pvtree.GBDTClassifier).fit(X, y, **arguments)


def test_custom_metric_sees_predictions_and_class_indices():
    X, y = data()
    names = np.array(["no", "yes"])[y]

    def share(y_true, y_pred, weight):
        assert set(y_true) == {0.0, 1.0}
        assert ((y_pred > 0) & (y_pred < 1)).all()
        return "share", float(((y_pred > 0.5) == y_true).mean()), True

    model = small(pvtree.GBDTClassifier).fit(X, names, eval_set=[(X, names)], eval_metric=[share, "auc"])
    assert set(model.evals_result_["training"]) == {"share", "auc", "binary_logloss"}
    assert model.evals_result_["training"]["share"][-1] == pytest.approx(model.score(X, names))


def test_callbacks_see_every_iteration():
    X, y = data()
    seen = []
    small(pvtree.GBDTRegressor).fit(X, y, eval_set=[(X, y)], callbacks=[seen.append])
    assert [env.iteration for env in seen] == [0, 1, 2, 3, 4]
    assert (seen[0].begin_iteration, seen[0].end_iteration) == (0, 5)
    name, metric, value, higher = seen[-1].evaluation_result_list[0]
    assert (name, metric, higher) == ("training", "l2", False)
    assert value > 0


@pytest.mark.parametrize("n_classes", [2, 3])
def test_custom_objective_of_a_classifier(n_classes):
    X, y = data(n_classes=n_classes)

    def log_loss(y_true, y_pred):
        if n_classes == 2:
            p = 1 / (1 + np.exp(-y_pred))
            return p - y_true, p * (1 - p)
        p = np.exp(y_pred - y_pred.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        return p - np.eye(n_classes)[y_true.astype(int)], 2 * p * (1 - p)

    model = small(pvtree.GBDTClassifier, objective=log_loss, n_estimators=20)
    model.fit(X, y, eval_set=[(X, y)])
    assert model.score(X, y) > 0.8
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)
    losses = next(iter(model.evals_result_["training"].values()))
    assert losses[-1] < losses[0]
    assert model.model_.objective == "custom"


def test_custom_objective_of_a_regressor():
    X, y = data(n_classes=50)
    model = small(pvtree.GBDTRegressor, objective=lambda t, p: (p - t, np.ones_like(t)), n_estimators=60)
    assert model.fit(X, y).score(X, y) > 0.8


@pytest.mark.parametrize("kind", ["estimator", "model", "path"])
def test_training_goes_on_from_a_model(kind, tmp_path):
    X, y = data()
    whole = small(pvtree.GBDTRegressor, n_estimators=8).fit(X, y)
    start = small(pvtree.GBDTRegressor, n_estimators=5).fit(X, y)
    path = tmp_path / "model.json"
    start.model_.save(path)
    init_model = {"estimator": start, "model": start.model_, "path": path}[kind]
    rest = small(pvtree.GBDTRegressor, n_estimators=3).fit(X, y, init_model=init_model)
    assert len(rest.model_.trees) == 8
    np.testing.assert_array_equal(rest.predict(X, num_iteration=5), start.predict(X))
    assert rest.score(X, y) > start.score(X, y)
    np.testing.assert_allclose(rest.predict(X), whole.predict(X), atol=0.1)


@pytest.mark.parametrize("estimator", [pvtree.RandomForestClassifier, pvtree.RandomForestRegressor])
def test_forests_are_evaluated_and_grow_on(estimator):
    X, y = data(n_classes=3)
    whole = small(estimator, n_estimators=7).fit(X, y, eval_set=[(X, y)])
    start = small(estimator, n_estimators=3).fit(X, y)
    rest = small(estimator, n_estimators=4).fit(X, y, init_model=start, eval_set=[(X, y)])
    np.testing.assert_array_equal(rest.predict(X, raw_score=True), whole.predict(X, raw_score=True))
    history = next(iter(whole.evals_result_["training"].values()))
    assert len(history) == 7
    np.testing.assert_allclose(next(iter(rest.evals_result_["training"].values())), history[3:])
    raw = whole.predict(X, raw_score=True)
    expected = -np.log(raw[range(200), y]).mean() if raw.ndim == 2 else np.square(raw - y).mean()
    assert history[-1] == pytest.approx(expected)


def test_categories_keep_their_bins_when_training_goes_on():
    X, y = data()
    X[:, 3] = np.repeat([5.0, 6.0, 7.0, 8.0], 50)
    start = small(pvtree.GBDTClassifier, categorical_feature=[3]).fit(X, y)
    rest = small(pvtree.GBDTClassifier).fit(X[60:], y[60:], init_model=start)
    assert rest.model_.categories == start.model_.categories == {3: (5.0, 6.0, 7.0, 8.0)}
    np.testing.assert_array_equal(rest.predict_proba(X, num_iteration=5), start.predict_proba(X))


def test_training_goes_on_only_from_a_fitting_model():
    X, y = data()
    regressor, _, _ = fitted(pvtree.GBDTRegressor)
    forest, _, _ = fitted(pvtree.RandomForestClassifier)
    classifier, _, _ = fitted(pvtree.GBDTClassifier)
    with pytest.raises(
        InvalidParameterError, match=r"init_model was trained for 'regression' .* use the same objective and classes"
    ):
        small(pvtree.GBDTClassifier).fit(X, y, init_model=regressor)
    with pytest.raises(
        InvalidParameterError,
        match="init_model is of kind 'forest', but this estimator adds trees to 'gbdt' only",
    ):
        small(pvtree.GBDTClassifier).fit(X, y, init_model=forest)
    with pytest.raises(InvalidDataError, match="X has 3 features, but init_model is expecting 4"):
        small(pvtree.GBDTClassifier).fit(X[:, :3], y, init_model=classifier)
    with pytest.raises(InvalidDataError, match="y has the label 2, but the classes are 0, 1"):
        small(pvtree.GBDTClassifier).fit(X, data(n_classes=3)[1], init_model=classifier)
    with pytest.raises(InvalidTypeError, match=r"init_model must be a Model, .* got GBDTClassifier"):
        small(pvtree.GBDTClassifier).fit(X, y, init_model=pvtree.GBDTClassifier())
    only_ones = small(pvtree.GBDTClassifier).fit(X[y == 1], y[y == 1], init_model=classifier)
    assert only_ones.classes_.tolist() == [0, 1]


# -- Ranking ------------------------------------------------------------------------------------------------


def test_group_and_qid_are_the_same_queries():
    X, y = data(n_classes=4)
    by_group = small(pvtree.GBDTRanker).fit(X, y, group=[60, 90, 50]).predict(X)
    by_qid = small(pvtree.GBDTRanker).fit(X, y, qid=np.repeat([8, 3, 5], [60, 90, 50])).predict(X)
    np.testing.assert_array_equal(by_group, by_qid)
    assert not np.array_equal(by_group, small(pvtree.GBDTRanker).fit(X, y, group=[200]).predict(X))


def test_documents_of_weight_zero_still_take_a_rank():
    X, y = data(n_classes=4)
    weight = np.ones(200)
    weight[::2] = 0
    kept = small(pvtree.GBDTRanker).fit(X, y, sample_weight=weight, group=[100, 100]).predict(X)
    removed = small(pvtree.GBDTRanker).fit(X[1::2], y[1::2], group=[50, 50]).predict(X)
    assert not np.array_equal(kept, removed)


def test_a_ranker_without_queries_warns():
    X, y = data(n_classes=4)
    with pytest.warns(UserWarning, match="All rows are ranked as one query; pass group"):
        model = small(pvtree.GBDTRanker).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), small(pvtree.GBDTRanker).fit(X, y, group=[200]).predict(X))


def test_ranking_evaluation():
    X, y = data(n_classes=4)
    model = small(pvtree.GBDTRanker)
    model.fit(X, y, group=[100, 100], eval_set=[(X, y)], eval_group=[[100, 100]], eval_at=[3, 5], eval_metric="NDCG")
    assert list(model.evals_result_["training"]) == ["ndcg@3", "ndcg@5"]
    model.fit(X, y, group=[100, 100], eval_set=[(X, y)], eval_qid=[np.repeat([0, 1], 100)])
    ndcg = model.evals_result_["training"]["ndcg@10"]
    assert ndcg[-1] > 0.8
    with pytest.raises(InvalidDataError, match="eval_group cannot be None"):
        model.fit(X, y, group=[200], eval_set=[(X, y)])
    with pytest.raises(InvalidDataError, match="eval_group adds up to 100 rows, but X has 200"):
        model.fit(X, y, group=[200], eval_set=[(X, y)], eval_group=[[100]])
    with pytest.raises(InvalidParameterError, match="eval_at must be"):
        model.fit(X, y, group=[200], eval_set=[(X, y)], eval_group=[[200]], eval_at=[0])
    with pytest.raises(InvalidDataError, match="whole relevance labels"):
        model.fit(X, y - 1, group=[200])
