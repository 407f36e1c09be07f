"""Several columns of classes: one tree for all of them, which splits by the mean of their information gains."""

import hashlib
import json

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier as TheirTree

from pvtree import DecisionTreeClassifier, RandomForestClassifier, load
from pvtree.errors import InvalidDataError, InvalidParameterError, InvalidTypeError, ModelFileError
from pvtree.model.model import Model

WORDS = np.array(["ash", "birch", "elm"])


def make_rows(seed=0, n=150):
    """Two columns of labels that different columns of X tell."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)).round(2)
    first = (X[:, 0] + 0.5 * rng.normal(size=n) > 0).astype(int)
    second = np.digitize(X[:, 1] + 0.5 * rng.normal(size=n), [-0.5, 0.5])
    return X, np.stack([first, second], axis=1)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_tree_is_scikit_learn_s(weighted):
    X, Y = make_rows()
    weight = np.random.default_rng(1).integers(1, 4, len(X)).astype(float) if weighted else None
    rules = {"max_depth": 2, "min_samples_leaf": 5}  # deeper, splits that gain the same come in another order
    ours = DecisionTreeClassifier(**rules, n_jobs=1).fit(X, Y, weight)
    theirs = TheirTree(**rules, criterion="entropy", random_state=0).fit(X, Y, weight)
    for mine, other in zip(ours.predict_proba(X), theirs.predict_proba(X), strict=True):
        np.testing.assert_allclose(mine, other, atol=2e-3 if weighted else 1e-12)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))
    tree = ours.model_.trees[0]
    np.testing.assert_allclose(tree.weight[0], len(X) if weight is None else weight.sum(), rtol=1e-3)
    np.testing.assert_array_equal(ours.n_classes_, [2, 3])
    unequal = np.random.default_rng(1).uniform(0.5, 2.0, len(X))  # rounded up as often as down
    tree = DecisionTreeClassifier(**rules, n_jobs=1).fit(X, Y, unequal).model_.trees[0]
    np.testing.assert_allclose(tree.weight[0], unequal.sum(), rtol=3e-6)


def entropy(Y):
    """The mean of the columns' entropies in bits, times the rows."""
    counts = [np.bincount(column)[np.flatnonzero(np.bincount(column))] for column in Y.T]
    return np.mean([-(n * np.log2(n / len(Y))).sum() for n in counts])


def test_splits_gain_most():
    X, Y = make_rows()
    tree = DecisionTreeClassifier(max_depth=5, min_child_samples=4, n_jobs=1).fit(X, Y).model_.trees[0]
    rows = {0: np.arange(len(X))}
    for node in range(tree.n_nodes):
        here = rows[node]
        gains = [0.0]
        for column in range(X.shape[1]):
            for cut in np.unique(X[here, column])[:-1]:
                left = X[here, column] <= cut
                if 4 <= left.sum() <= len(here) - 4:
                    gains.append(entropy(Y[here]) - entropy(Y[here[left]]) - entropy(Y[here[~left]]))
        assert tree.count[node] == len(here)
        if tree.feature[node] >= 0:
            np.testing.assert_allclose(tree.gain[node], max(gains) / len(X), rtol=1e-9)
            left = X[here, tree.feature[node]] <= tree.threshold[node]
            rows[tree.left_child[node]], rows[tree.left_child[node] + 1] = here[left], here[~left]
    assert tree.n_leaves > 10


def test_pure_nodes_are_leaves():
    X, _ = make_rows()
    Y = np.stack([X[:, 0] > 0, np.zeros(len(X), bool), X[:, 0] > 0], axis=1)
    weight = np.random.default_rng(2).uniform(0.1, 5.0, len(X))
    for given in (None, weight):
        forest = RandomForestClassifier(n_estimators=3, n_jobs=1, max_features=None).fit(X, Y, given)
        assert [tree.n_leaves for tree in forest.model_.trees] == [2, 2, 2]
    assert [len(each) for each in forest.classes_] == [2, 1, 2]


@pytest.mark.parametrize("learner", ["data", "attribute", "exact_voting", "voting"])
def test_any_workers_give_the_same(learner):
    X, Y = make_rows()
    weight = np.random.default_rng(2).uniform(0.5, 2.0, len(X))
    small = {"n_estimators": 3, "max_depth": 4, "n_jobs": 1, "top_k": 4, "max_features": None, "oob_score": True}
    for given in (None, weight):
        serial = RandomForestClassifier(**small).fit(X, Y, given)
        for n_workers in (2, 5):
            spread = RandomForestClassifier(**small, tree_learner=learner, n_workers=n_workers).fit(X, Y, given)
            assert spread.model_.to_json() == serial.model_.to_json()
            assert spread.oob_score_ == serial.oob_score_
    threads = RandomForestClassifier(**small | {"n_jobs": 2}).fit(X, Y, weight)
    assert threads.model_ == serial.model_
    assert [each.shape for each in serial.oob_decision_function_] == [(150, 2), (150, 3)]
    assert 0.5 < serial.oob_score_ < 1.0


def test_labels_files_and_further_trees(tmp_path):
    X, Y = make_rows()
    labels = np.stack([Y[:, 0] == 1, WORDS[Y[:, 1]]], axis=1).astype(object)
    labels[:, 0] = Y[:, 0] == 1
    model = RandomForestClassifier(n_estimators=3, max_depth=4, n_jobs=1).fit(X, labels)
    predicted = model.predict(X)
    assert predicted[0, 0] in (True, False) and predicted[0, 1] in WORDS
    assert np.mean(predicted == labels) > 0.75
    for name in ("model.json", "model.pvtree"):
        model.save(tmp_path / name)
        again = load(tmp_path / name)
        np.testing.assert_array_equal(again.predict(X), predicted)
        np.testing.assert_array_equal(again.model_.predict(X), predicted)
        np.testing.assert_array_equal(again.predict_proba(X)[1], model.predict_proba(X)[1])
    longer = RandomForestClassifier(n_estimators=2, max_depth=4, n_jobs=1).fit(X, labels, init_model=model)
    assert longer.model_.trees[:3] == model.model_.trees
    np.testing.assert_allclose(np.exp(longer.predict_log_proba(X)[1]), longer.predict_proba(X)[1])
    with pytest.raises(InvalidParameterError, match=r"2 column\(s\) of classes, but y has 1; pass the same columns"):
        RandomForestClassifier(n_jobs=1).fit(X, labels[:, 1], init_model=model)
    lightgbm = pytest.importorskip("lightgbm")
    model.model_.export_lightgbm(tmp_path / "model.txt")
    theirs = lightgbm.Booster(model_file=str(tmp_path / "model.txt")).predict(X)
    np.testing.assert_allclose(theirs, np.concatenate(model.predict_proba(X), axis=1))
    stopped = RandomForestClassifier(n_estimators=2, max_depth=4, n_jobs=1)
    stopped.fit(X, labels, checkpoint=tmp_path / "c", checkpoint_freq=1)
    resumed = RandomForestClassifier(n_estimators=3, max_depth=4, n_jobs=1)
    assert resumed.fit(X, labels, checkpoint=tmp_path / "c", checkpoint_freq=1).model_ == model.model_


def test_what_is_refused(tmp_path):
    X, Y = make_rows()
    model = RandomForestClassifier(n_estimators=1, n_jobs=1)
    with pytest.raises(InvalidParameterError, match="eval_set does not support several columns of classes"):
        model.fit(X, Y, eval_set=[(X, Y)])
    with pytest.raises(
        InvalidParameterError, match=r"class_weight is for one column .*; pass sample_weight instead\.$"
    ):
        RandomForestClassifier(class_weight="balanced", n_jobs=1).fit(X, Y)
    with pytest.raises(InvalidDataError, match="Unknown label type: column 1 of y is continuous"):
        model.fit(X, Y + np.array([0.0, 0.5]))
    with pytest.raises(InvalidTypeError, match="Reports do not support several columns of classes"):
        model.fit(X, Y).report(tmp_path / "report.html")
    for wrong in ([2, 2], [5], [0, 5], ["2", 3], [2, -1, 4]):
        with pytest.raises(ModelFileError, match="the classes of the columns do not match the outputs"):
            Model.from_json(altered(model.model_, wrong))


def altered(model, sizes):
    """The model's text with other sizes and a new checksum."""
    payload = json.loads(model.to_json())["payload"] | {"target_sizes": sizes}
    body = json.dumps(payload, sort_keys=True, separators=(",", ":"))
    head = {"format": "pvtree-model", "version": 1, "sha256": hashlib.sha256(body.encode()).hexdigest()}
    return json.dumps(head | {"payload": payload})
