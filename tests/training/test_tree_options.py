"""Options of trees and bins as users write them: what they change, and what is refused."""

import json

import numpy as np
import pytest

from pvtree import Dataset, GBDTClassifier, GBDTRegressor
from pvtree.errors import InvalidParameterError

SMALL = {"n_estimators": 4, "num_leaves": 6, "n_jobs": 1}


def make_rows(seed=0, n=240):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)).round(2)
    return X, X[:, 0] * 2 + X[:, 1] + rng.normal(size=n)


def used(model):
    return {int(f) for tree in model.model_.trees for f in tree.feature if f >= 0}


def thresholds(model, column):
    return {float(t) for tree in model.model_.trees for t in tree.threshold[tree.feature == column]}


def test_columns_that_cost_something():
    X, y = make_rows()
    assert used(GBDTRegressor(**SMALL, feature_contri=[0, 1, 1, 1]).fit(X, y)) == {1, 2, 3}
    assert used(GBDTRegressor(**SMALL, feature_contri={0: 0.0, 3: 0.0}).fit(X, y)) == {1, 2}
    # A column that costs more than it gains is never used; once it is bought, it is free.
    dear = GBDTRegressor(**SMALL, cegb_penalty_feature_coupled=[0, 1e9, 1e9, 1e9]).fit(X, y)
    assert used(dear) == {0}
    stumps = SMALL | {"num_leaves": 2, "n_estimators": 3}
    free = [tree.gain[0] for tree in GBDTRegressor(**stumps).fit(X, y).model_.trees]
    paid = GBDTRegressor(**stumps, cegb_penalty_feature_coupled={0: 5.0}, cegb_tradeoff=2.0).fit(X, y).model_.trees
    np.testing.assert_allclose([tree.gain[0] for tree in paid], [free[0] - 10.0, *free[1:]])
    none = GBDTRegressor(**SMALL, cegb_penalty_split=1e6).fit(X, y)
    assert used(none) == set()


def test_a_resumed_training_knows_what_is_paid_for(tmp_path):
    X, y = make_rows()
    params = SMALL | {"cegb_penalty_feature_coupled": [5.0, 20.0, 20.0, 20.0], "path_smooth": 3.0, "extra_trees": True}
    whole = GBDTRegressor(**params).fit(X, y).model_.to_json()
    GBDTRegressor(**params | {"n_estimators": 2}).fit(X, y, checkpoint=tmp_path, checkpoint_freq=1)
    resumed = GBDTRegressor(**params, tree_learner="data", n_workers=2)
    assert resumed.fit(X, y, checkpoint=tmp_path, checkpoint_freq=1).model_.to_json() == whole


def test_bins_of_single_columns(tmp_path):
    X, y = make_rows()
    few = GBDTRegressor(**SMALL, max_bin_by_feature=[2, 255, 255, 255]).fit(X, y)
    assert len(thresholds(few, 0)) == 1
    assert len(thresholds(few, 1)) > 1
    assert len(thresholds(GBDTRegressor(**SMALL, max_bin_by_feature={1: 2}).fit(X, y), 1)) == 1
    path = tmp_path / "bins.json"
    path.write_text(json.dumps([{"feature": 0, "bin_upper_bound": [0.123, -0.321]}]))
    forced = SMALL | {"forcedbins_filename": path, "max_bin": 3}
    model = GBDTRegressor(**forced).fit(X, y)
    assert thresholds(model, 0) == {0.123, -0.321}
    for learner in ("data", "attribute"):
        spread = GBDTRegressor(**forced, tree_learner=learner, n_workers=2).fit(X, y)
        assert spread.model_.to_json() == model.model_.to_json()
    # Beside the given ends, the other bins are the usual ones.
    more = GBDTRegressor(**forced | {"max_bin": 40, "num_leaves": 31, "min_child_samples": 1}).fit(X, y)
    assert len(thresholds(more, 0) - {0.123, -0.321}) > 3
    data = Dataset(X, params={"max_bin_by_feature": [2, 9, 9, 9], "forcedbins_filename": path})
    assert [data.feature_num_bin(column) for column in (0, 1)] == [2, 9]
    from scipy.sparse import csr_array

    sparse = np.where(np.abs(X) < 0.7, 0.0, X)
    dense, stored = (GBDTRegressor(**forced | {"max_bin": 9}).fit(rows, y) for rows in (sparse, csr_array(sparse)))
    assert dense.model_.to_json() == stored.model_.to_json()


def test_bins_from_a_sample():
    X, y = make_rows(n=2000)
    every, some = (GBDTRegressor(**SMALL, subsample_for_bin=n).fit(X, y) for n in (200_000, 200))
    assert thresholds(every, 0) != thresholds(some, 0)
    spread = GBDTRegressor(**SMALL, bin_construct_sample_cnt=200, tree_learner="data", n_workers=3).fit(X, y)
    assert spread.model_.to_json() == some.model_.to_json()


@pytest.mark.parametrize("is_sparse", [False, True])
def test_missing_values_as_zeros(is_sparse):
    from scipy.sparse import csr_array

    rng = np.random.default_rng(4)
    X, y = rng.integers(-3, 4, size=(240, 4)).astype(float), rng.normal(size=240)
    X[:, 2] = np.abs(X[:, 2]) + 1  # where 0 does not occur
    X[rng.random(X.shape) < 0.2] = np.nan
    zeros, shape = np.nan_to_num(X), csr_array if is_sparse else np.asarray
    y += zeros[:, 0]
    params = SMALL | {"use_missing": False}
    model = GBDTRegressor(**params).fit(shape(X), y)
    np.testing.assert_array_equal(model.predict(shape(X)), model.predict(zeros))
    # Columns with zeros have the bins that they have without missing values, and so all trees are the same.
    columns = [0, 1, 3]
    ours, filled = (
        GBDTRegressor(**params).fit(shape(rows[:, columns]), y).predict(zeros[:, columns]) for rows in (X, zeros)
    )
    np.testing.assert_array_equal(ours, filled)
    for learner in ("data", "attribute"):
        spread = GBDTRegressor(**params, tree_learner=learner, n_workers=2).fit(shape(X), y)
        assert spread.model_.to_json() == model.model_.to_json()


def test_extra_trees_have_a_seed():
    X, y = make_rows()
    a, b, c = (GBDTRegressor(**SMALL, extra_trees=True, extra_seed=s).fit(X, y).model_.to_json() for s in (1, 1, 2))
    assert a == b != c


def test_levels_share_columns():
    X, y = make_rows()
    model = GBDTRegressor(**SMALL | {"num_leaves": 16}, colsample_bylevel=0.25, min_child_samples=1).fit(X, y)
    for tree in model.model_.trees:
        level = [0] * tree.n_nodes
        for node in np.flatnonzero(tree.feature >= 0):
            for child in (tree.left_child[node], tree.left_child[node] + 1):
                level[child] = level[node] + 1
        by_level = {}
        for node in np.flatnonzero(tree.feature >= 0):
            by_level.setdefault(level[node], set()).add(int(tree.feature[node]))
        assert all(len(columns) == 1 for columns in by_level.values())


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"feature_contri": [1.0]}, "feature_contri has 1 values, but X has 4 columns; give one for each column"),
        ({"feature_contri": [1, 1, 1, -1]}, "feature_contri must be a list of finite numbers of at least 0"),
        ({"max_bin_by_feature": {9: 5}}, "max_bin_by_feature must hold column indices from 0 to 3, got 9"),
        ({"max_bin_by_feature": [1, 5, 5, 5]}, "max_bin_by_feature must be a list of integers from 2 to 255"),
        ({"forcedbins_filename": "no such file"}, "which cannot be read: No such file or directory; give the path"),
        ({"grow_policy": "widthwise"}, "grow_policy must be 'lossguide' or 'depthwise'"),
        ({"monotone_constraints_method": "intermediate"}, "'basic'"),
        ({"tree_learner": "yu", "n_workers": 2, "cegb_penalty_feature_coupled": {0: 1.0}}, "grow trees apart"),
    ],
)
def test_refusals(params, message):
    X, y = make_rows()
    with pytest.raises(InvalidParameterError, match=message.replace("(", r"\(")):
        GBDTRegressor(**SMALL, **params).fit(X, y)


@pytest.mark.parametrize(
    "text", ["1", "[1]", '[{"feature": 0}]', "no json", '[{"feature": 1.5, "bin_upper_bound": []}]']
)
def test_files_of_bins_that_are_none(text, tmp_path):
    X, y = make_rows()
    path = tmp_path / "bins.json"
    path.write_text(text)
    with pytest.raises(InvalidParameterError, match="forcedbins_filename is "):
        GBDTClassifier(**SMALL, forcedbins_filename=path).fit(X, y > 0)


def test_depth_wise_trees_are_xgboosts():
    """With a leaf budget both split the oldest leaf first: the same leaves at the same depths."""
    xgboost = pytest.importorskip("xgboost")
    from pvtree.as_xgboost import XGBRegressor

    X, y = make_rows(3, 800)
    X = X.round(1)  # a bin for each value, whoever chooses the bins
    params = {
        "n_estimators": 1,
        "max_leaves": 6,
        "max_depth": 9,
        "max_bin": 255,
        "grow_policy": "depthwise",
        "n_jobs": 1,
    }
    ours, theirs = XGBRegressor(**params).fit(X, y), xgboost.XGBRegressor(**params, tree_method="hist").fit(X, y)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), atol=1e-3)
    by_gain = XGBRegressor(**params | {"grow_policy": "lossguide"}).fit(X, y)
    assert np.abs(by_gain.predict(X) - ours.predict(X)).max() > 0.05
