"""Blocks of rows and columns as numpy.array_split cuts them, and whole queries nearest to those cuts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from pvtree.comm.partition import column_bounds, query_bounds, row_bounds


@pytest.mark.parametrize("n_workers", [1, 2, 3, 8])
@pytest.mark.parametrize("n", [0, 1, 2, 7, 8, 9, 100])
def test_blocks_are_those_of_array_split(n: int, n_workers: int) -> None:
    parts = np.array_split(np.arange(n), n_workers)
    for bounds in (row_bounds(n, n_workers), column_bounds(n, n_workers)):
        assert_array_equal(np.diff(bounds), [len(part) for part in parts])
        assert bounds[0] == 0 and bounds[-1] == n


@settings(max_examples=100)
@given(st.lists(st.integers(1, 30), max_size=30), st.integers(1, 8))
def test_queries_are_cut_at_the_nearest_end(sizes: list[int], n_workers: int) -> None:
    group = np.array(sizes, np.int64)
    rows, queries = query_bounds(group, n_workers)
    ends = np.concatenate(([0], np.cumsum(group)))
    assert len(rows) == len(queries) == n_workers + 1
    assert queries[0] == 0 and queries[-1] == len(group) and (np.diff(queries) >= 0).all()
    assert_array_equal(rows, ends[queries])
    for row, wanted in zip(rows, row_bounds(int(ends[-1]), n_workers), strict=True):
        assert row == ends[np.abs(ends - wanted).argmin()]  # argmin: the first of two


def test_a_long_query_stays_whole_and_leaves_workers_without() -> None:
    rows, queries = query_bounds(np.array([2, 96, 2]), 4)
    assert_array_equal(rows, [0, 2, 2, 98, 100])
    assert_array_equal(queries, [0, 1, 1, 2, 3])
