"""What ballots from samples cost and save: test AUC and processor time of voting by r rows against voting by all rows.

Every draw is a new data set with main effects, products of columns, a step and skewed counts.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from sklearn.metrics import roc_auc_score

import pvtree
from tables import markdown


def make_rows(n_rows: int, n_features: int, draw: int) -> tuple[np.ndarray, np.ndarray]:
    """Normal columns, every fifth a skewed count, and a label that depends on some of them and on two products."""
    rng = np.random.default_rng(100 + draw)
    X = rng.normal(size=(n_rows, n_features)).astype(np.float32)
    X[:, ::5] = np.round(np.exp(X[:, ::5]))
    rng.normal(size=n_features), rng.random(n_features)  # the published figures skip as many numbers
    score = X[:, 1:41] @ rng.normal(size=40) * 0.5 + 1.5 * X[:, 1] * X[:, 2] + 1.2 * X[:, 3] * X[:, 4] * X[:, 6]
    score = score + np.sin(3 * X[:, 7]) * 2 + (X[:, 8] > 1.5) * 3
    return X, (score + 0.5 * score.std() * rng.normal(size=n_rows) > 0).astype(int)


def measure(X: np.ndarray, y: np.ndarray, n_train: int, n_trees: int, **learner: object) -> tuple[float, float]:
    """(test AUC, processor seconds of the whole fit)."""
    model = pvtree.GBDTClassifier(n_estimators=n_trees, num_leaves=31, n_jobs=1, verbosity=0, **learner)
    begun = time.process_time()
    model.fit(X[:n_train], y[:n_train])
    seconds = time.process_time() - begun
    return float(roc_auc_score(y[n_train:], model.predict_proba(X[n_train:])[:, 1])), seconds


def table(options: argparse.Namespace) -> str:
    settings: list[int | str] = ["all", *options.ballot_rows]
    found: dict[tuple[int, int | str], list[tuple[float, float]]] = {}
    for draw in range(options.draws):
        X, y = make_rows(2 * options.rows, options.features, draw)
        for n_workers in options.workers:
            for r in settings:
                voting = {"tree_learner": "voting", "top_k": options.top_k, "n_workers": n_workers, "ballot_rows": r}
                result = measure(X, y, options.rows, options.trees, **voting)
                found.setdefault((n_workers, r), []).append(result)
    lines = []
    for (n_workers, r), results in found.items():
        auc, seconds = np.array(results).T
        full_auc, full_seconds = np.array(found[n_workers, "all"]).T
        difference, error = auc - full_auc, float("nan")
        if len(auc) > 1:
            error = difference.std(ddof=1) / np.sqrt(len(auc))
        change = "" if r == "all" else f"{difference.mean():+.5f} +- {error:.5f}"
        lines.append([str(n_workers), str(r), f"{auc.mean():.5f}", change, f"{np.median(seconds / full_seconds):.2f}"])
    return markdown(["workers", "ballot_rows", "test AUC", "difference from all", "processor time / all"], lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=40_000, help="rows for training, and as many for testing")
    parser.add_argument("--features", type=int, default=150)
    parser.add_argument("--trees", type=int, default=100)
    parser.add_argument("--draws", type=int, default=8)
    parser.add_argument("--top-k", type=int, default=15)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--ballot-rows", type=int, nargs="+", default=[2048, 4096, 8192])
    print(table(parser.parse_args()))


if __name__ == "__main__":
    main()
