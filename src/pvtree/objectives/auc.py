"""The area under the ROC curve over the rows of all workers.

Pairs are counted in whole numbers, so any order and partition of the rows gives the same bits. Each worker counts the
pairs inside one range of scores.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pvtree.kernels.objectives.metrics import ordered_pair_weight
from pvtree.objectives.fixed_point import SUM_BITS, exact_sum, max_magnitude

if TYPE_CHECKING:
    from pvtree.comm import Communicator

Side = tuple[np.ndarray, np.ndarray | None]  # one class: ascending scores, and weights in that order
Integers = tuple[list[np.ndarray], list[np.ndarray]]  # both classes: ascending scores, and integer weights

SAMPLED_SCORES = 64  # per worker: 0.5 kB; the ranges are then even to about M/64 at worst


def area_under_curve(
    is_positive: np.ndarray, score: np.ndarray, weight: np.ndarray | None, comm: Communicator | None = None
) -> float:
    """The share of (positive, negative) pairs that the scores order correctly, by weight; ties count half.

    Pairs are those of all workers' rows. The area is 1 if a class is missing, and NaN if a score is NaN.
    """
    score = np.asarray(score, np.float64)
    sides = [_sorted_side(score, weight, members) for members in (is_positive, ~is_positive)]
    if comm is None or comm.size == 1:
        return _alone(sides)
    ranges = _own_range(sides, comm)
    return math.nan if ranges is None else _area(comm.allgather(_count_pairs(*ranges), "metrics"))


def average_precision(
    is_positive: np.ndarray, score: np.ndarray, weight: np.ndarray | None, comm: Communicator | None = None
) -> float:
    """The mean over all positives, by weight, of the share of positives among the rows that score at least as high.

    It is 1 without negatives or positives, and NaN if a score is NaN.
    """
    score = np.asarray(score, np.float64)
    sides = [_sorted_side(score, weight, members) for members in (is_positive, ~is_positive)]
    ranges: Integers | None
    if comm is None or comm.size == 1:
        comm, scale = None, max(_largest(side) for side in sides)
        n_rows = sum(side[0].size for side in sides)
        weights = [_integer_weights(side, scale, n_rows) for side in sides]
        ranges = None if _has_nan(sides) else ([side[0] for side in sides], weights)
    else:
        ranges = _own_range(sides, comm, common_scale=True)
    return math.nan if ranges is None else _mean_precision(*ranges, comm)


def _mean_precision(scores: list[np.ndarray], weights: list[np.ndarray], comm: Communicator | None) -> float:
    """From each worker's range of scores: a term for every different score of positives, summed exactly."""
    totals = np.array([weight.sum() for weight in weights], np.int64)
    by_rank = [totals] if comm is None else comm.allgather(totals, "metrics")
    above = [sum(int(each[k]) for each in by_rank[(0 if comm is None else comm.rank) + 1 :]) for k in range(2)]
    all_positives = sum(int(each[0]) for each in by_rank)
    score, here = _merge_ties(scores[0], weights[0])
    # The weights of positives and of negatives that score at least as high.
    n_true = above[0] + np.cumsum(here[::-1])[::-1]
    beaten = np.concatenate(([0], np.cumsum(weights[1])))
    n_false = above[1] + int(totals[1]) - beaten[np.searchsorted(scores[1], score)]
    terms = here / max(all_positives, 1) * (n_true / (n_true + n_false))
    total = exact_sum(terms, comm, "metrics")
    return total if all_positives else 1.0


def _sorted_side(score: np.ndarray, weight: np.ndarray | None, members: np.ndarray) -> Side:
    score = score[members]
    if weight is None:
        return np.sort(score), None  # much faster than argsort
    order = np.argsort(score)
    return score[order], weight[members][order]


def _integer_weights(side: Side, largest: float, n_all: int) -> np.ndarray:
    """One class's weights as integers, scaled so that ``n_all`` weights up to ``largest`` sum to at most 2^62."""
    score, weight = side
    if weight is None:
        return np.ones(score.size, np.int64)
    exponent = SUM_BITS - max(n_all - 1, 0).bit_length() - math.frexp(largest)[1]
    return np.rint(np.ldexp(weight, exponent)).astype(np.int64)


def _largest(side: Side) -> float:
    return 1.0 if side[1] is None else max_magnitude(side[1])


def _has_nan(sides: list[Side]) -> bool:
    return any(score.size and math.isnan(score[-1]) for score, _ in sides)  # NaN sorts after all numbers


def _alone(sides: list[Side]) -> float:
    if _has_nan(sides):
        return math.nan
    weights = [_integer_weights(side, _largest(side), side[0].size) for side in sides]
    return _area([_count_pairs([score for score, _ in sides], weights)])


def _count_pairs(scores: list[np.ndarray], weights: list[np.ndarray]) -> np.ndarray:
    """uint64: the high and low word of twice the ordered pairs' weight; the weights of the positives and negatives."""
    doubled = ordered_pair_weight(scores[0], weights[0], scores[1], weights[1])
    return np.array([*doubled, *(weight.sum() for weight in weights)], np.uint64)


def _area(ranges: Sequence[np.ndarray]) -> float:
    """The AUC from the counts of ascending ranges of scores, in whole numbers that are rounded once, at the end."""
    doubled = positives = negatives = 0
    for high, low, its_positives, its_negatives in (counts.tolist() for counts in ranges):
        doubled += (high << 64) + low + 2 * its_positives * negatives  # all negatives so far score below
        positives += its_positives
        negatives += its_negatives
    return doubled / (2 * positives * negatives) if positives and negatives else 1.0


def _own_range(sides: list[Side], comm: Communicator, common_scale: bool = False) -> Integers | None:
    """The rows of all workers in one range of scores, ranges ascending by rank; None if a score is NaN.

    With ``common_scale`` the weights of both classes together sum to at most 2^62.
    """
    sizes = [score.size for score, _ in sides]
    step = max(1, -(-sum(sizes) // SAMPLED_SCORES))
    sample = np.concatenate([score[step // 2 :: step] for score, _ in sides])
    facts = np.array([_has_nan(sides), *sizes, *map(_largest, sides), step])
    gathered = comm.allgather(np.concatenate([facts, sample]), "metrics")
    all_facts = np.array([each[: facts.size] for each in gathered])  # (n_workers, n_facts)
    if all_facts[:, 0].any():
        return None
    n_all, largest = all_facts[:, 1:3].sum(axis=0), all_facts[:, 3:5].max(axis=0)
    if common_scale:
        n_all, largest = np.full(2, n_all.sum()), np.full(2, largest.max())
    scores = [score for score, _ in sides]
    weights = [_integer_weights(side, top, int(n)) for side, top, n in zip(sides, largest, n_all, strict=True)]
    n_holders = np.count_nonzero(all_facts[:, 1:3].any(axis=1))
    if n_holders > 1:  # otherwise one worker has all rows and needs no help
        splitters = _splitters([each[facts.size :] for each in gathered], all_facts[:, 5])
        scores, weights = _deal_ranges(scores, weights, sides[0][1] is not None, splitters, comm)
    return scores, weights


def _splitters(samples: list[np.ndarray], steps: np.ndarray) -> np.ndarray:
    """size - 1 scores that divide the rows evenly: each sampled score stands for ``step`` rows of its worker."""
    score = np.concatenate(samples)
    order = np.argsort(score, kind="stable")
    n_below = np.cumsum(np.repeat(steps.astype(np.int64), [sample.size for sample in samples])[order])
    n_wanted = n_below[-1] * np.arange(1, len(samples)) // len(samples)
    splitters: np.ndarray = score[order][np.searchsorted(n_below, n_wanted)]
    return splitters


def _deal_ranges(
    scores: list[np.ndarray], weights: list[np.ndarray], is_weighted: bool, splitters: np.ndarray, comm: Communicator
) -> Integers:
    """Send worker m all scores from splitter m - 1 up to, but not including, splitter m, so ties stay together.

    A message is int64 words: the number of scores of each class, whether weights follow, the scores' bits, the weights.
    """
    merged = [_merge_ties(*side) for side in zip(scores, weights, strict=True)]
    # Few leaves give few distinct scores: then each score with its count is less to send than every row.
    has_weights = is_weighted or 2 * sum(s.size for s, _ in merged) < sum(s.size for s in scores)
    sent = merged if has_weights else list(zip(scores, weights, strict=True))
    cuts = [[0, *np.searchsorted(score, splitters), score.size] for score, _ in sent]
    messages = []
    for m in range(comm.size):
        own = [slice(cut[m], cut[m + 1]) for cut in cuts]
        words = [score[rows].view(np.int64) for (score, _), rows in zip(sent, own, strict=True)]
        head = [len(each) for each in words]
        if has_weights:
            words += [weight[rows] for (_, weight), rows in zip(sent, own, strict=True)]
        messages.append(np.concatenate([np.array([*head, has_weights], np.int64), *words]))
    return _sorted_ranges(comm.alltoall(messages, "metrics"))


def _sorted_ranges(messages: list[np.ndarray]) -> Integers:
    """The scores of each class in ascending order, with their weights, from the messages of all workers."""
    parts: list[list[Side]] = [[], []]
    for message in messages:
        n_positive, n_negative, has_weights = message[:3].tolist()
        score = message[3 : 3 + n_positive + n_negative].view(np.float64)
        weight = message[3 + score.size :] if has_weights else None
        for side, rows in zip(parts, (slice(n_positive), slice(n_positive, None)), strict=True):
            side.append((score[rows], None if weight is None else weight[rows]))
    scores, weights = [], []
    for side in parts:
        score = np.concatenate([s for s, _ in side])
        if all(w is None for _, w in side):
            scores.append(np.sort(score))
            weights.append(np.ones(score.size, np.int64))
        else:
            order = np.argsort(score, kind="stable")  # merges sorted runs
            weight = np.concatenate([np.ones(s.size, np.int64) if w is None else w for s, w in side])
            scores.append(score[order])
            weights.append(weight[order])
    return scores, weights


def _merge_ties(score: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each distinct score with the weight of all its rows; scores ascend before and after."""
    if not score.size:
        return score, weight
    first = np.flatnonzero(np.append(True, score[1:] != score[:-1]))
    return score[first], np.add.reduceat(weight, first)
