"""Good inputs, each made once for a process: what mutations begin with."""

from __future__ import annotations

import io
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import xgboost
from scipy.sparse import csr_matrix

import pvtree

N_ROWS, N_COLUMNS = 240, 5
FEW: dict[str, Any] = {"n_estimators": 3, "num_leaves": 6, "min_child_samples": 5, "n_jobs": 1, "verbosity": -1}
FEW_OF_FOREST: dict[str, Any] = {"n_estimators": 3, "max_depth": 3, "n_jobs": 1, "verbosity": -1}
GROUP = [20] * (N_ROWS // 20)


@cache
def matrix() -> np.ndarray:
    """Normal numbers, some missing, some zero; column 3 holds whole numbers from 0 to 6."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ROWS, N_COLUMNS)).round(3)
    X[rng.random(X.shape) < 0.05] = np.nan
    X[rng.random(X.shape) < 0.1] = 0.0
    X[:, 3] = rng.integers(0, 7, N_ROWS)
    X.flags.writeable = False
    return X


@cache
def score() -> np.ndarray:
    X = np.nan_to_num(matrix())
    return X[:, 0] - X[:, 1] * X[:, 2] + np.isin(X[:, 3], [1, 4])


def level() -> np.ndarray:
    return np.digitize(score(), [-0.5, 0.8])


@cache
def frame() -> pd.DataFrame:
    table = pd.DataFrame(matrix(), columns=list("abcde"))
    table["d"] = pd.Categorical([f"v{code:.0f}" for code in matrix()[:, 3]])
    return table


@cache
def estimator(name: str) -> Any:
    """A fitted one of each kind of model."""
    X, y, two = matrix(), score(), score() > 0
    few, trees = FEW, FEW_OF_FOREST
    made = {
        "binary": lambda: pvtree.GBDTClassifier(**few).fit(X, two),
        "multiclass": lambda: pvtree.GBDTClassifier(**few).fit(X, np.array(["low", "mid", "top"])[level()]),
        "ranking": lambda: pvtree.GBDTRanker(**few).fit(X, level(), group=GROUP),
        "regression": lambda: pvtree.GBDTRegressor(**few).fit(X, y),
        "forest": lambda: pvtree.RandomForestRegressor(**trees).fit(X, y),
        "class-forest": lambda: pvtree.RandomForestClassifier(**trees).fit(X, level()),
        "categories": lambda: pvtree.GBDTClassifier(**few).fit(frame(), two),
        "linear": lambda: pvtree.GBDTRegressor(linear_tree=True, **few).fit(X, y),
        "zeros": lambda: pvtree.GBDTRegressor(zero_as_missing=True, **few).fit(X, y),
        "two-columns": lambda: pvtree.RandomForestClassifier(**trees).fit(X, np.column_stack([level(), two])),
        "monotone": lambda: pvtree.GBDTRegressor(monotone_constraints=[1, -1, 0, 0, 0], **few).fit(X, y),
    }
    return made[name]()


MODELS = [
    "binary", "multiclass", "ranking", "regression", "forest", "class-forest", "categories", "monotone", "linear",
    "zeros", "two-columns",
]  # fmt: skip


@cache
def our_lightgbm(name: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.txt"
        estimator(name).model_.export_lightgbm(path)
        return path.read_bytes()


THEIRS: dict[str, dict[str, Any]] = {
    "binary": {"objective": "binary"},
    "multiclass": {"objective": "multiclass", "num_class": 3},
    "regression": {"objective": "regression"},
    "ranking": {"objective": "lambdarank"},
    "forest": {"objective": "binary", "boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5},
    "frame": {"objective": "binary"},
}


@cache
def their_lightgbm(name: str) -> bytes:
    y = {"multiclass": level(), "ranking": level(), "regression": score()}.get(name, score() > 0)
    how = {"verbose": -1, "num_threads": 1, "num_leaves": 6, "min_data_per_group": 5, "seed": 1} | THEIRS[name]
    X, listed = (frame(), "auto") if name == "frame" else (matrix(), [3])
    data = lightgbm.Dataset(X, y, group=GROUP if name == "ranking" else None, categorical_feature=listed)
    text: str = lightgbm.train(how, data, 3).model_to_string()
    return text.encode()


XGBOOST: dict[str, dict[str, Any]] = {
    "binary": {"objective": "binary:logistic"},
    "multiclass": {"objective": "multi:softprob", "num_class": 3, "num_parallel_tree": 2},
    "regression": {"objective": "reg:squarederror"},
    "ranking": {"objective": "rank:ndcg"},
    "dart": {"objective": "count:poisson", "booster": "dart", "rate_drop": 0.5},
}


@cache
def their_xgboost(name: str, form: str) -> bytes:
    """A model of XGBoost; the form is json or ubj."""
    y = {"multiclass": level(), "ranking": level(), "regression": score()}.get(name, score() > 0)
    data = xgboost.DMatrix(matrix(), y, feature_names=list("abcde"))
    if name == "ranking":
        data.set_group(GROUP)
    how = {"nthread": 1, "max_leaves": 6, "grow_policy": "lossguide", "seed": 1, "verbosity": 0} | XGBOOST[name]
    return bytes(xgboost.train(how, data, 3).save_raw(form))


@cache
def dataset_file(name: str) -> bytes:
    """What Dataset.save_binary writes of each kind of rows."""
    X: Any = {"array": matrix, "frame": frame, "sparse": lambda: csr_matrix(np.nan_to_num(matrix()))}[name]()
    more: dict[str, Any] = {"group": GROUP} if name == "array" else {"weight": np.ones(N_ROWS), "init_score": score()}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.bin"
        pvtree.Dataset(X, level(), **more).save_binary(path)
        return path.read_bytes()


# Tables as files


@cache
def csv() -> bytes:
    table = frame().head(60).assign(w=1.0, y=np.where(score()[:60] > 0, "yes", "no"))
    return table.to_csv(index=False).encode()


@cache
def libsvm() -> bytes:
    return "".join(_line(row) + "\n" for row in range(60)).encode()


@cache
def letor() -> bytes:
    return "".join(_line(row, f" qid:{row // 12}") + f" # document {row}\n" for row in range(60)).encode()


def _line(row: int, query: str = "") -> str:
    pairs = [f"{column + 1}:{value:g}" for column, value in enumerate(matrix()[row]) if value != 0]
    return f"{level()[row]}{query} {' '.join(pairs)}"


def arrow_table() -> pa.Table:
    """A column of each type that is read, and the target y."""
    texts = [f"v{code:.0f}" for code in matrix()[:, 3]]
    whole = np.arange(N_ROWS)
    return pa.table(
        {
            "a": matrix()[:, 0],
            "i": pa.array(whole, pa.int32()),
            "t": texts,
            "dict": pa.array(texts).dictionary_encode(),
            "time": pa.array(whole * 10**9, pa.timestamp("us")),
            "flag": matrix()[:, 1] > 0,
            "money": pa.array([None if n % 9 == 0 else n for n in range(N_ROWS)], pa.int64()).cast(
                pa.decimal128(21, 2)
            ),
            "y": score() > 0,
        }
    )


def as_parquet(table: pa.Table, **options: Any) -> bytes:
    file = io.BytesIO()
    pa.parquet.write_table(table, file, row_group_size=100, **options)
    return file.getvalue()


CONFIG = """\
format = "csv"
[train]
data = "data.csv"
label = "y"
weight = "w"
task = "classification"
n-estimators = 2
num-leaves = 4
min-child-samples = 3
learning-rate = 0.5
max-bin = 31
random-state = 7
monotone-constraints = {a = 1, b = -1}
interaction-constraints = [["a", "b"], ["c", "d", "e"]]
tree-learner = "voting"
workers = 2
top-k = 2
quiet = true
model = "out.json"
[predict]
model = "out.json"
"""
