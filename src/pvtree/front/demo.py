"""What `make demo` shows: a comparison with scikit-learn on real data, then all strategies on 4 workers."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn import datasets, ensemble, tree
from sklearn.base import clone
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import KFold, StratifiedKFold
from threadpoolctl import threadpool_limits

from pvtree.comm.traffic import format_bytes
from pvtree.find_split.certificates import Certificate
from pvtree.front.estimators import (
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    GBDTClassifier,
    GBDTRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from pvtree.kernels.beside import compile_beside

N_FOLDS = 3
N_TREES = 30


@dataclass(frozen=True)
class DataSet:
    """Real data that scikit-learn contains."""

    name: str
    load: Callable[..., Any]
    classifies: bool

    @property
    def metric(self) -> str:
        return "accuracy" if self.classifies else "R2"


DATA_SETS = (
    DataSet("breast cancer", datasets.load_breast_cancer, True),
    DataSet("digits", datasets.load_digits, True),
    DataSet("wine", datasets.load_wine, True),
    DataSet("diabetes", datasets.load_diabetes, False),
)

_BOOSTED: dict[str, Any] = {"max_iter": N_TREES, "early_stopping": False, "random_state": 0}
_SEEDED: dict[str, Any] = {"random_state": 0}

# (model, classifier and regressor of pvtree, those of scikit-learn)
MODELS = (
    (
        "GBDT",
        (
            GBDTClassifier(n_estimators=N_TREES, n_jobs=1),
            GBDTRegressor(n_estimators=N_TREES, n_jobs=1),
        ),
        (
            ensemble.HistGradientBoostingClassifier(**_BOOSTED),
            ensemble.HistGradientBoostingRegressor(**_BOOSTED),
        ),
    ),
    (
        "forest",
        (
            RandomForestClassifier(n_estimators=N_TREES, n_jobs=1),
            RandomForestRegressor(n_estimators=N_TREES, n_jobs=1),
        ),
        (
            ensemble.RandomForestClassifier(n_estimators=N_TREES, **_SEEDED),
            ensemble.RandomForestRegressor(n_estimators=N_TREES, **_SEEDED),
        ),
    ),
    (
        "tree",
        (DecisionTreeClassifier(n_jobs=1), DecisionTreeRegressor(n_jobs=1)),
        (
            tree.DecisionTreeClassifier(criterion="entropy", **_SEEDED),
            tree.DecisionTreeRegressor(**_SEEDED),
        ),
    ),
)

ROW = "{:<14} {:<7} {:<9} {:>8} {:>13} {:>10} {:>15}"

STRATEGIES = ("serial", "attribute", "data", "quantized", "voting", "exact_voting")
N_WORKERS = 4
STRATEGY_ROW = "{:<12} {:>8} {:>9} {:>24} {:>15} {:>8} {:>15}"

NOTE = """
Scores are means of {n_folds} folds; GBDTs and forests have {n_trees} trees; all other parameters are defaults. Seconds
are for all fits and predictions, on one thread. The data sets have only 178 to 1,797 rows, so differences of a few
percent may be chance, and the seconds say little about larger data.
"""

NEXT = """
Workers are virtual machines: threads of this process that exchange what machines would, and count it. attribute and
data find the model of serial, byte for byte. voting (PV-Tree) merges 2 x {top_k} of {n_features} columns. exact_voting
proves that no other column has a better split, or finds that split: {proofs}.

Try next:
  .venv/bin/python examples/classification.py    train a model, save it and load it again
  .venv/bin/python examples/regression.py        early stopping on held-out rows
  .venv/bin/python examples/ranking.py           LambdaMART over query groups
  .venv/bin/python examples/workers.py           PV-Tree on virtual machines, with every byte counted
  .venv/bin/pvtree train --help                  models from Parquet, CSV and libsvm files
  docs/migration.md                              from LightGBM or XGBoost: what to change
  docs/training-on-clusters.md                   the same on MPI and Dask
  .venv/bin/pvtree plan --rows 1e8 --attributes 1000  what a cluster would need
  make bench                                     a million rows against LightGBM, XGBoost and scikit-learn
  make paper                                     the paper's tables and figures on virtual machines
"""


def main(data_sets: Sequence[DataSet] = DATA_SETS) -> None:
    """Print one line per data set and model, then per strategy, while other processes compile what comes next."""
    compile_beside(STRATEGIES)
    print("Kernels that are needed for the first time are compiled now; the seconds do not include that.\n", flush=True)
    print(ROW.format("data set", "model", "metric", "pvtree", "scikit-learn", "pvtree, s", "scikit-learn, s"))
    for data in data_sets:
        X, y = data.load(return_X_y=True)
        for model, *libraries in MODELS:
            own_model = clone(libraries[0][0 if data.classifies else 1])
            few = {"n_estimators": 2} if "n_estimators" in own_model.get_params() else {}
            own_model.set_params(verbosity=0, **few).fit(X, y).score(X, y)  # compiles
            (own, own_seconds), (other, other_seconds) = (
                cross_validate(pair[0 if data.classifies else 1], X, y, data.classifies) for pair in libraries
            )
            figures = f"{own:.4f}", f"{other:.4f}", f"{own_seconds:.2f}", f"{other_seconds:.2f}"
            print(ROW.format(data.name, model, data.metric, *figures), flush=True)
    print(NOTE.format(n_folds=N_FOLDS, n_trees=N_TREES))
    compare_strategies()


def compare_strategies(n_rows: int = 20_000, n_features: int = 300, n_trees: int = 10, top_k: int = 10) -> None:
    """Train the same GBDT on the same wide data with each strategy, and print what it cost."""
    X, y = datasets.make_classification(
        n_rows, n_features, n_informative=20, n_redundant=20, flip_y=0.1, class_sep=0.5, random_state=0
    )
    train, test = slice(None, n_rows * 3 // 4), slice(n_rows * 3 // 4, None)
    print(f"{n_trees} trees on {n_rows * 3 // 4:,} rows x {n_features} columns\n")
    print(
        STRATEGY_ROW.format(
            "strategy",
            "workers",
            "test AUC",
            "sent per worker and tree",
            "calls per tree",
            "seconds",
            "model of serial",
        )
    )
    reference = ""
    for strategy in STRATEGIES:
        n_workers = 1 if strategy == "serial" else N_WORKERS
        model = GBDTClassifier(
            n_estimators=n_trees, tree_learner=strategy, n_workers=n_workers, top_k=top_k, verbosity=0
        )
        clone(model).set_params(n_estimators=1).fit(X[train], y[train])  # compiles the strategy's kernels
        began = time.perf_counter()
        model.fit(X[train], y[train])
        seconds = time.perf_counter() - began
        reference = reference or model.model_.to_json()
        auc = roc_auc_score(y[test], model.predict_proba(X[test])[:, 1])
        cost = model.traffic_
        same = "yes" if model.model_.to_json() == reference else "no"
        figures = f"{auc:.4f}", format_bytes(cost.bytes_per_tree), f"{cost.calls_per_tree:.1f}", f"{seconds:.2f}"
        print(STRATEGY_ROW.format(strategy, n_workers, *figures, same), flush=True)
        if model.certificates_ is not None:
            proofs = describe(model.certificates_)
    print(NEXT.format(top_k=top_k, n_features=n_features, proofs=proofs))


def describe(certificates: Sequence[Certificate]) -> str:
    """How the splits of all trees were proven."""
    splits, proven, missed = (
        sum(getattr(each, name) for each in certificates) for name in ("splits", "proven", "missed")
    )
    return (
        f"{proven} of {splits} splits were proven by bounds and rounded sums alone, and {missed} best columns had not "
        "been elected"
    )


def cross_validate(estimator: Any, X: np.ndarray, y: np.ndarray, classifies: bool) -> tuple[float, float]:
    """The mean score over folds, which are the same for every estimator, and the seconds for fitting and predicting."""
    folds = (StratifiedKFold if classifies else KFold)(N_FOLDS, shuffle=True, random_state=0)
    scores = []
    began = time.perf_counter()
    with threadpool_limits(1):  # HistGradientBoosting has no parameter for the number of threads
        for train, test in folds.split(X, y):
            scores.append(clone(estimator).fit(X[train], y[train]).score(X[test], y[test]))
    return float(np.mean(scores)), time.perf_counter() - began


if __name__ == "__main__":
    main()
