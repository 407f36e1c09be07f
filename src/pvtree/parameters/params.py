"""Params: the frozen, validated parameters of one training.

Estimators keep what the user wrote; fit turns it into ``Params``, which is all that training reads.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np

from pvtree.errors import InvalidParameterError

TREE_LEARNERS = ("auto", "serial", "voting", "exact_voting", "data", "quantized", "attribute", "feature")
SEPARATE_LEARNERS = ("svore", "yu")  # each worker grows a whole tree alone, in every iteration of boosting
# May name columns, so only the data settles them.
_BY_COLUMN = (
    "monotone_constraints",
    "interaction_constraints",
    "feature_contri",
    "cegb_penalty_feature_coupled",
    "max_bin_by_feature",
    "forced_bins",
    "forced_splits",
)
PARTITION_LEARNERS = ("voting", *SEPARATE_LEARNERS)  # their trees depend on how rows are spread over workers


class ForcedSplit(NamedTuple):
    """A split that every tree begins with, or goes on with below another one."""

    feature: int
    threshold: float
    left: ForcedSplit | None = None
    right: ForcedSplit | None = None


@dataclass(frozen=True)
class Params:
    """Validated parameters of one training."""

    ensemble: str = "gbdt"  # "gbdt" | "forest"; a decision tree is a forest of one tree without bootstrap
    objective: str | Callable[..., Any] = "regression"
    n_classes: int = 1  # 1 for regression and ranking
    n_targets: int = 1  # columns of y, or levels of a quantile
    target_sizes: tuple[int, ...] = ()  # the number of classes in each column of y, if there are several
    n_estimators: int = 100
    learning_rate: float = 0.1
    num_leaves: int = 31  # 0 = no limit
    max_depth: int = -1  # -1 = no limit
    min_child_samples: int = 20
    min_child_weight: float = 1e-3
    reg_alpha: float = 0.0
    reg_lambda: float = 0.0
    min_split_gain: float = 0.0
    subsample: float = 1.0
    subsample_freq: int = 0
    colsample_bytree: float = 1.0
    colsample_bylevel: float = 1.0
    colsample_bynode: float = 1.0
    floors_columns: bool = False  # whether the fractions above are rounded down, as XGBoost rounds them
    grow_policy: str = "lossguide"  # "lossguide" | "depthwise"
    extra_trees: bool = False
    path_smooth: float = 0.0
    feature_contri: tuple[float, ...] = ()  # a factor per column; () = 1 for all
    monotone_penalty: float = 0.0
    cegb_tradeoff: float = 1.0
    cegb_penalty_split: float = 0.0
    cegb_penalty_feature_coupled: tuple[float, ...] = ()  # a cost per column; () = 0 for all
    max_cat_to_onehot: int = 0
    max_cat_threshold: int = 0  # 0 = no limit
    min_data_per_group: int = 1
    max_bin: int = 255
    cat_smooth: float = 10.0
    cat_l2: float = 10.0
    min_data_in_bin: int = 1
    use_missing: bool = True
    zero_as_missing: bool = False
    linear_tree: bool = False
    linear_lambda: float = 0.0
    subsample_for_bin: int | None = None  # None = reading.row_ids.SAMPLE_ROWS
    max_bin_by_feature: tuple[int, ...] = ()  # a limit per column; () = max_bin for all
    forced_bins: tuple[tuple[int, tuple[float, ...]], ...] = ()  # (column, ends of bins)
    forced_splits: tuple[ForcedSplit, ...] = ()  # the root's, or nothing
    max_delta_step: float = 0.0  # 0 = no limit
    boost_from_average: bool = True
    base_score: float | None = None  # on the scale of predictions; None = from the data
    quantile_alpha: float | tuple[float, ...] = 0.9  # levels of several outputs
    huber_slope: float = 0.9
    fair_c: float = 1.0
    poisson_max_delta_step: float = 0.7
    tweedie_variance_power: float = 1.5
    aft_loss_distribution: str = "normal"  # "normal" | "logistic" | "extreme"
    aft_loss_distribution_scale: float = 1.0
    lambdarank_norm: bool = True
    lambdarank_position_bias_regularization: float = 0.0
    label_gain: tuple[float, ...] = ()  # gain of each relevance label; () = 2^label - 1
    boosting_type: str = "gbdt"  # "gbdt" | "dart" | "rf"
    num_parallel_tree: int = 1
    data_sample_strategy: str = "bagging"  # "bagging" | "goss" | "mvs"
    top_rate: float = 0.2
    other_rate: float = 0.1
    drop_rate: float = 0.1
    max_drop: int = 50  # 0 and less = no limit
    skip_drop: float = 0.5
    uniform_drop: bool = False
    one_drop: bool = False
    xgboost_dart_mode: bool = False
    normalize_type: str = "tree"
    pos_bagging_fraction: float = 1.0
    neg_bagging_fraction: float = 1.0
    bagging_by_query: bool = False
    bagging_seed: int | None = None  # None = seed, as of the next ones
    feature_fraction_seed: int | None = None
    extra_seed: int | None = None
    drop_seed: int | None = None
    objective_seed: int | None = None
    data_random_seed: int | None = None
    criterion: str = "gradient"  # "gradient" | "entropy" | "variance"
    bootstrap: bool = False
    oob_score: bool = False
    seed: int = 0  # 0 .. 2**63 - 1
    n_threads: int = 1
    bins_folder: str | None = None  # None = in memory
    verbosity: int = 1
    lambdarank_truncation_level: int = 30
    tree_learner: str = "serial"
    top_k: int | str = 20  # "auto" with exact voting
    election_size: float = 2.0
    ballot_rows: int = 8192  # 0 = all
    quantized_bins: float = 0.1
    audit: int = 0  # 0 = off
    n_workers: int = 1
    packs_histograms: bool = True  # False: plain words on the wire, for comparison
    early_stopping_rounds: int = 0  # 0 = off
    monotone_constraints: tuple[int, ...] = ()  # 1, -1 or 0 per column; () = none
    interaction_constraints: tuple[tuple[int, ...], ...] = ()  # sets of columns; () = none

    @property
    def averages(self) -> bool:
        """Whether the model is the mean of its trees instead of their sum."""
        return self.ensemble == "forest" or self.boosting_type == "rf"

    @property
    def has_split_options(self) -> bool:
        """Whether the search for splits obeys options of kernels/growing/split_options.py."""
        return bool(
            self.extra_trees
            or self.path_smooth > 0.0
            or self.feature_contri
            or (self.monotone_penalty > 0.0 and self.monotone_constraints)
            or (self.cegb_tradeoff > 0.0 and (self.cegb_penalty_split > 0.0 or self.cegb_penalty_feature_coupled))
            or self.max_cat_to_onehot > 0
            or self.max_cat_threshold > 0
            or self.min_data_per_group > 1
        )


def make_params(values: Mapping[str, Any], n_features: int, **settled: Any) -> Params:
    """Make Params from an estimator's checked parameters; ``settled`` are the fields that depend on the data."""
    known = {field.name for field in fields(Params)}
    chosen = {name: value for name, value in values.items() if name in known} | settled
    chosen["tree_learner"] = learner_for(chosen.get("tree_learner", "serial"), chosen.get("n_workers", 1))
    if chosen["tree_learner"] == "serial":
        chosen["n_workers"] = 1
    if chosen.get("num_leaves") == -1:
        chosen["num_leaves"] = 0
    chosen |= {name: limit(name, chosen[name]) for name in ("max_depth", "min_child_samples") if name in chosen}
    if not chosen.get("num_leaves", 31):
        chosen["grow_policy"] = "lossguide"  # without a limit on leaves, both policies grow the same tree
    if chosen.get("ballot_rows") == "all":
        chosen["ballot_rows"] = 0
    if chosen.get("boosting_type") == "goss":
        chosen["boosting_type"], chosen["data_sample_strategy"] = "gbdt", "goss"
    if chosen.get("bins_folder") is not None:
        chosen["bins_folder"] = os.fspath(chosen["bins_folder"])
    chosen["early_stopping_rounds"] = chosen.get("early_stopping_rounds") or 0
    for name in _BY_COLUMN:
        chosen[name] = settled.get(name, ())
    chosen["max_cat_threshold"] = chosen.get("max_cat_threshold") or 0
    if not chosen.get("use_missing", True):  # nothing counts as missing then
        chosen["zero_as_missing"] = False
    if chosen.get("subsample_for_bin") == 200_000:  # the usual number
        chosen["subsample_for_bin"] = None
    chosen["label_gain"] = tuple(float(gain) for gain in chosen.get("label_gain") or ())
    levels = chosen.get("quantile_alpha", 0.9)
    if isinstance(levels, list | tuple | np.ndarray):
        chosen["quantile_alpha"] = tuple(map(float, levels)) if len(levels) > 1 else float(levels[0])
    chosen["seed"] = _seed(values.get("random_state"))
    chosen["n_threads"] = n_threads(values.get("n_jobs"))
    if "max_features" in values:
        chosen["colsample_bynode"] = _n_split_features(values["max_features"], n_features) / n_features
    return Params(**{name: plain(value) for name, value in chosen.items()})


def learner_for(tree_learner: str, n_workers: int) -> str:
    """The strategy that ``tree_learner`` stands for on this many workers (docs/adr/0022)."""
    if tree_learner == "feature":  # LightGBM's name
        return "attribute"
    if tree_learner == "auto":
        return "exact_voting" if n_workers > 1 else "serial"
    return tree_learner


def refuse_serial(tree_learner: str, n_workers: int) -> None:
    """Raise if ``tree_learner`` asks for one worker and there are several."""
    if tree_learner == "serial" and n_workers > 1:
        raise InvalidParameterError(
            f"tree_learner='serial' trains on one worker, but there are {n_workers}; leave tree_learner out for the "
            "model of one machine, or use 'voting' for the least traffic."
        )


def limit(name: str, value: int) -> int:
    """The trainer's value of a parameter of which 0 sets no limit, as in LightGBM."""
    return value or {"max_depth": -1, "min_child_samples": 1}.get(name, 0)


def plain(value: Any) -> Any:
    """Turn a numpy scalar into Python's, so that none gets into model files or kernel signatures."""
    return value.item() if isinstance(value, np.generic) else value


def _n_split_features(max_features: Any, n_features: int) -> int:
    if max_features is None:
        return n_features
    if isinstance(max_features, str):
        root = math.sqrt(n_features) if max_features == "sqrt" else math.log2(n_features)
        return max(1, int(root))
    if not isinstance(max_features, int | np.integer):
        return max(1, int(max_features * n_features))
    if max_features > n_features:
        raise InvalidParameterError(
            f"max_features must be at most the number of columns of X, {n_features}, got {max_features}."
        )
    return int(max_features)


def _seed(random_state: Any) -> int:
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31 - 1))
    return 0 if random_state is None else int(random_state)


def n_threads(n_jobs: int | None) -> int:
    """The number of threads that ``n_jobs`` asks for, given the cores that this process may use."""
    if n_jobs is not None and n_jobs > 0:
        return int(n_jobs)
    import joblib  # it knows affinity masks and container limits

    n_cores: int = joblib.cpu_count()
    return n_cores if n_jobs is None else max(1, n_cores + 1 + int(n_jobs))
