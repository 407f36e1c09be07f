"""Small data and quick estimators, shared by the tests of the estimators."""

import numpy as np

import pvtree

CLASSIFIERS = [pvtree.GBDTClassifier, pvtree.RandomForestClassifier, pvtree.DecisionTreeClassifier]
REGRESSORS = [pvtree.GBDTRegressor, pvtree.RandomForestRegressor, pvtree.DecisionTreeRegressor]
GBDTS = [pvtree.GBDTClassifier, pvtree.GBDTRegressor, pvtree.GBDTRanker]
ALL = [*CLASSIFIERS, *REGRESSORS, pvtree.GBDTRanker]


def small(estimator, **params):
    """A quick instance: 5 trees where the number can be chosen."""
    chosen = {"n_estimators": 5, "min_child_samples": 3, "n_jobs": 1, **params}
    return estimator(**{name: value for name, value in chosen.items() if name in estimator().get_params()})


def data(n_rows=200, n_classes=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 4))
    X[rng.random(X.shape) < 0.05] = np.nan
    score = np.nan_to_num(X[:, 0]) + 0.5 * np.nan_to_num(X[:, 1]) ** 2
    return X, np.digitize(score, np.quantile(score, np.arange(1, n_classes) / n_classes))


def fitted(estimator, n_classes=2, **params):
    X, y = data(n_classes=n_classes)
    more = {"group": [50] * 4} if estimator is pvtree.GBDTRanker else {}
    return small(estimator, **params).fit(X, y, **more), X, y
