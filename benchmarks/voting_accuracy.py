"""What voting costs in accuracy: test metrics of tree_learner="voting" against "serial" on the same data and seeds.

Without a folder, the data is generated from a seed. A folder of real data holds kddcup2004_bio, census_income_kdd,
fashion_mnist and blogfeedback as they are distributed (reading the first needs pyarrow).
"""

from __future__ import annotations

import argparse
import gzip
import sys
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import log_loss, roc_auc_score

import made_data
import pvtree
from pvtree.objectives.metrics import get_metric
from tables import markdown


@dataclass(frozen=True)
class Data:
    """Training and test rows of one task; queries are given by their sizes."""

    name: str
    kind: str  # "ranking" | "clicks" | "multiclass" | "regression"
    X: Any
    y: np.ndarray
    X_test: Any
    y_test: np.ndarray
    group: np.ndarray | None = None
    group_test: np.ndarray | None = None

    @property
    def metric(self) -> str:
        return {"ranking": "NDCG@10", "clicks": "AUC", "multiclass": "log loss", "regression": "RMSE"}[self.kind]


def made(kind: str, n_rows: int, n_features: int, seed: int) -> Data:
    """Twice the rows; half of them are for testing."""
    X, y, group = (made_data.make_ranking if kind == "ranking" else made_data.make_binary)(2 * n_rows, n_features, seed)
    if kind in ("multiclass", "regression"):
        rng = np.random.default_rng(seed)
        score = made_data.standardised_effects(X[:, : made_data.n_informative(n_features)], rng)
        score = score + 0.5 * rng.standard_normal(len(score))
        y = np.digitize(score, np.quantile(score, np.linspace(0, 1, 8)[1:-1])) if kind == "multiclass" else score
    n = n_rows
    groups = (None, None)
    if group is not None:
        n_queries = int(np.searchsorted(np.cumsum(group), n_rows)) + 1
        n = int(group[:n_queries].sum())
        groups = group[:n_queries], group[n_queries:]
    return Data(f"made, {n_rows:,} x {n_features}", kind, X[:n], y[:n], X[n:], y[n:], *groups)


def kdd_bio(folder: Path) -> Data:
    """Matching proteins, 153 queries; two thirds of the shuffled queries are for training."""
    table = pd.read_parquet(folder / "kddcup2004_bio" / "bio_train.parquet")
    queries = np.random.default_rng(0).permutation(table["EXAMPLE_ID"].unique())
    label = next(name for name in ("target", "TARGET", "label", "HOMOLOGY") if name in table.columns)
    parts = []
    for chosen in (queries[: len(queries) * 2 // 3], queries[len(queries) * 2 // 3 :]):
        rows = pd.concat([table[table["EXAMPLE_ID"] == query] for query in chosen])
        X = rows.drop(columns=["EXAMPLE_ID", "BLOCK_ID", label]).to_numpy(np.float32)
        sizes = rows.groupby("EXAMPLE_ID", sort=False).size().to_numpy()
        parts.append((X, rows[label].to_numpy(np.float64), sizes))
    (X, y, group), (X_test, y_test, group_test) = parts
    return Data(f"KDD Cup 2004 bio, {len(X):,} x {X.shape[1]}", "ranking", X, y, X_test, y_test, group, group_test)


def census(folder: Path) -> Data:
    """Income above a limit; text columns are categories, the 254 most frequent of each."""
    parts = []
    for name in ("train", "test"):
        path = folder / "census_income_kdd" / f"census_income_1994_1995_{name}.csv.gz"
        parts.append(pd.read_csv(path, header=None, skipinitialspace=True))
    y = [(part.iloc[:, -1].astype(str).str.contains("50000+", regex=False)).to_numpy() for part in parts]
    tables = [part.iloc[:, :-1] for part in parts]
    for column in tables[0].select_dtypes(exclude="number").columns:
        known = tables[0][column].value_counts().index[:254]
        tables = [t.assign(**{str(column): pd.Categorical(t[column], known)}).drop(columns=column) for t in tables]
    tables = [t.rename(columns=str) for t in tables]
    return Data(f"census income, {len(y[0]):,} x {tables[0].shape[1]}", "clicks", tables[0], y[0], tables[1], y[1])


def fashion(folder: Path) -> Data:
    """Ten kinds of clothes in 784 pixels; every third training image."""

    def read(name: str, offset: int) -> np.ndarray:
        with gzip.open(folder / "fashion_mnist" / f"{name}-ubyte.gz") as file:
            return np.frombuffer(file.read(), np.uint8, offset=offset)

    X, X_test = (read(f"{name}-images-idx3", 16).reshape(-1, 784).astype(np.float32) for name in ("train", "t10k"))
    y, y_test = (read(f"{name}-labels-idx1", 8).astype(np.int64) for name in ("train", "t10k"))
    return Data(f"Fashion-MNIST, {len(X) // 3:,} x 784", "multiclass", X[::3], y[::3], X_test, y_test)


def blog(folder: Path) -> Data:
    """Number of comments on a blog post, log(1 + y); shuffled, because the file is sorted."""
    with zipfile.ZipFile(folder / "blogfeedback" / "BlogFeedback.zip") as archive:
        names = sorted(archive.namelist())
        tables = {name: pd.read_csv(archive.open(name), header=None) for name in names if name.endswith(".csv")}
    train = pd.concat([t for name, t in tables.items() if "train" in name]).sample(frac=1, random_state=0).to_numpy()
    test = pd.concat([t for name, t in tables.items() if "test" in name]).to_numpy()
    X, X_test = train[:, :-1].astype(np.float32), test[:, :-1].astype(np.float32)
    title = f"BlogFeedback, {len(X):,} x {X.shape[1]}"
    return Data(title, "regression", X, np.log1p(train[:, -1]), X_test, np.log1p(test[:, -1]))


REAL: tuple[Callable[[Path], Data], ...] = (kdd_bio, census, fashion, blog)
MADE = (("ranking", 136), ("clicks", 300), ("multiclass", 100), ("regression", 300))
ESTIMATORS = {
    "ranking": pvtree.GBDTRanker, "clicks": pvtree.GBDTClassifier, "multiclass": pvtree.GBDTClassifier,
    "regression": pvtree.GBDTRegressor,
}  # fmt: skip


def test_score(data: Data, n_trees: int, seed: int, **strategy: Any) -> float:
    """Train with the seed and score on the test rows."""
    model = ESTIMATORS[data.kind](n_estimators=n_trees, random_state=seed, verbosity=0, **strategy)
    if data.kind == "ranking":
        model.fit(data.X, data.y, group=data.group)
        raw = model.predict(data.X_test)[None]
        return get_metric("ndcg@10", "lambdarank")(data.y_test, raw, None, data.group_test)
    model.fit(data.X, data.y)
    if data.kind == "clicks":
        return float(roc_auc_score(data.y_test, model.predict_proba(data.X_test)[:, 1]))
    if data.kind == "multiclass":
        return float(log_loss(data.y_test, model.predict_proba(data.X_test)))
    return float(np.sqrt(np.mean((model.predict(data.X_test) - data.y_test) ** 2)))


def compare(data: Data, options: argparse.Namespace) -> list[str]:
    """One line of the table: both means over the seeds, and the mean difference with its standard error."""
    voting = {"tree_learner": "voting", "top_k": options.top_k, "n_workers": options.workers}
    pairs = [
        (test_score(data, options.trees, seed), test_score(data, options.trees, seed, **voting))
        for seed in range(options.seeds)
    ]
    serial, voted = np.array(pairs).T
    difference = voted - serial
    error = difference.std(ddof=1) / np.sqrt(len(difference)) if len(difference) > 1 else float("nan")
    chance = serial.std(ddof=1) if len(serial) > 1 else float("nan")
    figures = [
        f"{serial.mean():.4f}",
        f"{voted.mean():.4f}",
        f"{difference.mean():+.4f} +- {error:.4f}",
        f"{chance:.4f}",
    ]
    return [data.kind, data.name, data.metric, *figures]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, help="folder of real data; default: synthetic data")
    parser.add_argument("--only", help="part of the names of the data sets to run")
    parser.add_argument("--rows", type=int, default=20_000, help="training rows of synthetic data")
    parser.add_argument("--trees", type=int, default=50)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--top-k", type=int, default=20)
    options = parser.parse_args()
    print(f"`python benchmarks/voting_accuracy.py {' '.join(sys.argv[1:])}`\n")
    header = ["task", "data", "metric", "serial", "voting", "difference", "serial's spread over seeds"]
    rows = []
    loads: list[Callable[[], Data]] = [lambda load=load: load(options.folder) for load in REAL]
    if options.folder is None:
        loads = [lambda kind=kind, d=d: made(kind, options.rows, d, 0) for kind, d in MADE]
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        for load in loads:
            data = load()
            if options.only is None or options.only in data.name or options.only in data.kind:
                rows.append(compare(data, options))
                print(markdown(header, rows[-1:]), flush=True)
    print("\n" + markdown(header, rows))


if __name__ == "__main__":
    main()
