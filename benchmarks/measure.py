"""One measurement in its own process: reads a folder of generated data and prints one line of JSON."""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

STARTED = time.perf_counter()  # before any import that a user would wait for

ENOUGH_SECONDS = 1.0  # a short fit or prediction is repeated until this much time has been measured
MAX_REPEATS = 15


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", help="a library, or start-up for the time to the first tree")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--kind", default="binary")
    parser.add_argument("--num-leaves", type=int, default=63)
    parser.add_argument("--trees", type=int, default=10)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    print(json.dumps(start_up() if options.what == "start-up" else measure(options)))


def measure(options: argparse.Namespace) -> dict[str, float]:
    """Binning, boosting, prediction, memory and the test metric of one library on one task."""
    from libraries import LIBRARIES
    from made_data import Part

    library = LIBRARIES[options.what](options.kind, options.num_leaves, options.threads)
    warm = Part.load(options.folder / "warm")
    library.fit(warm, 3)
    library.predict(warm.X)

    train = Part.load(options.folder / "train")
    resident = resident_after_reset()
    fits: list[tuple[float, float, float]] = []
    memory = 0
    while not fits or (sum(fit[0] for fit in fits) < ENOUGH_SECONDS and len(fits) < MAX_REPEATS):
        began = time.perf_counter()
        binning, boosting = library.fit(train, options.trees)
        fits.append((time.perf_counter() - began, binning, boosting))
        if len(fits) == 1:  # a second fit finds memory that it can reuse
            memory = peak_resident() - resident

    test = Part.load(options.folder / "test")
    scores, seconds = repeated(lambda: library.predict(test.X))
    return {
        "fit_seconds": median(fit[0] for fit in fits),
        "binning_seconds": median(fit[1] for fit in fits),
        "tree_seconds": median(fit[2] for fit in fits) / options.trees,
        "rows_per_second": len(test.y) / seconds,
        "memory_bytes": memory,
        "metric": auc(test, scores) if options.kind == "binary" else mean_ndcg(test, scores, 10),
    }


def repeated(call: Callable[[], object]) -> tuple[object, float]:
    """The last result and the median of the seconds."""
    result: object = None
    seconds: list[float] = []
    while len(seconds) < 3 or (sum(seconds) < ENOUGH_SECONDS and len(seconds) < MAX_REPEATS):
        began = time.perf_counter()
        result = call()
        seconds.append(time.perf_counter() - began)
    return result, median(seconds)


def resident_after_reset() -> int:
    """Bytes resident now; resets the peak if the system supports it."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
        return status_bytes("VmRSS")
    except OSError:
        return peak_resident()  # cannot be reset, so the difference is a lower bound


def peak_resident() -> int:
    try:
        return status_bytes("VmHWM")
    except OSError:
        # Not the first choice: on Linux it starts at the peak of the process that started this one.
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def status_bytes(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise OSError(f"/proc/self/status has no {field}")


def auc(part, scores) -> float:
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(part.y, scores))


def mean_ndcg(part, scores, k: int) -> float:
    """Computed here, so that no library is judged by its own metric."""
    import numpy as np

    discount = 1.0 / np.log2(np.arange(k) + 2.0)
    total, first = 0.0, 0
    for size in part.group:
        gain = 2.0 ** part.y[first : first + size] - 1.0
        order = np.argsort(-scores[first : first + size], kind="stable")
        shown = discount[:size]
        best = np.sort(gain)[::-1][:k] @ shown
        total += gain[order[:k]] @ shown / best if best > 0 else 1.0
        first += size
    return total / len(part.group)


def start_up() -> dict[str, float]:
    """Seconds from the import of pvtree to the first tree, and until every estimator has trained and predicted."""
    import numpy as np

    import pvtree

    rng = np.random.default_rng(0)
    X = rng.standard_normal((1_000, 10), np.float32)
    y = X[:, 0] + X[:, 1] > 0
    pvtree.GBDTClassifier(n_estimators=1, n_jobs=2, verbosity=0).fit(X, y)
    first_tree = time.perf_counter() - STARTED
    for estimator, target, queries in (
        (pvtree.GBDTClassifier, y, {}),
        (pvtree.GBDTClassifier, y + (X[:, 2] > 0), {}),
        (pvtree.GBDTRegressor, X[:, 0], {}),
        (pvtree.GBDTRanker, y.astype(int), {"group": [100] * 10}),
        (pvtree.RandomForestClassifier, y, {}),
        (pvtree.RandomForestRegressor, X[:, 0], {}),
        (pvtree.DecisionTreeClassifier, y, {}),
        (pvtree.DecisionTreeRegressor, X[:, 0], {}),
    ):
        counted = {} if "DecisionTree" in estimator.__name__ else {"n_estimators": 1}
        estimator(n_jobs=2, verbosity=0, **counted).fit(X, target, **queries).predict(X)
    return {"first_tree": first_tree, "every_estimator": time.perf_counter() - STARTED}


if __name__ == "__main__":
    main()
