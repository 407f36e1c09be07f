"""Threads share places in blocks, do each block in pieces, and end soon when one of them fails."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pvtree.kernels import team as team_module
from pvtree.kernels.team import StoppedError, Team


@settings(max_examples=50)
@given(
    n=st.integers(0, 500),
    n_threads=st.integers(1, 3),
    min_block=st.integers(1, 60),
    first=st.integers(0, 5),
    is_slow=st.booleans(),
)
def test_pieces_cover_all_places_once(n, n_threads, min_block, first, is_slow):
    done = []
    with pytest.MonkeyPatch.context() as patch, Team(n_threads) as team:
        if is_slow:
            patch.setattr(team_module, "LONG", -1.0)
        team.for_blocks(
            lambda start, stop, *_: done.extend(range(start, stop)), n, "x", min_block=min_block, first=first
        )
        assert sorted(done) == list(range(first, first + n))
        done.clear()
        team.for_blocks_with(range(n_threads), lambda start, stop, own: done.extend(range(start, stop)), n)
        assert sorted(done) == list(range(n))


def test_pieces_grow_until_they_take_a_moment(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(team_module, "perf_counter", lambda: clock[0])
    sizes = []

    def kernel(start, stop):
        sizes.append(stop - start)
        clock[0] += (stop - start) * 1e-3  # a millisecond a place

    with Team(1) as team:
        team.for_blocks(kernel, 100, min_block=1)
        assert sizes == [4, 16, 16, 16, 16, 16, 16]
        sizes.clear()
        team.for_blocks(kernel, 1000, min_block=200)
        assert sizes == [800, 200]


def test_a_failure_ends_the_other_threads_work():
    def kernel(start, stop):
        if start == 0:
            raise ValueError("no")
        n_pieces.append(threading.get_ident())
        with pytest.raises(StoppedError):
            while True:
                team.check()

    n_pieces: list[int] = []
    with Team(2) as team:
        with pytest.raises(ValueError, match="no"):
            team.for_blocks(kernel, 10**6, min_block=1)
        assert len(n_pieces) <= 1  # 0 if the second thread had not begun
        done = []
        team.for_blocks(lambda start, stop: done.extend(range(start, stop)), 100, min_block=1)
        assert sorted(done) == list(range(100))
        team.stop()
        with pytest.raises(StoppedError):
            team.for_blocks(kernel, 10, min_block=1)
