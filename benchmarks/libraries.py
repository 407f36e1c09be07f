"""One adapter per library: the same parameters, separate seconds for binning and boosting, raw scores."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from made_data import Part

LEARNING_RATE = 0.1
MAX_BIN = 255
MIN_CHILD_SAMPLES = 20
MIN_CHILD_WEIGHT = 1e-3
RANKS = 30  # pairs with a document among the first 30 are learnt from


@dataclass
class Library:
    """Trains on a part of the data and predicts raw scores."""

    kind: str  # "binary" | "ranking"
    num_leaves: int
    n_threads: int
    label: ClassVar[str]
    package: ClassVar[str]
    ranks: ClassVar[bool] = True

    def fit(self, part: Part, n_trees: int) -> tuple[float, float]:
        """Train; return the seconds spent on binning and on all trees."""
        raise NotImplementedError

    def predict(self, X: np.ndarray) -> np.ndarray:
        raise NotImplementedError


class Pvtree(Library):
    label, package = "pvtree", "pvtree"

    def fit(self, part: Part, n_trees: int) -> tuple[float, float]:
        import pvtree

        estimator = pvtree.GBDTRanker if self.kind == "ranking" else pvtree.GBDTClassifier
        self.model = estimator(
            n_estimators=n_trees,
            learning_rate=LEARNING_RATE,
            num_leaves=self.num_leaves,
            min_child_samples=MIN_CHILD_SAMPLES,
            min_child_weight=MIN_CHILD_WEIGHT,
            max_bin=MAX_BIN,
            n_jobs=self.n_threads,
            random_state=0,
            verbosity=0,
        )
        queries = {} if part.group is None else {"group": part.group}
        self.model.fit(part.X, part.y, **queries)
        return self.model.timings_["binning"], self.model.timings_["training"]

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.model.predict(X, raw_score=True)


class LightGBM(Library):
    label, package = "LightGBM", "lightgbm"
    quantized: ClassVar[bool] = False

    def fit(self, part: Part, n_trees: int) -> tuple[float, float]:
        import lightgbm

        parameters = {
            "objective": "lambdarank" if self.kind == "ranking" else "binary",
            "learning_rate": LEARNING_RATE,
            "num_leaves": self.num_leaves,
            "min_data_in_leaf": MIN_CHILD_SAMPLES,
            "min_sum_hessian_in_leaf": MIN_CHILD_WEIGHT,
            "max_bin": MAX_BIN,
            "lambdarank_truncation_level": RANKS,
            "use_quantized_grad": self.quantized,
            "num_threads": self.n_threads,
            "verbosity": -1,
        }
        began = time.perf_counter()
        data = lightgbm.Dataset(part.X, part.y, group=part.group, params=parameters).construct()
        binned = time.perf_counter()
        # Here LightGBM tries its row-wise and column-wise histograms out: not part of a tree's time.
        self.model = lightgbm.Booster(parameters, data)
        prepared = time.perf_counter()
        for _ in range(n_trees):
            self.model.update()
        return binned - began, time.perf_counter() - prepared

    def predict(self, X: np.ndarray) -> np.ndarray:
        return np.asarray(self.model.predict(X, raw_score=True, num_threads=self.n_threads))


class LightGBMQuantized(LightGBM):
    label = "LightGBM quantized"
    quantized = True


class XGBoost(Library):
    label, package = "XGBoost", "xgboost"

    def fit(self, part: Part, n_trees: int) -> tuple[float, float]:
        import xgboost

        parameters: dict[str, Any] = {
            "objective": "rank:ndcg" if self.kind == "ranking" else "binary:logistic",
            "tree_method": "hist",
            "grow_policy": "lossguide",
            "max_leaves": self.num_leaves,
            "max_depth": 0,
            "learning_rate": LEARNING_RATE,
            "reg_lambda": 0.0,
            # XGBoost has no least number of rows, so its leaves may be smaller than the others'.
            "min_child_weight": MIN_CHILD_WEIGHT,
            "max_bin": MAX_BIN,
            "nthread": self.n_threads,
            "verbosity": 0,
        }
        if self.kind == "ranking":
            parameters |= {"lambdarank_pair_method": "topk", "lambdarank_num_pair_per_sample": RANKS}
        began = time.perf_counter()
        data = xgboost.QuantileDMatrix(part.X, part.y, group=part.group, max_bin=MAX_BIN, nthread=self.n_threads)
        binned = time.perf_counter()
        self.model = xgboost.Booster(parameters, [data])
        prepared = time.perf_counter()
        for iteration in range(n_trees):
            self.model.update(data, iteration)
        return binned - began, time.perf_counter() - prepared

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.model.inplace_predict(X, predict_type="margin")


class HistGradientBoosting(Library):
    label, package = "scikit-learn HGB", "scikit-learn"
    ranks = False

    def fit(self, part: Part, n_trees: int) -> tuple[float, float]:
        from sklearn.ensemble import HistGradientBoostingClassifier

        class Timed(HistGradientBoostingClassifier):
            """Records when binning ends; binning includes the copy to float64 before it."""

            binned = float("nan")

            def _bin_data(self, *args: Any, **kwargs: Any) -> Any:
                bins = super()._bin_data(*args, **kwargs)
                Timed.binned = time.perf_counter()
                return bins

        self.model = Timed(
            max_iter=n_trees,
            learning_rate=LEARNING_RATE,
            max_leaf_nodes=self.num_leaves,
            min_samples_leaf=MIN_CHILD_SAMPLES,
            max_bins=MAX_BIN,
            early_stopping=False,
            random_state=0,
        )
        began = time.perf_counter()
        self.model.fit(part.X, part.y)
        return Timed.binned - began, time.perf_counter() - Timed.binned

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.model.decision_function(X)


LIBRARIES: dict[str, type[Library]] = {
    "pvtree": Pvtree,
    "lightgbm": LightGBM,
    "lightgbm-quantized": LightGBMQuantized,
    "xgboost": XGBoost,
    "sklearn": HistGradientBoosting,
}
