"""Kinds of cases that pass hostile arguments to fit and predict: tables, labels, weights, queries, parameters."""

from __future__ import annotations

import copy
import functools
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import samples
import scipy.sparse
from case import Broken, Case
from mutations import REAL, TEXTS, WHOLE
from odd_tables import ODD, made, odd_array, odd_arrow, odd_frame, odd_sparse

import pvtree
from pvtree.errors import PvtreeError
from pvtree.parameters.loss_table import LOSSES
from pvtree.parameters.rules import RULES

CLASSIFIERS = ["GBDTClassifier", "RandomForestClassifier", "DecisionTreeClassifier"]
REGRESSORS = ["GBDTRegressor", "RandomForestRegressor", "DecisionTreeRegressor"]
EQUAL_LEARNERS = ["data", "exact_voting", "attribute"]  # whose model is the serial one, byte for byte

# Beside X


def odd_target(case: Case, y: np.ndarray) -> Any:
    n = len(y)
    ways: list[Callable[[], Any]] = [
        lambda: y[:-1],
        lambda: y.reshape(-1, 1),
        lambda: np.stack([y, y], 1),
        lambda: np.where(np.arange(n) == n // 2, case.choose([np.nan, np.inf, -1, 0.5, 31, 1e300]), y),
        lambda: y * case.choose([1e300, 1e-300, 0, -1]),
        lambda: np.full(n, case.choose([0, 1.5, "a"])),
        lambda: np.arange(n),
        lambda: y.astype(case.choose(["U3", "S3", "c16", "M8[s]", "O", "f2", "u1"])),
        lambda: np.array([case.choose(ODD) for _ in range(n)], object),
        lambda: pd.Series(y, index=range(n, 0, -1)),
        lambda: pd.Series(y.astype(int)).astype("category"),
        lambda: pd.array(y.astype(int), "Int64"),
        lambda: pl.Series(y),
        lambda: pa.array(y),
        lambda: y.tolist(),
        lambda: case.choose(ODD),
        lambda: scipy.sparse.csr_matrix(y.astype(float).reshape(-1, 1)),
    ]
    return made(case.choose(ways), y)


def odd_weight(case: Case, n: int) -> Any:
    ones = np.ones(n)
    ways: list[Callable[[], Any]] = [
        lambda: ones * case.choose([0, -1, np.nan, np.inf, 1e308, 5e-324, 1e-300]),
        lambda: np.where(np.arange(n) % 2, case.choose([0.0, 1e300, 1e-300]), 1.0),
        lambda: ones[:-1],
        lambda: ones.reshape(-1, 1),
        lambda: ones.astype(case.choose(["U2", "O", "c16", "?", "u1", "f2"])),
        lambda: pd.Series(ones),
        lambda: ones.tolist(),
        lambda: case.choose(ODD),
    ]
    return made(case.choose(ways), ones)


def odd_queries(case: Case, n: int) -> dict[str, Any]:
    whole = np.arange(n)
    ways: list[Callable[[], dict[str, Any]]] = [
        lambda: {"group": [n]},
        lambda: {"group": [1] * n},
        lambda: {"group": [n, 0]},
        lambda: {"group": [n + 1, -1]},
        lambda: {"group": [2**63 - 1, n - 2**63 + 1]},
        lambda: {"group": np.array([n / 2, n / 2])},
        lambda: {"group": [[n]]},
        lambda: {"group": case.choose(ODD)},
        lambda: {"qid": whole // 7},
        lambda: {"qid": whole % 7},
        lambda: {"qid": (whole // 7).astype(case.choose(["U4", "f8", "O", "M8[s]", "c16"]))},
        lambda: {"qid": np.full(n, np.nan)},
        lambda: {"qid": whole[:-1]},
        lambda: {"qid": np.array([case.choose(ODD) for _ in whole], object)},
        lambda: {"qid": case.choose(ODD)},
        lambda: {"group": [n], "qid": whole},
        lambda: {},
    ]
    return made(case.choose(ways), {"group": [n]})


def odd_scores(case: Case, n: int) -> Any:
    """Scores to start from."""
    zeros = np.zeros(n)
    ways: list[Callable[[], Any]] = [
        lambda: zeros + case.choose([0.5, 1e300, -1e300, np.nan, np.inf]),
        lambda: np.where(np.arange(n) % 2, case.choose([1e300, 1e-300, 700.0]), -1.0),
        lambda: np.zeros((n, case.choose([0, 1, 2, 3]))),
        lambda: np.zeros((3, n)).T,
        lambda: np.zeros(3 * n),
        lambda: zeros[:-1],
        lambda: zeros.astype(case.choose(["U2", "O", "c16", "?", "i8", "f2"])),
        lambda: pd.DataFrame(np.zeros((n, 3))),
        lambda: pl.Series(zeros),
        lambda: case.choose(ODD),
    ]
    return made(case.choose(ways), zeros)


def odd_evaluation(case: Case, X: Any, y: Any) -> dict[str, Any]:
    ways: list[Callable[[], dict[str, Any]]] = [
        lambda: {"eval_set": (X, y)},
        lambda: {"eval_set": [(X, y), (X[:10], y[:10])], "eval_names": ["a", case.choose(["a", "b", 3])]},
        lambda: {"eval_set": [(odd_array(case, samples.matrix()), y)]},
        lambda: {"eval_set": [(X, odd_target(case, np.asarray(y)))]},
        lambda: {"eval_set": [(X[:0], y[:0])]},
        lambda: {"eval_set": case.choose(ODD)},
        lambda: {"eval_set": [(X, y)], "eval_metric": case.choose([*ODD, "auc", "rmse", "ndcg", "acu", ["auc", "l2"]])},
        lambda: {"eval_set": [(X, y)], "eval_sample_weight": [odd_weight(case, len(y))]},
        lambda: {"eval_set": [(X, y)], "early_stopping_rounds": case.choose([1, 2, *ODD])},
        lambda: {"eval_X": X, "eval_y": case.choose([y, None, (y, y)])},
        lambda: {"callbacks": case.choose([*ODD, [pvtree.log_evaluation(1)], [pvtree.early_stopping(1)]])},
        lambda: {"feature_name": case.choose([*ODD, list("abcde"), list("aabcd"), ["a", 1, "c", "d", "\ud800"]])},
        lambda: {"categorical_feature": case.choose([*ODD, [3], ["d"], [0, 0], [-1], [5], np.array([3])])},
        lambda: {
            "init_model": case.choose([*ODD, samples.estimator("binary"), samples.estimator("forest"), "none.json"])
        },
        lambda: {"timeout": case.choose(ODD), "checkpoint_freq": case.choose(ODD)},
        lambda: {"verbose": case.choose(ODD)},
        lambda: {"eval_set": [(X, y)], "eval_init_score": case.choose([*ODD, [odd_scores(case, len(y))]])},
        lambda: {"eval_set": [(X, y)], "eval_class_weight": [case.choose([*ODD, "balanced", {0: 2.0, 1: 1.0}])]},
    ]
    return made(case.choose(ways), {})


# Parameters

LIMITS: list[Any] = [0, 1, 2, 3, 255, 256, 0.5, 1.0, 1e-9, 1e9, -1e-9, np.nextafter(1, 2), np.int8(3), np.float32(0.5)]
LISTED: dict[str, list[Any]] = {
    "objective": [*LOSSES, "l2", "softmax", "reg:gamma", "", lambda y, p: (p, p)],
    "tree_learner": [
        "serial",
        "voting",
        "exact_voting",
        "data",
        "quantized",
        "attribute",
        "feature",
        "svore",
        "yu",
        "",
    ],
    "n_workers": [0, 1, 2, 3, 7, 16, 1025, 2.0],
    "n_jobs": [0, 1, 2, -1, -2, -100, 1.0],
    "n_estimators": [0, 1, 2, 5, 1.5],
    "num_parallel_tree": [0, 1, 2, 3, 10**9, 2.0],
    "top_k": ["auto", "all", 1, 2, 100],
    "monotone_constraints": [
        [1, -1, 0, 0, 0],
        [1],
        [2] * 5,
        {"a": 1},
        {0: 1, 4: -1},
        "(1,0,-1,0,0)",
        "1,",
        {9: 1},
        [0.5],
    ],
    "interaction_constraints": [[[0, 1], [2]], [[0, 9]], [[]], [], "[0,1],[2,3]", "[[", [["a"]], [[0, 0]], [0]],
    "categorical_feature": [[3], ["d"], [3, 3], [99], "auto", "3", None, [True], [-1]],
    "importance_type": ["split", "gain", "cover", ""],
    "criterion": ["entropy", "variance", "gini", ""],
    "max_features": ["sqrt", "log2", "auto", None, 0.3, 1, 99],
    "bootstrap": [True, False, 0, np.True_],
    "random_state": [None, np.random.RandomState(1), np.random.default_rng(1), 2**63 - 1],
    "verbosity": [-1, 0, 1, 2**40],
    "class_weight": [
        "balanced",
        "x",
        {0: 1.0, 1: 2.0},
        {0: 0.0},
        {"a": 1},
        {0: -1.0, 1: np.nan},
        {0: 1e308, 1: 1e308, 2: 1e308},
        [1.0, 2.0, 3.0],
        [1e-300] * 2,
        [[1.0]],
        {},
    ],
    "label_gain": [[0, 1, 3], [0, 1], [0, 1e308, 1e308], [3, 1], list(range(32)), [0, np.nan], [[0, 1]], (0, 0, 0)],
    "is_unbalance": [True, False, 1],
    "boost_from_average": [True, False, 0],
    "lambdarank_norm": [True, False, None],
    "eval_metric": ["auc", "l2", ["auc"], [], "ndcg", "x"],
}


LONG = ("n_estimators", "num_parallel_tree", "n_jobs", "n_workers")


def odd_parameters(case: Case, known: list[str], few: dict[str, Any]) -> dict[str, Any]:
    """Some parameters at and beyond their limits, and of wrong types."""
    chosen = dict(few)
    for _ in range(int(case.rng.integers(1, 5))):
        name = case.choose(sorted(known))
        values = LISTED.get(name) or [*re.findall(r"'(\w+)'", RULES[name].allowed), True, False, *LIMITS]
        if case.rng.random() < 0.3:
            # A training of that many iterations or threads takes long, and rightly so.
            values = ODD[:3] if name in LONG else [*ODD, *WHOLE, *REAL, *TEXTS]
        chosen[name] = copy.deepcopy(case.choose(values))  # generators have a state
    return chosen


# Kinds


def data_for(case: Case, name: str) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
    """(X, y, what else fit needs) that an estimator takes."""
    X, few = samples.matrix(), samples.FEW if name.startswith("GBDT") else samples.FEW_OF_FOREST
    few = {key: value for key, value in few.items() if name[:8] != "Decision" or key != "n_estimators"}
    if name == "GBDTRanker":
        return X, samples.level(), few
    if name in REGRESSORS:
        return X, samples.score(), few
    return X, samples.level() if case.rng.random() < 0.5 else (samples.score() > 0).astype(int), few


def fit(case: Case, odd_table: Callable[[Case, np.ndarray], Any]) -> None:
    """Any estimator on an odd X, sometimes with odd things beside it, and all predictions of it."""
    name = case.choose([*CLASSIFIERS, *REGRESSORS, "GBDTRanker"])
    X, y, few = data_for(case, name)
    rows: Any = X
    more: dict[str, Any] = {"group": samples.GROUP} if name == "GBDTRanker" else {}
    target: Any = y
    if case.happens(0.85):
        rows = made(lambda: odd_table(case, X), X)
    if case.happens(0.2):
        target = odd_target(case, y)
    elif not case.is_untouched and getattr(rows, "shape", (0,)) and hasattr(rows, "shape"):
        target = np.resize(y, rows.shape[0] if rows.shape else 0)  # so that not all end at a wrong number of rows
        more = {"group": [len(target)]} if more else more
    if case.happens(0.2):
        more["sample_weight"] = odd_weight(case, len(y))
    if case.happens(0.15):
        more["init_score"] = odd_scores(case, len(y))
    if case.happens(0.2) and name == "GBDTRanker":
        more = {**odd_queries(case, len(y))}
    if case.happens(0.2):
        more |= odd_evaluation(case, X, y)
    case.note(
        f"{name} on {type(rows)} {getattr(rows, 'dtype', '')} {getattr(rows, 'shape', '')} {type(target)} {more!r:.500}"
    )
    fitted = getattr(pvtree, name)(**few).fit(rows, target, **more)
    use_fitted(fitted, rows)


def use_fitted(fitted: Any, X: Any, may_overflow: bool = False) -> None:
    n_rows = fitted.predict(X).shape[0]
    for method in ("apply", "predict_proba", "decision_function"):
        if hasattr(fitted, method) and getattr(fitted, method)(X).shape[0] != n_rows:
            raise Broken(f"{method} has another number of rows than predict")
    fitted.predict(X, pred_contrib=True)
    raw = fitted.model_.predict_raw(fitted.model_.encode(X))
    if np.isnan(raw).any() and not may_overflow:
        raise Broken("the model predicts NaN for the rows that it was trained on")


def parameters(case: Case) -> None:
    name = case.choose([*CLASSIFIERS, *REGRESSORS, "GBDTRanker"])
    X, y, few = data_for(case, name)
    kind = getattr(pvtree, name)
    if not case.is_untouched:
        few = odd_parameters(case, kind._get_param_names(), few)
    case.note(f"{name}(**{few!r})")
    more = {"group": samples.GROUP} if name == "GBDTRanker" else {}
    use_fitted(kind(**few).fit(X, y, **more), X, may_overflow=True)  # as with a learning rate of 1e300


def learners(case: Case) -> None:
    """Strategies that promise the serial model give it, byte for byte, or refuse what serial refuses."""
    name = case.choose([*CLASSIFIERS, *REGRESSORS, "GBDTRanker"])
    X, y, few = data_for(case, name)
    few |= learner_parameters(case, name)
    n_rows = len(X) if case.is_untouched else int(case.choose([3, 20, 60, 240]))
    X, y = np.array(X[:n_rows]), y[:n_rows]
    if case.happens(0.3):
        X[case.rng.random(X.shape) < 0.9] = case.choose([0.0, np.nan, 1.0, np.inf])
    if case.happens(0.3):
        X = np.repeat(X, 8, axis=1)
    more: dict[str, Any] = {}
    if name == "GBDTRanker":
        more["qid"] = np.arange(n_rows) // int(case.choose([1, 5, 20]))
    if case.happens(0.3):
        more["sample_weight"] = case.rng.choice([0.0, 0.5, 1.0, 3.0], n_rows)
    rows: Any = scipy.sparse.csr_matrix(np.nan_to_num(X, posinf=1.0)) if case.happens(0.2) else X
    learner, n_workers = case.choose(EQUAL_LEARNERS), int(case.choose([2, 3, 7]))
    case.note(f"{name}(**{few!r}) on {type(rows)} {X.shape}, {more!r}; {learner} with {n_workers} workers")
    kind = getattr(pvtree, name)
    found = [_text_or_refusal(lambda p=p: kind(**few | p).fit(rows, y, **more)) for p in (
        {}, {"tree_learner": learner, "n_workers": n_workers, "top_k": int(case.choose([1, 2, 20]))},
    )]  # fmt: skip
    if found[0] != found[1]:
        for whose, text in zip(("serial", learner), found, strict=True):
            case.write(f"{whose}.json", text.encode())
        raise Broken(f"the model of {learner} with {n_workers} workers is not the serial one")
    if found[0] == "refused":
        kind(**few).fit(rows, y, **more)


def learner_parameters(case: Case, name: str) -> dict[str, Any]:
    tried: dict[str, list[Any]] = {
        "num_leaves": [2, 5, 31, -1],
        "max_depth": [-1, 1, 4],
        "min_child_samples": [1, 5, 20],
        "max_bin": [2, 16, 255],
        "random_state": [0, 5],
        "categorical_feature": ["auto", [3]],
        "monotone_constraints": [None, {0: 1}],
    }
    boosting: dict[str, list[Any]] = {"subsample": [1.0, 0.5], "subsample_freq": [1], "colsample_bytree": [1.0, 0.4]}
    tried |= boosting if name.startswith("GBDT") else {"max_features": [None, "sqrt"]}
    return {} if case.is_untouched else {key: case.choose(values) for key, values in tried.items()}


def _text_or_refusal(train: Callable[[], Any]) -> str:
    try:
        text: str = train().model_.to_json()
    except PvtreeError:
        return "refused"
    return text


def predict(case: Case) -> None:
    """A good model, an odd X and odd arguments of predict."""
    name = case.choose(samples.MODELS)
    fitted = samples.estimator(name)
    X: Any = samples.frame() if name == "categories" else samples.matrix()
    if not case.is_untouched:
        make = case.choose([odd_array, odd_frame, odd_arrow, odd_sparse])
        X = X if case.happens(0.3) else made(lambda: make(case, samples.matrix()), X)
    arguments: dict[str, Any] = {}
    for key in ("num_iteration", "start_iteration", "raw_score", "pred_leaf", "pred_contrib"):
        if case.happens(0.3):
            arguments[key] = case.choose([True, False, 0, 1, 2, *ODD, 10**12])
    case.note(f"{name} {type(X)} {getattr(X, 'shape', '')} {arguments!r}")
    fitted.predict(X, **arguments)
    fitted.apply(X)
    if name != "forest":
        pvtree.Booster(model_str=fitted.model_.to_json()).predict(X, **arguments)


TABLES = {"array": odd_array, "frame": odd_frame, "arrow": odd_arrow, "sparse": odd_sparse}
KINDS: dict[str, Callable[[Case], None]] = {
    **{f"fit-{name}": functools.partial(fit, odd_table=make) for name, make in TABLES.items()},
    "parameters": parameters,
    "learners": learners,
    "predict": predict,
}
