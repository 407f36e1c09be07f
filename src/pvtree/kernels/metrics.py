"""Losses row by row, which metrics.py sums exactly, and the count of ordered pairs behind AUC."""

from __future__ import annotations

import numpy as np

from pvtree.kernels.elementary import exp, log, select, softplus
from pvtree.kernels.gradients import BLOCK_ROWS, largest_scores
from pvtree.kernels.jit import njit


@njit
def binary_log_losses(y, score, out):  # OUT: out
    for i in range(y.size):
        out[i] = softplus(select(y[i] > 0.5, -score[i], score[i]))


@njit
def negative_logs(probability, floor, out):  # OUT: out
    for i in range(out.size):
        out[i] = -log(select(probability[i] < floor, floor, probability[i]))


@njit
def multiclass_log_losses(y, scores, out):  # OUT: out
    top = np.empty(BLOCK_ROWS)
    for begin in range(0, y.size, BLOCK_ROWS):
        end = min(begin + BLOCK_ROWS, y.size)
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
def multiclass_errors(y, scores, out):  # OUT: out
    """1 where another class is predicted; of equal scores the first class wins."""
    true_score = np.empty(BLOCK_ROWS)
    for begin in range(0, y.size, BLOCK_ROWS):
        end = min(begin + BLOCK_ROWS, y.size)
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
def ordered_pair_weight(positive, positive_weight, negative, negative_weight):
    """Twice the weight of pairs whose positive scores above the negative; tied pairs count half.

    Both score arrays ascend and weights are integers, so equal scores may come in any order.
    """
    doubled = 0.0
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
        doubled += float(here) * (2.0 * float(below) + float(tied))
    return doubled
