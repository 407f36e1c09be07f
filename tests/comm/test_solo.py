"""A single worker makes the same calls as any other, and sends nothing."""

from __future__ import annotations

import numpy as np
import pytest

from pvtree.comm import Solo
from pvtree.errors import InvalidParameterError


def test_every_verb_gives_back_a_copy():
    comm = Solo()
    given = np.arange(6, dtype=np.uint16).reshape(2, 3)
    kept = given.copy()
    received = [
        *comm.allgather(given, "ballots"),
        *comm.alltoall([given], "histograms"),
        comm.allreduce(given, "scores", "max"),
        comm.broadcast(given, "splits"),
    ]
    given[:] = 0
    for part in received:
        assert part.dtype == kept.dtype
        np.testing.assert_array_equal(part, kept)
        part[:] = 0  # may be written to, and no other answer changes
    assert len(received) == 4


def test_calls_are_counted_and_cost_no_bytes():
    comm = Solo()
    comm.allgather(np.zeros(100), "ballots")
    comm.allreduce(np.zeros(100), "ballots")
    comm.alltoall([np.zeros(100)], "ballots")
    comm.broadcast(np.zeros(100), "ballots")
    assert (comm.rank, comm.size) == (0, 1)
    assert (comm.traffic.total().bytes, comm.traffic["ballots"].calls) == (0, 4)
    comm.close()


def test_arguments_are_checked_as_for_many_workers():
    with pytest.raises(InvalidParameterError, match="2 buffers for 1 workers"):
        Solo().alltoall([np.zeros(1), np.zeros(1)], "rows")
