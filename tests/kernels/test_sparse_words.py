"""Histograms through the quick wire form: what is read equals what was written, and empty bins take no word."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from packed_rows import LAYOUTS, fields_of, histogram, layout_record, pack, random_values
from pvtree.kernels.wire.sparse_words import add_sparse, most_words, put_sparse
from thoroughness import examples

int64 = np.int64
BITMAP_WORDS = 5
SETTINGS = examples(60)


class Histogram:
    """Rows of one feature, as sums of fields and as words of each plane."""

    def __init__(self, name: str, values: np.ndarray, bins: np.ndarray, n_bins: int, is_wide: bool) -> None:
        self.layout, self.n_bins, self.is_wide = LAYOUTS[name], n_bins, is_wide
        words, planes = pack(values, name)
        self.fields = histogram(bins, fields_of(values, planes, self.layout))  # (n_fields, 256)
        packed = np.zeros((self.layout.n_planes, 256), int64)
        np.add.at(packed, (planes if len(planes) else np.zeros(len(bins), int64), bins), words)
        self.parts = self.fields if is_wide else packed
        self.n_used = len(np.unique(bins))

    @property
    def n_words(self) -> int:
        return BITMAP_WORDS + len(self.parts) * self.n_used

    def put(self, out: np.ndarray, at: int, base: int, step: int) -> int:
        """From a place among other histograms, whose bins are no zeros."""
        hist = np.full(base + len(self.parts) * step, 77, int64)
        for j, part in enumerate(self.parts):
            hist[base + j * step :][: self.n_bins + 1] = part[: self.n_bins + 1]
        tree = layout_record(self.layout)
        return put_sparse(hist, int64(base), int64(step), int64(self.is_wide), int64(self.n_bins), tree, out, int64(at))


@st.composite
def histograms(draw: st.DrawFn) -> Histogram:
    name = draw(st.sampled_from(sorted(LAYOUTS)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n_rows = draw(st.sampled_from([0, 1, 3, 40, 500]))
    n_bins = draw(st.one_of(st.sampled_from([1, 62, 63, 64, 127, 254, 255]), st.integers(1, 255)))
    bins = rng.integers(0, n_bins + 1, n_rows)
    if draw(st.booleans()):
        bins[:] = rng.choice([0, n_bins, rng.integers(0, n_bins + 1)], n_rows)
    values = random_values(name, n_rows, rng, extreme=draw(st.booleans()))
    return Histogram(name, values, bins, n_bins, is_wide=draw(st.booleans()))


def check_message(message: list[Histogram], first: int) -> None:
    """All in one message, through dirty words, added to sums that are not zero."""
    rng = np.random.default_rng(1)
    room = sum(int(most_words(len(each.parts), each.n_bins)) for each in message)
    out = rng.integers(-(2**63), 2**63, first + room)
    before = out[:first].copy()
    at = first
    for each in message:
        base, step = int(rng.integers(0, 9)), each.n_bins + 1 + int(rng.integers(0, 5))
        stop = each.put(out, at, base, step)
        assert stop - at == each.n_words
        at = stop
    assert_array_equal(out[:first], before)
    # What comes behind a message is no part of it; a reader may look one word ahead.
    data = np.append(out[:at].copy(), -1)
    at = first
    for each in message:
        sums = rng.integers(-(2**40), 2**40, 7 + each.layout.n_fields * 256)
        expected = sums.copy()
        expected[7:] += each.fields.reshape(-1)
        dirty = np.full(each.layout.n_planes * 256, -1)
        at = add_sparse(data, int64(at), int64(each.n_bins), layout_record(each.layout), dirty, sums, int64(7))
        assert_array_equal(sums, expected)
    assert at == len(data) - 1


@SETTINGS
@given(st.lists(histograms(), min_size=1, max_size=4), st.integers(0, 3))
def test_any_sequence_of_histograms_is_read_as_written(message: list[Histogram], first: int) -> None:
    check_message(message, first)


@pytest.mark.parametrize("is_wide", [False, True])
@pytest.mark.parametrize("name", ["gradient constant", "gradient real", "3 classes copies", "9 classes real"])
def test_empty_and_full_histograms(name: str, is_wide: bool) -> None:
    rng = np.random.default_rng(0)
    bins = np.repeat(np.arange(256), 2)
    values = random_values(name, 512, rng, extreme=True)
    empty = Histogram(name, values[:0], bins[:0], 255, is_wide)
    full = Histogram(name, values, bins, 255, is_wide)
    assert empty.n_words == BITMAP_WORDS
    assert full.n_words == most_words(len(full.parts), 255)
    check_message([empty, full, empty, full], 0)


@pytest.mark.parametrize("is_wide", [False, True])
def test_a_bin_that_only_the_last_plane_counts_is_sent(is_wide: bool) -> None:
    name = "9 classes real"
    layout = LAYOUTS[name]
    values = np.zeros((3, 9), int64)
    values[:, 8] = 5
    assert layout.plane[8] == layout.n_planes - 1 > 0
    check_message([Histogram(name, values, np.array([2, 2, 4]), 6, is_wide)], 0)


def test_sums_that_cancel_out_are_still_rows() -> None:
    """Gradients of 3 and -3 in a bin add up to 0, but it has two rows."""
    values, bins = np.array([[3], [-3], [0]]), np.array([1, 1, 2])
    for is_wide in (False, True):
        each = Histogram("gradient constant", values, bins, 4, is_wide)
        assert each.n_used == 2
        check_message([each], 0)
