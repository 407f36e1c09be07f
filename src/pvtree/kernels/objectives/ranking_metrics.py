"""Average precision and precision of queries; documents with a label above 0 are relevant."""

from __future__ import annotations

from pvtree.kernels.jit import njit


@njit
def average_precisions(start, stop, bounds, label, order, level, out):  # OUT: out
    """Mean precision at the relevant of the top ``level`` documents, 1 if a query has none (LightGBM's rule)."""
    for q in range(start, stop):
        base, n = bounds[q], bounds[q + 1] - bounds[q]
        n_relevant, n_hits, total = 0, 0, 0.0
        for rank in range(n):
            if label[base + order[base + rank]] > 0:
                n_relevant += 1
                if rank < level:
                    n_hits += 1
                    total += n_hits / (rank + 1.0)
        out[q] = total / min(n_relevant, level) if n_relevant > 0 else 1.0


@njit
def precisions(start, stop, bounds, label, order, level, out):  # OUT: out
    """The share of relevant documents among the top ``level`` (or all, if there are fewer)."""
    for q in range(start, stop):
        base = bounds[q]
        n = min(level, bounds[q + 1] - base)
        n_hits = 0
        for rank in range(n):
            n_hits += label[base + order[base + rank]] > 0
        out[q] = n_hits / n
