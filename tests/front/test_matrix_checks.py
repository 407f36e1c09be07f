"""What a DMatrix refuses and keeps, with XGBoost's beside it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import xgboost
from scipy.sparse import csr_array, lil_array

import pvtree.as_xgboost as xgb
from pvtree.errors import InvalidDataError, InvalidParameterError

KINDS = (xgb, xgboost)
X = np.random.default_rng(0).normal(size=(40, 3))
Y = X[:, 0] + X[:, 1]
WITH_INF = np.where(np.arange(120).reshape(40, 3) == 7, -np.inf, X)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("data", "error", "text"),
    [
        (np.array(1), ValueError, ""),
        (np.ones(3), ValueError, ""),
        (np.ones((2, 2, 2)), ValueError, ""),
        (np.array([["a", "b"]]), ValueError, ""),
        (object(), TypeError, ""),
        (WITH_INF, ValueError, "contains `inf` or a value too large"),
        (WITH_INF.astype(np.float32), ValueError, "contains `inf` or a value too large"),
        (csr_array(WITH_INF), ValueError, "contains `inf` or a value too large"),
        (pd.DataFrame(WITH_INF), ValueError, "contains `inf` or a value too large"),
    ],
)
def test_rows_that_are_refused(kind, data, error, text):
    with pytest.raises(error, match=text):
        kind.DMatrix(data)


@pytest.mark.parametrize("kind", KINDS)
def test_labels_weights_and_margins_that_are_refused(kind):
    for bad in (np.nan, np.inf):
        with pytest.raises(ValueError, match="Label contains NaN, infinity or a value too large"):
            kind.DMatrix(X, np.where(np.arange(40) == 3, bad, Y))
    with pytest.raises(ValueError, match="Weights must be positive values"):
        kind.DMatrix(X, Y, weight=-np.ones(40))
    rows = kind.DMatrix(X, Y)
    with pytest.raises(ValueError, match="base_margin"):
        rows.set_base_margin(np.ones((2, 2, 10, 1)))
    rows.set_base_margin(Y.reshape(1, 40))
    np.testing.assert_array_equal(rows.get_base_margin().ravel(), Y.astype(np.float32))
    two = kind.DMatrix(X, Y, base_margin=X[:, :2])
    with pytest.raises(ValueError, match="base_margin"):
        kind.train({"nthread": 1}, two, 1)
    with pytest.raises(ValueError, match="min_delta"):
        kind.callback.EarlyStopping(rounds=2, min_delta=-1.0)


def test_what_may_be_infinite_or_of_any_form():
    assert xgb.DMatrix(WITH_INF, missing=-np.inf).num_nonmissing() == 119
    assert xgb.DMatrix(X.tolist(), Y.tolist()).num_row() == 40
    assert xgb.DMatrix(lil_array(X)).num_col() == 3
    assert xgb.DMatrix(X, label_lower_bound=np.ones(40), label_upper_bound=np.full(40, np.inf)).num_row() == 40


@pytest.mark.parametrize("kind", KINDS)
def test_weights_of_features_are_kept(kind):
    rows = kind.DMatrix(X, Y)
    assert len(rows.get_float_info("feature_weights")) == 0
    rows.set_info(feature_weights=[0.5, 1.0, 0.0])
    np.testing.assert_array_equal(rows.get_float_info("feature_weights"), np.float32([0.5, 1.0, 0.0]))
    np.testing.assert_array_equal(rows.slice([1, 2]).get_float_info("feature_weights"), np.float32([0.5, 1.0, 0.0]))
    with pytest.raises(ValueError):
        rows.set_info(feature_weights=[-1.0, 1.0, 1.0])
    rows.set_uint_info("group", np.array([10, 30], np.uint32))
    np.testing.assert_array_equal(rows.get_uint_info("group_ptr"), [0, 10, 40])


def test_weights_of_features_matter_only_where_columns_are_drawn():
    plain, weighted = xgb.DMatrix(X, Y), xgb.DMatrix(X, Y, feature_weights=[1.0, 0.0, 0.0])
    assert xgb.train({"nthread": 1}, weighted, 2).model_ == xgb.train({"nthread": 1}, plain, 2).model_
    with pytest.raises(InvalidDataError, match="for each of 3 columns"):
        plain.set_info(feature_weights=[1.0, 1.0])
    with pytest.raises(InvalidParameterError, match="feature_weights are not supported with colsample_bynode"):
        xgb.train({"nthread": 1, "colsample_bynode": 0.5}, weighted, 2)


def test_training_goes_on_from_bytes_and_without_constraints():
    rows, params = xgb.DMatrix(X, Y), {"nthread": 1, "max_depth": 2}
    first = xgb.train(params, rows, 2)
    assert xgb.train(params, rows, 2, xgb_model=first.save_raw()).num_boosted_rounds() == 4
    free = xgb.train(params | {"interaction_constraints": "[]"}, rows, 2)
    assert free.model_ == first.model_
