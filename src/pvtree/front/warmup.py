"""Compiles kernels ahead of need: small trainings that use those of most users, several at a time."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np

from pvtree.front.estimators import (
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    GBDTClassifier,
    GBDTRanker,
    GBDTRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from pvtree.kernels.beside import compile_alone, compile_line, lines_of
from pvtree.kernels.cache_folder import folders
from pvtree.model.model import Model
from pvtree.model.tree import Tree

_BOOSTING: dict[str, Any] = {"n_estimators": 2, "min_child_samples": 2, "verbosity": 0}


def _data(dtype: Any = np.float32) -> tuple[np.ndarray, np.ndarray]:
    """400 rows of numbers, and a target that needs several of them."""
    X = np.random.default_rng(0).normal(size=(400, 20)).astype(dtype)
    return X, X[:, 0] + X[:, 1] * X[:, 2]


def _boosting() -> None:
    for dtype in (np.float32, np.float64):
        X, y = _data(dtype)
        GBDTClassifier(**_BOOSTING).fit(X, y > 0).predict_proba(X)


def _regression() -> None:
    for dtype in (np.float32, np.float64):
        X, y = _data(dtype)
        GBDTRegressor(**_BOOSTING).fit(X, y).predict(X)


def _learner(name: str) -> Callable[[], None]:
    def train() -> None:
        X, y = _data()
        model = GBDTClassifier(tree_learner=name, n_workers=4, top_k=2, **_BOOSTING)  # merges some of the features
        model.fit(X, y > 0).predict_proba(X)

    return train


def _classes() -> None:
    X, y = _data()
    GBDTClassifier(**_BOOSTING).fit(X, np.digitize(y, [-1.0, 1.0])).predict_proba(X)


def _forest() -> None:
    X, y = _data()
    for classifier in (RandomForestClassifier(n_estimators=2), DecisionTreeClassifier()):
        classifier.fit(X, y > 0).predict_proba(X)
    for regressor in (RandomForestRegressor(n_estimators=2), DecisionTreeRegressor()):
        regressor.fit(X, y).predict(X)


def _ranking() -> None:
    X, y = _data()
    GBDTRanker(**_BOOSTING).fit(X, (y > 0).astype(int), group=[10] * 40).predict(X)


def _sparse() -> None:
    from scipy.sparse import csr_matrix

    X, y = _data()
    rows = csr_matrix(np.where(X > 1.5, X, 0))
    GBDTClassifier(**_BOOSTING).fit(rows, y > 0).predict_proba(rows)


def _contributions() -> None:
    X, y = _data()
    GBDTRegressor(**_BOOSTING).fit(X, y).predict(X, pred_contrib=True)


def _prediction() -> None:
    """By a model that was trained elsewhere: three nodes."""
    nodes = np.arange(3)
    tree = Tree(
        feature=np.array([0, -1, -1]), threshold=np.zeros(3), left_child=np.array([1, 0, 0]), default_left=nodes % 2,
        cat_set=np.full(3, -1), cat_sets=np.zeros((0, 4), np.uint64), value=nodes[:, None] / 2.0,
        gain=np.array([1.0, -np.inf, -np.inf]), count=nodes + 1, weight=nodes + 1.0,
    )  # fmt: skip
    model = Model((tree,), "regression", "gbdt", n_features=20, n_outputs=1, init_score=np.zeros(1))
    for dtype in (np.float32, np.float64):
        model.predict_raw(_data(dtype)[0])


# Those that take longest first: others wait for the kernels that they share, and then load them.
TRAININGS: dict[str, Callable[[], None]] = {
    "boosting": _boosting, "voting": _learner("voting"), "exact_voting": _learner("exact_voting"), "forest": _forest,
    "attribute": _learner("attribute"), "data": _learner("data"), "quantized": _learner("quantized"), "sparse": _sparse,
    "regression": _regression, "classes": _classes, "ranking": _ranking, "contributions": _contributions,
    "prediction": _prediction,
}  # fmt: skip
USUAL = ("boosting", "regression")


def compile_ahead(names: Sequence[str], n_processes: int) -> list[str]:
    """Run these trainings in ``n_processes`` processes; returns those that failed.

    The kernels that take longest are compiled first, by themselves, so that the processes have equal work. A training
    that has been run before with these kernels, on such a processor, is not run again.
    """
    folder = folders().new
    waiting = [name for name in names if folder is None or not (folder / f"{name}.warm").exists()]
    if not waiting:
        return []
    failed = []
    with _processes(n_processes) as pool:
        for line in lines_of(["serial", *waiting]) if folder is not None else ():
            pool.submit(compile_line, line)
        runs = {name: pool.submit(train, name) for name in waiting}
        for name, run in runs.items():
            problem = run.exception()
            if problem is not None:
                traceback.print_exception(problem)
                failed.append(name)
            elif folder is not None:
                (folder / f"{name}.warm").touch()
    return failed


def train(name: str) -> None:
    TRAININGS[name]()


def _processes(n: int) -> Executor:
    """Each goes on with another training, so that what it has compiled serves several."""
    return ProcessPoolExecutor(n, mp_context=get_context("spawn"), initializer=compile_alone)


if __name__ == "__main__":
    for chosen in sys.argv[1:]:
        train(chosen)
