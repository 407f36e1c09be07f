"""The virtual cluster: the conformance tests, and what is special about workers that are threads."""

from __future__ import annotations

import _thread
import gc
import threading
import time
import warnings
from contextlib import suppress

import numpy as np
import pytest

from conformance import SOON, Conformance
from pvtree.comm import local
from pvtree.errors import CommunicationError, InvalidParameterError, PeerFailedError, WorkerTimeoutError


def barrier(comm):
    comm.allgather(np.zeros(1), "bins")


def worker_threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("pvtree-worker")]


@pytest.fixture(autouse=True)
def no_thread_stays_behind():
    yield
    deadline = time.monotonic() + 2  # for tests whose workers sleep on purpose
    while worker_threads() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not worker_threads()


class TestLocal(Conformance):
    """Two at once, as on a small machine; the rest wait for a core."""

    def run(self, function, size, *, timeout=60.0):
        return local.run(function, size, timeout=timeout, n_running=2)


class TestTakingTurns(Conformance):
    """One core: a waiting worker must always let another one run, or nobody would ever arrive."""

    sizes = (2, 8)

    def run(self, function, size, *, timeout=60.0):
        return local.run(function, size, timeout=timeout, n_running=1)


def test_worker_0_is_the_callers_thread():
    threads = local.run(lambda comm: threading.current_thread(), 3)
    assert threads[0] is threading.current_thread()
    assert len(set(threads)) == 3
    assert all(thread.daemon for thread in threads[1:])


def test_no_thread_is_left_when_run_returns_or_raises():
    local.run(barrier, 8)
    assert not worker_threads()
    with pytest.raises(ZeroDivisionError):
        local.run(lambda comm: barrier(comm) if comm.rank else 1 // comm.rank, 8)
    assert not worker_threads()


def test_a_stuck_worker_does_not_hold_up_the_error():
    def go(comm):
        if comm.rank == 1:
            time.sleep(1.2)  # looks stuck to the others
        raise ValueError("broken")

    start = time.monotonic()
    with pytest.raises(ValueError, match="broken"):
        local.run(go, 2)
    assert time.monotonic() - start < SOON


def test_the_very_exception_object_is_raised():
    error = ValueError("this one")

    def go(comm):
        if comm.rank == 2:
            raise error
        barrier(comm)

    with pytest.raises(ValueError) as caught:
        local.run(go, 3)
    assert caught.value is error
    assert error.__cause__ is None and error.__context__ is None
    assert "go" in [entry.name for entry in caught.traceback]  # where it happened, in the other thread


def test_a_worker_that_swallows_the_error_changes_nothing():
    def go(comm):
        if comm.rank == 1:
            raise ValueError("broken")
        for _ in range(2):
            with pytest.raises(PeerFailedError) as caught:
                barrier(comm)
            assert isinstance(caught.value.__cause__, ValueError)
        return "all is well"

    with pytest.raises(ValueError, match="broken"):
        local.run(go, 2)


def test_interrupt_key_while_waiting():
    """Ctrl-C reaches the caller's thread, which waits in a collective."""

    def go(comm):
        if comm.rank == 1:
            time.sleep(0.1)
            _thread.interrupt_main()
            time.sleep(0.1)
        barrier(comm)

    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        local.run(go, 3, n_running=3)
    assert time.monotonic() - start < SOON


def test_whoever_stops_waiting_ends_all_even_if_it_goes_on_itself():
    def go(comm):
        if comm.rank == 1:
            time.sleep(0.3)
            return
        with suppress(WorkerTimeoutError, PeerFailedError):
            barrier(comm)

    with pytest.raises(WorkerTimeoutError, match="for worker 1 of 3 at allgather"):
        local.run(go, 3, timeout=0.1, n_running=3)


def test_any_kind_of_exception_in_a_thread_reaches_the_caller():
    def go(comm):
        if comm.rank == 1:
            raise SystemExit(3)
        barrier(comm)

    with pytest.raises(SystemExit) as caught:
        local.run(go, 2, timeout=2.0)
    assert caught.value.rank == 1


@pytest.mark.parametrize("n_running", [1, 2, 3, 5])
def test_so_many_compute_at_once(n_running):
    n_now, most, lock = 0, 0, threading.Lock()

    def go(comm):
        nonlocal n_now, most
        for _ in range(3):
            with lock:
                n_now += 1
                most = max(most, n_now)
            time.sleep(0.01)
            with lock:
                n_now -= 1
            barrier(comm)

    local.run(go, 5, n_running=n_running)
    assert most == n_running


def test_as_many_as_there_are_cores_by_default(monkeypatch):
    monkeypatch.setattr(local, "usable_cores", lambda: 1)
    seen = []
    local.run(lambda comm: (seen.append(comm.rank), time.sleep(0.01), seen.append(comm.rank)), 3)
    assert seen[::2] == seen[1::2]


def test_compute_seconds_are_those_of_the_worker_alone():
    def go(comm):
        for _ in range(2):
            time.sleep(0.02 * comm.rank)
            barrier(comm)
        time.sleep(0.02)
        return comm.compute_seconds

    for n_running in (1, 4):
        seconds = local.run(go, 4, n_running=n_running)
        for rank, spent in enumerate(seconds):
            assert 0.04 * rank + 0.02 <= spent < 0.04 * rank + 0.12


def test_taking_turns_does_not_use_up_the_time_limit():
    """Each worker takes less than the limit; they are late only because they run one after another."""

    def go(comm):
        time.sleep(0.1)
        barrier(comm)
        return comm.rank

    assert local.run(go, 4, n_running=1, timeout=0.3) == [0, 1, 2, 3]


def test_a_worker_that_never_returns_is_named():
    def go(comm):
        barrier(comm)
        if comm.rank == 1:
            time.sleep(0.4)

    with pytest.raises(WorkerTimeoutError, match="worker 1 of 3 at its end"):
        local.run(go, 3, timeout=0.2, n_running=3)


def test_a_worker_that_keeps_the_core_is_named():
    def go(comm):
        barrier(comm)
        if comm.rank == 2:
            time.sleep(0.4)
        barrier(comm)

    with pytest.raises(WorkerTimeoutError, match="worker 2 of 3"):
        local.run(go, 3, timeout=0.2, n_running=1)


def test_workers_see_the_callers_context_and_its_warnings():
    def go(comm):
        if comm.rank == 0:
            warnings.warn("skewed", UserWarning, stacklevel=2)
        return np.geterr()["divide"]

    with np.errstate(divide="raise"), pytest.warns(UserWarning, match="skewed"):
        assert local.run(go, 2) == ["raise", "raise"]


def test_runs_inside_runs():
    def outer(comm):
        inner = local.run(lambda inside: int(inside.allreduce(np.array([comm.rank]), "rows")[0]), 3)
        return [int(part[0]) for part in comm.allgather(np.array(inner[:1]), "rows")]

    assert local.run(outer, 2) == [[0, 3]] * 2


def test_a_communicator_ends_with_its_run():
    comm = local.run(lambda comm: comm, 2)[0]
    with pytest.raises(CommunicationError, match="only during its run"):
        barrier(comm)


def test_large_messages_are_let_go():
    """The memory of a message is freed as soon as its receiver drops it, not two collectives later."""

    def n_large():
        gc.collect()
        return sum(isinstance(found, Large) for found in gc.get_objects())

    class Large(np.ndarray):
        pass

    def go(comm):
        comm.alltoall([np.zeros(1000).view(Large) for _ in range(2)], "histograms")
        barrier(comm)
        return n_large()

    assert local.run(go, 2, n_running=1) == [0, 0]


@pytest.mark.parametrize("wrong", [{"size": 0}, {"n_running": 0}, {"timeout": 0.0}, {"timeout": float("nan")}])
def test_wrong_arguments(wrong):
    with pytest.raises(InvalidParameterError, match=f"{next(iter(wrong))} is .* positive number"):
        local.run(**{"function": barrier, "size": 2, **wrong})
