"""Which rows grow an iteration's trees: by chance, or by their gradients (GOSS and minimal-variance sampling).

Rows are drawn by the hash of their number, and thresholds are those of all workers' rows, so any partition draws the
same rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pvtree.binning.shard import Shard
from pvtree.comm import Communicator
from pvtree.comm.worker import Worker
from pvtree.growing.sampling import counted_rows, is_empty, row_chances, subsample_rows
from pvtree.objectives.quantiles import integer_weights, ranked_value
from pvtree.parameters.params import Params

_REGULARISATION = 0.1  # of the hessian in MVS, as in XGBoost
_BITS = 62  # of the threshold of MVS
_DIGIT_BITS = 4  # of it that one exchange decides


class RowDraw(NamedTuple):
    """The rows of one tree."""

    rows: np.ndarray | None  # that the tree grows on; None for all
    others: np.ndarray  # that only get scores
    factor: np.ndarray | None = None  # (n_rows,): of the gradients of the rows that were drawn; None for 1


def draw_rows(
    shard: Shard, params: Params, iteration: int, parallel: int, grad: np.ndarray, hess: np.ndarray, worker: Worker
) -> RowDraw:
    """The rows of the ``parallel``-th tree of an iteration, from the gradients (n_outputs, n_rows) of all rows."""
    factor = None
    if params.data_sample_strategy != "bagging":
        number = iteration * params.num_parallel_tree + parallel
        factor = _factors(shard, params, iteration, number, grad, hess, worker.by_rows)
        rows = None if factor is None else np.flatnonzero(factor).astype(np.uint32)
    else:
        rows = subsample_rows(params, iteration, shard.ids, worker.team, parallel, shard.y, shard.group)
    is_drawn = rows is not None
    rows = counted_rows(rows, shard.counted)
    # A draw that left no row on any worker is replaced by all rows.
    if rows is not None and is_drawn and is_empty(rows, worker.by_rows):
        rows, factor = counted_rows(None, shard.counted), None
    if rows is None:
        return RowDraw(None, np.empty(0, np.uint32))
    is_other = np.ones(shard.n_rows, np.bool_)
    is_other[rows] = False
    return RowDraw(rows, np.flatnonzero(is_other).astype(np.uint32), factor)


def may_weigh(params: Params) -> bool:
    """Whether gradients are multiplied by factors, so that hessians are no constants."""
    return params.data_sample_strategy == "goss" or (params.data_sample_strategy == "mvs" and params.subsample < 1.0)


def _factors(
    shard: Shard,
    params: Params,
    iteration: int,
    number: int,
    grad: np.ndarray,
    hess: np.ndarray,
    comm: Communicator,
) -> np.ndarray | None:
    """(n_rows,): 1 / the probability of each row that is drawn, 0 of the others; None for all rows."""
    if not may_weigh(params):
        return None
    n_all = shard.ids.n_all if comm.size > 1 else shard.n_rows
    if params.data_sample_strategy == "goss":
        # As in LightGBM, the first iterations learn from all rows.
        if params.boosting_type != "rf" and iteration < int(1.0 / params.learning_rate):
            return None
        probability = goss_probabilities(np.abs(grad * hess).sum(axis=0), params, n_all, comm)
    else:
        size = np.sqrt(np.square(grad).sum(axis=0) + _REGULARISATION * np.square(hess).sum(axis=0))
        probability = mvs_probabilities(size, params.subsample * n_all, comm)
    is_drawn = row_chances(params, number, shard.ids) < probability
    return np.divide(1.0, probability, out=np.zeros(shard.n_rows), where=is_drawn)


def goss_probabilities(size: np.ndarray, params: Params, n_all: int, comm: Communicator) -> np.ndarray:
    """1 for the ``top_rate`` of all workers' rows with the largest sizes, the same share for all others."""
    n_top = int(params.top_rate * n_all)
    share = min(1.0, params.other_rate / max(1.0 - params.top_rate, 1e-15))
    threshold = ranked_value(size, n_all - n_top, comm) if n_top else np.inf
    return np.where(size >= threshold, 1.0, share)


def mvs_probabilities(size: np.ndarray, n_drawn: float, comm: Communicator) -> np.ndarray:
    """min(1, size / m), with the smallest m at which the probabilities of all workers' rows sum to ``n_drawn`` at most.

    Sizes become integers, whose sums are exact.
    """
    whole = integer_weights(size, len(size), comm if comm.size > 1 else None)
    ordered = np.sort(whole)
    sums = np.concatenate(([0], np.cumsum(ordered)))
    threshold = 0
    digits = np.arange(1, 1 << _DIGIT_BITS, dtype=np.int64)
    for shift in range(_BITS - _BITS % _DIGIT_BITS, -1, -_DIGIT_BITS):
        probes = threshold + (digits[: (1 << (_BITS - shift)) - 1] << shift)
        at = np.searchsorted(ordered, probes)
        known = np.stack([len(ordered) - at, sums[at]])  # rows at or above each probe; sum of the sizes below it
        n_above, below = (known if comm.size == 1 else comm.allreduce(known, "scores")).tolist()
        # Probes that are still too small; what is drawn falls as the threshold rises.
        too_small = [n * m + s > n_drawn * m for n, s, m in zip(n_above, below, probes.tolist(), strict=True)]
        threshold += sum(too_small) << shift
    return np.minimum(1.0, whole / float(threshold + 1))
