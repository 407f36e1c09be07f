"""forcedsplits_filename: every tree begins with the splits of the file, the same on any workers."""

import json

import numpy as np
import pytest
from scipy.sparse import csr_array

from pvtree import GBDTRegressor
from pvtree.errors import InvalidParameterError

SMALL = {"n_estimators": 3, "num_leaves": 8, "min_child_samples": 10, "n_jobs": 1}
SPLITS = {
    "feature": 2, "threshold": 0.123,
    "left": {"feature": 1, "threshold": -0.4, "right": {"feature": 1, "threshold": 0.4}},
    "right": {"feature": 2, "threshold": 0.8},
}  # fmt: skip


def make_rows(n=300):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 4)).round(2)
    y = 3 * X[:, 0] + np.sin(3 * X[:, 1]) + 0.3 * X[:, 2] + 0.1 * rng.normal(size=n)
    X[rng.random(X.shape) < 0.05] = np.nan
    return X, np.nan_to_num(y)


def written(folder, splits):
    path = folder / "splits.json"
    path.write_text(json.dumps(splits))
    return path


def splits_of(tree, node=0):
    """(feature, threshold) by path."""
    if tree.feature[node] < 0:
        return {}
    left = int(tree.left_child[node])
    found = {"": (int(tree.feature[node]), float(tree.threshold[node]))}
    for side, child in (("l", left), ("r", left + 1)):
        found |= {side + path: split for path, split in splits_of(tree, child).items()}
    return found


def gain_of(tree, node, l2):
    """From the values and weights of a node and its children: v = -shrinkage G / (H + l2)."""

    def score(at):
        h = tree.weight[at] + l2
        return (tree.value[at, 0] / 0.1) ** 2 * h

    left = int(tree.left_child[node])
    return score(left) + score(left + 1) - score(node)


def test_trees_begin_with_them(tmp_path):
    X, y = make_rows()
    model = GBDTRegressor(**SMALL, forcedsplits_filename=written(tmp_path, SPLITS), reg_lambda=2.0).fit(X, y)
    for tree in model.model_.trees:
        found = splits_of(tree)
        assert [found[path] for path in ("", "l", "r", "lr")] == [(2, 0.123), (1, -0.4), (2, 0.8), (1, 0.4)]
        assert tree.n_leaves == 8
        left = np.isnan(X[:, 2]) | (X[:, 2] <= 0.123)  # missing values go left
        assert tree.default_left[0] == 1
        assert tree.count[tree.left_child[0]] == left.sum()
        for node in np.flatnonzero(tree.feature >= 0):
            np.testing.assert_allclose(tree.gain[node], gain_of(tree, node, 2.0), rtol=1e-6, atol=1e-9)
    # The rest of the budget goes to the best splits, which are elsewhere.
    assert {split[0] for split in found.values()} >= {0}
    # What is best anyway changes nothing but where missing values of other rows would go.
    filled = np.nan_to_num(X)
    free = GBDTRegressor(**SMALL).fit(filled, y)
    root = free.model_.trees[0]
    own = {"feature": int(root.feature[0]), "threshold": float(root.threshold[0])}
    same = GBDTRegressor(**SMALL | {"n_estimators": 1}, forcedsplits_filename=written(tmp_path, own)).fit(filled, y)
    tree = same.model_.trees[0]
    np.testing.assert_array_equal(tree.value, root.value)
    np.testing.assert_allclose(tree.gain, root.gain)


@pytest.mark.parametrize("learner", ["data", "attribute", "exact_voting", "voting"])
def test_any_workers_give_the_same(learner, tmp_path):
    X, y = make_rows()
    given = SMALL | {"forcedsplits_filename": written(tmp_path, SPLITS), "subsample": 0.8, "subsample_freq": 1}
    weight = np.random.default_rng(1).uniform(0.5, 2.0, len(X))
    serial = GBDTRegressor(**given).fit(X, y, weight)
    for n_workers in (1, 2, 5):
        spread = GBDTRegressor(**given, tree_learner=learner, n_workers=n_workers, top_k=4).fit(X, y, weight)
        assert spread.model_.to_json() == serial.model_.to_json()
    sparse = np.where(np.abs(np.nan_to_num(X)) < 0.7, 0.0, np.nan_to_num(X))
    dense, stored = (GBDTRegressor(**given).fit(rows, y) for rows in (sparse, csr_array(sparse)))
    assert dense.model_.to_json() == stored.model_.to_json()


def test_what_gains_nothing_is_not_made(tmp_path):
    X, y = make_rows()
    usual = splits_of(GBDTRegressor(**SMALL | {"n_estimators": 1}).fit(X, y).model_.trees[0])
    below = {"feature": 3, "threshold": 0.0}
    for splits in (
        {"feature": 2, "threshold": 2.5, "left": below},  # too few rows on the right
        {"feature": 2, "threshold": 9e9, "left": below},  # none
    ):
        given = SMALL | {"n_estimators": 1, "forcedsplits_filename": written(tmp_path, splits)}
        found = splits_of(GBDTRegressor(**given).fit(X, y).model_.trees[0])
        assert found[""] == usual[""]
    dear = SMALL | {"n_estimators": 1, "min_split_gain": 50.0}
    plain = GBDTRegressor(**dear).fit(X, y).model_.trees[0]
    forced = written(tmp_path, {"feature": 3, "threshold": 0.0})
    assert splits_of(GBDTRegressor(**dear, forcedsplits_filename=forced).fit(X, y).model_.trees[0])[""][0] != 3
    assert plain.n_leaves > 1


def test_a_resumed_training_and_few_leaves(tmp_path):
    X, y = make_rows()
    given = SMALL | {"fs": written(tmp_path, SPLITS)}
    whole = GBDTRegressor(**given).fit(X, y)
    GBDTRegressor(**given | {"n_estimators": 1}).fit(X, y, checkpoint=tmp_path, checkpoint_freq=1)
    assert GBDTRegressor(**given).fit(X, y, checkpoint=tmp_path, checkpoint_freq=1).model_ == whole.model_
    few = GBDTRegressor(**given | {"num_leaves": 3}).fit(X, y).model_.trees[0]
    assert splits_of(few) == {"": (2, 0.123), "l": (1, -0.4)}


@pytest.mark.parametrize(
    ("splits", "message"),
    [
        ([], "is not an object such as"),
        ({"feature": 0}, "is not an object such as"),
        ({"feature": 0, "threshold": 1, "middle": {}}, "is not an object such as"),
        ({"feature": 9, "threshold": 1}, "must hold column indices from 0 to 3, got 9"),
        ({"feature": True, "threshold": 1}, "a feature is True; give the number or name"),
        ({"feature": 0, "threshold": "low"}, "a threshold is 'low'; give a finite number"),
        ({"feature": 3, "threshold": 1}, "feature 3 has categories; give columns of numbers"),
    ],
)
def test_files_that_are_refused(splits, message, tmp_path):
    X, y = make_rows()
    X[:, 3] = np.arange(len(X)) % 3
    with pytest.raises(InvalidParameterError, match=message):
        GBDTRegressor(forcedsplits_filename=written(tmp_path, splits)).fit(X, y, categorical_feature=[3])
    with pytest.raises(InvalidParameterError, match="cannot be read"):
        GBDTRegressor(forcedsplits_filename=tmp_path / "no.json").fit(X, y)
