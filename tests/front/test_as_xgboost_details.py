"""Smaller habits of XGBoost's objects, each beside XGBoost: files, feature maps, settings, metrics, parameters."""

import json

import numpy as np
import pandas as pd
import pytest
import xgboost

import pvtree.as_xgboost as xgb

RNG = np.random.default_rng(11)
X = RNG.normal(size=(150, 3)).astype(np.float32)
THREE = np.digitize(X[:, 0], [-0.5, 0.5])
SOFTMAX = {"objective": "multi:softmax", "num_class": 3, "max_depth": 2, "nthread": 1}


@pytest.mark.parametrize("writer, reader", [(xgb, xgb), (xgb, xgboost), (xgboost, xgb)])
@pytest.mark.parametrize("suffix", ["json", "ubj"])
def test_softmax_predicts_classes_after_loading(tmp_path, writer, reader, suffix):
    path = tmp_path / f"m.{suffix}"
    booster = writer.train(SOFTMAX, writer.DMatrix(X, THREE), 3)
    booster.save_model(path)
    classes = reader.Booster(model_file=path).predict(reader.DMatrix(X))
    np.testing.assert_array_equal(classes, booster.predict(writer.DMatrix(X)))
    assert classes.shape == (150,)


def test_files_of_estimators_name_their_kind(tmp_path):
    path = tmp_path / "m.json"
    xgb.XGBClassifier(n_estimators=2).fit(X, THREE > 0).save_model(path)
    theirs = xgboost.XGBClassifier()
    theirs.load_model(path)
    assert theirs.predict(X).shape == (150,)
    for module in (xgb, xgboost):
        for name in ("XGBRegressor", "XGBRanker"):
            with pytest.raises(TypeError):
                getattr(module, name)().load_model(path)
    with pytest.raises(TypeError, match="saved by a classifier; load it with XGBClassifier instead of XGBModel"):
        xgb.XGBModel().load_model(path)
    xgboost.XGBRegressor(n_estimators=2).fit(X, X[:, 1]).save_model(path)
    with pytest.raises(TypeError, match="saved by a regressor"):
        xgb.XGBClassifier().load_model(path)


def test_feature_maps_name_the_columns_of_dumps(tmp_path):
    path = tmp_path / "names.txt"
    path.write_text("0 first q\n1 second q\n2 third q\n")
    ours, theirs = (each.train({"max_depth": 1}, each.DMatrix(X, X[:, 1]), 1) for each in (xgb, xgboost))
    assert "[second<" in ours.get_dump(path)[0] and "[second<" in theirs.get_dump(path)[0]
    assert ours.get_score(path).keys() == theirs.get_score(path).keys() == {"second"}
    assert ours.trees_to_dataframe(path)["Feature"][0] == "second"
    with pytest.raises(ValueError, match="cannot be read"):
        ours.get_dump(tmp_path / "absent.txt")
    path.write_text("7 seventh q\n")
    with pytest.raises(ValueError, match="is not one of this model"):
        ours.get_dump(path)


def test_settings_show_metrics_and_parallel_trees():
    params = [("objective", "binary:logistic"), ("eval_metric", "logloss"), ("eval_metric", "auc"),
              ("num_parallel_tree", 3)]  # fmt: skip
    for module in (xgb, xgboost):
        booster = module.train(params, module.DMatrix(X, THREE > 0), 2)
        learner = json.loads(booster.save_config())["learner"]
        assert [each["name"] for each in learner["metrics"]] == ["logloss", "auc"]
        assert learner["gradient_booster"]["gbtree_model_param"]["num_parallel_tree"] == "3"


def test_errors_of_values_are_counted_at_a_threshold():
    y = (X[:, 0] > 0).astype(int)
    for module in (xgb, xgboost):
        result = {}
        rows = module.DMatrix(X, y)
        booster = module.train({"eval_metric": ["error", "error@0.7"], "max_depth": 2}, rows, 2, evals=[(rows, "rows")],
                               evals_result=result, verbose_eval=False)  # fmt: skip
        predicted = booster.predict(rows)
        assert result["rows"]["error"][-1] == pytest.approx(np.mean((predicted > 0.5) != y))
        assert result["rows"]["error@0.7"][-1] == pytest.approx(np.mean((predicted > 0.7) != y))


def test_rankings():
    queries = np.repeat(np.arange(10), 15)
    for module in (xgb, xgboost):
        rows = module.DMatrix(X, THREE, qid=queries)
        folds = module.cv({"objective": "rank:pairwise", "eval_metric": ["ndcg"]}, rows, 2, nfold=5, as_pandas=False)
        assert set(folds) == {f"{part}-ndcg-{what}" for part in ("train", "test") for what in ("mean", "std")}
    frame = pd.DataFrame(X, columns=list("abc")).assign(qid=queries)
    ranker = xgb.XGBRanker(n_estimators=2, eval_metric=lambda y_true, y_pred: float(y_pred[0])).fit(frame, THREE)
    assert ranker.score(frame, THREE) == pytest.approx(ranker.predict(frame)[0])


def test_folds_and_attributes_are_what_callbacks_see():
    seen = []

    class Look(xgb.callback.TrainingCallback):
        def after_iteration(self, model, epoch, evals_log):
            if hasattr(model, "cvfolds"):
                seen.extend(list(fold.dtest.get_label()) for fold in model.cvfolds)
            else:
                model.set_attr(last=str(epoch))
            return False

    rows = xgb.DMatrix(X, np.arange(150))
    xgb.cv({"max_depth": 2}, rows, 1, folds=[([1, 3], [8, 5]), ([7, 9], [23, 43, 11])], callbacks=[Look()])
    assert seen == [[8, 5], [23, 43, 11]]
    assert xgb.train({"max_depth": 2}, rows, 3, callbacks=[Look()]).attr("last") == "2"


def test_other_ways_to_grow_trees_are_told():
    assert xgb.XGBClassifier(updater="grow_gpu_hist").get_params()["updater"] == "grow_gpu_hist"
    with pytest.warns(UserWarning, match="updater='grow_colmaker,prune' is taken as 'hist'"):
        xgb.train({"updater": "grow_colmaker,prune"}, xgb.DMatrix(X, X[:, 0]), 1)


def test_nullable_columns_are_counted_without_what_is_missing():
    for kind in ("Int64", "boolean", "Float32", "int64[pyarrow]"):
        frame = pd.DataFrame({"a": pd.Series([1, 0, None, 1], dtype=kind), "b": pd.Series([0, 1, 1, None], dtype=kind)})
        assert xgb.DMatrix(frame).num_nonmissing() == xgboost.DMatrix(frame).num_nonmissing() == 6


def test_a_depth_of_0_is_no_limit():
    rows = np.random.default_rng(0).normal(size=(600, 2))
    target = rows[:, 0] * rows[:, 1]
    zero, none = (xgb.XGBRegressor(max_depth=limit, n_estimators=1).fit(rows, target) for limit in (0, -1))
    assert zero.model_ == none.model_
    assert len(zero.model_.trees[0].feature) > 2**7  # more nodes than a tree of depth 6 has


def test_modules_have_xgboost_s_names():
    assert xgb.core.Booster is xgb.training.Booster is xgb.Booster
    assert xgb.sklearn.XGBRanker is xgb.XGBRanker
    assert xgb.plotting.plot_tree is xgb.plot_tree
    with pytest.raises(xgb.core.XGBoostError):
        xgb.Booster(model_file="nowhere.json")


def test_metrics_of_softmax_see_classes():
    def merror(y_true, y_pred):
        return float(np.mean(y_true != y_pred))

    results = []
    for library in (xgb, xgboost):
        model = library.XGBClassifier(n_estimators=2, max_depth=2, objective="multi:softmax", eval_metric=merror)
        results.append(model.fit(X, THREE, eval_set=[(X, THREE)], verbose=False).evals_result()["validation_0"])
    np.testing.assert_allclose(results[0]["merror"], results[1]["merror"], atol=0.02)


def test_feval_is_the_older_name_of_custom_metric():
    data, results = xgb.DMatrix(X, THREE), {}
    xgb.train({}, data, 1, [(data, "train")], feval=lambda preds, rows: ("mine", 1.5), evals_result=results)
    assert results["train"]["mine"] == [1.5]


def test_boosters_know_the_types_of_columns():
    for library in (xgb, xgboost):
        data = library.DMatrix(pd.DataFrame({"a": [1, 2], "b": [0.5, 1.5]}), [0, 1])
        assert library.train({}, data, 1).feature_types == ["int", "float"]
        model = library.XGBRegressor(feature_types=["q", "c", "q"], enable_categorical=True, n_estimators=1)
        assert model.fit(np.abs(X).astype(int), THREE).get_booster().feature_types == ["q", "c", "q"]
