"""Where rows stand in the whole data: samples and random choices that no partition changes."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import oracle
from pvtree.kernels.team import Team
from pvtree.reading.row_ids import RowIds


def test_the_sample_of_rows_does_not_depend_on_how_they_are_spread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pvtree.reading.row_ids.SAMPLE_ROWS", 1000)
    whole = RowIds.consecutive(10_000).sample()
    assert 850 < len(whole) < 1150
    key = 0x5EED_B125
    under = [row for row in range(10_000) if oracle.hash_number(key, row) < 2**64 // 10]
    assert_array_equal(whole, under)
    assert_array_equal(RowIds.consecutive(1000).sample(), np.arange(1000))
    for bounds in ([0, 10_000, 10_000], [0, 1, 3000, 3000, 10_000]):
        parts = [RowIds.consecutive(stop - start, start, 10_000).sample() + start for start, stop in pairwise(bounds)]
        assert_array_equal(np.concatenate(parts), whole)
    assert_array_equal(RowIds.consecutive(300, 600, 1000).sample(), np.arange(300))
    assert np.isin(RowIds.consecutive(10_000).sample(100), whole).all()  # fewer rows are some of the more


@settings(max_examples=60)
@given(st.lists(st.integers(0, 30), min_size=1, max_size=6), st.integers(1, 3), st.randoms(use_true_random=False))
def test_every_row_is_met_once_with_its_own_number(lengths, n_threads, random):
    """Blocks of any order, as partitions may lie on a worker; all rows, and some of them."""
    n_all = sum(lengths)
    firsts = np.cumsum([0, *lengths])[:-1]
    order = random.sample(range(len(lengths)), len(lengths))
    ids = RowIds.of_runs([lengths[run] for run in order], [int(firsts[run]) for run in order], n_all)
    expected = np.concatenate([np.arange(firsts[run], firsts[run] + lengths[run]) for run in order])
    assert_array_equal(ids.numbers(), expected)
    assert ids.n_rows == n_all
    for rows in (None, np.flatnonzero([random.random() < 0.5 for _ in range(n_all)]).astype(np.uint32)):
        chosen = np.arange(n_all) if rows is None else rows.astype(np.int64)
        seen = np.full(len(chosen), -1)
        with Team(n_threads) as team:

            def meet(start, stop, shift, chosen=chosen, seen=seen):
                assert (seen[start:stop] == -1).all()
                seen[start:stop] = chosen[start:stop] + shift

            ids.for_blocks(team, meet, rows)
        assert_array_equal(seen, expected[chosen])
