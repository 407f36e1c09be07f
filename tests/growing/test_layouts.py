"""Fields of a word never touch each other, up to a full load of the largest values of either sign."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from packed_rows import LAYOUTS, fields_of, layout_record, pack, random_values
from pvtree.growing.layouts import MAX_COPIES, gradient_layout
from pvtree.kernels.constants import COUNT_BITS
from pvtree.kernels.growing.histogram import pack_fields, unpack_add
from pvtree.kernels.growing.quantize import sum_words

ZERO, ONE = np.int64(0), np.int64(1)


@pytest.mark.parametrize("extreme", ["random", "largest", "smallest", "mixed"])
@pytest.mark.parametrize("name", LAYOUTS)
def test_a_full_word_of_any_values_decodes_exactly(name: str, extreme: str) -> None:
    layout, rng = LAYOUTS[name], np.random.default_rng(0)
    values = random_values(name, layout.capacity, rng, extreme=extreme != "random")
    if extreme in ("largest", "smallest"):  # every row as the first: the largest, or with gradients the most negative
        last_only = np.arange(len(layout.limit)) == len(layout.limit) - 1
        values[:] = layout.limit if name.startswith("gradient") else last_only * layout.limit
        if name.startswith("gradient") and extreme == "smallest":
            values[:, -1] *= -1
    words, planes = pack(values, name)
    expected = fields_of(values, planes, layout).sum(axis=0)

    sums = np.empty(layout.n_fields, np.int64)
    sum_words(words, planes, layout.capacity, layout.n_planes, layout.plane, layout.shift, layout.mask, sums)
    assert_array_equal(sums, expected)

    # One bin per plane: words to fields, and fields to words again.
    tree = layout_record(layout)
    plane = planes if len(planes) else np.zeros(layout.capacity, np.int64)
    packed = np.array([words[plane == p].sum() for p in range(layout.n_planes)])
    wide = np.zeros(layout.n_fields, np.int64)
    unpack_add(packed, ZERO, ONE, ONE, tree, wide, ZERO, ONE, ONE)
    assert_array_equal(wide, expected)
    again = np.full(layout.n_planes, 77)
    pack_fields(wide, ZERO, ONE, ONE, tree, again, ZERO, ONE)
    assert_array_equal(again, packed)


@pytest.mark.parametrize("name", LAYOUTS)
def test_differences_of_words_decode_too(name: str) -> None:
    """parent - child = sibling, on words."""
    layout, rng = LAYOUTS[name], np.random.default_rng(1)
    n_rows = min(2000, layout.capacity)
    values = random_values(name, n_rows, rng, extreme=True)
    words, planes = pack(values, name)
    plane = planes if len(planes) else np.zeros(n_rows, np.int64)
    in_child = rng.random(n_rows) < 0.3
    parent = np.array([words[plane == p].sum() for p in range(layout.n_planes)])
    child = np.array([words[(plane == p) & in_child].sum() for p in range(layout.n_planes)])
    wide = np.zeros(layout.n_fields, np.int64)
    unpack_add(parent - child, ZERO, ONE, ONE, layout_record(layout), wide, ZERO, ONE, ONE)
    assert_array_equal(wide, fields_of(values, planes, layout)[~in_child].sum(axis=0))


@pytest.mark.parametrize("name", LAYOUTS)
def test_fields_of_a_plane_do_not_overlap(name: str) -> None:
    layout = LAYOUTS[name]
    for plane in range(layout.n_planes):
        used = 2**COUNT_BITS - 1
        for j in np.flatnonzero(layout.plane == plane):
            width = int(layout.limit[j] * layout.capacity).bit_length() + (layout.mask[j] == -1)  # and a sign
            field = (2**width - 1) << int(layout.shift[j])
            assert used & field == 0 and field < 2**64
            assert layout.mask[j] == -1 or layout.mask[j] >= layout.limit[j] * layout.capacity
            used |= field
    assert layout.capacity < 2**COUNT_BITS


@pytest.mark.parametrize("n_rows", [1, 10**6, 2**31])
def test_sums_over_all_rows_fit_62_bits(n_rows: int) -> None:
    for kind in ("constant", "copies", "real"):
        layout = gradient_layout(n_rows, kind)
        assert (layout.limit > 0).all() and int(layout.limit[-1]) * n_rows < 2**62
    assert gradient_layout(n_rows, "copies").limit[0] == MAX_COPIES
    assert gradient_layout(1000, "constant").limit[-1] == 2**36 - 1
