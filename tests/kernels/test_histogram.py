"""Histograms of blocks and of single features against sums the slow and obvious way."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from packed_rows import LAYOUTS, as_blocks, fields_of, histogram, layout_record, pack, random_values
from pvtree.kernels.constants import BLOCK, LANE_STRIDE
from pvtree.kernels.growing.histogram import (
    accumulate_block,
    accumulate_feature,
    histogram_of_block,
    histogram_of_feature,
)

N_ROWS = 900
PLANES = {"1 plane": "gradient real", "3 planes": "9 classes constant"}


def random_block(n_lanes: int, n_rows: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Bins (n_rows, n_lanes), and as a block with lanes past n_lanes at bin 0, as binning leaves them."""
    bins = rng.integers(0, 256, (n_rows, n_lanes))
    bins[:, 0] = rng.integers(0, 3, n_rows)
    return bins, as_blocks(bins, np.array([0, n_lanes])).bins[0]


@pytest.mark.parametrize("planes", PLANES)
@pytest.mark.parametrize("n_lanes", range(1, 17))
def test_a_block_equals_plain_sums(n_lanes: int, planes: str) -> None:
    name = PLANES[planes]
    rng = np.random.default_rng(n_lanes)
    bins, block = random_block(n_lanes, N_ROWS, rng)
    words, plane = pack(random_values(name, N_ROWS, rng), name)
    n_planes = LAYOUTS[name].n_planes
    rows = rng.permutation(N_ROWS).astype(np.uint32)
    start, stop = 37, N_ROWS - 11
    packed = np.zeros((n_planes, 16, LANE_STRIDE), np.int64)
    accumulate_block(block, np.int64(n_lanes), rows, words, plane, start, stop, packed.reshape(-1))
    places = np.arange(start, stop)
    for p in range(n_planes):
        here = places[plane[places] == p] if len(plane) else places
        for lane in range(n_lanes):
            expected = histogram(bins[rows[here], lane], words[here, None])[0]
            assert_array_equal(packed[p, lane, :256], expected)
            single = np.zeros(n_planes * 256, np.int64)
            accumulate_feature(block, BLOCK, np.int64(lane), rows, words, plane, start, stop, single)
            assert_array_equal(single.reshape(n_planes, 256)[p], expected)


@pytest.mark.parametrize(("fills", "more"), [(1, -1), (1, 0), (1, 1), (2, 5)])
@pytest.mark.parametrize(
    "name", ["gradient constant", "gradient real", "gradient precise", "4 classes real", "9 classes constant"]
)
def test_nodes_of_any_size_equal_plain_sums(name: str, fills: int, more: int) -> None:
    """Up to the capacity words stay packed; beyond, they are decoded in time, here with the largest values."""
    layout, rng = LAYOUTS[name], np.random.default_rng(5)
    n_rows = fills * layout.capacity + more
    bins, block = random_block(3, n_rows, rng)
    bins[:, 1] = 9  # all in one bin
    block = as_blocks(bins, np.array([0, 3])).bins[0]
    values = random_values(name, n_rows, rng, extreme=True)
    if name.startswith("gradient"):
        values[:] = layout.limit  # the sum of a full word fills the field to the brim
        values[: n_rows // 2, -1] *= -1
    words, planes = pack(values, name)
    fields = fields_of(values, planes, layout)
    rows, tree = np.arange(n_rows, dtype=np.uint32), layout_record(layout)
    packed = np.zeros(layout.n_planes * 16 * LANE_STRIDE, np.int64)
    wide = np.zeros(16 * layout.n_fields * 256, np.int64)
    start, stop = np.int64(0), np.int64(n_rows)
    is_wide = histogram_of_block(block, np.int64(3), rows, words, planes, start, stop, tree, packed, wide)
    assert is_wide == (n_rows > layout.capacity)
    for lane in range(3):
        if is_wide:
            found = wide.reshape(16, layout.n_fields, 256)[lane]
            assert_array_equal(found, histogram(bins[:, lane], fields))
        else:
            found = packed.reshape(layout.n_planes, 16, LANE_STRIDE)[:, lane, :256]
            plane = planes if len(planes) else np.zeros(n_rows, np.int64)
            one_hot = (plane[:, None] == np.arange(layout.n_planes)) * words[:, None]
            assert_array_equal(found, histogram(bins[:, lane], one_hot))
    assert is_wide == histogram_of_feature(
        block, BLOCK, np.int64(2), rows, words, planes, start, stop, tree, packed, wide
    )
    if is_wide:
        assert_array_equal(wide[: layout.n_fields * 256].reshape(-1, 256), histogram(bins[:, 2], fields))
