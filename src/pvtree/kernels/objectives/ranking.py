"""Kernels over queries (groups of rows): the order of the documents, NDCG and the gradients of lambdarank.
``bounds`` (n_queries + 1) delimits the queries' rows; ``order`` holds positions inside each row's query."""

from __future__ import annotations

import numpy as np

from pvtree.kernels.elementary import LN2, LOG2_E, exp, fma, log, select
from pvtree.kernels.jit import njit

RUN = 16  # documents that insertion sort handles before merging
LANES = 4  # float64 in an AVX2 register
MAX_LABELS = 31  # labels 0..30: gains 2^label - 1 stay below 2^30, as in LightGBM


@njit
def fill_discounts(out):  # OUT: out
    for position in range(out.size):
        out[position] = LN2 / log(2.0 + position)


@njit
def longest_query(start, stop, bounds):
    longest = 0
    for q in range(start, stop):
        longest = max(longest, bounds[q + 1] - bounds[q])
    return longest


@njit
def comes_first(key, document, other_key, other_document):
    """Whether a document precedes another: by descending score, then by row."""
    return key > other_key or (key == other_key and document < other_document)


@njit
def sort_documents(start, stop, bounds, score, order):  # IN OUT: order
    """Sort each query by descending score, starting from ``order``: quick after a small change of scores."""
    longest = longest_query(start, stop, bounds)
    key = np.empty(longest)
    merged_key = np.empty(longest)
    merged = np.empty(longest, dtype=np.int32)
    for q in range(start, stop):
        base = bounds[q]
        n = bounds[q + 1] - base
        docs = order[base : base + n]
        for i in range(n):
            # Insertion sort, restarted at every RUN.
            document = docs[i]
            k = score[base + document]
            run = i - i % RUN
            j = i
            while j > run and comes_first(k, document, key[j - 1], docs[j - 1]):
                key[j] = key[j - 1]
                docs[j] = docs[j - 1]
                j -= 1
            key[j] = k
            docs[j] = document
        width = RUN
        while width < n:
            for left in range(0, n - width, 2 * width):
                merge_runs(left, left + width, min(left + 2 * width, n), key, docs, merged_key, merged)
            width *= 2


@njit
def merge_runs(left, middle, right, key, docs, merged_key, merged):
    """Merge [left, middle) and [middle, right) in place; meanwhile ``merged*`` hold the left run."""
    if not comes_first(key[middle], docs[middle], key[middle - 1], docs[middle - 1]):
        return
    n_left = middle - left
    for i in range(n_left):
        merged_key[i] = key[left + i]
        merged[i] = docs[left + i]
    i = 0
    j = middle
    out = left
    while i < n_left:
        if j < right and comes_first(key[j], docs[j], merged_key[i], merged[i]):
            key[out] = key[j]
            docs[out] = docs[j]
            j += 1
        else:
            key[out] = merged_key[i]
            docs[out] = merged[i]
            i += 1
        out += 1


@njit
def ideal_dcgs(start, stop, bounds, label, gain_of, level, discount, out):  # OUT: out
    """DCG@level of each query's best order, by counting labels."""
    count = np.empty(MAX_LABELS, dtype=np.int64)
    for q in range(start, stop):
        for gain_label in range(MAX_LABELS):
            count[gain_label] = 0
        for row in range(bounds[q], bounds[q + 1]):
            count[label[row]] += 1
        position = 0
        dcg = 0.0
        for gain_label in range(MAX_LABELS - 1, 0, -1):
            end = min(position + count[gain_label], level)
            for i in range(position, end):
                dcg += gain_of[gain_label] * discount[i]
            position = end
        out[q] = dcg


@njit
def ndcgs(start, stop, bounds, label, gain_of, order, level, discount, out):  # IN: out = ideal DCG, OUT: out
    """NDCG@level of each query; one without relevant documents cannot be ordered wrongly and counts 1."""
    for q in range(start, stop):
        base = bounds[q]
        dcg = 0.0
        for i in range(min(level, bounds[q + 1] - base)):
            dcg += gain_of[label[base + order[base + i]]] * discount[i]
        out[q] = dcg / out[q] if out[q] > 0.0 else 1.0


@njit
def sum_lanes(values, start, stop):
    """Sum of whole vectors in four chains: a fixed order that does not wait for every addition."""
    a = b = c = d = 0.0
    for i in range(np.uint64(start), np.uint64(stop), np.uint64(LANES)):
        a += values[i]
        b += values[i + np.uint64(1)]
        c += values[i + np.uint64(2)]
        d += values[i + np.uint64(3)]
    return (a + b) + (c + d)


@njit
def whole_vectors(n):
    return (n + LANES - 1) // LANES * LANES


@njit
def group_by_label(docs, label, slot, first):  # OUT: slot, first
    """Slots of the documents when grouped by label, ranks ascending inside a label; label l owns
    [first[l], first[l + 1])."""
    for gain_label in range(MAX_LABELS + 1):
        first[gain_label] = 0
    for document in docs:
        first[label[document] + 1] += 1
    for gain_label in range(MAX_LABELS):
        first[gain_label + 1] += first[gain_label]
    for rank in range(docs.size):
        gain_label = label[docs[rank]]
        slot[rank] = first[gain_label]
        first[gain_label] += 1
    for gain_label in range(MAX_LABELS, 0, -1):
        first[gain_label] = first[gain_label - 1]
    first[0] = 0


@njit
def add_pairs(
    level, spread, counts_pairs, slot, first, label_of, score, gain, discount, grad, hess, pair_grad, pair_hess
):
    """Gradients of all pairs of unequal labels with a document in the top ``level``; returns sum |lambda|.

    A pair weighs what swapping it changes DCG by, or 1 with ``counts_pairs``.

    All arrays but ``slot`` (by rank) lie by slot and are padded to a multiple of LANES, so the partners of a
    document, those of lower and those of higher labels, are two plain ranges. The loops are kept apart
    because LLVM gives up vectorising a loop with more arrays.
    """
    n = slot.size
    total = 0.0
    # |delta NDCG| is divided by 0.01 + |score difference|, unless all scores are equal (LightGBM's rule).
    offset, slope = (0.01, 1.0) if spread else (1.0, 0.0)
    for rank in range(min(level, n - 1)):
        i = slot[rank]
        score_i, gain_i, discount_i = score[i], gain[i], discount[i]
        for side in range(2):
            i_is_better = side == 0
            sign = 1.0 if i_is_better else -1.0
            # Rounded outward to whole vectors: pairs of equal labels or of the other side come out as zeros.
            begin = 0 if i_is_better else first[label_of[i] + 1] // LANES * LANES
            end = whole_vectors(first[label_of[i]] if i_is_better else n)
            if not i_is_better and first[label_of[i] + 1] == n:
                continue
            # Unsigned: a signed index could be negative for all LLVM knows, and it would gather.
            for j in range(np.uint64(begin), np.uint64(end)):
                # The better document's lambda is delta / (1 + exp(its lead)): with e = exp(score_j - score_i)
                # that is e / (1 + e) if i is better, else 1 / (1 + e). One division for lambda and hessian.
                gap = abs(score_i - score[j])
                e = exp(-gap)
                one_plus_e = 1.0 + e
                gained = sign * (gain_i - gain[j])
                lost = discount_i - discount[j]  # negative where j ranks above i: counted when j was i
                delta = select(gained > 0.0, gained, 0.0) * select(lost > 0.0, lost, 0.0)
                delta = select(counts_pairs & (delta > 0.0), 1.0, delta)
                quotient = delta / (fma(gap, slope, offset) * one_plus_e * one_plus_e)
                pair_grad[j] = quotient * one_plus_e * select(i_is_better, e, 1.0)
                pair_hess[j] = quotient * e
            for j in range(np.uint64(begin), np.uint64(end)):
                grad[j] += sign * pair_grad[j]
                hess[j] += pair_hess[j]
            lambda_i = sum_lanes(pair_grad, begin, end)
            grad[i] -= sign * lambda_i
            hess[i] += sum_lanes(pair_hess, begin, end)
            total += lambda_i
    return total


@njit
def lambdarank_gradients(
    start, stop, bounds, label, gain_of, score, order, level, discount, ideal, normalises, counts_pairs, grad, hess
):
    """LightGBM's lambdarank (sigmoid 1) for queries start..stop, or all pairs alike.  OUT: grad, hess"""
    longest = longest_query(start, stop, bounds)
    by_slot = np.empty((7, whole_vectors(longest)))
    slot_score, slot_gain, slot_discount = by_slot[0], by_slot[1], by_slot[2]
    slot_grad, slot_hess, pair_grad, pair_hess = by_slot[3], by_slot[4], by_slot[5], by_slot[6]
    slot = np.empty(longest, dtype=np.int64)
    label_of = np.empty(longest, dtype=np.int64)
    first = np.empty(MAX_LABELS + 1, dtype=np.int64)
    for q in range(start, stop):
        base = bounds[q]
        docs = order[base : bounds[q + 1]]
        group_by_label(docs, label[base : bounds[q + 1]], slot, first)
        for rank in range(docs.size):
            row = base + docs[rank]
            i = slot[rank]
            label_of[i] = label[row]
            slot_score[i] = score[row]
            slot_gain[i] = gain_of[label[row]]
            slot_discount[i] = discount[rank]
            slot_grad[i] = 0.0
            slot_hess[i] = 0.0
        for i in range(docs.size, whole_vectors(docs.size)):
            slot_score[i] = slot_gain[i] = slot_grad[i] = slot_hess[i] = 0.0
            slot_discount[i] = 2.0  # above every rank: no pair
        spread = normalises & (not counts_pairs) & (score[base + docs[0]] != score[base + docs[docs.size - 1]])
        total = add_pairs(
            level, spread, counts_pairs, slot[: docs.size], first, label_of, slot_score, slot_gain, slot_discount,
            slot_grad, slot_hess, pair_grad, pair_hess,
        )  # fmt: skip
        factor = 1.0 / ideal[q] if total > 0.0 else 0.0
        if total > 0.0 and normalises:
            # Normalised by log2(1 + s) / s, where s is the sum of |lambda| over both documents of all pairs.
            norm = 2.0 * total / ideal[q]
            factor = log(1.0 + norm) * LOG2_E / norm / ideal[q]
        for rank in range(docs.size):
            grad[base + docs[rank]] = slot_grad[slot[rank]] * factor
            hess[base + docs[rank]] = slot_hess[slot[rank]] * factor
