"""What workers cost and save: the work of a tree against one machine alone, whole fits, collectives and bytes.

Processor time is that of all workers together, which run as virtual machines on this one. A tree's time is the
difference between fits of many and of few trees. Every row of the table takes at most some minutes.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable
from statistics import median

import numpy as np

import pvtree
from made_data import make_binary
from tables import command, markdown

FEW_TREES = 2


def parameters(n_trees: int, learner: str = "serial", n_workers: int = 1, top_k: int | str = 15, **others: object):
    votes = {} if learner == "serial" else {"n_workers": n_workers, "top_k": top_k}
    chosen = {"num_leaves": 63, "n_jobs": 1, "verbosity": 0, "tree_learner": learner}
    return chosen | votes | {"n_estimators": n_trees} | others


def make_bytes(n_rows: int, n_features: int) -> tuple[np.ndarray, np.ndarray]:
    """Columns of a byte a value, for tables that would take too much memory as floats."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 255, (n_rows, n_features), dtype=np.uint8)
    score = rng.normal(size=n_rows)
    for j in range(0, 40, 2):
        left, right = X[:, j] / 128.0 - 1.0, X[:, j + 1] / 128.0 - 1.0
        score += left - right + (2.0 * left * right if j < 6 else 0.0)
    return X, (score > 0).astype(np.float32)


def fit(X: np.ndarray, y: np.ndarray, **params: object) -> tuple[float, float, pvtree.GBDTClassifier]:
    """(processor seconds, seconds, model)"""
    gc.collect()
    processor, begun = time.process_time(), time.perf_counter()
    model = pvtree.GBDTClassifier(**params).fit(X, y)
    return time.process_time() - processor, time.perf_counter() - begun, model


def ms_of_a_tree(X: np.ndarray, y: np.ndarray, n_trees: int, **params: object) -> tuple[float, float]:
    """(processor, wall) milliseconds."""
    few, many = (fit(X, y, **parameters(n, **params)) for n in (FEW_TREES, FEW_TREES + n_trees))
    return tuple(1e3 * (many[i] - few[i]) / n_trees for i in range(2))


def compare(options: argparse.Namespace, X: np.ndarray, y: np.ndarray, ours: dict, alone: dict) -> np.ndarray:
    """Medians of (our processor, our wall, its processor, its wall) milliseconds a tree, measured in turns."""
    for params in (ours, alone):  # compiles and warms up
        fit(X, y, **parameters(1, **params))
    found = []
    for _ in range(options.repeats):
        ours_now, alone_now = (ms_of_a_tree(X, y, options.trees, **params) for params in (ours, alone))
        found.append([*ours_now, *alone_now])
    return np.median(found, axis=0)


def summed(n_rows: int, n_features: int, learner: str, n_workers: int, goal: str) -> Callable:
    def row(options: argparse.Namespace) -> list[str]:
        X, y, _ = make_binary(n_rows, n_features, 0)
        ours, _, alone, _ = compare(options, X, y, {"learner": learner, "n_workers": n_workers}, {})
        name = f"{learner}, {n_rows:,} x {n_features:,}, M = {n_workers}: processor time summed / serial's"
        return [name, f"{alone:.0f} ms", f"{ours:.0f} ms", f"{ours / alone:.2f}", goal]

    return row


def small(options: argparse.Namespace) -> list[str]:
    X, y, _ = make_binary(15_000, 300, 0)
    ours, alone = {"learner": "voting", "n_workers": 8, "n_jobs": 2}, {"n_jobs": 2}
    _, ours_ms, _, alone_ms = compare(options, X, y, ours, alone)
    name = "voting, 15,000 x 300, M = 8, 2 cores: wall / serial's"
    return [name, f"{alone_ms:.0f} ms", f"{ours_ms:.0f} ms", f"{ours_ms / alone_ms:.1f}", "at most 4"]


def one_worker(n_rows: int, n_features: int, goal: str) -> Callable:
    def row(options: argparse.Namespace) -> list[str]:
        is_large = n_rows * n_features > 3e8
        X, y = make_bytes(n_rows, n_features) if is_large else make_binary(n_rows, n_features, 0)[:2]
        ours, _, alone, _ = compare(options, X, y, {"learner": "voting"}, {})
        name = f"serial / voting of one worker, {n_rows:,} x {n_features:,}: processor time"
        return [name, f"{alone:.0f} ms", f"{ours:.0f} ms", f"{alone / ours:.2f}", goal]

    return row


def whole_fit(options: argparse.Namespace) -> list[str]:
    X, y, _ = make_binary(200_000, 300, 0)
    ours = parameters(50, "voting", 2, 20, n_jobs=2)
    for params in (ours, parameters(50)):
        fit(X, y, **params | {"n_estimators": 1})
    found = [(fit(X, y, **ours)[1], fit(X, y, **parameters(50))[1]) for _ in range(options.repeats)]
    two, one = (median(column) for column in zip(*found, strict=True))
    name = "200,000 x 300, 50 trees, whole fit: one machine of one core / two workers"
    return [name, f"{one:.1f} s", f"{two:.1f} s", f"{one / two:.2f}", "1.7"]


def collectives(top_k: int | str) -> Callable:
    def row(options: argparse.Namespace) -> list[str]:
        X, y, _ = make_binary(60_000, 400, 0)
        model = fit(X, y, **parameters(10, "exact_voting", 8, top_k, n_jobs=2))[2]
        name = f"collectives a tree, exact_voting, 60,000 x 400, M = 8, top_k={top_k!r}, 10 trees"
        return [name, "-", f"{model.traffic_.calls_per_tree:.0f}", "-", "80"]

    return row


def bytes_of_many(options: argparse.Namespace) -> list[str]:
    X, y, _ = make_binary(64_000, 800, 0)
    few, many = (
        fit(X, y, **parameters(2, "voting", n_workers, 20, n_jobs=2))[2].traffic_.bytes_per_tree
        for n_workers in (8, 128)
    )
    name = "bytes per worker and tree, voting, 64,000 x 800, k = 20: M = 128 / M = 8"
    return [name, f"{few / 1e3:.0f} kB", f"{many / 1e3:.0f} kB", f"{many / few:.2f}", "at most 1.5"]


ROWS = {
    "voting": summed(100_000, 1_200, "voting", 4, "at most 1.3"),
    "exact": summed(100_000, 1_200, "exact_voting", 4, "at most 2.2"),
    "small": small,
    "one": one_worker(100_000, 1_200, "2.5"),
    "large": one_worker(1_000_000, 600, "4"),
    "medium": one_worker(40_000, 400, "at least 1"),
    "fit": whole_fit,
    "collectives": collectives(20),
    "auto": collectives("auto"),
    "bytes": bytes_of_many,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", default=[*ROWS], help=f"which rows of the table: {', '.join(ROWS)} (all)")
    parser.add_argument("--trees", type=int, default=10, help="trees whose mean is taken (10)")
    parser.add_argument("--repeats", type=int, default=3, help="repetitions, in turns; medians are shown (3)")
    options = parser.parse_args()
    if unknown := set(options.rows) - set(ROWS):
        parser.error(f"there is no row {', '.join(sorted(unknown))}; use some of {', '.join(ROWS)}.")
    header = ["what", "one machine, or M = 8", "workers", "ratio", "to reach"]
    lines = [ROWS[name](options) for name in options.rows]
    print(f"`{command('workers.py')}`\n\n{markdown(header, lines)}")


if __name__ == "__main__":
    main()
