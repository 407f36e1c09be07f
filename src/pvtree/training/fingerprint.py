"""What a training is known by: a checkpoint is gone on from only by the training that began it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from reprlib import repr  # shortens what may come from any file
from typing import TYPE_CHECKING, Any

import numpy as np

from pvtree.parameters.params import PARTITION_LEARNERS

if TYPE_CHECKING:
    from pvtree.binning.shard import Shard
    from pvtree.comm import Communicator
    from pvtree.model.model import Model
    from pvtree.parameters.params import Params

Fingerprint = dict[str, Any]  # plain values, as JSON gives them back

# May change between two runs: they decide how fast the trees come and how many, not which.
_FREE = {"n_threads", "verbosity", "n_workers", "n_estimators", "early_stopping_rounds", "packs_histograms", "audit"}
_OF_LEARNER = {"top_k": "voting", "election_size": "voting", "quantized_bins": "quantized"}
_EXACT = {"serial", "data", "attribute", "exact_voting"}  # make the same trees
# What is said of a part that differs; those with {} show both values.
PARTS = {
    "parameters": "",
    "n_rows": "it had {} rows, now there are {}",
    "n_features": "it had {} columns, now there are {}",
    "bins": "X has other values",
    "labels": "y, the weights or the queries are others",
    "init_model": "it went on from another init_model",
    "evaluation": "it evaluated {}, now {} is asked for",
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
    """What decides the model, the same on all workers and, but for "partition", however rows are spread.

    ``evaluation`` names what is evaluated: early stopping decides by it.
    """
    with comm.uncounted():
        labels = np.array([label_sum(shard)], np.uint64)
        # Where columns are spread every worker has all rows.
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
    values = {name: value for name, value in vars(params).items() if name not in _FREE}
    learner = values["tree_learner"]
    values = {name: value for name, value in values.items() if _OF_LEARNER.get(name, learner) == learner}
    monotone, sets = values.pop("monotone_constraints"), values.pop("interaction_constraints")
    # Only where there are some: trainings that began when pvtree knew none can go on.
    values |= {"monotone_constraints": list(monotone)} if monotone else {}
    values |= {"interaction_constraints": [list(columns) for columns in sets]} if sets else {}
    values["tree_learner"] = "serial" if learner in _EXACT else learner
    if learner == "yu":  # iterations of another number of trees would not fit into one model
        values["the number of workers with rows"] = n_parallel_trees
    objective = values["objective"]
    if callable(objective):
        kind = objective if hasattr(objective, "__qualname__") else type(objective)
        values["objective"] = f"{kind.__module__}.{kind.__qualname__}"
    return values


def label_sum(shard: Shard) -> int:
    """Sum modulo 2^64 over the rows of a hash of (number of the row, label, weight, whether a query begins there)."""
    begins = np.zeros(shard.n_rows, np.bool_)
    if shard.group is not None:
        begins[np.cumsum(shard.group) - shard.group] = True
    total = 0
    ids = shard.ids
    for start, stop, shift in zip(ids.start[:-1].tolist(), ids.start[1:].tolist(), ids.shift.tolist(), strict=True):
        for first in range(start, stop, _BLOCK_ROWS):
            rows = slice(first, min(first + _BLOCK_ROWS, stop))
            hashed = _mixed(np.arange(rows.start, rows.stop) + shift)
            hashed = _mixed(hashed + _bits(shard.y[rows]))
            hashed = _mixed(hashed + (np.uint64(1) if shard.weight is None else _bits(shard.weight[rows])))
            total += int(_mixed(hashed + begins[rows].astype(np.uint64)).sum())
    return total % 2**64


def _bits(values: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(values, np.float64).view(np.uint64)


def _mixed(words: np.ndarray) -> np.ndarray:
    """splitmix64 of each word; products and sums of arrays wrap around silently."""
    words = words.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def _partition(shard: Shard, comm: Communicator, learner: str) -> str:
    """A digest of who has which rows. Voting treats workers alike, so their order is left out; the others do not:
    it decides between trees of equal loss, and in which order trees are added up."""
    ids = shard.ids
    first, length = ids.start[:-1] + ids.shift, np.diff(ids.start)
    order = np.argsort(first[length > 0])
    first, length = first[length > 0][order], length[length > 0][order]
    continues = np.zeros(len(first), np.bool_)
    continues[1:] = first[1:] == first[:-1] + length[:-1]  # two runs that touch are one
    at = np.cumsum(~continues) - 1
    runs = np.stack([first[~continues], np.bincount(at, length).astype(np.int64)], axis=1)
    everybody = [part.tobytes() for part in comm.allgather(runs, "scores")]
    everybody = sorted(everybody) if learner == "voting" else everybody
    return hashlib.sha256(b"|".join(everybody)).hexdigest()


def differences(saved: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """What makes two fingerprints those of different trainings, in words; the partition does not."""
    before, after = saved["parameters"], now["parameters"]
    before = before if isinstance(before, dict) else {}
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name):
            yield f"{name} was {repr(before.get(name))} and is {repr(after.get(name))}"
    for part, sentence in PARTS.items():
        if sentence and saved[part] != now[part]:
            yield sentence.format(repr(saved[part]), repr(now[part]))
