"""Parts of models that need more than bins and gradients, where each worker has rows of its own and some have none."""

import json
import warnings
from itertools import pairwise

import numpy as np
import pytest

from pvtree import GBDTRanker, GBDTRegressor, RandomForestClassifier
from pvtree.comm import local

N_ROWS = 240
BOUNDS = [0, 0, 7, 100, 100, N_ROWS]
SMALL = {"n_estimators": 3, "num_leaves": 5, "min_child_samples": 8, "n_jobs": 1, "verbosity": 0}


def make_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ROWS, 5)).round(2)
    X[rng.random(X.shape) < 0.1] = np.nan
    X[rng.random(X.shape) < 0.1] = 0.0
    return X, np.nan_to_num(X[:, 0] * X[:, 1]) + np.nan_to_num(X[:, 2]) + 0.1 * rng.normal(size=N_ROWS)


def spread(make, **columns):
    """The models of all workers."""

    def work(comm):
        first, stop = list(pairwise(BOUNDS))[comm.rank]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of rows that are not spread evenly
            return make().fit(**{name: values[first:stop] for name, values in columns.items()}, comm=comm).model_

    return local.run(work, len(BOUNDS) - 1, timeout=60)


@pytest.mark.parametrize("learner", ["attribute", "data", "exact_voting"])
@pytest.mark.parametrize("kind", ["linear", "zeros", "forced", "classes", "positions"])
def test_the_model_is_that_of_all_rows(kind, learner, tmp_path):
    X, y = make_rows()
    path = tmp_path / "splits.json"
    path.write_text(json.dumps({"feature": 4, "threshold": 0.1, "left": {"feature": 0, "threshold": 0.0}}))
    own = {
        "linear": {"linear_tree": True, "subsample": 0.7, "subsample_freq": 1},
        "zeros": {"zero_as_missing": True},
        "forced": {"forcedsplits_filename": path},
    }.get(kind, {})
    columns = {"X": X, "y": y}
    kind_of = {"classes": RandomForestClassifier, "positions": GBDTRanker}.get(kind, GBDTRegressor)
    if kind == "classes":
        columns["y"] = np.column_stack([y > 0, np.digitize(y, [-1, 1])]).astype(int)
        own = {"max_features": None}
    if kind == "positions":
        qid = np.arange(N_ROWS) // 15  # workers' rows end inside queries
        columns |= {"y": (y > 0.5).astype(int), "qid": qid, "position": np.tile(np.arange(15), N_ROWS // 15)}

    def make(tree_learner=learner):
        return kind_of(**SMALL | own, tree_learner=tree_learner)

    whole = make("serial").fit(**columns).model_
    for model in spread(make, **columns):
        assert model.to_json() == whole.to_json()
    plain = kind_of(**SMALL).fit(**{name: each for name, each in columns.items() if name != "position"}).model_
    assert kind == "classes" or plain.trees != whole.trees
