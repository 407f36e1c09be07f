"""Rows of random statistics, packed as the layouts say, and the record through which kernels see a layout."""

from __future__ import annotations

import numpy as np

from pvtree.binning.binned_rows import BinnedRows
from pvtree.growing.layouts import Layout, class_layout, gradient_layout
from pvtree.kernels.constants import BLOCK, MAX_CAPACITY
from pvtree.kernels.growing.records import TREE, fill_record

LAYOUTS: dict[str, Layout] = {
    **{f"gradient {kind}": gradient_layout(20_000, kind) for kind in ("constant", "copies", "real")},
    "gradient precise": gradient_layout(20_000, "real", precise=True),
    **{
        f"{n_classes} classes {kind}": class_layout(n_classes, kind)
        for n_classes in (1, 2, 3, 4, 9)
        for kind in ("constant", "copies", "real")
    },
}


def layout_record(layout: Layout) -> np.void:
    """A tree's record with nothing but its layout; the layout must live as long."""
    arrays = {"plane": layout.plane, "shift": layout.shift, "mask": layout.mask}
    numbers = {
        "capacity": layout.capacity,
        "n_planes": layout.n_planes,
        "n_values": len(layout.shift),
        "n_fields": layout.n_fields,
    }
    return fill_record(TREE, {**arrays, **numbers})[0]


def random_values(name: str, n_rows: int, rng: np.random.Generator, extreme: bool = False) -> np.ndarray:
    """int64 (n_rows, n_values): each row has one class, or all of its gradient and hessian."""
    layout = LAYOUTS[name]
    n_values = len(layout.limit)
    if name.startswith("gradient"):
        low = np.zeros(n_values, np.int64)
        low[-1] = -layout.limit[-1]
        values = rng.integers(low, layout.limit + 1, (n_rows, n_values))
        return np.where(rng.random(n_rows)[:, None] < 0.5, low, layout.limit) if extreme else values
    values = np.zeros((n_rows, n_values), np.int64)
    label = rng.integers(0, n_values, n_rows)
    amount = np.full(n_rows, layout.limit[0]) if extreme else rng.integers(0, layout.limit[0] + 1, n_rows)
    values[np.arange(n_rows), label] = amount
    return values


def pack(values: np.ndarray, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Words and planes by the rule of ``Layout``: the count lowest, then each value at its shift."""
    layout = LAYOUTS[name]
    words = (values << layout.shift).sum(axis=1) + 1
    planes = np.zeros(0, np.uint8)
    if layout.n_planes > 1:
        planes = layout.plane[np.argmax(values > 0, axis=1)].astype(np.uint8)
    return words, planes


def fields_of(values: np.ndarray, planes: np.ndarray, layout: Layout) -> np.ndarray:
    """(n_rows, n_fields): the count of each row's plane, then its values."""
    plane = planes if len(planes) else np.zeros(len(values), np.int64)
    counts = (plane[:, None] == np.arange(layout.n_planes)).astype(np.int64)
    return np.hstack([counts, values])


def histogram(bins: np.ndarray, fields: np.ndarray) -> np.ndarray:
    """(n_fields, 256) sums by bin, the slow and obvious way."""
    result = np.zeros((fields.shape[1], 256), np.int64)
    for j in range(fields.shape[1]):
        np.add.at(result[j], bins, fields[:, j])
    return result


def as_blocks(bins: np.ndarray, block_start: np.ndarray, categorical: tuple[int, ...] = ()) -> BinnedRows:
    """BinnedRows from a matrix (n_rows, n_features)."""
    n_rows, n_features = bins.shape
    blocks = np.zeros((len(block_start) - 1, n_rows, BLOCK), np.uint8)
    for b in range(len(block_start) - 1):
        first, stop = block_start[b], block_start[b + 1]
        blocks[b, :, : stop - first] = bins[:, first:stop]
    is_categorical = np.isin(np.arange(n_features), categorical).astype(np.uint8)
    n_bins = np.maximum(bins.max(axis=0), 1).astype(np.int64)
    return BinnedRows(blocks.reshape(len(blocks), -1), block_start, n_bins, is_categorical)


FULL = MAX_CAPACITY
