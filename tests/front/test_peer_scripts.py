"""Further example scripts of both libraries, written anew from their documentation: only the imports differ.

Each runs twice, with the library and with pvtree, and its metric on held-out rows must be about the same.
"""

import pickle

import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from sklearn.metrics import ndcg_score, roc_auc_score

import pvtree
import pvtree.as_xgboost

RNG = np.random.default_rng(11)
X = RNG.normal(size=(600, 5))
MARGIN = X[:, 0] + 0.5 * X[:, 1] * X[:, 2] + 0.3 * RNG.normal(size=600)
Y = (MARGIN > 0).astype(int)
COUNTS = np.digitize(MARGIN, [-0.5, 0.5])
FIT, TEST = slice(0, 450), slice(450, 600)
BINARY = {"objective": "binary", "num_leaves": 8, "learning_rate": 0.2, "verbose": -1, "num_threads": 1}
LOGISTIC = {"objective": "binary:logistic", "max_depth": 3, "eta": 0.3, "nthread": 1, "verbosity": 0}


def auc(predicted):
    return roc_auc_score(Y[TEST], predicted)


def lgb_continuation(lgb, folder):
    """advanced_example: save, load, continue, decay the learning rate, change bagging."""
    train = lgb.Dataset(X[FIT], Y[FIT], feature_name=[f"f{i}" for i in range(5)], free_raw_data=False)
    valid = lgb.Dataset(X[TEST], Y[TEST], reference=train, free_raw_data=False)
    booster = lgb.train(BINARY, train, num_boost_round=5, valid_sets=valid)
    booster.save_model(folder / "model.txt")
    booster = lgb.train(BINARY, train, num_boost_round=5, init_model=str(folder / "model.txt"), valid_sets=valid)
    booster = lgb.train(
        BINARY, train, num_boost_round=5, init_model=booster, valid_sets=valid,
        callbacks=[lgb.reset_parameter(learning_rate=lambda i: 0.2 * 0.99**i)],
    )  # fmt: skip
    assert booster.current_iteration() == 15
    return auc(booster.predict(X[TEST]))


def loglikelihood(preds, train_data):
    labels = train_data.get_label()
    preds = 1.0 / (1.0 + np.exp(-preds))
    return preds - labels, preds * (1.0 - preds)


def binary_error(preds, train_data):
    return "error", float(np.mean(train_data.get_label() != (preds > 0))), False


def lgb_custom_objective(lgb, folder):
    """advanced_example: a loss and a metric of one's own."""
    train = lgb.Dataset(X[FIT], Y[FIT])
    valid = lgb.Dataset(X[TEST], Y[TEST], reference=train)
    results = {}
    booster = lgb.train(
        {**BINARY, "objective": loglikelihood, "metric": "None"}, train, 15, valid_sets=[valid], feval=binary_error,
        callbacks=[lgb.record_evaluation(results)],
    )  # fmt: skip
    assert len(results["valid_0"]["error"]) == 15
    return auc(booster.predict(X[TEST]))


def lgb_update(lgb, folder):
    """Boosting by hand."""
    booster = lgb.Booster(BINARY, lgb.Dataset(X[FIT], Y[FIT]))
    booster.add_valid(lgb.Dataset(X[TEST], Y[TEST], reference=booster.train_set), "test")
    for _ in range(8):
        booster.update()
    booster.rollback_one_iter()
    assert booster.current_iteration() == 7
    assert booster.eval_valid()[0][:2] == ("test", "binary_logloss")
    return auc(booster.predict(X[TEST]))


def lgb_cross_validation(lgb, folder):
    found = lgb.cv(
        {**BINARY, "metric": "auc"}, lgb.Dataset(X, Y), 10, nfold=3, callbacks=[lgb.early_stopping(5, verbose=False)],
        return_cvbooster=True,
    )  # fmt: skip
    assert len(found["cvbooster"].boosters) == 3
    return max(found["valid auc-mean"])


def lgb_callbacks(lgb, folder):
    """A callback of one's own, before and after iterations."""
    seen = []

    def note(env):
        seen.append((env.iteration, env.evaluation_result_list[0][1]))

    note.order = 5
    train = lgb.Dataset(X[FIT], Y[FIT])
    booster = lgb.train(
        BINARY, train, 10, valid_sets=[lgb.Dataset(X[TEST], Y[TEST], reference=train)],
        callbacks=[note, lgb.log_evaluation(0), lgb.early_stopping(0, verbose=False)],
    )  # fmt: skip
    assert seen[0] == (0, "binary_logloss") and len(seen) == 10
    return auc(booster.predict(X[TEST]))


def lgb_ranking(lgb, folder):
    train = lgb.Dataset(X[FIT], COUNTS[FIT], group=[30] * 15)
    booster = lgb.train({**BINARY, "objective": "lambdarank", "metric": "ndcg", "eval_at": [5]}, train, 15)
    return ndcg_score(COUNTS[TEST].reshape(5, 30), booster.predict(X[TEST]).reshape(5, 30))


def lgb_binary_dataset(lgb, folder):
    """save_binary and a Dataset from its file, with weights."""
    weights = np.where(Y[FIT] == 1, 2.0, 1.0)
    lgb.Dataset(X[FIT], Y[FIT], weight=weights).save_binary(folder / "train.bin")
    booster = lgb.train(BINARY, lgb.Dataset(folder / "train.bin"), 15)
    return auc(booster.predict(X[TEST]))


def lgb_tables_and_plots(lgb, folder):
    """plot_example: the trees as a table, importance and thresholds as plots."""
    booster = lgb.train(BINARY, lgb.Dataset(X[FIT], Y[FIT]), 10)
    assert {"split_feature", "threshold", "value"} <= set(booster.trees_to_dataframe().columns)
    assert len(booster.dump_model()["tree_info"]) == 10
    assert lgb.plot_importance(booster, max_num_features=3).get_title() == "Feature importance"
    lgb.plot_split_value_histogram(booster, feature=0, bins="auto")
    return auc(booster.predict(X[TEST]))


def lgb_sequences(lgb, folder):
    """dataset_from_multi_hdf5: rows from several sources, batch by batch."""

    class Part(lgb.Sequence):
        def __init__(self, rows, batch_size):
            self.rows, self.batch_size = rows, batch_size

        def __getitem__(self, idx):
            return self.rows[idx]

        def __len__(self):
            return len(self.rows)

    data = lgb.Dataset([Part(X[:200], 64), Part(X[200:450], 64)], label=Y[FIT])
    return auc(lgb.train(BINARY, data, 15).predict(X[TEST]))


def lgb_pickled_multiclass(lgb, folder):
    booster = lgb.train({**BINARY, "objective": "multiclass", "num_class": 3}, lgb.Dataset(X[FIT], COUNTS[FIT]), 10)
    again = pickle.loads(pickle.dumps(booster))
    leaves, shap = again.predict(X[TEST], pred_leaf=True), again.predict(X[TEST], pred_contrib=True)
    assert (leaves.shape, shap.shape) == ((150, 30), (150, 18))
    return float((again.predict(X[TEST]).argmax(axis=1) == COUNTS[TEST]).mean())


def xgb_walkthrough(xgb, folder):
    """basic_walkthrough: train, save the model and the rows, load both."""
    train, test = xgb.DMatrix(X[FIT], Y[FIT]), xgb.DMatrix(X[TEST], Y[TEST])
    booster = xgb.train(LOGISTIC, train, 10, evals=[(test, "eval"), (train, "train")], verbose_eval=False)
    booster.save_model(folder / "model.json")
    booster.dump_model(folder / "dump.txt")
    assert (folder / "dump.txt").read_text().startswith("booster[0]:")
    again = xgb.Booster(model_file=folder / "model.json")
    np.testing.assert_allclose(again.predict(test), booster.predict(test), rtol=1e-5)
    return auc(again.predict(test))


def logregobj(preds, dtrain):
    preds = 1.0 / (1.0 + np.exp(-preds))
    return preds - dtrain.get_label(), preds * (1.0 - preds)


def xgb_custom_objective(xgb, folder):
    train, test = xgb.DMatrix(X[FIT], Y[FIT]), xgb.DMatrix(X[TEST], Y[TEST])

    def evalerror(preds, dtrain):
        return "my-error", float(np.mean((preds > 0) != dtrain.get_label()))

    params = {key: value for key, value in LOGISTIC.items() if key != "objective"}
    results = {}
    booster = xgb.train(
        {**params, "base_score": None, "disable_default_eval_metric": True}, train, 10, evals=[(test, "eval")],
        obj=logregobj, custom_metric=evalerror, evals_result=results, verbose_eval=False,
    )  # fmt: skip
    assert len(results["eval"]["my-error"]) == 10
    return auc(booster.predict(test))


def xgb_cross_validation(xgb, folder):
    found = xgb.cv(
        LOGISTIC, xgb.DMatrix(X, Y), num_boost_round=15, nfold=4, metrics={"auc"}, seed=0,
        callbacks=[xgb.callback.EvaluationMonitor(show_stdv=True, logger=lambda line: None)],
    )  # fmt: skip
    return found["test-auc-mean"].max()


def xgb_callbacks(xgb, folder):
    """callbacks.py: a callback of one's own and check points."""

    class Note(xgb.callback.TrainingCallback):
        def __init__(self):
            self.seen = []

        def after_iteration(self, model, epoch, evals_log):
            self.seen.append(evals_log["valid"]["logloss"][-1])
            return False

    note, train, test = Note(), xgb.DMatrix(X[FIT], Y[FIT]), xgb.DMatrix(X[TEST], Y[TEST])
    booster = xgb.train(
        LOGISTIC, train, 10, evals=[(test, "valid")], verbose_eval=False,
        callbacks=[
            note,
            xgb.callback.TrainingCheckPoint(directory=folder, interval=5, name="model"),
            xgb.callback.LearningRateScheduler(lambda epoch: 0.3 * 0.95**epoch),
        ],
    )  # fmt: skip
    assert len(note.seen) == 10
    assert (folder / "model_5.ubj").exists()
    return auc(booster.predict(test))


def xgb_continuation(xgb, folder):
    train, test = xgb.DMatrix(X[FIT], Y[FIT]), xgb.DMatrix(X[TEST])
    first = xgb.train(LOGISTIC, train, 5)
    first.save_model(folder / "first.ubj")
    booster = xgb.train(LOGISTIC, train, 5, xgb_model=folder / "first.ubj")
    assert booster.num_boosted_rounds() == 10
    return auc(booster.predict(test))


def xgb_first_trees_and_leaves(xgb, folder):
    """predict_first_ntree and predict_leaf_indices."""
    booster = xgb.train(LOGISTIC, xgb.DMatrix(X[FIT], Y[FIT]), 10)
    test = xgb.DMatrix(X[TEST])
    assert booster.predict(test, pred_leaf=True).shape == (150, 10)
    np.testing.assert_allclose(booster[:4].predict(test), booster.predict(test, iteration_range=(0, 4)), rtol=1e-5)
    return auc(booster.predict(test, iteration_range=(0, 4)))


def xgb_quantile_iterator(xgb, folder):
    """quantile_data_iterator: batches of rows."""

    class Batches(xgb.DataIter):
        def __init__(self):
            self.at = 0
            super().__init__()

        def next(self, input_data):
            if self.at == 3:
                return False
            part = slice(150 * self.at, 150 * self.at + 150)
            input_data(data=X[part], label=Y[part])
            self.at += 1
            return True

        def reset(self):
            self.at = 0

    booster = xgb.train({**LOGISTIC, "tree_method": "hist"}, xgb.QuantileDMatrix(Batches()), 10)
    return auc(booster.predict(xgb.DMatrix(X[TEST])))


def xgb_sklearn_early_stopping(xgb, folder):
    """sklearn_evals_result: early stopping, results and importance."""
    model = xgb.XGBClassifier(n_estimators=40, max_depth=3, early_stopping_rounds=3, eval_metric="logloss", n_jobs=1)
    model.fit(X[FIT], Y[FIT], eval_set=[(X[TEST], Y[TEST])], verbose=False)
    assert len(model.evals_result()["validation_0"]["logloss"]) > model.best_iteration
    assert model.get_booster().get_score(importance_type="cover")
    return auc(model.predict_proba(X[TEST])[:, 1])


def xgb_ranking(xgb, folder):
    """learning_to_rank: a column of query ids and a score."""
    frame = pd.DataFrame(X, columns=list("abcde")).assign(qid=np.repeat(np.arange(20), 30))
    model = xgb.XGBRanker(n_estimators=15, max_depth=3, objective="rank:ndcg", n_jobs=1)
    model.fit(frame[FIT], COUNTS[FIT])
    assert model.score(frame[FIT], COUNTS[FIT]) > 0.5
    return ndcg_score(COUNTS[TEST].reshape(5, 30), model.predict(frame[TEST]).reshape(5, 30))


def xgb_boosting_by_hand(xgb, folder):
    booster, train = xgb.Booster(LOGISTIC), xgb.DMatrix(X[FIT], Y[FIT])
    if xgb is xgboost:
        booster = xgb.Booster(LOGISTIC, [train])
    for iteration in range(8):
        booster.update(train, iteration)
    assert booster.eval(train, "train", 7).startswith("[7]\ttrain-logloss:")
    booster.set_attr(note="by hand")
    return auc(booster.inplace_predict(X[TEST]))


SCRIPTS = {name: found for name, found in dict(globals()).items() if name.startswith(("lgb_", "xgb_"))}


@pytest.mark.parametrize("name", SCRIPTS)
@pytest.mark.filterwarnings("ignore")
def test_a_script_runs_with_other_imports(name, tmp_path):
    libraries = (lightgbm, pvtree) if name.startswith("lgb") else (xgboost, pvtree.as_xgboost)
    found = []
    for number, library in enumerate(libraries):
        folder = tmp_path / str(number)
        folder.mkdir()
        found.append(SCRIPTS[name](library, folder))
    assert found[1] == pytest.approx(found[0], abs=0.04), name
