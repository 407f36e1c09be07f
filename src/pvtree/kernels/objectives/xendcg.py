"""Gradients of the cross-entropy that bounds NDCG (XE-NDCG-MART; Bruch, 2021), as LightGBM computes them."""

from __future__ import annotations

import numpy as np

from pvtree.kernels.elementary import exp
from pvtree.kernels.hashing import hash_pair, unit_interval
from pvtree.kernels.jit import njit
from pvtree.kernels.objectives.ranking import longest_query

SMALLEST = 1e-15


@njit
def xendcg_gradients(start, stop, bounds, label, numbers, key, score, grad, hess):
    """For queries start..stop.  OUT: grad, hess

    A document's target is 2^label - g with g drawn from [0, 1) by the hash of its row number, so it does not depend on
    which worker has the query. The gradient has the terms of first, second and third order of the expansion.
    """
    longest = longest_query(start, stop, bounds)
    share, term = np.empty(longest), np.empty(longest)
    for q in range(start, stop):
        base, n = bounds[q], bounds[q + 1] - bounds[q]
        top = score[base]
        for i in range(n):
            top = max(top, score[base + i])
        total, targets = 0.0, 0.0
        for i in range(n):
            share[i] = exp(score[base + i] - top)
            total += share[i]
            drawn = unit_interval(hash_pair(key, np.uint64(numbers[base + i])))
            term[i] = np.float64(1 << label[base + i]) - drawn
            targets += term[i]
        first = 0.0
        for i in range(n):
            share[i] /= total
            grad[base + i] = share[i] - term[i] / max(targets, SMALLEST)
            term[i] = grad[base + i] / max(1.0 - share[i], SMALLEST)
            first += term[i]
        second = 0.0
        for i in range(n):
            more = share[i] * (first - term[i])
            grad[base + i] += more
            term[i] = more / max(1.0 - share[i], SMALLEST)
            second += term[i]
        for i in range(n):
            grad[base + i] += share[i] * (second - term[i])
            hess[base + i] = share[i] * (1.0 - share[i])
            if n == 1:
                grad[base + i] = hess[base + i] = 0.0
