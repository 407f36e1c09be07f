"""Gradients of pairs of documents, weighted by how much swapping them changes the average precision of their query."""

from __future__ import annotations

import numpy as np

from pvtree.kernels.elementary import LOG2_E, exp, log
from pvtree.kernels.jit import njit
from pvtree.kernels.objectives.ranking import longest_query


@njit
def count_hits(docs, label, hits, reciprocals):
    """hits[r] = the relevant documents up to rank r, reciprocals[r] = the sum of 1 / (rank + 1) over them."""
    n_hits, total = 0, 0.0
    for rank in range(docs.size):
        if label[docs[rank]] > 0:
            n_hits += 1
            total += 1.0 / (rank + 1.0)
        hits[rank], reciprocals[rank] = n_hits, total
    return n_hits


@njit
def changed_precision(i, j, i_is_relevant, hits, reciprocals):
    """The change of the sum of precisions if the documents at ranks i < j, one of them relevant, change places.

    The relevant one counts at i instead of j, and the relevant ones between them have one document more above them.
    """
    at_i = hits[i] if i_is_relevant else hits[i] + 1.0
    return at_i / (i + 1.0) + (reciprocals[j - 1] - reciprocals[i]) - hits[j] / (j + 1.0)


@njit
def average_precision_gradients(start, stop, bounds, label, score, order, level, normalises, grad, hess):
    """For queries start..stop; labels above 0 are relevant. Normalised as lambdarank is.  OUT: grad, hess"""
    longest = longest_query(start, stop, bounds)
    hits, reciprocals = np.empty(longest), np.empty(longest)
    for q in range(start, stop):
        base, n = bounds[q], bounds[q + 1] - bounds[q]
        docs = order[base : base + n]
        its_label, its_score, its_grad, its_hess = (
            label[base : base + n], score[base : base + n], grad[base : base + n], hess[base : base + n]
        )  # fmt: skip
        its_grad[:], its_hess[:] = 0.0, 0.0
        n_relevant = count_hits(docs, its_label, hits, reciprocals)
        offset, slope, total = 1.0, 0.0, 0.0
        if normalises and its_score[docs[0]] != its_score[docs[n - 1]]:
            offset, slope = 0.01, 1.0
        for i in range(min(level, n - 1)):
            for j in range(i + 1, n):
                a, b = docs[i], docs[j]
                i_is_relevant = its_label[a] > 0
                if i_is_relevant == (its_label[b] > 0):
                    continue
                gap = its_score[a] - its_score[b]  # not negative: documents are in order
                e = exp(-gap)
                delta = changed_precision(i, j, i_is_relevant, hits, reciprocals) / n_relevant / (offset + slope * gap)
                step = delta * (e if i_is_relevant else 1.0) / (1.0 + e)
                its_grad[a] -= step if i_is_relevant else -step
                its_grad[b] += step if i_is_relevant else -step
                curvature = delta * e / ((1.0 + e) * (1.0 + e))
                its_hess[a] += curvature
                its_hess[b] += curvature
                total += step
        if normalises and total > 0.0:
            factor = log(1.0 + 2.0 * total) * LOG2_E / (2.0 * total)
            for i in range(n):
                its_grad[i] *= factor
                its_hess[i] *= factor
