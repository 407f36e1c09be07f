"""The conformance tests of MPI, which mpiexec runs on every rank: ``mpi_conformance.py conformance FOLDER``.

It runs pytest on this very file, on all ranks in step: a test with M workers uses the first M ranks, and all ranks
learn the results.
"""

from __future__ import annotations

import gc
import os
import sys
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conformance import SIZES, Conformance
from pvtree.comm import Communicator, mpi, mpi_waiting
from pvtree.errors import (
    CommunicationError,
    DivergedError,
    InvalidParameterError,
    InvalidTypeError,
    PeerFailedError,
    WorkerTimeoutError,
)

# Tests on ranks that run in step.


class Ranks:
    """Runs workers on the first ranks, and shares their results and files with all ranks."""

    def __init__(self) -> None:
        self.world = mpi.checked_comm(None)
        self.first = {size: self.world.Split(int(self.world.rank >= size)) for size in range(1, max(SIZES) + 1)}
        self.folder: Path | None = None  # of the current test; each rank has its own

    def run(self, function: Callable[[Communicator], Any], size: int, timeout: float) -> list[Any]:
        result, error = None, None
        if self.world.rank < size:
            try:
                with mpi.MPICommunicator(self.first[size], timeout=timeout) as comm:
                    result = function(comm)
            except BaseException as raised:
                error = raised
        written = {path.name: path.read_text() for path in self.folder.iterdir()} if self.folder else {}
        outcomes = self.share((result, error, written))
        for _, _, files in outcomes:
            for name, text in files.items():
                (self.folder / name).write_text(text)
        errors = [error for _, error, _ in outcomes if error is not None]
        if errors:  # prefer an error that does not merely report another worker's failure
            raise min(errors, key=lambda error: isinstance(error, PeerFailedError))
        return [result for result, _, _ in outcomes[:size]]

    def share(self, thing: Any) -> list[Any]:
        arrived = self.world.Ibarrier()
        while not arrived.Test():  # MPI's own waiting would take the cores from the ranks that work
            time.sleep(0.001)
        return self.world.allgather(thing)


RANKS = None  # set by conformance(), inside which the tests run


@pytest.fixture
def tmp_path(tmp_path):
    RANKS.folder = tmp_path
    yield tmp_path
    RANKS.folder = None


def run(function: Callable[[Communicator], Any], size: int, *, timeout: float = 60.0) -> list[Any]:
    return RANKS.run(function, size, timeout)


class TestMPI(Conformance):
    sizes = (1, 3, 8)

    def run(self, function, size, *, timeout=60.0):
        return run(function, size, timeout=timeout)


def test_long_data_travels_in_pieces(monkeypatch):
    """Every length around the limits, in both directions between two workers at once."""
    monkeypatch.setattr(mpi, "PIECE_BYTES", 1000)
    lengths = [0, mpi.SHORT_BYTES // 8, mpi.SHORT_BYTES // 8 + 1, 12_345, 7]

    def exchange(comm):
        to_each = [np.arange(lengths[(comm.rank + to) % 5], dtype=np.int64) + comm.rank for to in range(5)]
        longest = np.arange(12_345) + comm.rank
        return comm.alltoall(to_each, "histograms"), comm.allgather(longest, "rows"), comm.broadcast(longest, "rows", 3)

    for receiver, (swapped, gathered, sent) in enumerate(run(exchange, 5)):
        for sender in range(5):
            np.testing.assert_array_equal(swapped[sender], np.arange(lengths[(sender + receiver) % 5]) + sender)
            np.testing.assert_array_equal(gathered[sender], np.arange(12_345) + sender)
        np.testing.assert_array_equal(sent, np.arange(12_345) + 3)


@pytest.mark.parametrize("n", [3, mpi.STRAIGHT_BYTES // 8, mpi.STRAIGHT_BYTES // 8 + 1, 1000])
def test_floats_are_added_in_the_order_of_ranks(n):
    given = [np.random.default_rng(rank).normal(size=n) for rank in range(8)]
    expected = given[0]
    for each in given[1:]:
        expected = expected + each
    for result in run(lambda comm: comm.allreduce(given[comm.rank], "scores"), 8):
        assert result.tobytes() == expected.tobytes()


def test_any_plain_dtype_travels():
    split = np.dtype([("gain", np.float64), ("feature", np.int32)])

    def exchange(comm):
        record = np.array([(comm.rank, 7)], split)
        seen = np.zeros(2000, bool)
        seen[comm.rank :: 3] = True
        return (
            comm.broadcast(record, "splits", 1),
            comm.allgather(record, "splits"),
            comm.allreduce(seen, "rows", "max"),
        )

    for sent, gathered, seen in run(exchange, 3):
        assert sent.dtype == split
        assert sent["gain"] == 1.0
        assert [part["gain"][0] for part in gathered] == [0.0, 1.0, 2.0]
        assert seen.dtype == bool
        assert seen.all()


def test_the_users_own_messages_do_not_mix():
    """The user's own receive, from any rank and with any tag, is pending all the time."""
    given = RANKS.first[2]

    def exchange(comm):
        received = np.zeros(1)
        request = given.Irecv(received)
        there = [int(part[0]) for part in comm.allgather(np.array([comm.rank]), "rows")]
        given.Send(np.array([10.0 + comm.rank]), 1 - comm.rank)
        request.Wait()
        return there, received[0]

    assert run(exchange, 2) == [([0, 1], 11.0), ([0, 1], 10.0)]


def test_duplicates_are_given_back():
    """MPICH has 2,048 at most, and refuses the next."""
    for _ in range(2100):
        mpi.MPICommunicator(mpi.load_mpi().COMM_SELF).close()
    duplicate = mpi.MPICommunicator(mpi.load_mpi().COMM_SELF)
    assert [part.tolist() for part in duplicate.allgather(np.array([7]), "rows")] == [[7]]
    duplicate.close()


def test_waiting_leaves_the_core_to_others():
    def wait(comm):
        comm.allgather(np.zeros(1), "rows")
        time.sleep(0.6 * (comm.rank == 0))
        began = time.process_time()
        comm.allgather(np.zeros(1), "rows")
        return time.process_time() - began

    assert max(run(wait, 3)) < 0.2


def test_messages_under_way_when_workers_diverge_are_harmless():
    """The next communicator does not see them."""

    def go(comm):
        comm.allgather(np.full(300_000, comm.rank), "rows" if comm.rank else "bins")

    for _ in range(3):
        with pytest.raises(DivergedError, match="reached allgather of int64 in phase 'bins'"):
            run(go, 3)
        results = run(lambda comm: [set(part.tolist()) for part in comm.allgather(np.full(300_000, 7), "rows")], 3)
        assert results == [[{7}] * 3] * 3


def test_requests_keep_the_memory_of_their_messages():
    """mpi4py does so for the messages used here, though not for all collectives; notes are held by nothing else."""

    class Watched(np.ndarray):
        pass

    library = mpi.load_mpi()
    line = library.COMM_SELF.Dup()
    note, room = np.ones(9, np.uint8).view(Watched), np.zeros(9, np.uint8).view(Watched)
    watched = [weakref.ref(note), weakref.ref(room)]
    requests = [line.Issend([note, library.BYTE], 0, 1), line.Irecv([room, library.BYTE], 0, 2)]  # neither can finish
    del note, room
    assert library.Request.Testsome(requests, []) == []
    gc.collect()
    assert all(each() is not None for each in watched)
    line.Recv([np.zeros(9, np.uint8), library.BYTE], 0, 1)
    line.Send([np.zeros(9, np.uint8), library.BYTE], 0, 2)
    library.Request.Waitall(requests)
    line.Free()


def test_a_failure_that_nobody_saw_is_harmless():
    """All fail at once, so nobody reads the others' reports; the next communicator must not read them either."""

    def fail(comm):
        raise ZeroDivisionError(comm.rank)

    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            run(fail, 3)
        assert run(lambda comm: int(comm.allreduce(np.ones(1), "rows")[0]), 3) == [3] * 3


def test_an_error_that_is_swallowed_comes_again():
    def go(comm):
        if comm.rank == 1:
            raise ValueError("broken")
        for _ in range(2):
            with pytest.raises(PeerFailedError, match="worker 1 raised the ValueError"):
                comm.allgather(np.zeros(1), "rows")
        return "all is well"

    with pytest.raises(ValueError, match="broken"):
        run(go, 3)


def test_a_lost_worker_is_named():
    """MPI itself reports it where it can, before mpiexec ends all ranks."""
    wait = mpi.wait_politely

    def lose_second_worker(library, requests, *arguments):
        if len(requests) > 1:
            raise mpi.BrokenRequests([1, 3], "no such process")
        wait(library, requests, *arguments)

    def go(comm):
        if comm.rank == 0:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(mpi, "wait_politely", lose_second_worker)
                comm.allgather(np.zeros(1), "rows")
        comm.allgather(np.zeros(1), "rows")
        return comm.allgather(np.zeros(1), "bins")

    with pytest.raises(
        PeerFailedError, match=r"lost its connection to worker 2 of 3 at allgather.* \(no such process\)"
    ):
        run(go, 3)


def test_an_interrupted_wait_ends_the_communicator():
    def interrupt(seconds):
        raise KeyboardInterrupt

    def go(comm):
        if comm.rank == 0:
            time.sleep(0.3)
            return comm.allgather(np.zeros(1), "rows")
        with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(mpi_waiting, "sleep", interrupt)
            comm.allgather(np.zeros(1), "rows")
        return comm.allgather(np.zeros(1), "rows")

    with pytest.raises(CommunicationError, match=r"did not complete allgather.* because of a KeyboardInterrupt"):
        run(go, 2)


def test_a_worker_that_does_not_join_is_named():
    """The first rank gives up; the second, which has only just arrived, agrees about who is missing."""
    rank = RANKS.world.rank
    if rank < 2:
        time.sleep(0.3 * rank)
        with pytest.raises(WorkerTimeoutError, match=rf"Worker {rank} waited 0\.\d s for worker 2 of 3 at the start"):
            mpi.MPICommunicator(RANKS.first[3], timeout=[0.6, 30.0][rank])
    elif rank == 2:
        time.sleep(1.5)
        with suppress(WorkerTimeoutError):
            mpi.MPICommunicator(RANKS.first[3], timeout=0.2)
    RANKS.share(None)
    assert run(lambda comm: comm.size, 3) == [3, 3, 3]


def test_a_call_of_the_roll_is_not_heard_at_the_next_start():
    given, rank = RANKS.first[2], RANKS.world.rank
    if rank < 2:
        tag = mpi.roll_tag(given)  # of a start that failed
        if rank == 0:
            given.Send([bytearray(1), mpi.load_mpi().BYTE], 1, tag)
    assert run(lambda comm: comm.size, 2) == [2, 2]
    if rank == 1:
        given.Recv([bytearray(1), mpi.load_mpi().BYTE], 0, tag)


def test_workers_know_how_many_share_their_machine(monkeypatch):
    rank = RANKS.world.rank
    monkeypatch.setattr(mpi.load_mpi(), "Get_processor_name", lambda: "east" if rank in (0, 3) else "west")
    results = run(lambda comm: (comm.n_on_host, comm.traffic.total().calls), 5)
    assert results == [(2, 0), (3, 0), (3, 0), (2, 0), (3, 0)]  # asking for it is not in the ledger


def test_closed():
    comm = mpi.MPICommunicator(RANKS.world)
    comm.close()
    comm.close()
    with pytest.raises(CommunicationError, match="is closed; create a new one"):
        comm.allgather(np.zeros(1), "rows")


def test_very_long_calls_are_compared_to_their_end():
    with pytest.raises(DivergedError, match=r"reached allgather of float64\[1, 1"):
        run(lambda comm: comm.allgather(np.zeros((0, *[1] * 61, 1 + comm.rank)), "rows"), 2)


def test_wrong_arguments():
    for wrong in (0.0, -1.0, float("nan")):
        with pytest.raises(InvalidParameterError, match=r"timeout is .* positive number"):
            mpi.MPICommunicator(timeout=wrong)
    for wrong in ("world", 3, mpi.load_mpi().COMM_NULL):
        with pytest.raises(InvalidTypeError, match=r"such as MPI\.COMM_WORLD"):
            mpi.MPICommunicator(wrong)


class EndAtFirstFailure:
    """Stop all ranks: a rank whose test failed is out of step, and the others would wait for it."""

    def pytest_runtest_logreport(self, report):
        if report.failed:
            sys.stderr.write(f"rank {RANKS.world.rank}, {report.nodeid}:\n{report.longreprtext}\n")
            sys.stderr.flush()
            time.sleep(mpi.OUTPUT_SECONDS)
            RANKS.world.Abort(1)

    pytest_collectreport = pytest_runtest_logreport


def conformance(folder: Path) -> None:
    import mpi_conformance  # pytest imports this file anew, under its own name

    mpi_conformance.RANKS = Ranks()
    rank = mpi_conformance.RANKS.world.rank
    options = [
        "-o",
        "addopts=",
        "-x",
        "-q",
        "--disable-warnings",
        "-p",
        "no:cacheprovider",
        "--timeout=60",
        f"--basetemp={folder}/rank{rank}",
    ]
    if rank != 0:
        options += ["--no-summary", "--capture=fd"]
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115  (for as long as the process lives)
    sys.exit(pytest.main([*options, __file__], [mpi_conformance.EndAtFirstFailure()]))


if __name__ == "__main__":
    conformance(Path(sys.argv[2]))
