"""First and second derivatives of the row-wise losses, on blocks of rows; several outputs are (K, n_rows).
Inner loops run from 0 over slices: where LLVM cannot rule out a negative index, it gathers instead of loading."""

from __future__ import annotations

import numpy as np

from pvtree.kernels.elementary import exp, select, sigmoid
from pvtree.kernels.jit import njit

BLOCK_ROWS = 512  # a block's scratch and outputs stay in the L1 and L2 caches between passes


@njit
def squared_error_gradients(start, stop, y, score, grad, hess):  # OUT: grad, hess
    y, score, grad, hess = y[start:stop], score[start:stop], grad[start:stop], hess[start:stop]
    for i in range(y.size):
        grad[i] = score[i] - y[i]
        hess[i] = 1.0


@njit
def binary_gradients(start, stop, y, score, grad, hess):  # OUT: grad, hess
    y, score, grad, hess = y[start:stop], score[start:stop], grad[start:stop], hess[start:stop]
    for i in range(y.size):
        p = sigmoid(score[i])
        grad[i] = p - y[i]
        hess[i] = p * (1.0 - p)


@njit
def sigmoids(start, stop, score, out):  # OUT: out
    for i in range(start, stop):
        out[i] = sigmoid(score[i])


@njit
def largest_scores(begin, end, scores, top):  # OUT: top
    """Largest score of each row in [begin, end)."""
    for k in range(scores.shape[0]):
        row = scores[k, begin:end]
        for i in range(row.size):
            top[i] = select((row[i] > top[i]) | (k == 0), row[i], top[i])


@njit
def softmax(start, stop, scores, out):  # OUT: out
    top = np.empty(BLOCK_ROWS)
    total = np.empty(BLOCK_ROWS)
    for begin in range(start, stop, BLOCK_ROWS):
        end = min(begin + BLOCK_ROWS, stop)
        largest_scores(begin, end, scores, top)
        for k in range(scores.shape[0]):
            row = scores[k, begin:end]
            power = out[k, begin:end]
            for i in range(row.size):
                power[i] = exp(row[i] - top[i])
            for i in range(row.size):
                total[i] = select(k == 0, 0.0, total[i]) + power[i]
        for k in range(scores.shape[0]):
            power = out[k, begin:end]
            for i in range(power.size):
                power[i] /= total[i]


@njit
def multiclass_gradients(start, stop, y, scores, grad, hess):  # OUT: grad, hess
    n_outputs = scores.shape[0]
    # Friedman's factor for K symmetric scores, of which K - 1 are free; LightGBM has it too.
    factor = n_outputs / (n_outputs - 1.0)
    for begin in range(start, stop, BLOCK_ROWS):
        end = min(begin + BLOCK_ROWS, stop)
        softmax(begin, end, scores, grad)
        for k in range(n_outputs):
            p = grad[k, begin:end]
            h = hess[k, begin:end]
            for i in range(p.size):
                h[i] = factor * p[i] * (1.0 - p[i])
        for i in range(begin, end):
            grad[int(y[i]), i] -= 1.0


@njit
def multiply_by_weight(start, stop, weight, grad, hess):  # IN OUT: grad, hess
    weight = weight[start:stop]
    for k in range(grad.shape[0]):
        g = grad[k, start:stop]
        h = hess[k, start:stop]
        for i in range(weight.size):
            g[i] *= weight[i]
            h[i] *= weight[i]
