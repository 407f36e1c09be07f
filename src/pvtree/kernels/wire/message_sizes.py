"""How long the messages of a merge are: in plain form, and at most."""

from __future__ import annotations

from pvtree.kernels.growing.records import n_bins_of
from pvtree.kernels.jit import njit
from pvtree.kernels.wire.histograms import max_bits
from pvtree.kernels.wire.messages import SPARSE, TRAVELS, WORD_BITS
from pvtree.kernels.wire.rows import max_bits_of_rows
from pvtree.kernels.wire.sparse_words import most_words


@njit
def measure_messages(form, most_rows, owner, row_node, item_start, item_feature, item_parent, trees, nodes, n_items,
                     plain, most):  # fmt: skip
    """How much travels to each worker.

    OUT n_items[row, worker]; plain[worker]: 8-byte words of a plain message, which has one word per bin and plane, or
    per bin and field of nodes too large to be packed; most[worker]: words that a message of ``form`` takes at most.
    """
    tree = trees[0]
    n_bins = n_bins_of(tree)
    n_items[:], plain[:], most[:] = 0, 0, 2
    packed_words = max_bits(tree.n_fields, tree.stride - 1) // WORD_BITS + 1
    for row in range(len(row_node)):
        node = nodes[row_node[row]]
        n_words = tree.n_fields if node.n_rows > tree.capacity else tree.n_planes
        for item in range(item_start[row], item_start[row + 1]):
            feature = item_feature[item]
            if item_parent[item] == TRAVELS:
                n_items[row, owner[feature]] += 1
                plain[owner[feature]] += n_words * (n_bins[feature] + 1)
        n_rows = node.stop - node.start
        each, few = packed_words, min(n_rows, most_rows)
        if form == SPARSE:
            each = most_words(tree.n_fields if n_rows > tree.capacity else tree.n_planes, tree.stride - 1)
        for to in range(len(plain)):
            n = n_items[row, to]
            most[to] += max(n * each + 2, max_bits_of_rows(few, n) // WORD_BITS + 1)
