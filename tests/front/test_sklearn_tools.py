"""scikit-learn's tools around the estimators: metadata routing, set_output, partial dependence, permutations."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.feature_selection import SelectFromModel
from sklearn.inspection import partial_dependence, permutation_importance
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import pvtree

RNG = np.random.default_rng(12)
FRAME = pd.DataFrame(RNG.normal(size=(150, 3)), columns=list("abc"))
Y = (FRAME["a"] > 0).astype(int)


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def test_weights_are_routed(routing):
    seen = []

    class Spy(pvtree.GBDTClassifier):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)

        def fit(self, X, y, sample_weight=None):
            seen.append(None if sample_weight is None else len(sample_weight))
            return super().fit(X, y, sample_weight)

    weights = np.ones(150)
    made = Spy(n_estimators=2, verbosity=-1).set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
    cross_validate(made, FRAME, Y, cv=3, params={"sample_weight": weights})
    GridSearchCV(made, {"num_leaves": [3]}, cv=3).fit(FRAME, Y, sample_weight=weights)
    assert seen == [100] * 6 + [150]
    silent = (
        Spy(n_estimators=2, verbosity=-1).set_fit_request(sample_weight=False).set_score_request(sample_weight=True)
    )
    seen.clear()
    cross_validate(silent, FRAME, Y, cv=3, params={"sample_weight": weights})
    assert seen == [None] * 3


def test_frames_go_through_pipelines():
    made = make_pipeline(StandardScaler(), pvtree.GBDTClassifier(n_estimators=3, verbosity=-1))
    made.set_output(transform="pandas").fit(FRAME, Y)
    assert made[-1].feature_names_in_.tolist() == list("abc")
    selected = SelectFromModel(made[-1], max_features=1).set_output(transform="pandas").fit(FRAME, Y)
    assert selected.transform(FRAME).columns.tolist() == selected.get_feature_names_out().tolist() == ["a"]


def test_inspection():
    made = pvtree.GBDTClassifier(n_estimators=5, verbosity=-1).fit(FRAME, Y)
    found = permutation_importance(made, FRAME, Y, n_repeats=2, random_state=0)
    assert found.importances_mean.argmax() == 0
    curve = partial_dependence(made, FRAME, ["a"], grid_resolution=5)["average"][0]
    assert curve[0] < curve[-1]
