"""linear_tree: what its leaves return, on any workers and in files."""

import hashlib
import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array

import pvtree
from pvtree import GBDTClassifier, GBDTRegressor
from pvtree.binning.raw_rows import RawRows
from pvtree.comm import local
from pvtree.errors import InvalidParameterError, ModelFileError
from pvtree.growing.sampling import subsample_rows
from pvtree.kernels.team import Team
from pvtree.model.model import Model
from pvtree.parameters.params import Params
from pvtree.reading.row_ids import RowIds

SMALL = {"n_estimators": 4, "num_leaves": 5, "min_child_samples": 15, "n_jobs": 1}
LINEAR = SMALL | {"linear_tree": True, "linear_lambda": 0.1}


def make_rows(seed=0, n=300):
    """Numbers far from 0, some missing, and a column of codes."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)) * [1.0, 10.0, 0.1, 1.0] + [0.0, 1000.0, 3.0, 0.0]
    y = X[:, 0] * np.sign(X[:, 1] - 1000) + 5 * X[:, 2] + rng.normal(size=n) * 0.2
    X[rng.random(n) < 0.1, 0] = np.nan
    X[:, 3] = rng.integers(0, 3, n)
    return X, np.where(np.isnan(y), 0.0, y) + X[:, 3]


def walked(tree, X, node=0):
    """By leaf: its rows, and the ordered columns of its path."""
    found, waiting = {}, [(0, np.arange(len(X)), frozenset())]
    while waiting:
        node, rows, path = waiting.pop()
        feature = int(tree.feature[node])
        if feature < 0:
            found[node] = rows, sorted(path)
            continue
        x = X[rows, feature]
        if tree.cat_set[node] >= 0:
            left = np.array([bool(int(tree.cat_sets[tree.cat_set[node], 0]) >> int(c) & 1) for c in x])
        else:
            left = np.where(np.isnan(x), tree.default_left[node] == 1, x <= tree.threshold[node])
            path = path | {feature}
        child = int(tree.left_child[node])
        waiting += [(child, rows[left], path), (child + 1, rows[~left], path)]
    return found


@pytest.mark.parametrize("ridge", [0.0, 5.0])
def test_leaves_are_ridge_regressions(ridge):
    X, y = make_rows()
    weight = np.random.default_rng(1).uniform(0.5, 2.0, len(X))
    model = GBDTRegressor(**LINEAR | {"linear_lambda": ridge, "learning_rate": 0.5})
    model.fit(X, y, weight, categorical_feature=[3])
    assert model.model_.trees[0].linear is None
    encoded = model.model_.encode(X)
    n_linear = 0
    for number in range(1, 4):
        tree = model.model_.trees[number]
        residual = y - model.predict(X, num_iteration=number)
        for leaf, (rows, path) in walked(tree, encoded).items():
            known = rows[np.isfinite(X[rows][:, path]).all(axis=1)]
            features, coef = tree.linear.terms(leaf)
            assert features.tolist() == path
            A = np.column_stack([np.ones(len(known)), X[known][:, path] - X[known][:, path].mean(axis=0)])
            left = A.T @ (weight[known, None] * A) + np.diag([0.0, *[ridge] * len(path)])
            expected = np.linalg.solve(left, A.T @ (weight[known] * residual[known]))
            np.testing.assert_allclose(coef, 0.5 * expected[1:], rtol=1e-6, atol=1e-9)
            n_linear += len(path) > 0
            # Rows that lack a number get the usual value.
            lacking = np.setdiff1d(rows, known)
            if not len(lacking):
                continue
            step = model.predict(X[lacking], num_iteration=number + 1) - model.predict(X[lacking], num_iteration=number)
            np.testing.assert_allclose(step, tree.value[leaf, 0])
    assert n_linear > 8
    plain = GBDTRegressor(**SMALL, learning_rate=0.5).fit(X, y, weight, categorical_feature=[3])
    assert np.mean((model.predict(X) - y) ** 2) < 0.8 * np.mean((plain.predict(X) - y) ** 2)


def test_rows_that_were_not_drawn_do_not_count():
    X, y = make_rows()
    model = GBDTRegressor(**LINEAR, subsample=0.4, subsample_freq=1, random_state=3).fit(X, y)
    params = Params(subsample=0.4, subsample_freq=1, seed=3)
    with Team(1) as team:
        drawn = subsample_rows(params, 1, RowIds.consecutive(len(X)), team)
    tree, residual = model.model_.trees[1], y - model.predict(X, num_iteration=1)
    for leaf, (rows, path) in walked(tree, X).items():
        known = np.intersect1d(rows[np.isfinite(X[rows][:, path]).all(axis=1)], drawn)
        A = np.column_stack([np.ones(len(known)), X[known][:, path] - X[known][:, path].mean(axis=0)])
        expected = np.linalg.solve(A.T @ A + np.diag([0.0, *[0.1] * len(path)]), A.T @ residual[known])
        coef = np.zeros(4)
        coef[tree.linear.terms(leaf)[0]] = tree.linear.terms(leaf)[1]  # none for what is constant in the leaf
        np.testing.assert_allclose(coef[path], 0.1 * expected[1:], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("learner", ["data", "attribute", "exact_voting", "voting"])
def test_any_workers_give_the_same(learner):
    X, y = make_rows()
    drawn = {"subsample": 0.7, "subsample_freq": 1}
    for more, target in ((drawn, y), ({"data_sample_strategy": "goss", "learning_rate": 0.9}, y > np.median(y))):
        kind = GBDTRegressor if target is y else GBDTClassifier
        serial = kind(**LINEAR | more).fit(X, target, categorical_feature=[3], eval_set=[(X, target)])
        assert serial.model_.trees[-1].linear is not None
        for n_workers in (2, 5):
            spread = kind(**LINEAR | more, tree_learner=learner, n_workers=n_workers, top_k=4)
            spread.fit(X, target, categorical_feature=[3], eval_set=[(X, target)])
            assert spread.model_.to_json() == serial.model_.to_json()
            assert spread.evals_result_ == serial.evals_result_
    filled = np.nan_to_num(X)
    dense, stored = (GBDTRegressor(**LINEAR).fit(rows, y) for rows in (filled, csr_array(filled)))
    assert dense.model_.to_json() == stored.model_.to_json()
    np.testing.assert_array_equal(stored.predict(csr_array(filled)), dense.predict(filled))


def test_training_and_prediction_add_the_same(tmp_path):
    X, y = make_rows()
    whole = GBDTRegressor(**LINEAR).fit(X, y, eval_set=[(X, y)])
    assert whole.evals_result_["training"]["l2"][-1] == pytest.approx(np.mean((whole.predict(X) - y) ** 2), rel=1e-12)
    for stage, predicted in enumerate(whole.staged_predict(X)):
        np.testing.assert_array_equal(predicted, whole.predict(X, num_iteration=stage + 1))
    GBDTRegressor(**LINEAR | {"n_estimators": 2}).fit(X, y, checkpoint=tmp_path, checkpoint_freq=1)
    resumed = GBDTRegressor(**LINEAR, tree_learner="data", n_workers=2).fit(
        X, y, checkpoint=tmp_path, checkpoint_freq=1
    )
    assert resumed.model_.to_json() == whole.model_.to_json()
    half = GBDTRegressor(**LINEAR | {"n_estimators": 2}).fit(X, y)
    more = GBDTRegressor(**LINEAR | {"n_estimators": 2}).fit(X, y, init_model=half)
    assert more.model_.trees[2].linear is not None  # no longer the first iteration
    np.testing.assert_allclose(more.predict(X), whole.predict(X), rtol=1e-9)


def test_columns_that_tell_the_same():
    rng = np.random.default_rng(0)
    x = rng.normal(size=400)
    X = np.column_stack([x, x + 1e-9 * rng.normal(size=400), np.where(x > 0, 5.0, 1e9)])
    model = GBDTRegressor(**LINEAR | {"linear_lambda": 0.0, "n_estimators": 20, "colsample_bynode": 0.5})
    model.fit(X, np.sin(2 * x))
    assert np.mean((model.predict(X) - np.sin(2 * x)) ** 2) < 0.03
    coefs = np.concatenate([tree.linear.coef for tree in model.model_.trees if tree.linear is not None])
    assert np.abs(coefs).max() < 10
    X[0, 0] = np.inf
    assert np.isfinite(model.predict(X)).all()


def test_files(tmp_path):
    lightgbm = pytest.importorskip("lightgbm")
    X, y = make_rows()
    model = GBDTRegressor(**LINEAR).fit(X, y)
    expected = model.predict(X)
    for name in ("model.json", "model.pvtree"):
        model.save(tmp_path / name)
        again = pvtree.load(tmp_path / name)
        assert again.model_ == model.model_
        np.testing.assert_array_equal(again.predict(X), expected)
    path = tmp_path / "model.txt"
    model.model_.export_lightgbm(path)
    np.testing.assert_allclose(lightgbm.Booster(model_file=path).predict(X), expected, rtol=1e-14)
    np.testing.assert_allclose(Model.from_lightgbm(path).predict(X), expected, rtol=1e-14)
    assert " * column 2" in model.model_.tree_text(1)
    leaf = model.booster_.dump_model()["tree_info"][1]["tree_structure"]["left_child"]
    while "leaf_index" not in leaf:
        leaf = leaf["left_child"]
    assert len(leaf["leaf_coeff"]) == len(leaf["leaf_features"]) > 0
    given = {**LINEAR, "objective": "regression", "verbose": -1}
    theirs = lightgbm.train(given, lightgbm.Dataset(X, y, params=given), 4)
    theirs.save_model(path)
    read = Model.from_lightgbm(path)
    assert read.trees[-1].linear is not None
    np.testing.assert_allclose(read.predict(X), theirs.predict(X), rtol=1e-14)


def sealed(payload):
    body = json.dumps(payload, sort_keys=True, separators=(",", ":"))
    head = {"format": "pvtree-model", "version": 1, "sha256": hashlib.sha256(body.encode()).hexdigest()}
    return json.dumps(head | {"payload": payload})


@pytest.mark.parametrize(
    ("field", "change", "reason"),
    [
        ("feature", lambda its: [*its[:-1], 4], "a number in the linear features is out of range"),
        ("feature", lambda its: its[:-1], "the list the linear features has a wrong length"),
        ("coef", lambda its: [*its[:-1], "NaN"], "a number of a linear function is not finite"),
        ("const", lambda its: ["Infinity", *its[1:]], "a number of a linear function is not finite"),
        ("n_terms", lambda its: [1, *its[1:-1], its[-1] - 1], "do not match the leaves"),
        ("n_terms", lambda its: [-1, *its[1:]], "a number in n_terms is out of range"),
        ("n_terms", lambda its: [0] * len(its), "wrong length"),
    ],
)
def test_files_that_lie(field, change, reason):
    X, y = make_rows()
    payload = json.loads(GBDTRegressor(**LINEAR).fit(X, y).model_.to_json())["payload"]
    linear = payload["trees"][1]["linear"]
    linear[field] = change(linear[field])
    with pytest.raises(ModelFileError, match=reason):
        Model.from_json(sealed(payload))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"feature": lambda its: np.full_like(its, 4)}, "a number in the linear features is out of range"),
        ({"feature": lambda its: np.full_like(its, -1)}, "a number in the linear features is out of range"),
        ({"coef": lambda its: its * np.inf}, "a number of a linear function is not finite"),
        ({"n_terms": lambda its: its[::-1]}, "the linear functions do not match the leaves"),
        ({"n_terms": lambda its: its - 1}, "the linear functions do not match the leaves"),
        ({"const": lambda its: its[:-1]}, "truncated|longer|match"),
    ],
)
def test_binary_files_that_lie(change, reason, tmp_path):
    X, y = make_rows()
    model = GBDTRegressor(**LINEAR).fit(X, y).model_
    tree = model.trees[1]
    linear = replace(tree.linear, **{name: how(getattr(tree.linear, name)) for name, how in change.items()})
    replace(model, trees=(replace(tree, linear=linear),)).save(tmp_path / "model.pvtree")
    with pytest.raises(ModelFileError, match=reason):
        Model.load(tmp_path / "model.pvtree")


def test_rows_of_workers_in_any_order():
    numbers = [np.array([3, 0]), np.array([1, 2])]

    def work(comm):
        raw = RawRows(np.empty((2, 1)), numbers)
        own = raw.own(np.arange(4.0), comm.rank)
        assert own.tolist() == numbers[comm.rank].tolist()
        return raw.of_shard(own, comm).tolist()

    assert local.run(work, 2) == [[0.0, 1.0, 2.0, 3.0]] * 2


def test_what_is_refused(tmp_path):
    X, y = make_rows()
    for more in (
        {"boosting_type": "dart"}, {"tree_learner": "yu"}, {"monotone_constraints": [1, 0, 0, 0]},
        {"max_delta_step": 1.0}, {"zero_as_missing": True},
    ):  # fmt: skip
        with pytest.raises(InvalidParameterError, match=r"^linear_tree does not support .*; leave one of them out\.$"):
            GBDTRegressor(**LINEAR, **more).fit(X, y)
    with pytest.raises(InvalidParameterError, match="linear_tree does not suit objective='l1'"):
        GBDTRegressor(**LINEAR, objective="l1").fit(X, y)
    model = GBDTRegressor(**LINEAR).fit(X, y)
    with pytest.raises(InvalidParameterError, match=r"^pred_contrib does not support linear_tree; train with"):
        model.predict(X, pred_contrib=True)
    with pytest.raises(InvalidParameterError, match=r"^export_xgboost does not support linear_tree"):
        model.model_.export_xgboost(tmp_path / "model.ubj")
    with pytest.raises(InvalidParameterError, match=r"^refit does not support linear_tree"):
        model.booster_.refit(X, y)
