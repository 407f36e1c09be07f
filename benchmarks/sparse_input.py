"""pvtree against LightGBM on sparse rows (scipy CSR): speed, memory and test metric.

Every measurement runs in its own process, one after another; repetitions alternate between the libraries.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

import numpy as np
from scipy.sparse import csr_array

from libraries import LIBRARIES
from made_data import Part
from measure import auc, peak_resident, repeated, resident_after_reset
from tables import COLUMNS, Runs, advantage, markdown, shown

NUM_LEAVES = 63
COMPARED = ("pvtree", "lightgbm")


def one_hot(n_rows: int, rng: np.random.Generator) -> Part:
    """2,000 columns of 20 variables with 100 categories each, some of them frequent."""
    n_variables, n_categories = 20, 100
    category = (n_categories * rng.random((n_rows, n_variables)) ** 2).astype(np.int64)
    column = category + n_categories * np.arange(n_variables)
    start = np.arange(0, column.size + 1, n_variables)
    X = csr_array((np.ones(column.size), column.ravel(), start), shape=(n_rows, n_variables * n_categories))
    return Part(X, labels(X, rng), None)


def text(n_rows: int, rng: np.random.Generator) -> Part:
    """Counts of 20,000 words in texts of 75 words; frequencies follow Zipf's law, and 0.3 % of counts are not zero."""
    n_words, length = 20_000, 75
    frequency = 1.0 / np.arange(1, n_words + 1)
    words = np.random.default_rng(0).permutation(n_words)  # the same word is frequent in all parts
    column = words[rng.choice(n_words, (n_rows, length), p=frequency / frequency.sum())]
    row = np.repeat(np.arange(n_rows), length)
    X = csr_array((np.ones(column.size), (row, column.ravel())), shape=(n_rows, n_words))
    X.sum_duplicates()
    return Part(X, labels(X, rng), None)


def labels(X: csr_array, rng: np.random.Generator) -> np.ndarray:
    """Classes from a weighted sum of the columns plus noise."""
    score = X @ np.random.default_rng(1).standard_normal(X.shape[1])
    return (score + 0.5 * score.std() * rng.standard_normal(len(score)) > np.median(score)).astype(np.float64)


TASKS = {"one-hot": (one_hot, 200_000, 50), "text": (text, 20_000, 50)}
TITLES = {"one-hot": "One-hot, 200,000 x 2,000", "text": "Text, 20,000 x 20,000"}


def measure(library: str, task: str, n_threads: int) -> dict[str, float]:
    make, n_rows, n_trees = TASKS[task]
    model = LIBRARIES[library]("binary", NUM_LEAVES, n_threads)
    warm = make(2_000, np.random.default_rng(2))
    model.fit(warm, 3)
    model.predict(warm.X)
    train, test = make(n_rows, np.random.default_rng(3)), make(n_rows // 4, np.random.default_rng(4))
    resident = resident_after_reset()
    began = time.perf_counter()
    binning, boosting = model.fit(train, n_trees)
    fit_seconds = time.perf_counter() - began
    memory = peak_resident() - resident
    scores, seconds = repeated(lambda: model.predict(test.X))
    return {
        "fit_seconds": fit_seconds,
        "binning_seconds": binning,
        "tree_seconds": boosting / n_trees,
        "rows_per_second": len(test.y) / seconds,
        "memory_bytes": memory,
        "metric": auc(test, scores),
    }


def measured(library: str, task: str, n_threads: int) -> dict[str, float]:
    """The same in its own process."""
    command = [sys.executable, str(Path(__file__)), "--measure", library, "--tasks", task, "--threads", str(n_threads)]
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    return dict(json.loads(result.stdout.splitlines()[-1]))


def table(runs: Runs) -> str:
    """Brackets show how many times as good as LightGBM."""
    rows = []
    for library in COMPARED:
        cells = [
            shown(runs, library, column)
            + (f" ({advantage(runs, library, column):.2f}x)" if library == "pvtree" else "")
            for column in COLUMNS
        ]
        rows.append([LIBRARIES[library].label, *cells, f"{median(run['metric'] for run in runs[library]):.4f}"])
    return markdown(["", *(column.title for column in COLUMNS), "AUC"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--measure", choices=COMPARED, help="one measurement, printed as a line of JSON")
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure, options.tasks[0], options.threads[0])))
        return
    for task in options.tasks:
        for n_threads in options.threads:
            runs: dict[str, list[dict[str, float]]] = {library: [] for library in COMPARED}
            for _ in range(options.repeats):
                for library in COMPARED:
                    runs[library].append(measured(library, task, n_threads))
            print(f"\n{TITLES[task]}, {n_threads} thread(s), {options.repeats} repeats\n\n{table(runs)}", flush=True)


if __name__ == "__main__":
    main()
