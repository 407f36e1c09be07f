"""Rows of a Dataset, whatever holds them, and XGBoost's column of query ids."""

import lightgbm
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import xgboost
from scipy import sparse

import pvtree
from pvtree import as_xgboost
from pvtree.errors import InvalidDataError, InvalidTypeError

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 3)).round(2)
X[::7, 1] = 0
y = np.digitize(X[:, 0] + X[:, 1], [-0.5, 0.5])
QID = np.repeat(np.arange(6), 10)
PARAMS = {"num_leaves": 5, "min_data_in_leaf": 3, "num_threads": 1}
CHOSEN = [5, 1, 30, 2, *range(40, 60)]
FRAME = pd.DataFrame(X, columns=list("abc"))
KINDS = {
    "list": X.tolist(),
    "frame": FRAME,
    "arrow": pa.table(FRAME),
    "batch": pa.RecordBatch.from_pandas(FRAME),
    "polars": pl.from_pandas(FRAME),
    **{kind: sparse.coo_array(X).asformat(kind) for kind in ("csr", "csc", "coo", "bsr", "dia", "lil")},
    "matrix": sparse.coo_matrix(X),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_subset_is_a_dataset_of_these_rows(kind):
    subset = pvtree.Dataset(KINDS[kind], y).subset(CHOSEN)
    rows = np.sort(CHOSEN)
    twin = pvtree.train(PARAMS, pvtree.Dataset(X[rows], y[rows]), 3)
    trained = pvtree.train(PARAMS, subset, 3)
    assert (subset.num_data(), subset.num_feature()) == (24, 3)
    np.testing.assert_array_equal(trained.predict(X), twin.predict(X))


@pytest.mark.parametrize("label", [pa.array(y), pa.chunked_array([y]), pl.Series(y), pd.Series(y), y.tolist()])
def test_labels_and_weights_may_be_columns_of_any_library(label):
    subset = pvtree.Dataset(X, label, weight=label).subset(CHOSEN)
    np.testing.assert_array_equal(np.asarray(subset.get_label()), y[np.sort(CHOSEN)])
    np.testing.assert_array_equal(np.asarray(subset.get_weight()), y[np.sort(CHOSEN)])


def test_rows_of_a_file_have_subsets(tmp_path):
    FRAME.to_csv(tmp_path / "rows.csv", index=False)
    table = pvtree.read_file(tmp_path / "rows.csv").X
    subset = pvtree.Dataset(table, y).subset(CHOSEN)
    trained = pvtree.train(PARAMS, subset, 3)
    twin = pvtree.train(PARAMS, pvtree.Dataset(FRAME, y).subset(CHOSEN), 3)
    assert trained.model_ == twin.model_


def test_a_mask_is_a_mask():
    mask = np.isin(np.arange(60), CHOSEN)
    np.testing.assert_array_equal(pvtree.Dataset(X, y).subset(mask).get_data(), X[mask])


@pytest.mark.parametrize("sizes", [np.array([10.0] * 6), [10] * 6, pd.Series([10.0] * 6)])
def test_queries_stay_with_their_rows(sizes):
    subset = pvtree.Dataset(X, y, group=sizes).subset(range(10, 30))
    assert np.unique(subset.query_ids(), return_counts=True)[1].tolist() == [10, 10]
    theirs = lightgbm.Dataset(X, y, group=[10] * 6, free_raw_data=False).construct().subset(range(10, 30)).construct()
    assert theirs.get_group().tolist() == [10, 10]


@pytest.mark.parametrize("rows", [[0, 60], [-1, 2], [0.5], [[1, 2]], np.ones(59, bool), ["a"]])
def test_wrong_row_numbers_are_refused(rows):
    with pytest.raises(InvalidDataError, match="used_indices must be row numbers from 0 to 59"):
        pvtree.Dataset(X, y).subset(rows)


def test_wrong_sizes_of_queries_are_refused():
    for sizes in ([30, 20], [29.5, 30.5], [60, 0]):
        with pytest.raises(InvalidDataError, match="group"):
            pvtree.Dataset(X, y, group=sizes).subset([0])


@pytest.mark.dask
def test_rows_on_a_dask_cluster_have_no_subset():
    dask_array = pytest.importorskip("dask.array")
    with pytest.raises(InvalidTypeError, match=r"call its compute\(\)"):
        pvtree.Dataset(dask_array.from_array(X), y).subset([0])


# -- XGBoost's column of query ids ----------------------------------------------------------------------------

WITH_QID = FRAME.assign(qid=QID)[["a", "qid", "b", "c"]]


def ranker():
    return as_xgboost.XGBRanker(n_estimators=4, max_depth=3, n_jobs=1)


@pytest.mark.parametrize("of", [lambda f: f, pl.from_pandas, pa.table], ids=["pandas", "polars", "arrow"])
def test_the_column_qid_tells_the_queries(of):
    given, without = of(WITH_QID), of(FRAME)
    fitted = ranker().fit(given, y, eval_set=[(given, y)])
    twin = ranker().fit(without, y, qid=QID, eval_set=[(without, y)], eval_qid=[QID])
    assert fitted.model_ == twin.model_
    assert fitted.evals_result() == twin.evals_result()
    assert fitted.n_features_in_ == 3
    assert fitted.feature_names_in_.tolist() == list("abc")
    for X_later in (given, without):
        np.testing.assert_array_equal(fitted.predict(X_later), twin.predict(without))
        np.testing.assert_array_equal(fitted.apply(X_later), twin.apply(without))


def test_so_it_does_in_xgboost():
    fitted, theirs = (
        make(n_estimators=2, max_depth=2).fit(WITH_QID, y, eval_set=[(WITH_QID, y)], verbose=False)
        for make in (as_xgboost.XGBRanker, xgboost.XGBRanker)
    )
    assert fitted.feature_names_in_.tolist() == theirs.feature_names_in_.tolist()
    assert list(fitted.evals_result()["validation_0"]) == list(theirs.evals_result()["validation_0"])
    assert fitted.predict(WITH_QID).shape == theirs.predict(WITH_QID).shape
    ours, peers = (each.evals_result()["validation_0"]["ndcg@32"] for each in (fitted, theirs))
    np.testing.assert_allclose(ours, peers, atol=0.05)


def test_one_evaluation_set_may_have_the_column_and_another_none():
    fitted = ranker().fit(FRAME, y, qid=QID, eval_set=[(WITH_QID, y), (FRAME, y)], eval_qid=[None, QID])
    first, second = fitted.evals_result().values()
    assert first == second


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ({"qid": QID}, "of X already holds"),
        ({"group": [10] * 6}, "of X already holds"),
        ({"eval_set": [(WITH_QID, y)], "eval_qid": [QID]}, "of X of eval_set 0 already holds"),
        ({"eval_set": [(WITH_QID, y)], "eval_group": [[10] * 6]}, "of X of eval_set 0 already holds"),
    ],
)
def test_queries_are_told_once(arguments, what):
    X_train = FRAME if "eval_set" in arguments else WITH_QID
    arguments = arguments | ({"qid": QID} if "eval_set" in arguments else {})
    with pytest.raises(InvalidDataError, match=f"The column 'qid' {what}"):
        ranker().fit(X_train, y, **arguments)


def test_a_feature_of_that_name_stays_a_feature_elsewhere(tmp_path):
    regressor = as_xgboost.XGBRegressor(n_estimators=1).fit(WITH_QID, y)
    assert regressor.n_features_in_ == 4
    pvtree.GBDTRanker(n_estimators=1).fit(WITH_QID, y, qid=QID).model_.save(tmp_path / "model.json")
    loaded = ranker()
    loaded.load_model(tmp_path / "model.json")
    assert loaded.predict(WITH_QID).shape == (60,)
