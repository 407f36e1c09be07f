"""Views of arrays behind a record's addresses, against the arrays themselves; wrong arrays never get that far."""

from __future__ import annotations

import numpy as np
import pytest

from pvtree.kernels.growing.record_arrays import RecordArrays
from pvtree.kernels.growing.records import TREE, bins_of, block_start_of, fill_record, limits_of
from pvtree.kernels.jit import njit

N_BLOCKS, N_ROWS = 3, 5


@njit
def copies(trees):
    tree = trees[0]
    return bins_of(tree).copy(), block_start_of(tree).copy(), limits_of(tree).copy()


def arrays() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {
        "bins": rng.integers(0, 256, (N_BLOCKS, N_ROWS * 16)).astype(np.uint8),
        "block_start": rng.integers(0, 50, N_BLOCKS + 1),
        "limits": rng.normal(size=(4, 2)),
    }


NUMBERS = {"n_blocks": N_BLOCKS, "n_all_rows": N_ROWS, "n_nodes": 4}


def test_kernels_see_the_arrays_that_python_filled_in():
    given = arrays()
    for seen, array in zip(copies(fill_record(TREE, given | NUMBERS)), given.values(), strict=True):
        assert seen.dtype == array.dtype
        np.testing.assert_array_equal(seen, array)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("bins", np.zeros((N_BLOCKS, N_ROWS * 16), np.int64)),
        ("bins", np.zeros((N_BLOCKS, N_ROWS * 16 + 1), np.uint8)),
        ("bins", np.zeros((N_ROWS * 16, N_BLOCKS), np.uint8).T),
        ("block_start", np.zeros(N_BLOCKS, np.int64)),
        ("limits", np.zeros((2, 4))),
    ],
)
def test_an_array_of_another_type_or_shape_is_refused(name: str, wrong: np.ndarray):
    with pytest.raises(AssertionError, match=f"kernel array {name} must be C-ordered"):
        fill_record(TREE, arrays() | NUMBERS | {name: wrong})


def test_an_empty_array_stands_for_one_that_is_not_read():
    given = arrays()
    bins, block_start, _ = copies(fill_record(TREE, given | NUMBERS | {"limits": np.empty((0, 2))}))
    np.testing.assert_array_equal(bins, given["bins"])
    np.testing.assert_array_equal(block_start, given["block_start"])


def test_a_length_is_a_sum_of_products():
    record = RecordArrays(WIDTH=np.int64(8))
    record.declare("values", np.float64, "2", "n * WIDTH + m + 1")
    numbers = {"n": 3, "m": 5}
    record.check("values", np.zeros((2, 30)), numbers)
    with pytest.raises(AssertionError, match=r"float64 \(2, 30\), is float64 \(2, 29\)"):
        record.check("values", np.zeros((2, 29)), numbers)
