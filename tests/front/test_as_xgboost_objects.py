"""DMatrix, Booster, callbacks and cv as XGBoost's users write them; XGBoost stands beside them."""

import json
import pickle

import numpy as np
import pandas as pd
import pytest
import xgboost
from scipy import sparse

import pvtree
import pvtree.as_xgboost as xgb
from pvtree.errors import InvalidDataError, InvalidParameterError

RNG = np.random.default_rng(7)
X = RNG.normal(size=(120, 4)).astype(np.float32)
X[RNG.random(X.shape) < 0.1] = np.nan
VALUES = np.nan_to_num(X[:, 0]) + 0.1 * RNG.normal(size=120)
Y = (VALUES > 0).astype(int)
PARAMS = {"objective": "binary:logistic", "max_depth": 3, "nthread": 1, "verbosity": 0}
TRAINED = xgb.train(PARAMS, xgb.DMatrix(X, Y), 5)


@pytest.fixture
def theirs(tmp_path):
    """XGBoost with the same trees."""
    TRAINED.save_model(tmp_path / "m.ubj")
    return xgboost.Booster(model_file=tmp_path / "m.ubj")


def test_matrices():
    for data in (X, sparse.csr_matrix(np.nan_to_num(X)), pd.DataFrame(X, columns=list("abcd"))):
        ours, theirs = xgb.DMatrix(data, Y), xgboost.DMatrix(data, Y)
        assert ours.num_nonmissing() == theirs.num_nonmissing()
        assert (ours.num_row(), ours.num_col()) == (theirs.num_row(), theirs.num_col())
        assert (ours.get_data() != theirs.get_data()).nnz == 0
        assert ours.feature_names == theirs.feature_names
        np.testing.assert_array_equal(ours.get_label(), theirs.get_label())
        part = ours.slice([7, 1, 5])  # in this order
        np.testing.assert_array_equal(part.get_label(), theirs.slice([7, 1, 5]).get_label())
        assert (part.get_data() != theirs.slice([7, 1, 5]).get_data()).nnz == 0
    marked = np.where(np.isnan(X), -9, X)
    assert xgb.DMatrix(marked, missing=-9).num_nonmissing() == xgboost.DMatrix(marked, missing=-9).num_nonmissing()
    with_info = xgb.DMatrix(X)
    with_info.set_info(label=Y, weight=np.arange(120), feature_names=list("abcd"))
    assert with_info.feature_names == list("abcd")
    np.testing.assert_array_equal(with_info.get_float_info("weight"), np.arange(120))
    assert xgb.DMatrix(X).get_label().size == xgboost.DMatrix(X).get_label().size == 0
    with pytest.raises(InvalidDataError, match="one name for each of the 4 columns"):
        xgb.DMatrix(X, feature_names=["a"])
    assert xgb.DMatrix(X, feature_types=["q", "c", "q", "q"]).categorical_feature == [1]
    ranked = xgb.DMatrix(X, Y, group=[50, 70], weight=[1, 3])
    np.testing.assert_array_equal(ranked.weight, np.repeat([1, 3], [50, 70]))
    np.testing.assert_array_equal(ranked.get_uint_info("group_ptr"), [0, 50, 120])


def test_files_and_batches(tmp_path):
    (tmp_path / "rows.txt").write_text("1 0:2.5 2:1\n0 1:3\n")
    read = xgb.DMatrix(f"{tmp_path / 'rows.txt'}?format=libsvm")
    assert read.num_row() == 2 and read.get_label().tolist() == [1, 0]
    xgb.DMatrix(X, Y).save_binary(tmp_path / "rows.bin")
    np.testing.assert_array_equal(xgb.DMatrix(tmp_path / "rows.bin").data, X)

    class Batches(xgb.DataIter):
        def __init__(self):
            super().__init__()
            self.at = 0

        def next(self, input_data):
            if self.at == 3:
                return False
            rows = slice(40 * self.at, 40 * self.at + 40)
            input_data(data=X[rows], label=Y[rows])
            self.at += 1
            return True

        def reset(self):
            self.at = 0

    for kind in (xgb.DMatrix, xgb.QuantileDMatrix, xgb.ExtMemQuantileDMatrix):
        assert xgb.train(PARAMS, kind(Batches()), 5).model_ == TRAINED.model_
    assert xgb.train(PARAMS, xgb.QuantileDMatrix(X, Y, max_bin=64, ref=None), 5).model_ == TRAINED.model_


def test_the_trees_are_shown_as_xgboost_shows_them(theirs):
    for stats in (False, True):
        for ours, expected in zip(TRAINED.get_dump(with_stats=stats), theirs.get_dump(with_stats=stats), strict=True):
            assert [line.split("[")[0].split("=")[0] for line in ours.splitlines()] == [
                line.split("[")[0].split("=")[0] for line in expected.splitlines()
            ]
        nested, expected = (
            [json.loads(tree) for tree in each.get_dump(with_stats=stats, dump_format="json")]
            for each in (TRAINED, theirs)
        )
        assert [tree.keys() for tree in nested] == [tree.keys() for tree in expected]
        assert [tree["split_condition"] for tree in nested] == pytest.approx(
            [tree["split_condition"] for tree in expected]
        )
    ours, expected = TRAINED.trees_to_dataframe(), theirs.trees_to_dataframe()
    expected = expected.sort_values(["Tree", "Node"]).reset_index(drop=True)
    pd.testing.assert_frame_equal(ours, expected, check_dtype=False, rtol=1e-4)
    for kind in ("weight", "cover", "total_cover"):
        assert TRAINED.get_score(importance_type=kind) == pytest.approx(
            theirs.get_score(importance_type=kind), rel=1e-4
        )
    for kind in ("gain", "total_gain"):  # XGBoost's gains are half of ours
        halves = {name: value / 2 for name, value in TRAINED.get_score(importance_type=kind).items()}
        assert halves == pytest.approx(theirs.get_score(importance_type=kind), rel=1e-4)
    assert TRAINED.get_fscore() == theirs.get_fscore()
    with pytest.raises(InvalidParameterError, match="importance_type='mine' is unknown"):
        TRAINED.get_score(importance_type="mine")


def test_slices_and_predictions(theirs):
    data = xgboost.DMatrix(X)
    assert TRAINED.num_boosted_rounds() == theirs.num_boosted_rounds() == 5
    for part in (slice(1, 3), slice(0, 4, 2)):
        assert TRAINED[part].num_boosted_rounds() == theirs[part].num_boosted_rounds()
    np.testing.assert_allclose(
        TRAINED[:2].predict(xgb.DMatrix(X)), TRAINED.predict(xgb.DMatrix(X), iteration_range=(0, 2))
    )
    assert len(list(TRAINED)) == 5
    with pytest.raises(IndexError):
        _ = TRAINED[9]
    np.testing.assert_allclose(TRAINED.inplace_predict(X), theirs.inplace_predict(X), rtol=1e-5)
    np.testing.assert_allclose(
        TRAINED.inplace_predict(X, predict_type="margin"), theirs.inplace_predict(X, predict_type="margin"), atol=1e-5
    )
    for kind in ({}, {"output_margin": True}, {"pred_contribs": True}, {"pred_leaf": True}):
        ours, expected = (
            each.predict(rows, strict_shape=True, **kind) for each, rows in ((TRAINED, X), (theirs, data))
        )
        assert ours.shape == expected.shape
        if "pred_contribs" in kind:  # XGBoost weighs nodes by hessians, pvtree and LightGBM by rows: the sums agree
            ours, expected = ours.sum(axis=-1), expected.sum(axis=-1)
        if "pred_leaf" not in kind:
            np.testing.assert_allclose(ours, expected, rtol=1e-3, atol=1e-4)


def test_files_settings_and_attributes(tmp_path):
    for name in ("m.json", "m.ubj", "m.model"):
        TRAINED.save_model(tmp_path / name)
        booster = xgb.Booster()
        booster.load_model(tmp_path / name)
        np.testing.assert_allclose(booster.predict(X), TRAINED.predict(X), rtol=1e-5)
    for form in ("ubj", "json"):
        np.testing.assert_allclose(
            xgb.Booster(model_file=TRAINED.save_raw(form)).predict(X), TRAINED.predict(X), rtol=1e-5
        )
    booster.load_config(TRAINED.save_config())
    assert booster.params == PARAMS
    booster.set_attr(best="5", other="x")
    booster.set_attr(other=None)
    assert (booster.attr("best"), booster.attr("other"), booster.attributes()) == ("5", None, {"best": "5"})
    assert pickle.loads(pickle.dumps(booster)).attr("best") == "5"
    named = xgb.XGBClassifier(n_estimators=1).fit(X, np.where(Y, "yes", "no"))
    named.save_model(tmp_path / "n.json")  # texts do not fit into XGBoost's format
    again = xgb.XGBClassifier()
    again.load_model(tmp_path / "n.json")
    assert again.predict(X).tolist() == named.predict(X).tolist()


def test_update_and_eval():
    booster, data = xgb.Booster(PARAMS), xgb.DMatrix(X, Y)
    for iteration in range(5):
        booster.update(data, iteration)
    assert booster.model_ == TRAINED.model_
    theirs = xgboost.train(PARAMS, xgboost.DMatrix(X, Y), 1)
    assert booster.eval(data, "mine").split(":")[0] == theirs.eval(xgboost.DMatrix(X, Y), "mine").split(":")[0]
    booster.set_param({"max_depth": "1"})
    booster.update(data, 5)
    assert booster.model_.trees[-1].n_leaves == 2
    assert xgb.train({"max_depth": "1"}, data, 1).model_.trees[0].n_leaves == 2


class Recording(xgb.callback.TrainingCallback):
    def __init__(self, stop_at=None):
        self.calls, self.stop_at = [], stop_at

    def before_training(self, model):
        self.calls.append("begin")
        return model

    def before_iteration(self, model, epoch, evals_log):
        self.calls.append(("before", epoch))
        return False

    def after_iteration(self, model, epoch, evals_log):
        self.calls.append((epoch, len(evals_log["valid"]["logloss"])))
        return epoch == self.stop_at

    def after_training(self, model):
        self.calls.append("end")
        return model


class Theirs(Recording, xgboost.callback.TrainingCallback):
    pass


def test_callbacks_are_called_as_xgboost_calls_them():
    ours, theirs = Recording(stop_at=2), Theirs(stop_at=2)
    made = xgb.train(PARAMS, xgb.DMatrix(X, Y), 5, evals=[(xgb.DMatrix(X, Y), "valid")], callbacks=[ours])
    xgboost.train(
        PARAMS, xgboost.DMatrix(X, Y), 5, evals=[(xgboost.DMatrix(X, Y), "valid")], callbacks=[theirs],
        verbose_eval=False,
    )  # fmt: skip
    assert ours.calls == theirs.calls
    assert made.num_boosted_rounds() == 3


def test_the_callbacks_of_xgboost(tmp_path, capsys):
    data, turned = xgb.DMatrix(X, Y), xgb.DMatrix(X, 1 - Y)
    evals = [(turned, "worse"), (data, "train")]
    stopped = xgb.train(
        PARAMS, data, 6, evals=evals, callbacks=[xgb.callback.EarlyStopping(rounds=2, data_name="worse")]
    )
    assert (stopped.best_iteration, stopped.num_boosted_rounds()) == (0, 3)
    forward = xgb.callback.EarlyStopping(rounds=2, data_name="worse", metric_name="logloss", maximize=True)
    assert xgb.train(PARAMS, data, 4, evals=evals, callbacks=[forward]).num_boosted_rounds() == 4
    rates = [0.3, 0.2, 0.1]
    listed = xgb.train(PARAMS, data, 3, callbacks=[xgb.callback.LearningRateScheduler(rates)])
    called = xgb.train(PARAMS, data, 3, callbacks=[xgb.callback.LearningRateScheduler(lambda i: rates[i])])
    assert listed.model_ == called.model_ != xgb.train(PARAMS, data, 3).model_
    # A rate counts from the next iteration on: the first one has that of the parameters, the last rate has no effect.
    reset = [pvtree.reset_parameter(learning_rate=[PARAMS.get("eta", 0.3), 0.3, 0.2])]
    assert listed.model_ == xgb.train(PARAMS, data, 3, callbacks=reset).model_
    theirs = xgboost.train({**PARAMS, "eta": 0.0}, xgboost.DMatrix(X, Y), 2,
                           callbacks=[xgboost.callback.LearningRateScheduler([0.5, 0.5])])  # fmt: skip
    ours = xgb.train({**PARAMS, "eta": 0.0}, data, 2, callbacks=[xgb.callback.LearningRateScheduler([0.5, 0.5])])
    for each, rows in ((theirs, xgboost.DMatrix(X)), (ours, data)):
        assert np.ptp(each[:1].predict(rows)) == 0 < np.ptp(each.predict(rows))
    checkpoint = xgb.callback.TrainingCheckPoint(tmp_path, name="part", interval=2)
    xgb.train(PARAMS, data, 5, callbacks=[checkpoint])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["part_2.ubj", "part_4.ubj"]
    half = xgboost.Booster(model_file=tmp_path / "part_2.ubj")
    np.testing.assert_allclose(half.predict(xgboost.DMatrix(X)), TRAINED[:3].predict(X), rtol=1e-4)
    lines = []
    monitor = xgb.callback.EvaluationMonitor(period=2, logger=lines.append)
    xgb.train(PARAMS, data, 3, evals=[(data, "rows")], callbacks=[monitor])
    assert [line.split("\t")[0] for line in lines] == ["[0]", "[2]"] and "rows-logloss:" in lines[0]


def test_cross_validation():
    ours = xgb.cv(PARAMS, xgb.DMatrix(X, Y), 4, nfold=3, metrics=["auc", "logloss"], seed=1)
    theirs = xgboost.cv(PARAMS, xgboost.DMatrix(X, Y), 4, nfold=3, metrics=["auc", "logloss"], seed=1)
    assert sorted(ours.columns) == sorted(theirs.columns)
    assert len(ours) == len(theirs) == 4
    assert abs(ours["test-auc-mean"].iloc[-1] - theirs["test-auc-mean"].iloc[-1]) < 0.1
    regression = xgb.cv({"max_depth": 2}, xgb.DMatrix(X, VALUES), 30, early_stopping_rounds=2, as_pandas=False)
    assert set(regression) == {f"{part}-rmse-{what}" for part in ("train", "test") for what in ("mean", "std")}
    assert len(regression["test-rmse-mean"]) < 30


def test_estimators():
    fitted = xgb.XGBModel(objective="binary:logistic", n_estimators=3).fit(X, Y)
    theirs = xgboost.XGBModel(objective="binary:logistic", n_estimators=3).fit(X, Y)
    assert fitted.predict(X).shape == theirs.predict(X).shape
    assert all(issubclass(each, xgb.XGBModel) for each in (xgb.XGBRegressor, xgb.XGBRFClassifier, xgb.XGBRanker))
    assert xgb.XGBRegressor(max_depth=4).get_xgb_params()["max_depth"] == 4
    assert "n_estimators" not in xgb.XGBRegressor().get_xgb_params()
    classes = xgb.XGBClassifier(n_estimators=2).fit(X, Y)
    np.testing.assert_allclose(classes.intercept_, [Y.mean()], rtol=1e-6)
    with pytest.warns(UserWarning, match="tree_method='exact' is taken as 'hist'"):
        exact = xgb.XGBClassifier(n_estimators=2, tree_method="exact").fit(X, Y)
    assert exact.model_ == classes.model_
    assert exact.get_params()["tree_method"] == "exact"
    with pytest.warns(UserWarning, match="taken as 'hist'"):
        xgb.train({**PARAMS, "tree_method": "approx"}, xgb.DMatrix(X, Y), 1)
    ranked = pd.DataFrame(X, columns=list("abcd")).assign(qid=np.repeat([1, 2, 3], 40))
    ranker = xgb.XGBRanker(n_estimators=3).fit(ranked, Y)
    same = xgboost.XGBRanker(n_estimators=3).fit(ranked, Y)
    assert abs(ranker.score(ranked, Y) - same.score(ranked, Y)) < 0.1
    recorded = Recording()
    xgb.XGBClassifier(n_estimators=2, eval_metric="logloss").fit(
        X, Y, eval_set=[(X, Y)], eval_names=["valid"], callbacks=[recorded]
    )
    assert ("before", 1) in recorded.calls


def test_plots():
    ax = xgb.plot_importance(TRAINED)
    assert len(ax.patches) == len(TRAINED.get_score())
    assert "digraph" in str(xgb.to_graphviz(TRAINED, num_trees=1))
