"""Losses row by row, which metrics.py sums exactly, and the weight of ordered pairs, for AUC."""

from __future__ import annotations

import numpy as np

from pvtree.kernels.elementary import exp, log, select, softplus
from pvtree.kernels.jit import njit
from pvtree.kernels.objectives.gradients import BLOCK_ROWS, largest_scores

HALF = np.uint64(32)
LOW_HALF = np.uint64(0xFFFFFFFF)


@njit
def binary_log_losses(start, stop, y, score, out):  # OUT: out
    for i in range(start, stop):
        out[i] = softplus(select(y[i] > 0.5, -score[i], score[i]))


@njit
def negative_logs(start, stop, probability, floor, out):  # OUT: out
    for i in range(start, stop):
        out[i] = -log(select(probability[i] < floor, floor, probability[i]))


@njit
def multiclass_log_losses(start, stop, y, scores, out):  # OUT: out
    top = np.empty(BLOCK_ROWS)
    for begin in range(start, stop, BLOCK_ROWS):
        end = min(begin + BLOCK_ROWS, stop)
        largest_scores(begin, end, scores, top)
        total = out[begin:end]
        for i in range(total.size):
            total[i] = 0.0
        for k in range(scores.shape[0]):
            row = scores[k, begin:end]
            for i in range(row.size):
                total[i] += exp(row[i] - top[i])
        for i in range(total.size):
            total[i] = log(total[i]) + top[i]
        for i in range(begin, end):
            out[i] -= scores[int(y[i]), i]


@njit
def multiclass_errors(start, stop, y, scores, out):  # OUT: out
    """1 where another class is predicted; of equal scores the first class wins."""
    true_score = np.empty(BLOCK_ROWS)
    for begin in range(start, stop, BLOCK_ROWS):
        end = min(begin + BLOCK_ROWS, stop)
        label = y[begin:end]
        error = out[begin:end]
        for i in range(label.size):
            true_score[i] = scores[int(label[i]), begin + i]
            error[i] = 0.0
        for k in range(scores.shape[0]):
            row = scores[k, begin:end]
            for i in range(row.size):
                beaten = (row[i] > true_score[i]) | ((row[i] == true_score[i]) & (k < label[i]))
                error[i] = select(beaten, 1.0, error[i])


@njit
def add_product(high, low, a, b):
    """(high, low) + a * b as 128 bits in two uint64 words, multiplied by halves of 32 bits."""
    a_high, a_low = a >> HALF, a & LOW_HALF
    b_high, b_low = b >> HALF, b & LOW_HALF
    low_low, low_high, high_low = a_low * b_low, a_low * b_high, a_high * b_low
    middle = (low_low >> HALF) + (low_high & LOW_HALF) + (high_low & LOW_HALF)
    low_sum = low + ((low_low & LOW_HALF) | (middle << HALF))
    carry = np.uint64(1) if low_sum < low else np.uint64(0)
    return high + a_high * b_high + (low_high >> HALF) + (high_low >> HALF) + (middle >> HALF) + carry, low_sum


@njit
def ordered_pair_weight(positive, positive_weight, negative, negative_weight):
    """Twice the weight of pairs whose positive scores above the negative, tied pairs half; 128 bits (high, low).

    Both score arrays ascend. Weights are integers that add up to 2^62 at most in each array, so nothing is rounded
    and equal scores may come in any order.
    """
    high = np.uint64(0)
    low = np.uint64(0)
    below = np.int64(0)  # weight of negatives under the current score
    i = 0
    j = 0
    while i < positive.size:
        score = positive[i]
        while j < negative.size and negative[j] < score:
            below += negative_weight[j]
            j += 1
        tied = np.int64(0)
        t = j
        while t < negative.size and negative[t] == score:
            tied += negative_weight[t]
            t += 1
        here = np.int64(0)
        while i < positive.size and positive[i] == score:
            here += positive_weight[i]
            i += 1
        high, low = add_product(high, low, np.uint64(here), np.uint64(below) + np.uint64(below + tied))
    return high, low
