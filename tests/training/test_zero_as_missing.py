"""zero_as_missing: the model is that of rows with NaN in place of 0, however the rows are given and spread."""

import numpy as np
import pytest
from scipy.sparse import csr_array

import pvtree
from pvtree import Dataset, GBDTRegressor
from pvtree.binning import bundling
from pvtree.errors import InvalidParameterError
from pvtree.model.model import Model

SMALL = {"n_estimators": 4, "num_leaves": 7, "min_child_samples": 5, "max_bin": 15, "n_jobs": 1}
ZEROS = SMALL | {"zero_as_missing": True}


def make_rows(n=300, seed=3):
    """Zeros in the middle of the numbers that differ in their target, some NaN, and a column of codes with 0."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5)).round(1)
    X[rng.random(X.shape) < 0.4] = 0.0
    X[rng.random(X.shape) < 0.05] = np.nan
    X[:, 4] = rng.integers(0, 4, n)
    y = np.where(np.nan_to_num(X[:, 0]) == 0.0, 3.0, X[:, 0]) + (X[:, 4] == 0) + 0.3 * rng.normal(size=n)
    return X, y


def with_nan(X):
    filled = X.copy()
    filled[:, :4][X[:, :4] == 0.0] = np.nan
    return filled


def trees(model):
    return model.model_.trees


def test_the_model_is_that_of_nan():
    X, y = make_rows()
    X[:30, 0] = 1e-36  # LightGBM takes such numbers for 0
    other = make_rows(seed=4)[0]
    fit = {"categorical_feature": [4], "eval_set": [(other, y)]}
    model = GBDTRegressor(**ZEROS).fit(X, y, **fit)
    filled = with_nan(X)
    filled[:30, 0] = np.nan
    asked = fit | {"eval_set": [(with_nan(other), y)]}
    theirs = GBDTRegressor(**SMALL).fit(filled, y, **asked)
    assert trees(model) == trees(theirs)
    assert trees(model) != trees(GBDTRegressor(**SMALL).fit(X, y, **fit))
    assert model.evals_result_ == theirs.evals_result_
    np.testing.assert_array_equal(model.predict(X), theirs.predict(filled))
    np.testing.assert_array_equal(model.predict(csr_array(X)), theirs.predict(filled))
    np.testing.assert_array_equal(model.predict(X, pred_contrib=True), theirs.predict(filled, pred_contrib=True))
    shap = model.predict(csr_array(X).tocsc(), pred_contrib=True)
    assert shap.format == "csc"
    np.testing.assert_array_equal(shap.toarray(), theirs.predict(filled, pred_contrib=True))


@pytest.mark.parametrize("learner", ["data", "attribute", "exact_voting", "voting"])
def test_rows_in_any_form_on_any_worker(learner):
    X, y = make_rows()
    model = GBDTRegressor(**ZEROS).fit(X, y, categorical_feature=[4])
    for n_workers in (2, 5):
        more = ZEROS | {"tree_learner": learner, "n_workers": n_workers, "top_k": 5}
        assert trees(GBDTRegressor(**more).fit(X, y, categorical_feature=[4])) == trees(model)
    stored = csr_array(X)
    stored.data[:3] = 0.0  # zeros may be stored
    assert trees(GBDTRegressor(**ZEROS).fit(stored, y, categorical_feature=[4])) == trees(
        GBDTRegressor(**ZEROS).fit(stored.toarray(), y, categorical_feature=[4])
    )
    spread = GBDTRegressor(**ZEROS, tree_learner=learner, n_workers=2, top_k=5).fit(csr_array(X), y)
    assert trees(spread) == trees(GBDTRegressor(**SMALL).fit(np.where(X == 0.0, np.nan, X), y))


def test_columns_that_share_bytes(monkeypatch):
    rng = np.random.default_rng(0)
    X = np.eye(24)[rng.integers(0, 24, 200)] * rng.integers(1, 4, (200, 1))
    y = X @ rng.normal(size=24)
    plain = GBDTRegressor(**SMALL).fit(np.where(X == 0.0, np.nan, X), y)
    monkeypatch.setattr(bundling, "_LEAST_CELLS", 1)
    for rows in (X, csr_array(X)):
        assert trees(GBDTRegressor(**ZEROS).fit(rows, y)) == trees(plain)


def test_files_keep_it(tmp_path):
    lightgbm = pytest.importorskip("lightgbm")
    X, y = make_rows()
    model = GBDTRegressor(**ZEROS).fit(X[:, :4], y)
    expected = model.predict(X[:, :4])
    for name in ("model.json", "model.pvtree"):
        model.save(tmp_path / name)
        np.testing.assert_array_equal(pvtree.load(tmp_path / name).predict(X[:, :4]), expected)
    path = tmp_path / "model.txt"
    model.model_.export_lightgbm(path)
    np.testing.assert_array_equal(lightgbm.Booster(model_file=path).predict(X[:, :4]), expected)
    again = Model.from_lightgbm(path)
    assert again.zero_as_missing
    np.testing.assert_array_equal(again.predict_raw(X[:, :4])[:, 0], expected)
    with pytest.raises(InvalidParameterError, match="does not support zero_as_missing; export to LightGBM's"):
        model.model_.export_xgboost(tmp_path / "model.ubj")
    theirs = lightgbm.train({**ZEROS, "objective": "regression", "verbose": -1}, lightgbm.Dataset(X[:, :4], y), 3)
    theirs.save_model(path)
    np.testing.assert_array_equal(Model.from_lightgbm(path).predict_raw(X[:, :4])[:, 0], theirs.predict(X[:, :4]))


def test_a_training_goes_on_with_the_same_meaning(tmp_path):
    X, y = make_rows()
    whole = GBDTRegressor(**ZEROS).fit(X, y)
    half = GBDTRegressor(**ZEROS | {"n_estimators": 2}).fit(X, y, checkpoint=tmp_path, checkpoint_freq=1)
    assert trees(GBDTRegressor(**ZEROS).fit(X, y, checkpoint=tmp_path, checkpoint_freq=1)) == trees(whole)
    more = GBDTRegressor(**ZEROS | {"n_estimators": 2}).fit(X, y, init_model=half)
    np.testing.assert_allclose(more.predict(X), whole.predict(X))
    with pytest.raises(InvalidParameterError, match="zero_as_missing=True, this training has zero_as_missing=False"):
        GBDTRegressor(**SMALL).fit(X, y, init_model=half)
    # Where nothing counts as missing, zeros do not either.
    none = SMALL | {"use_missing": False}
    assert GBDTRegressor(**none, zero_as_missing=True).fit(X, y).model_ == GBDTRegressor(**none).fit(X, y).model_
    counts = [Dataset(X, params={"zero_as_missing": zero}).feature_num_bin(0) for zero in (True, False)]
    assert counts[0] == counts[1] - 1  # 0 and NaN share a bin


def test_sparse_rows_have_the_bins_of_dense_ones():
    X = np.random.default_rng(1).normal([0.0, 0.2, -0.3], size=(300, 3))
    X[np.abs(X) < 0.4] = 0.0
    filled = np.where(X == 0.0, np.nan, X)
    y = np.sign(X[:, 0]) + np.sign(X[:, 1]) + X[:, 2]
    model = GBDTRegressor(**ZEROS).fit(X, y)
    ends = np.concatenate([tree.threshold[tree.feature >= 0] for tree in model.model_.trees])
    assert (np.abs(ends) < 0.4).any()  # no bin holds numbers on both sides of the gap
    for rows, params in ((csr_array(X), ZEROS), (csr_array(filled), SMALL), (filled, SMALL)):
        assert trees(GBDTRegressor(**params).fit(rows, y)) == trees(model)
