"""The benchmark's tasks and their data, generated from a seed: informative, correlated and noise attributes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

N_WARM_ROWS = 2_000
QUERY_ROWS = 100  # on average
LABEL_SHARES = (0.52, 0.28, 0.13, 0.05, 0.02)  # labels 0 to 4, most documents irrelevant


@dataclass(frozen=True)
class Task:
    """The data of a task, and how to train on it."""

    name: str
    kind: str  # "binary" | "ranking"
    n_rows: int
    n_features: int
    num_leaves: int
    n_trees: int
    n_test: int
    # Figures of small data depend on the draw more than on the library, so every repetition draws new data.
    fresh_draws: bool = False

    @property
    def title(self) -> str:
        return (
            f"({self.name}) {self.n_rows:,} x {self.n_features}, {self.kind}, {self.num_leaves} leaves, "
            f"{self.n_trees} trees"
        )

    @property
    def metric(self) -> str:
        return "AUC" if self.kind == "binary" else "NDCG@10"

    def reduced(self) -> Task:
        """A version that takes seconds, to try the benchmark; its figures mean nothing."""
        rows, test = max(self.n_rows // 20, 5_000), max(self.n_test // 20, 10_000)
        return replace(self, n_rows=rows, n_test=test, n_trees=min(self.n_trees, 10))


TASKS = {
    "a": Task("a", "binary", 1_000_000, 100, 63, 50, 200_000),
    "b": Task("b", "binary", 100_000, 1_200, 63, 50, 50_000),
    "c": Task("c", "binary", 5_000, 20, 31, 100, 100_000, fresh_draws=True),
    "d": Task("d", "ranking", 50_000, 136, 63, 100, 200_000, fresh_draws=True),
}


@dataclass(frozen=True)
class Part:
    """Rows of one task for warming up, training or testing."""

    X: np.ndarray  # float32 (n_rows, n_features)
    y: np.ndarray  # float32 (n_rows,)
    group: np.ndarray | None  # int64 (n_queries,) sizes, of rankings

    def save(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        np.save(folder / "X.npy", self.X)
        np.save(folder / "y.npy", self.y)
        (folder / "group.npy").unlink(missing_ok=True)  # of the task before
        if self.group is not None:
            np.save(folder / "group.npy", self.group)

    @staticmethod
    def load(folder: Path) -> Part:
        group = folder / "group.npy"
        return Part(np.load(folder / "X.npy"), np.load(folder / "y.npy"), np.load(group) if group.exists() else None)


def write(task: Task, folder: Path, seed: int) -> None:
    """Write the parts "warm", "train" and "test" of a task into a folder."""
    make = {"binary": make_binary, "ranking": make_ranking}[task.kind]
    X, y, group = make(task.n_rows + task.n_test, task.n_features, seed)
    for name, first, stop in (
        ("warm", 0, N_WARM_ROWS),
        ("train", 0, task.n_rows),
        ("test", task.n_rows, len(y)),
    ):
        sizes = None if group is None else group[first // QUERY_ROWS : stop // QUERY_ROWS]
        Part(X[first:stop], y[first:stop], sizes).save(folder / name)


def make_binary(n_rows: int, n_features: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Binary labels whose log-odds have linear, curved, stepped and joint effects."""
    rng = np.random.default_rng([seed, n_features])
    X = correlated_normals(rng, n_rows, n_features)
    log_odds = 4.0 * standardised_effects(X, rng)
    y = rng.random(n_rows) < 1.0 / (1.0 + np.exp(-log_odds))
    give_margins(X)
    return X, y.astype(np.float32), None


def make_ranking(n_rows: int, n_features: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Queries of 80 to 120 documents; labels follow effects of the document and the query, and noise."""
    rng = np.random.default_rng([seed, n_features])
    group = query_sizes(rng, n_rows)
    X = correlated_normals(rng, n_rows, n_features)
    of_query = np.repeat(np.arange(len(group)), group)
    n_query_features = n_features // 10  # attributes of the query: the same for all its documents
    X[:, -n_query_features:] = rng.standard_normal((len(group), n_query_features), np.float32)[of_query]
    easiness = 0.5 * rng.standard_normal(len(group))
    relevance = standardised_effects(X, rng) + easiness[of_query] + 0.5 * rng.standard_normal(n_rows)
    limits = np.quantile(relevance, np.cumsum(LABEL_SHARES)[:-1])
    y = np.searchsorted(limits, relevance)
    give_margins(X)
    return X, y.astype(np.float32), group


def query_sizes(rng: np.random.Generator, n_rows: int) -> np.ndarray:
    """Sizes around QUERY_ROWS, paired so that every second query ends at a multiple of it."""
    change = rng.integers(-20, 21, n_rows // (2 * QUERY_ROWS))
    return np.column_stack([QUERY_ROWS + change, QUERY_ROWS - change]).ravel()


def n_informative(n_features: int) -> int:
    return max(4, min(30, n_features // 4))


def correlated_normals(rng: np.random.Generator, n_rows: int, n_features: int) -> np.ndarray:
    """Informative columns first, then twice as many that follow one of them, then noise."""
    X = rng.standard_normal((n_rows, n_features), np.float32)
    first = n_informative(n_features)
    for j in range(first, min(3 * first, n_features)):
        X[:, j] = 0.6 * X[:, j % first] + 0.8 * X[:, j]
    return X


def standardised_effects(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A function of the informative columns with mean 0 and variance 1, (n_rows,)."""
    count = n_informative(X.shape[1])
    bends = (lambda x: x, np.abs, lambda x: np.sign(x - 0.5), lambda x: np.sin(2.0 * x))
    total = np.zeros(len(X))
    for j in range(count):
        weight = rng.uniform(0.5, 1.5) / np.sqrt(1.0 + j)
        total += weight * bends[j % len(bends)](X[:, j])
        total += 0.3 * weight * X[:, j] * X[:, (j + 1) % count]
    return (total - total.mean()) / total.std()


def give_margins(X: np.ndarray) -> None:
    """Make every fifth column skewed and every fifth one integer, as real columns are."""
    X[:, 3::5] = np.exp(X[:, 3::5])
    X[:, 4::5] = np.round(3.0 * X[:, 4::5])
