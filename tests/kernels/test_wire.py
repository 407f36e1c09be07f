"""Histograms through their wire form: nothing is lost, nothing is read twice, and little is sent."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from naive_kernels import message_words
from packed_rows import LAYOUTS, fields_of, histogram, pack, random_values
from pvtree.kernels.wire.histograms import (
    add_histogram,
    from_bytes,
    max_bits,
    put_histogram,
    to_bytes,
    wire_scratch,
)
from thoroughness import examples

int64 = np.int64
LARGEST, LEAST = 2**63 - 1, -(2**63)
RANGES = [
    *[(0, 0), (0, 1), (-1, 0), (-5, 5), (7, 7), (0, 4095), (-2047, 2047), (-(2**40), 2**40), (-9, LARGEST)],
    *[(LEAST, LARGEST), (LARGEST, LARGEST), (LEAST, LEAST), (LARGEST - 1, LARGEST)],
]
SETTINGS = examples(60)


class Item:
    """A histogram (n_fields, 256) of which bins 0..n_bins count."""

    def __init__(self, fields: np.ndarray, n_planes: int, n_bins: int = 255) -> None:
        self.fields, self.n_planes, self.n_bins = fields, int64(n_planes), int64(n_bins)
        self.n_fields = int64(len(fields))

    def put(self, out: np.ndarray, bit: int) -> int:
        scratch = wire_scratch(int(self.n_planes))
        shape = (self.n_planes, self.n_fields, self.n_bins)
        stop = put_histogram(self.fields.reshape(-1), *shape, out, int64(bit), scratch)
        assert stop - bit <= max_bits(self.n_fields, self.n_bins)
        return stop

    def add(self, data: np.ndarray, bit: int, merged: np.ndarray, base: int, step: int) -> int:
        scratch = wire_scratch(int(self.n_planes))
        shape = (self.n_planes, self.n_fields, self.n_bins)
        return add_histogram(data, int64(bit), *shape, merged, int64(base), int64(step), scratch)


def bits_of(item: Item) -> int:
    return item.put(message_words(max_bits(item.n_fields, item.n_bins)), 0)


def check_message(items: list[Item], first_bit: int = 0) -> None:
    """All items in one message, from dirty words through bytes, added to sums that are not zero."""
    rng = np.random.default_rng(1)
    out = message_words(first_bit + sum(int(max_bits(item.n_fields, item.n_bins)) for item in items))
    out[:] = rng.integers(0, 2**64, len(out), np.uint64)
    stop = first_bit
    for item in items:
        stop = item.put(out, stop)
    message = to_bytes(out, stop).copy()
    assert message.dtype == np.uint8 and len(message) == -(-stop // 8)
    data, bit = from_bytes(message), first_bit
    for item in items:
        step = int(item.n_bins) + 3
        before = rng.integers(-(2**62), 2**62, 5 + int(item.n_fields) * step)
        merged = before.copy()
        bit = item.add(data, bit, merged, 5, step)
        expected = before.copy()
        within = expected[5:].reshape(int(item.n_fields), step)
        within[:, : item.n_bins + 1] += item.fields[:, : item.n_bins + 1]
        assert_array_equal(merged, expected)
    assert bit == stop


@st.composite
def items(draw: st.DrawFn) -> Item:
    """Any counts and any values where there are rows: as of gradients, of classes, or of nothing sensible."""
    n_planes = draw(st.integers(1, 4))
    n_values = draw(st.integers(1, 3 * n_planes))
    n_bins = draw(st.integers(1, 255))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    filled = rng.random((n_planes, 256)) < draw(st.sampled_from([0.0, 0.01, 0.1, 0.5, 0.9, 1.0]))
    most_rows = draw(st.sampled_from([1, 2, 9, 1000, 2**40, LARGEST // 8]))
    counts = np.where(filled, rng.integers(1, most_rows + 1, (n_planes, 256)), 0)
    low, high = draw(st.sampled_from(RANGES))
    values = rng.integers(low, high, (n_values, 256), endpoint=True)
    kind = draw(st.sampled_from(["any", "by plane", "parts", "slope", "outlier"]))
    group = -(-n_values // n_planes)
    plane = np.arange(n_values) // group
    if kind == "by plane":
        values = np.where(filled[plane], values, 0)
    elif kind == "parts":  # classes without weights: a count is the sum of its plane's values
        values = rng.integers(0, 4, (n_values, 256)) * filled[plane]
        counts = np.array([values[plane == p].sum(axis=0) for p in range(n_planes)]).reshape(n_planes, 256)
    elif kind == "slope":
        values = counts.sum(axis=0) * np.arange(-1, n_values - 1)[:, None] * 4095
    elif kind == "outlier":
        values[:, rng.integers(256)] = draw(st.sampled_from([LEAST, LARGEST, 2**31]))
    fields = np.vstack([counts, np.where(counts.any(axis=0), values, 0)])
    return Item(fields, n_planes, n_bins)


@SETTINGS
@given(st.lists(items(), min_size=1, max_size=4), st.integers(0, 130))
def test_any_sequence_of_histograms_survives_exactly(message: list[Item], first_bit: int) -> None:
    check_message(message, first_bit)


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("n_rows", [0, 1, 30, 700, 9000])
def test_histograms_of_rows_survive_in_every_layout(name: str, n_rows: int) -> None:
    rng = np.random.default_rng(n_rows)
    message = []
    for n_bins in (1, 2, 60, 255):
        values = random_values(name, n_rows, rng)
        fields = fields_of(values, pack(values, name)[1], LAYOUTS[name])
        skewed = (n_bins * rng.random(n_rows) ** 3 + rng.random(n_rows)).astype(int)
        message.append(Item(histogram(skewed, fields), LAYOUTS[name].n_planes, n_bins))
    check_message(message)


def logistic_item(n_rows: int, rng: np.random.Generator, n_bins: int = 255) -> Item:
    """Counts, hessians and gradients of rows in the middle of boosting a logistic loss, in bins of equal mass."""
    chance = 1 / (1 + np.exp(-rng.normal(-0.8, 1.5, n_rows)))
    grad = chance - (rng.random(n_rows) < chance)
    hess = chance * (1 - chance)
    fields = np.stack(
        [
            np.ones(n_rows),
            np.floor(hess * 4 * 4095 + rng.random(n_rows)),
            np.floor(grad / 0.97 * 2047 + rng.random(n_rows)),
        ],
        axis=1,
    )
    return Item(histogram(rng.integers(1, n_bins + 1, n_rows), fields.astype(int64)), 1, n_bins)


@pytest.mark.parametrize(
    ("n_rows", "ceiling"),
    [(5, 30), (20, 88), (50, 193), (100, 337), (200, 556), (400, 803), (1000, 1020), (3000, 1120), (25_000, 1268)],
)
def test_bytes_of_gradients_stay_under_their_ceiling(n_rows: int, ceiling: int) -> None:
    """Plain bins of 8 bytes come to 2048; a Gaussian of the same spread has 1147 at 25,000 rows, 1001 at 3000."""
    rng = np.random.default_rng(n_rows)
    sizes = [bits_of(logistic_item(n_rows, rng)) / 8 for _ in range(8)]
    assert np.mean(sizes) < ceiling


def class_item(n_rows: int, n_classes: int, rng: np.random.Generator) -> Item:
    name = f"{n_classes} classes constant"
    values = np.zeros((n_rows, n_classes), int64)
    values[np.arange(n_rows), rng.integers(0, n_classes, n_rows)] = 1
    fields = fields_of(values, pack(values, name)[1], LAYOUTS[name])
    return Item(histogram(rng.integers(1, 256, n_rows), fields), LAYOUTS[name].n_planes)


@pytest.mark.parametrize(("n_classes", "n_rows", "ceiling"), [(2, 20, 26), (2, 25_000, 384), (9, 50, 90)])
def test_class_counts_take_no_bits_for_what_follows_from_the_others(n_classes: int, n_rows: int, ceiling: int) -> None:
    rng = np.random.default_rng(n_rows)
    assert np.mean([bits_of(class_item(n_rows, n_classes, rng)) / 8 for _ in range(8)]) < ceiling


def test_what_needs_no_bits_takes_none() -> None:
    nothing = np.zeros((3, 256), int64)
    assert bits_of(Item(nothing, 1)) == 1
    # The first tree of a logistic loss: every hessian is the largest there is, so counts tell all sums.
    rng = np.random.default_rng(0)
    counts = rng.integers(50, 150, 256)
    assert (
        bits_of(Item(np.stack([counts, counts * 4095, 0 * counts]), 1))
        < bits_of(Item(np.stack([counts, 0 * counts, 0 * counts]), 1)) + 20
    )


def test_a_broken_message_is_read_without_leaving_the_arrays() -> None:
    """Sums come out wrong, but all writes stay inside the histogram: a checksum can then report the error."""
    rng = np.random.default_rng(5)
    for n_planes, n_fields in ((1, 3), (3, 12)):
        for _ in range(200):
            data = from_bytes(rng.integers(0, 256, rng.integers(1, 60)).astype(np.uint8))
            merged = np.zeros(10 + n_fields * 256, int64)
            item = Item(np.zeros((n_fields, 256), int64), n_planes)
            item.add(data, 1 - int(data[0] & np.uint64(1)), merged, 5, 256)
            assert not merged[:5].any() and not merged[-5:].any()
