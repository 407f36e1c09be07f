"""The identity of a training. Only the run that wrote a checkpoint may resume it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from reprlib import repr  # shortens values, which may come from any file
from typing import TYPE_CHECKING, Any

import numpy as np

from pvtree.growing.sampling import mixed
from pvtree.parameters.params import PARTITION_LEARNERS, Params

if TYPE_CHECKING:
    from pvtree.binning.shard import Shard
    from pvtree.comm import Communicator
    from pvtree.model.model import Model

Fingerprint = dict[str, Any]  # plain values, which JSON preserves

# May differ between two runs: they change the speed and the number of trees, but not the trees.
_FREE = {
    "n_threads",
    "bins_folder",
    "verbosity",
    "n_workers",
    "n_estimators",
    "early_stopping_rounds",
    "packs_histograms",
    "audit",
    "oob_score",
}
_OF_LEARNER = {"top_k": "voting", "election_size": "voting", "ballot_rows": "voting", "quantized_bins": "quantized"}
_EXACT = {"serial", "data", "attribute", "exact_voting"}  # all make the same trees
_DEFAULTS = {field.name: field.default for field in fields(Params)}
_ONLY_IF_SET = {
    "boost_from_average", "base_score", "max_delta_step", "min_data_in_bin", "quantile_alpha", "huber_slope", "fair_c",
    "n_targets", "target_sizes", "lambdarank_position_bias_regularization",
    "poisson_max_delta_step", "tweedie_variance_power", "lambdarank_norm", "boosting_type", "num_parallel_tree",
    "data_sample_strategy", "top_rate", "other_rate", "drop_rate", "max_drop", "skip_drop", "uniform_drop", "one_drop",
    "xgboost_dart_mode", "normalize_type", "pos_bagging_fraction", "neg_bagging_fraction", "bagging_by_query",
    "bagging_seed", "feature_fraction_seed", "drop_seed", "objective_seed", "data_random_seed",
    "aft_loss_distribution", "aft_loss_distribution_scale", "use_missing", "zero_as_missing",
    "linear_tree", "linear_lambda", "subsample_for_bin",
    "max_bin_by_feature", "forced_bins", "forced_splits",
    "colsample_bylevel", "floors_columns", "grow_policy", "extra_trees", "extra_seed", "path_smooth", "feature_contri",
    "monotone_penalty", "cegb_tradeoff", "cegb_penalty_split", "cegb_penalty_feature_coupled", "max_cat_to_onehot",
    "max_cat_threshold", "min_data_per_group",
}  # fmt: skip
# The message about a part that differs; {} and {} are the saved value and the present one.
PARTS = {
    "parameters": "",
    "n_rows": "it had {} rows, now there are {}",
    "n_features": "it had {} columns, now there are {}",
    "bins": "the values of X have changed",
    "labels": "the initial scores, y, the weights or the queries have changed",
    "init_model": "it continued another init_model",
    "evaluation": "it evaluated {}, now it is {}",
    "partition": "",
}
_BLOCK_ROWS = 1 << 16


def fingerprint(
    params: Params,
    shard: Shard,
    comm: Communicator,
    init_model: Model | None = None,
    evaluation: Sequence[str] = (),
    n_parallel_trees: int = 1,
) -> Fingerprint:
    """All that determines the model. It is the same on all workers; only "partition" depends on who has which rows.

    ``evaluation`` names the sets and metrics, because early stopping depends on them.
    """
    with comm.uncounted():
        labels = np.array([label_sum(shard)], np.uint64)
        # If columns are spread, every worker has all rows, and a sum would count them several times.
        total = labels if params.tree_learner == "attribute" else comm.allreduce(labels, "scores")
        partition = _partition(shard, comm, params.tree_learner) if params.tree_learner in PARTITION_LEARNERS else None
    bins = hashlib.sha256()
    for array in (shard.thresholds.upper, shard.thresholds.n_bins, shard.thresholds.is_categorical):
        bins.update(np.ascontiguousarray(array).tobytes())
    start = None if init_model is None else hashlib.sha256(init_model.to_json().encode()).hexdigest()
    return {
        "parameters": _deciding(params, n_parallel_trees),
        "n_rows": int(shard.ids.n_all),
        "n_features": shard.n_all_features,
        "bins": bins.hexdigest(),
        "labels": f"{int(total[0]):016x}",
        "init_model": start,
        "evaluation": list(evaluation),
        "partition": partition,
    }


def _deciding(params: Params, n_parallel_trees: int) -> dict[str, Any]:
    """The parameters that determine the trees."""
    values = {name: value for name, value in vars(params).items() if name not in _FREE}
    learner = values["tree_learner"]
    values = {name: value for name, value in values.items() if _OF_LEARNER.get(name, learner) == learner}
    for name in values.keys() & _ONLY_IF_SET:  # so that checkpoints from before they existed can be resumed
        if values[name] == _DEFAULTS[name]:
            del values[name]
    of_numbers = ("quantile_alpha", "feature_contri", "cegb_penalty_feature_coupled", "max_bin_by_feature")
    for name in (*of_numbers, "target_sizes"):
        if isinstance(values.get(name), tuple):
            values[name] = list(values[name])
    if "forced_bins" in values:
        values["forced_bins"] = [[column, list(ends)] for column, ends in values["forced_bins"]]
    if "forced_splits" in values:
        values["forced_splits"] = json.loads(json.dumps(values["forced_splits"]))
    gains = values.pop("label_gain")
    values |= {"label_gain": list(gains)} if gains else {}
    monotone, sets = values.pop("monotone_constraints"), values.pop("interaction_constraints")
    # Only if there are any, so that checkpoints from before there were constraints can be resumed.
    values |= {"monotone_constraints": list(monotone)} if monotone else {}
    values |= {"interaction_constraints": [list(columns) for columns in sets]} if sets else {}
    values["tree_learner"] = "serial" if learner in _EXACT else learner
    if learner == "yu":  # all iterations of a model have the same number of trees
        values["the number of workers with rows"] = n_parallel_trees
    objective = values["objective"]
    if callable(objective):
        kind = objective if hasattr(objective, "__qualname__") else type(objective)
        values["objective"] = f"{kind.__module__}.{kind.__qualname__}"
    return values


def label_sum(shard: Shard) -> int:
    """Sum modulo 2^64 over the rows of a hash of (row number, label, weight, whether a query begins there, scores)."""
    begins = np.zeros(shard.n_rows, np.bool_)
    if shard.group is not None:
        begins[np.cumsum(shard.group) - shard.group] = True
    total = 0
    ids = shard.ids
    for start, stop, shift in zip(ids.start[:-1].tolist(), ids.start[1:].tolist(), ids.shift.tolist(), strict=True):
        for first in range(start, stop, _BLOCK_ROWS):
            rows = slice(first, min(first + _BLOCK_ROWS, stop))
            hashed = _mixed(np.arange(rows.start, rows.stop) + shift)
            for label in np.atleast_2d(shard.y[rows].T):
                hashed = _mixed(hashed + _bits(label))
            hashed = _mixed(hashed + (np.uint64(1) if shard.weight is None else _bits(shard.weight[rows])))
            hashed = _mixed(hashed + begins[rows].astype(np.uint64))
            for score in () if shard.init_score is None else shard.init_score[rows].T:
                hashed = _mixed(hashed + _bits(score))
            total += int(hashed.sum())
    return total % 2**64


def _bits(values: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(values, np.float64).view(np.uint64)


def _mixed(words: np.ndarray) -> np.ndarray:
    """splitmix64 of each word; products and sums of arrays wrap around silently."""
    return mixed(words.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15))


def _partition(shard: Shard, comm: Communicator, learner: str) -> str:
    """A digest of who has which rows. The order of the workers does not matter to voting, so it is left out. It matters
    to Svore, who breaks ties by it, and to Yu, who adds trees in this order."""
    ids = shard.ids
    first, length = ids.start[:-1] + ids.shift, np.diff(ids.start)
    order = np.argsort(first[length > 0])
    first, length = first[length > 0][order], length[length > 0][order]
    continues = np.zeros(len(first), np.bool_)
    continues[1:] = first[1:] == first[:-1] + length[:-1]  # adjacent runs count as one
    at = np.cumsum(~continues) - 1
    runs = np.stack([first[~continues], np.bincount(at, length).astype(np.int64)], axis=1)
    all_runs = [part.tobytes() for part in comm.allgather(runs, "scores")]
    all_runs = sorted(all_runs) if learner == "voting" else all_runs
    return hashlib.sha256(b"|".join(all_runs)).hexdigest()


def differences(saved: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """In words, what makes two fingerprints differ; another partition does not."""
    before, after = saved["parameters"], now["parameters"]
    before = before if isinstance(before, dict) else {}
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name):
            yield f"{name} was {repr(before.get(name))} and is {repr(after.get(name))}"
    for part, sentence in PARTS.items():
        if sentence and saved[part] != now[part]:
            yield sentence.format(repr(saved[part]), repr(now[part]))
