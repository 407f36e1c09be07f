"""A node's rows through their wire form give the same sums as their histograms, in fewer bytes where they are few."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from naive_kernels import message_words
from packed_rows import LAYOUTS, fields_of, histogram, pack, random_values
from pvtree.growing.layouts import Layout
from pvtree.kernels.constants import MAX_CAPACITY
from pvtree.kernels.wire.histograms import from_bytes, max_bits, put_histogram, to_bytes, wire_scratch
from pvtree.kernels.wire.rows import (
    add_rows,
    arrange_rows,
    bits_of_rows,
    max_bits_of_rows,
    put_head,
    put_rows,
    rows_scratch,
)
from thoroughness import examples

int64 = np.int64
SETTINGS = examples(40)


class Node:
    """Rows of a layout with their bins[f, row] of features that have ``n_bins`` each."""

    def __init__(self, name: str, values: np.ndarray, bins: np.ndarray, n_bins: np.ndarray) -> None:
        self.layout: Layout = LAYOUTS[name]
        self.values, self.bins, self.n_bins = values, bins.astype(np.uint8), n_bins.astype(int64)
        self.words, self.planes = pack(values, name)

    @property
    def size(self) -> int64:
        return int64(len(self.words))

    def put(self, out: np.ndarray, bit: int) -> int:
        order, major, minor = np.empty((3, len(self.words)), int64)
        layout = self.layout
        arrange_rows(self.words, self.planes, self.size, layout.plane, layout.shift, layout.mask, order, major, minor)
        scratch = rows_scratch(len(self.words))
        head = message_words(max_bits_of_rows(self.size, 0))
        head_bits = put_head(major, minor, self.size, layout.mask, scratch, head)
        stop = put_rows(head, head_bits, order, self.size, self.bins, self.n_bins, out, int64(bit), scratch)
        assert bits_of_rows(head_bits, self.size, self.bins, self.n_bins, scratch) == stop - bit
        assert stop - bit <= max_bits_of_rows(self.size, int64(len(self.n_bins)))
        return stop

    def histograms(self) -> np.ndarray:
        """(n_features, n_fields, 256)"""
        fields = fields_of(self.values, self.planes, self.layout)
        return np.array([histogram(bins, fields) for bins in self.bins], int64).reshape(-1, self.layout.n_fields, 256)


def check_message(nodes: list[Node], first_bit: int = 0) -> None:
    """All nodes in one message, from dirty words through bytes, added to sums that are not zero."""
    rng = np.random.default_rng(1)
    out = message_words(first_bit + sum(int(max_bits_of_rows(node.size, len(node.n_bins))) for node in nodes))
    out[:] = rng.integers(0, 2**64, len(out), np.uint64)
    stop = first_bit
    for node in nodes:
        stop = node.put(out, stop)
    data, bit = from_bytes(to_bytes(out, stop).copy()), first_bit
    for node in nodes:
        layout, n_features = node.layout, len(node.n_bins)
        before = rng.integers(-(2**62), 2**62, (n_features, layout.n_fields, 260))
        merged = before.copy()
        # Features of one owner need not lie in the order in which they are sent.
        places = rng.permutation(n_features)
        bit = add_rows(
            data, int64(bit), int64(layout.n_planes), layout.plane, layout.mask, node.n_bins,
            merged.reshape(-1), places * (layout.n_fields * 260), int64(260), rows_scratch(len(node.words)),
        )  # fmt: skip
        before[places, :, :256] += node.histograms()
        assert_array_equal(merged, before)
    assert bit == stop


@st.composite
def nodes(draw: st.DrawFn) -> Node:
    name = draw(st.sampled_from(sorted(LAYOUTS)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n_rows, n_features = draw(st.integers(0, 90)), draw(st.integers(0, 5))
    n_bins = rng.integers(1, 256, n_features)
    kind = draw(st.sampled_from(["all", "one bin", "half", "zeros"]))
    share = {"all": 1.0, "one bin": 0.0, "half": 0.4, "zeros": 1.0}[kind]
    bins = (rng.random((n_features, n_rows)) * (share * n_bins[:, None] + 1)).astype(int)
    bins = np.minimum(bins, n_bins[:, None])
    if kind == "zeros":
        bins[rng.random(bins.shape) < 0.8] = rng.integers(0, 2)
    return Node(name, random_values(name, n_rows, rng, extreme=draw(st.booleans())), bins, n_bins)


@SETTINGS
@given(st.lists(nodes(), min_size=1, max_size=4), st.integers(0, 130))
def test_any_sequence_of_nodes_adds_up_to_its_histograms(message: list[Node], first_bit: int) -> None:
    check_message(message, first_bit)


@pytest.mark.parametrize("name", ["gradient real", "gradient constant", "9 classes copies"])
def test_as_many_rows_as_the_form_takes(name: str) -> None:
    rng = np.random.default_rng(3)
    values = random_values(name, MAX_CAPACITY, rng)
    check_message([Node(name, values, rng.integers(0, 256, (2, len(values))), np.array([255, 255]))])


def test_a_row_without_weight_is_counted_in_the_plane_of_its_class() -> None:
    rng = np.random.default_rng(3)
    node = Node("9 classes real", np.zeros((50, 9), int64), rng.integers(0, 9, (2, 50)), np.array([8, 8]))
    node.planes = rng.integers(0, node.layout.n_planes, 50).astype(np.uint8)
    check_message([node])


def logistic_node(n_rows: int, n_features: int, rng: np.random.Generator) -> Node:
    """Rows in the middle of boosting a logistic loss, in bins of equal mass."""
    chance = 1 / (1 + np.exp(-rng.normal(-0.8, 1.5, n_rows)))
    grad = chance - (rng.random(n_rows) < chance)
    hess = np.floor(chance * (1 - chance) * 4 * 4095 + rng.random(n_rows))
    values = np.stack([hess, np.floor(grad / 0.97 * 2047 + rng.random(n_rows))], axis=1).astype(int64)
    return Node("gradient real", values, rng.integers(1, 256, (n_features, n_rows)), np.full(n_features, 255))


def bits_of(node: Node) -> int:
    return node.put(message_words(max_bits_of_rows(node.size, len(node.n_bins))), 0)


@pytest.mark.parametrize(
    ("n_rows", "share", "ceiling"),
    [(5, 0.36, 8.5), (50, 0.38, 62), (100, 0.42, 120), (200, 0.5, 239), (400, 0.66, 470)],
)
def test_few_rows_take_fewer_bytes_than_their_histograms(n_rows: int, share: float, ceiling: float) -> None:
    """Per feature of eight. A bin takes one byte a row, so of the ceiling only the rest is for gradient and hessian."""
    rng = np.random.default_rng(n_rows)
    examples = [logistic_node(n_rows, 8, rng) for _ in range(8)]
    as_rows = sum(bits_of(node) for node in examples)
    out, scratch = message_words(int(max_bits(int64(3), int64(255)))), wire_scratch(1)
    items = [item.reshape(-1) for node in examples for item in node.histograms()]
    shape = (int64(1), int64(3), int64(255))
    as_histograms = sum(put_histogram(item, *shape, out, int64(0), scratch) for item in items)
    assert as_rows / 8 < ceiling * len(items)
    assert as_rows < share * as_histograms


def test_a_hessian_that_follows_from_the_gradient_takes_a_third_of_its_bits() -> None:
    rng = np.random.default_rng(0)
    node = logistic_node(300, 0, rng)
    shuffled = Node("gradient real", node.values.copy(), node.bins, node.n_bins)
    shuffled.values[:, 0] = rng.permutation(node.values[:, 0])
    shuffled.words, _ = pack(shuffled.values, "gradient real")
    assert bits_of(node) < bits_of(shuffled) - 8 * 300


def test_bins_that_are_few_or_mostly_one_take_few_bits() -> None:
    rng = np.random.default_rng(0)
    values = np.zeros((400, 1), int64)
    everywhere = rng.integers(0, 256, (1, 400))
    sizes = [
        bits_of(Node("gradient constant", values, bins, np.array([255])))
        for bins in (everywhere, everywhere % 64 + 100, np.where(everywhere < 200, 17, everywhere), everywhere % 1)
    ]
    assert sizes[0] < 3300
    assert sizes[1] < 0.77 * sizes[0]
    assert sizes[2] < 0.4 * sizes[0]
    assert sizes[3] < 60


def test_a_broken_message_is_read_without_leaving_the_arrays() -> None:
    """Sums come out wrong, but all writes stay inside the histograms: a checksum can then report the error."""
    rng = np.random.default_rng(5)
    for name in ("gradient real", "9 classes copies"):
        layout = LAYOUTS[name]
        for _ in range(200):
            data = from_bytes(rng.integers(0, 256, rng.integers(1, 60)).astype(np.uint8))
            merged = np.zeros(10 + layout.n_fields * 31, int64)
            add_rows(
                data, int64(0), int64(layout.n_planes), layout.plane, layout.mask, np.full(1, 30), merged,
                np.full(1, 5), int64(31), rows_scratch(40),
            )  # fmt: skip
            assert not merged[:5].any() and not merged[-5:].any()
