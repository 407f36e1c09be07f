"""Trainings with everything that users may ask for, and their rows, whole and in parts."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import strategies as st

from pvtree.model import Model
from pvtree.parameters.params import Params
from pvtree.reading.row_ids import RowIds
from pvtree.reading.training_rows import TrainingRows
from pvtree.training.train import TrainResult, train
from small_data import KINDS, categories_of, make_columns

LEARNERS = ("data", "attribute", "voting", "quantized")
WORKERS = (1, 2, 3, 5, 8)


def steep_loss(y: np.ndarray, score: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """An objective of the user's own, row by row, in operations that are exact to the last bit everywhere."""
    distance = score - y
    return distance * (1.0 + np.abs(distance)), 1.0 + 2.0 * np.abs(distance)


# Trainings with everything that users may ask for


@dataclass(frozen=True)
class Case:
    """One training on a small matrix; its labels, weights and queries follow from the seed."""

    objective: str  # of boosting; or "classes" and "values" of a forest
    params: dict[str, Any] = field(default_factory=dict)
    n_rows: int = 80
    kinds: tuple[str, ...] = ("many", "few", "gaps", "category", "many", "infinite", "few")
    n_classes: int = 3  # of "multiclass" and "classes"
    weights: str = "none"  # "none" | "some" | "with zeros"
    max_bin: int = 31
    seed: int = 1

    @property
    def n_labels(self) -> int:
        return {"binary": 2, "multiclass": self.n_classes, "classes": self.n_classes}.get(self.objective, 1)

    def settled(self) -> Params:
        forest = self.objective in ("classes", "values")
        names = {"classes": "classification", "values": "regression", "custom": steep_loss}
        given = {name: value for name, value in self.params.items() if forest or name != "bootstrap"}
        small = {"n_estimators": 2, "num_leaves": 7, "min_child_samples": 3, "min_child_weight": 0.0}
        return Params(
            ensemble="forest" if forest else "gbdt", objective=names.get(self.objective, self.objective),
            criterion={"classes": "entropy", "values": "variance"}.get(self.objective, "gradient"),
            n_classes=self.n_labels, max_bin=self.max_bin, verbosity=0, quantized_bins=0.4, **{**small, **given},
        )  # fmt: skip

    @property
    def has_queries(self) -> bool:
        return self.objective == "lambdarank"


@dataclass(frozen=True)
class Rows:
    X: np.ndarray
    y: np.ndarray
    weight: np.ndarray | None
    group: np.ndarray | None


def make_rows(case: Case) -> Rows:
    rng = np.random.default_rng(case.seed)
    n, n_labels = case.n_rows, case.n_labels
    X = make_columns(case.kinds, n, rng)
    signal = np.nan_to_num(X[:, :3], nan=-0.5, posinf=2.0, neginf=-2.0).clip(-3, 3).sum(axis=1) + rng.normal(size=n)
    y = np.floor(signal * 2) % n_labels if n_labels > 1 else signal
    group = None
    if case.has_queries:
        y = np.clip(np.floor(signal + 2), 0, 4)
        ends = np.unique(np.append(rng.integers(0, n + 1, n // 9), [0, n]))
        group = np.diff(ends)
    weight = None if case.weights == "none" else rng.choice([0.25, 1.0, 3.1], n)
    if weight is not None and case.weights == "with zeros":
        weight[rng.permutation(n)[: n // 3]] = 0.0
    return Rows(X, y, weight, group)


def model_of(case: Case, learner: str, n_workers: int, init_model: Model | None = None) -> Model:
    rows = make_rows(case)
    d = len(case.kinds)
    params = replace(case.settled(), tree_learner=learner, n_workers=n_workers, top_k=(d + 1) // 2)
    return train(
        rows.X, rows.y, params, weight=rows.weight, group=rows.group, categorical=categories_of(case.kinds),
        init_model=init_model,
    ).model  # fmt: skip


CASES = {
    "regression": Case("regression"),
    "binary": Case("binary", {"reg_lambda": 1.0, "reg_alpha": 0.1}),
    "multiclass": Case("multiclass"),
    "lambdarank": Case("lambdarank", n_rows=150),
    "custom": Case("custom"),
    "weights": Case("regression", weights="some"),
    "binary with zero weights": Case("binary", weights="with zeros"),
    "ranking with zero weights": Case("lambdarank", weights="with zeros", n_rows=150),
    "custom with zero weights": Case("custom", weights="with zeros"),
    "rows sampled": Case("binary", {"subsample": 0.5, "subsample_freq": 1, "n_estimators": 4}),
    "rows sampled with zero weights": Case("custom", {"subsample": 0.6, "subsample_freq": 2}, weights="with zeros"),
    "columns of trees": Case("regression", {"colsample_bytree": 0.6}),
    "columns of nodes": Case("binary", {"colsample_bynode": 0.4, "colsample_bytree": 0.8, "num_leaves": 12}),
    "all leaves": Case("regression", {"num_leaves": 0, "min_child_samples": 1}),
    "depth": Case("binary", {"num_leaves": 0, "max_depth": 3}),
    "depth and leaves": Case("regression", {"num_leaves": 9, "max_depth": 4, "min_split_gain": 0.05}),
    "tree of classes": Case("classes", {"n_estimators": 1, "num_leaves": 0, "min_child_samples": 1}),
    "tree of 12 classes": Case("classes", {"n_estimators": 1, "num_leaves": 15}, n_classes=12, n_rows=200),
    "tree of weighted classes": Case("classes", {"num_leaves": 0}, weights="with zeros", n_classes=4),
    "tree of values": Case("values", {"n_estimators": 1, "num_leaves": 0, "min_child_samples": 1}),
    "tree of weighted values": Case("values", {"n_estimators": 1, "num_leaves": 0}, weights="with zeros"),
    "forest of classes": Case("classes", {"bootstrap": True, "colsample_bynode": 0.4}, n_classes=2),
    "forest of 12 classes": Case("classes", {"bootstrap": True, "num_leaves": 0}, n_classes=12, weights="some"),
    "forest of values": Case("values", {"bootstrap": True, "colsample_bynode": 0.5}),
    "forest of weighted values": Case("values", {"bootstrap": True}, weights="with zeros"),
    "one column": Case("regression", kinds=("many",)),
    "two columns": Case("binary", kinds=("gaps", "many")),
    "nothing to split": Case("binary", kinds=("constant", "missing", "constant")),
    "constant and missing columns": Case("regression", kinds=("missing", "many", "constant", "few", "missing")),
    "only categories": Case("binary", kinds=("category", "many categories", "category")),
    "more than a block of columns": Case("regression", kinds=(KINDS * 5)[:37], n_rows=120),
    "packed words too short": Case("values", {"num_leaves": 20}, weights="some", n_rows=1500),
}


def split_at(rows: Rows, bounds: list[int]) -> list[TrainingRows]:
    """Blocks of rows of any size; queries stay whole, because their ends are among the bounds."""
    parts = []
    ends = None if rows.group is None else np.concatenate(([0], np.cumsum(rows.group)))
    for start, stop in pairwise(bounds):
        weight = None if rows.weight is None else rows.weight[start:stop]
        group = None if ends is None else np.diff(ends[(ends >= start) & (ends <= stop)])
        ids = RowIds.consecutive(stop - start, start, len(rows.y))
        parts.append(TrainingRows(rows.X[start:stop], rows.y[start:stop], weight, group, ids))
    return parts


def as_model(result: TrainResult, like: Model) -> Model:
    model = result.model
    return replace(like, trees=model.trees, n_outputs=model.n_outputs, init_score=model.init_score)


ANYTHING = st.builds(
    Case,
    objective=st.sampled_from(["regression", "binary", "multiclass", "lambdarank", "custom", "classes", "values"]),
    params=st.fixed_dictionaries(
        {
            "n_estimators": st.integers(1, 2),
            "num_leaves": st.sampled_from([0, 2, 5, 9, 16]),
            "max_depth": st.sampled_from([-1, -1, -1, 1, 4]),
            "min_child_samples": st.sampled_from([1, 1, 2, 4]),
            "min_child_weight": st.sampled_from([0.0, 0.0, 0.5]),
            "min_split_gain": st.sampled_from([0.0, 0.0, 0.01]),
            "reg_lambda": st.sampled_from([0.0, 1.0]),
            "reg_alpha": st.sampled_from([0.0, 0.0, 0.2]),
            "subsample": st.sampled_from([1.0, 0.7, 0.2]),
            "subsample_freq": st.sampled_from([0, 1]),
            "bootstrap": st.booleans(),
            "colsample_bytree": st.sampled_from([1.0, 1.0, 0.5]),
            "colsample_bynode": st.sampled_from([1.0, 1.0, 0.6, 0.2]),
            "seed": st.integers(0, 5),
        }
    ),
    n_rows=st.one_of(st.integers(1, 12), st.integers(13, 120)),
    kinds=st.one_of(
        st.lists(st.sampled_from([*KINDS, "many categories"]), min_size=1, max_size=6).map(tuple),
        st.integers(16, 36).map(lambda d: (KINDS * 5)[:d]),
    ),
    n_classes=st.sampled_from([2, 3, 12]),
    weights=st.sampled_from(["none", "none", "some", "with zeros"]),
    max_bin=st.sampled_from([2, 6, 255]),
    seed=st.integers(0, 2**32),
)
