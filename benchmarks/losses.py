"""Each loss against LightGBM's or XGBoost's: the test metric on ten draws of data, with the same parameters.

Usage: python benchmarks/losses.py [--draws 10] [--first 0] [--rows 1000] [--losses l1,poisson]
It prints the table of docs/losses.md: the mean of both metrics and of their difference, with its standard error.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pvtree import GBDTClassifier, GBDTRegressor

# With 1,000 rows, 255 bins would hold four rows each, and the libraries would cut them in different places.
SETTINGS = {"n_estimators": 60, "learning_rate": 0.1, "num_leaves": 15, "min_child_samples": 20, "max_bin": 63}
# LightGBM does not count the rows of a leaf: it estimates their number from hessians, which these losses spread widely.
# So leaves are limited by the sum of hessians, which both libraries know.
BY_HESSIAN = (("min_child_samples", 1), ("min_child_weight", 20.0))
Metric = Callable[[np.ndarray, np.ndarray], float]


@dataclass(frozen=True)
class Case:
    """A loss, who else has it, its labels and how predictions are judged."""

    loss: str
    peer: str  # "lightgbm" or "xgboost"
    peer_objective: str
    labels: Callable[[np.ndarray, np.random.Generator], np.ndarray]
    metric: str
    judge: Metric
    more: tuple[tuple[str, Any], ...] = ()  # further parameters of both
    kind: str = "value"


def normal(mean: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return mean + rng.normal(size=len(mean))


def heavy(mean: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return mean + rng.standard_t(2, len(mean))


def positive(mean: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return rng.gamma(2.0, np.exp(mean / 2) / 2)


def counts(mean: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return rng.poisson(np.exp(mean / 2)).astype(float)


def compound(mean: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A Poisson number of gamma amounts, so many zeros."""
    n = rng.poisson(np.exp(mean / 2))
    return np.where(n > 0, rng.gamma(2.0 * np.maximum(n, 1), 0.5), 0.0)


def shares(mean: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    p = 1 / (1 + np.exp(-mean))
    return rng.beta(4 * p + 0.1, 4 * (1 - p) + 0.1)


def two_classes(mean: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return (mean + rng.logistic(size=len(mean)) > 0).astype(float)


def three_classes(mean: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.digitize(mean + rng.logistic(size=len(mean)), [-1.0, 1.0]).astype(float)


def pinball(level: float) -> Metric:
    return lambda y, p: float(np.mean(np.where(y > p, level * (y - p), (level - 1) * (y - p))))


def tweedie(y: np.ndarray, p: np.ndarray) -> float:
    return float(np.mean(-y * p**-0.5 / -0.5 + p**0.5 / 0.5))


def log_loss(y: np.ndarray, p: np.ndarray) -> float:
    p = np.clip(p, 1e-12, 1 - 1e-12)
    return float(-np.mean(y * np.log(p) + (1 - y) * np.log(1 - p)))


def error(y: np.ndarray, p: np.ndarray) -> float:
    return float(np.mean(y != p))


MAE: Metric = lambda y, p: float(np.mean(np.abs(y - p)))  # noqa: E731
CASES = (
    Case(
        "regression", "lightgbm", "regression", normal, "MSE", lambda y, p: float(np.mean((y - p) ** 2))
    ),
    Case("l1", "lightgbm", "regression_l1", heavy, "MAE", MAE),
    Case("huber", "lightgbm", "huber", heavy, "MAE", MAE, (("alpha", 0.9),)),
    Case("fair", "lightgbm", "fair", heavy, "MAE", MAE),
    Case("quantile", "lightgbm", "quantile", heavy, "pinball 0.8", pinball(0.8), (("alpha", 0.8),)),
    Case(
        "mape", "lightgbm", "mape", positive, "MAPE", lambda y, p: float(np.mean(np.abs(y - p) / np.maximum(1, y)))
    ),
    Case(
        "poisson", "lightgbm", "poisson", counts, "Poisson deviance / 2",
        lambda y, p: float(np.mean(p - y * np.log(p))), BY_HESSIAN,
    ),
    Case(
        "gamma", "lightgbm", "gamma", positive, "gamma NLL",
        lambda y, p: float(np.mean(y / p + np.log(p))), BY_HESSIAN,
    ),
    Case("tweedie", "lightgbm", "tweedie", compound, "Tweedie NLL", tweedie, BY_HESSIAN),
    Case("cross_entropy", "lightgbm", "cross_entropy", shares, "log loss", log_loss),
    Case(
        "cross_entropy_lambda", "lightgbm", "cross_entropy_lambda", shares, "log loss",
        lambda y, p: log_loss(y, 1 - np.exp(-p)),
    ),
    Case("pseudohuber", "xgboost", "reg:pseudohubererror", heavy, "MAE", MAE, (("huber_slope", 1.0),)),
    Case(
        "squared_log", "xgboost", "reg:squaredlogerror", positive, "RMSLE",
        lambda y, p: float(np.sqrt(np.mean((np.log1p(np.maximum(p, -0.999)) - np.log1p(y)) ** 2))),
    ),
    Case("hinge", "xgboost", "binary:hinge", two_classes, "error", error, kind="class"),
    Case("multiclassova", "lightgbm", "multiclassova", three_classes, "error", error, kind="class"),
)  # fmt: skip


def rows(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    X = rng.normal(size=(n, 6))
    return X, X[:, 0] + np.sin(2 * X[:, 1]) + 0.5 * X[:, 2] * (X[:, 3] > 0)


def peer_of(case: Case) -> Any:
    more = dict(case.more)
    if case.peer == "lightgbm":
        import lightgbm

        kind = lightgbm.LGBMRegressor if case.kind == "value" else lightgbm.LGBMClassifier
        return kind(objective=case.peer_objective, verbosity=-1, n_jobs=1, **SETTINGS | more)
    import xgboost

    settings = {
        "n_estimators": SETTINGS["n_estimators"], "learning_rate": SETTINGS["learning_rate"], "max_depth": 0,
        "max_leaves": SETTINGS["num_leaves"], "max_bin": SETTINGS["max_bin"], "grow_policy": "lossguide",
        "min_child_weight": 1.0, "reg_lambda": 1.0,
        "n_jobs": 1,
    }  # fmt: skip
    kind = xgboost.XGBRegressor if case.kind == "value" else xgboost.XGBClassifier
    return kind(objective=case.peer_objective, **settings, **more)


def ours_of(case: Case) -> Any:
    settings = dict(SETTINGS)
    if case.peer == "xgboost":
        settings |= {"min_child_samples": 1, "min_child_weight": 1.0, "reg_lambda": 1.0}
    kind = GBDTRegressor if case.kind == "value" else GBDTClassifier
    return kind(objective=case.loss, n_jobs=1, **settings | dict(case.more))


def compare(case: Case, draws: range, n_rows: int) -> list[tuple[float, float]]:
    """(ours, theirs) for each draw."""
    pairs = []
    for draw in draws:
        rng = np.random.default_rng(draw)
        (X, mean), (X_test, mean_test) = rows(n_rows, rng), rows(4 * n_rows, rng)
        y, y_test = case.labels(mean, rng), case.labels(mean_test, rng)
        found = [case.judge(y_test, model.fit(X, y).predict(X_test)) for model in (ours_of(case), peer_of(case))]
        pairs.append((found[0], found[1]))
    return pairs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="the number of the first draw")
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--losses", default="")
    asked = parser.parse_args()
    print("| loss | peer | test metric | pvtree | peer's | difference | standard errors |")
    print("|---|---|---|---|---|---|---|")
    for case in CASES:
        if asked.losses and case.loss not in asked.losses.split(","):
            continue
        pairs = np.array(compare(case, range(asked.first, asked.first + asked.draws), asked.rows))
        difference = pairs[:, 0] - pairs[:, 1]
        error_of_mean = difference.std(ddof=1) / math.sqrt(len(pairs))
        ours, theirs = pairs.mean(axis=0)
        print(
            f"| `{case.loss}` | {case.peer} `{case.peer_objective}` | {case.metric} | {ours:.4f} | {theirs:.4f} | "
            f"{difference.mean():+.4f} ± {error_of_mean:.4f} | {difference.mean() / max(error_of_mean, 1e-12):+.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
