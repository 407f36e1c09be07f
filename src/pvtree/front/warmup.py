"""Compiles kernels ahead of need: small trainings that use those of most users, several at a time."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
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
from pvtree.kernels.cache_folder import folders

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
        GBDTClassifier(tree_learner=name, n_workers=2, **_BOOSTING).fit(X, y > 0).predict_proba(X)

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


# Those that take longest first: others wait for the kernels that they share, and then load them.
TRAININGS: dict[str, Callable[[], None]] = {
    "boosting": _boosting, "voting": _learner("voting"), "exact_voting": _learner("exact_voting"), "forest": _forest,
    "attribute": _learner("attribute"), "data": _learner("data"), "sparse": _sparse, "regression": _regression,
    "classes": _classes, "ranking": _ranking, "contributions": _contributions,
}  # fmt: skip
USUAL = ("boosting", "regression")


def command(name: str) -> list[str]:
    return [sys.executable, "-m", "pvtree.front.warmup", name]


def compile_ahead(names: Sequence[str], n_processes: int) -> list[str]:
    """Run these trainings, ``n_processes`` at a time, each in a process of its own; returns those that failed.

    One that has been run before with these kernels, on such a processor, is not run again.
    """
    folder = folders().new
    waiting = [name for name in names if folder is None or not (folder / f"{name}.warm").exists()]
    failed = []
    running: dict[str, subprocess.Popen[bytes]] = {}
    try:
        while waiting or running:
            while waiting and len(running) < n_processes:
                name = waiting.pop(0)
                running[name] = subprocess.Popen(command(name))
            name = next(iter(running))
            try:
                code = running[name].wait(0.1)
            except subprocess.TimeoutExpired:
                running[name] = running.pop(name)  # look at the next one
                continue
            del running[name]
            if code:
                failed.append(name)
            elif folder is not None:
                (folder / f"{name}.warm").touch()
    finally:
        for process in running.values():
            process.kill()
            process.wait()
    return failed


if __name__ == "__main__":
    for chosen in sys.argv[1:]:
        TRAININGS[chosen]()
