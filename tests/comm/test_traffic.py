"""The ledger of one worker, and how a report reads."""

from __future__ import annotations

import numpy as np
import pytest

from pvtree.comm import PHASES, PhaseTraffic, Solo, Traffic, TrafficReport
from pvtree.comm.traffic import format_bytes, report


def test_records_add_up_by_phase():
    traffic = Traffic()
    traffic.record("bins", 10, 0.5)
    traffic.record("bins", 5, 0.25)
    traffic.record("rows", 1, 2.0)
    assert traffic["bins"] == PhaseTraffic(15, 2, 0.75)
    assert traffic["ballots"] == PhaseTraffic(0, 0, 0.0)
    assert traffic.total() == PhaseTraffic(16, 3, 2.75)


def test_a_difference_is_what_happened_between():
    traffic = Traffic()
    traffic.record("bins", 10, 0.5)
    before = traffic.snapshot()
    traffic.record("bins", 7, 0.25)
    traffic.record("splits", 2, 0.25)
    assert before["bins"] == PhaseTraffic(10, 1, 0.5)
    assert (traffic - before)["bins"] == PhaseTraffic(7, 1, 0.25)
    assert (traffic - before).total() == PhaseTraffic(9, 2, 0.5)


def test_bytes_that_travelled_along_are_booked_where_they_belong():
    traffic = Traffic()
    traffic.record("histograms", 100, 0.5)
    traffic.rebook(30, "histograms", "proofs")
    assert traffic["histograms"] == PhaseTraffic(70, 1, 0.5)
    assert traffic["proofs"] == PhaseTraffic(30, 0, 0.0)


def test_uncounted_calls_leave_no_trace_even_if_they_fail():
    comm = Solo()
    traffic = comm.traffic
    with pytest.raises(ZeroDivisionError), comm.uncounted():
        comm.allgather(np.zeros(3), "rows")
        raise ZeroDivisionError
    assert comm.traffic is traffic
    assert traffic.total().calls == 0


def test_report_of_no_trees():
    comm = Solo()
    comm.allgather(np.zeros(3), "rows")
    made = report(comm, Traffic(), n_trees=0)
    assert (made.bytes_per_tree, made.calls_per_tree, made.total_bytes) == (0.0, 0.0, 0)
    assert set(made.by_phase) == set(PHASES)


@pytest.mark.parametrize(
    ("n_bytes", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (999.7, "1.0 kB"),
        (1000, "1.0 kB"),
        (99_940, "99.9 kB"),
        (99_960, "100 kB"),
        (999_600, "1.0 MB"),
        (1_600_000, "1.6 MB"),
        (228e6, "228 MB"),
        (4.24e9, "4.2 GB"),
        (7.5e13, "75.0 TB"),
    ],
)
def test_sizes_are_for_people(n_bytes, text):
    assert format_bytes(n_bytes) == text


def test_report_reads_as_a_table():
    by_phase = dict.fromkeys(PHASES, PhaseTraffic())
    by_phase["bins"] = PhaseTraffic(1_250_000, 3, 0.5)
    by_phase["histograms"] = PhaseTraffic(640_000_000, 800, 2.6789)
    once = {"bins": 1_250_000}
    made = TrafficReport(1_600_000.0, 641_250_000, 18.25, 3.1789, by_phase, before_trees=once, n_workers=2)
    assert repr(made) == str(made)
    assert str(made).splitlines() == [
        "1.6 MB sent per worker and tree in 18.2 calls, 625 kB per worker before the first tree (bins), "
        "641 MB by all workers in total, 3.18 s waiting",
        "phase           bytes    calls   seconds",
        "bins           1.2 MB        3     0.500",
        "histograms     640 MB      800     2.679",
    ]


def test_ledger_reads_as_a_table():
    traffic = Traffic()
    traffic.record("rows", 2500, 0.25)
    assert repr(traffic).splitlines()[1:] == ["rows           2.5 kB        1     0.250"]
