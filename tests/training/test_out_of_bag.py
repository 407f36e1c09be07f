"""Forests judged by the rows that their trees have not seen."""

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, r2_score

from pvtree import RandomForestClassifier, RandomForestRegressor
from pvtree.errors import InvalidParameterError
from pvtree.growing.sampling import bootstrap_copies
from pvtree.kernels.team import Team
from pvtree.parameters.params import Params
from pvtree.reading.row_ids import RowIds

SMALL = {"n_estimators": 9, "max_depth": 3, "n_jobs": 1, "oob_score": True}


def out_of_bag(model, X):
    """(n_rows, n_outputs): by definition, tree by tree."""
    per, leaf = model.trees_per_iteration, model.predict_leaf(X)
    sums, counts = np.zeros((len(X), model.n_outputs)), np.zeros(len(X))
    with Team(1) as team:
        for number in range(model.n_iterations):
            unseen = bootstrap_copies(Params(bootstrap=True), number, RowIds.consecutive(len(X)), team) == 0
            counts += unseen
            for k in range(per):
                tree = model.trees[number * per + k]
                value = tree.value[tree.feature < 0][leaf[:, number * per + k]]
                sums[unseen, k : k + value.shape[1]] += value[unseen]
    return sums / counts[:, None]


def test_each_row_is_judged_by_trees_without_it():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3)).round(2)
    y = X[:, 0] + rng.normal(scale=0.3, size=120)
    label = np.digitize(y, [-0.5, 0.5])
    classes = RandomForestClassifier(**SMALL).fit(X, label)
    expected = out_of_bag(classes.model_, X)
    np.testing.assert_allclose(classes.oob_decision_function_, expected)
    seen = ~np.isnan(expected[:, 0])
    assert classes.oob_score_ == accuracy_score(label[seen], expected[seen].argmax(axis=1))
    table = np.column_stack([y, -2 * y + X[:, 1]])
    for target in (y, table):
        values = RandomForestRegressor(**SMALL).fit(X, target)
        expected = out_of_bag(values.model_, X)
        np.testing.assert_allclose(values.oob_prediction_.reshape(120, -1), expected)
        seen = ~np.isnan(expected[:, 0])
        np.testing.assert_allclose(values.oob_score_, r2_score(target[seen], expected[seen]))
    for learner, n_workers in (("data", 3), ("attribute", 2)):
        spread = RandomForestRegressor(**SMALL, tree_learner=learner, n_workers=n_workers).fit(X, table)
        np.testing.assert_array_equal(spread.oob_prediction_, values.oob_prediction_)
        assert spread.oob_score_ == values.oob_score_
    assert not hasattr(values.set_params(oob_score=False).fit(X, y), "oob_score_")
    with pytest.raises(InvalidParameterError, match="set bootstrap=True"):
        RandomForestRegressor(bootstrap=False, oob_score=True).fit(X, y)
