"""Kinds of boosting against LightGBM's and XGBoost's: the test error on ten draws of data, with the same parameters.

Usage: python benchmarks/boosting.py [--draws 10] [--first 0] [--rows 2000] [--only linear_tree]
It prints a table: the mean of both errors and of their difference, with its standard error. Errors are mean squares,
and 1 - NDCG@5 of rankings.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import pvtree
from losses import normal, rows
from pvtree import GBDTRegressor
from pvtree.as_xgboost import XGBRegressor, XGBRFRegressor

COMMON = {"n_estimators": 60, "num_leaves": 15, "min_child_samples": 20, "max_bin": 63, "n_jobs": 1}
DRAWN = {"subsample": 0.5, "subsample_freq": 1}
OF_XGBOOST = {"n_estimators": 60, "max_depth": 4, "max_bin": 63, "learning_rate": 0.1, "n_jobs": 1}
# name, peer, parameters by LightGBM's or XGBoost's names
CASES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("plain", "LightGBM", {}),
    ("plain", "XGBoost", {}),
    ("dart", "LightGBM", {"boosting_type": "dart", "learning_rate": 0.3}),
    ("dart, `xgboost_dart_mode`", "LightGBM", {"boosting_type": "dart", "xgboost_dart_mode": True}),
    ("rf", "LightGBM", {"boosting_type": "rf", **DRAWN}),
    ("goss", "LightGBM", {"data_sample_strategy": "goss"}),
    ("`extra_trees`", "LightGBM", {"extra_trees": True}),
    ("`path_smooth`", "LightGBM", {"path_smooth": 20.0}),
    ("`feature_contri`", "LightGBM", {"feature_contri": [0.2, 1.0, 0.5, 1.0, 0.1, 1.0]}),
    ("`cegb_penalty_split`", "LightGBM", {"cegb_penalty_split": 0.02}),
    ("`cegb_penalty_feature_coupled`", "LightGBM", {"cegb_penalty_feature_coupled": [50.0] * 6}),
    ("`monotone_penalty`", "LightGBM", {"monotone_constraints": [1, 0, 0, 0, 0, 0], "monotone_penalty": 2.0}),
    ("`max_bin_by_feature`", "LightGBM", {"max_bin_by_feature": [8, 63, 8, 63, 8, 63]}),
    ("`linear_tree`", "LightGBM", {"linear_tree": True, "linear_lambda": 1.0}),
    ("`zero_as_missing`", "LightGBM", {"zero_as_missing": True}),
    ("`forcedsplits_filename`", "LightGBM", {"forcedsplits_filename": None}),
    ("`grow_policy`", "XGBoost", {"max_leaves": 11, "max_depth": 9, "grow_policy": "depthwise"}),
    ("`colsample_bylevel`", "XGBoost", {"colsample_bylevel": 0.5}),
    ("dart, `one_drop`", "XGBoost", {"booster": "dart", "rate_drop": 0.1, "one_drop": True}),
    ("dart, `forest`", "XGBoost", {"booster": "dart", "rate_drop": 0.1, "normalize_type": "forest"}),
    ("parallel trees", "XGBoost", {"num_parallel_tree": 4, "subsample": 0.5, "colsample_bynode": 0.5}),
    ("XGBRFRegressor", "XGBoost", {"max_depth": 6, "learning_rate": 1.0}),
    ("lambdarank, `position`", "LightGBM", {"objective": "lambdarank", "position": True}),
    ("lambdarank of the same clicks", "LightGBM", {"objective": "lambdarank", "position": False}),
)
SHOWN = 10  # documents of each query in the rankings


FORCED = {
    "feature": 1,
    "threshold": 0.0,
    "left": {"feature": 1, "threshold": -0.8},
    "right": {"feature": 1, "threshold": 0.8},
}


def pair(name: str, peer: str, params: dict[str, Any], seed: int) -> tuple[Any, Any]:
    """Our estimator and the peer's."""
    if peer == "LightGBM":
        import lightgbm

        given = COMMON | params | {"random_state": seed}
        if "forcedsplits_filename" in params:
            path = Path(tempfile.gettempdir()) / "pvtree-forced-splits.json"
            path.write_text(json.dumps(FORCED))
            given["forcedsplits_filename"] = str(path)
        return GBDTRegressor(**given), lightgbm.LGBMRegressor(verbosity=-1, **given)
    import xgboost

    given = OF_XGBOOST | params | {"random_state": seed}
    if name == "XGBRFRegressor":
        return XGBRFRegressor(**given), xgboost.XGBRFRegressor(**given)
    return XGBRegressor(**given), xgboost.XGBRegressor(**given)


def ranking_errors(params: dict[str, Any], n_rows: int, rng: np.random.Generator) -> list[float]:
    """1 - NDCG@5 of both, trained on clicks that depend on the place where a document was shown."""
    import lightgbm
    from sklearn.metrics import ndcg_score

    (X, mean), (X_test, mean_test) = rows(n_rows, rng), rows(4 * n_rows, rng)
    # Documents are shown in random order, and users look at the first ones.
    place = np.argsort(rng.random((n_rows // SHOWN, SHOWN)), axis=1).reshape(-1)
    looks = rng.random(n_rows) < 1.0 / (1.0 + place)
    clicks = (looks & (rng.random(n_rows) < 1.0 / (1.0 + np.exp(-2.0 * mean)))).astype(float)
    relevance = np.digitize(mean_test, np.quantile(mean_test, [0.5, 0.75, 0.9])).reshape(-1, SHOWN)
    # LightGBM estimates the rows of a leaf from hessians, so leaves are limited by those: see losses.py.
    given = {**COMMON, "objective": params["objective"], "min_child_samples": 1, "min_child_weight": 1.0}
    given |= {"verbosity": -1}
    n_rounds = given.pop("n_estimators")
    errors = []
    for library in (pvtree, lightgbm):
        beside = {"group": [SHOWN] * (n_rows // SHOWN)} | ({"position": place} if params["position"] else {})
        scores = library.train(given, library.Dataset(X, clicks, **beside), n_rounds).predict(X_test, raw_score=True)
        errors.append(1.0 - ndcg_score(relevance, scores.reshape(-1, SHOWN), k=5))
    return errors


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="the number of the first draw")
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--only", help="the names of some kinds, separated by commas")
    asked = parser.parse_args()
    print("| kind | peer | pvtree's MSE | peer's | difference | standard errors |")
    print("|---|---|---|---|---|---|")
    for name, peer, params in CASES:
        if asked.only and not any(part in name for part in asked.only.split(",")):
            continue
        found = []
        for draw in range(asked.first, asked.first + asked.draws):
            rng = np.random.default_rng(draw)
            if "position" in params:
                found.append(ranking_errors(params, asked.rows, rng))
                continue
            (X, mean), (X_test, mean_test) = rows(asked.rows, rng), rows(4 * asked.rows, rng)
            y, y_test = normal(mean, rng), normal(mean_test, rng)
            if "zero_as_missing" in params:  # some numbers must be 0
                X, X_test = np.where(np.abs(X) < 0.5, 0.0, X), np.where(np.abs(X_test) < 0.5, 0.0, X_test)
            found.append([np.mean((m.fit(X, y).predict(X_test) - y_test) ** 2) for m in pair(name, peer, params, draw)])
        pairs = np.array(found)
        difference = pairs[:, 0] - pairs[:, 1]
        error = difference.std(ddof=1) / math.sqrt(len(pairs))
        ours, theirs = pairs.mean(axis=0)
        print(
            f"| {name} | {peer} | {ours:.4f} | {theirs:.4f} | {difference.mean():+.4f} ± {error:.4f} | "
            f"{difference.mean() / max(error, 1e-12):+.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
