"""Dask: tasks on workers in real processes pass the conformance tests and never hang."""

from __future__ import annotations

import _thread
import os
import random
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress

import numpy as np
import pytest

from conformance import SOON, Conformance

pytest.importorskip("distributed")

from distributed import Client, LocalCluster, get_client, worker_client
from distributed.security import Security

from dask_functions import addresses_of, left_behind, open_cluster, run, wait_until
from pvtree.comm import dask as engine
from pvtree.comm import dask_line, dask_mailbox, local
from pvtree.comm.dask_worker import DaskCommunicator
from pvtree.errors import (
    CommunicationError,
    InvalidParameterError,
    InvalidTypeError,
    MissingDependencyError,
    PeerFailedError,
    WorkerTimeoutError,
)
from thoroughness import IS_THOROUGH

pytestmark = pytest.mark.dask
ENDS_WITHIN = 10.0  # seconds, after a worker was lost


def barrier(comm):
    comm.allgather(np.zeros(1), "bins")


def exchange_for(seconds, begun=None):
    """Exchange short and long messages until a worker is killed; the file ``begun`` appears once all take part."""

    def work(comm):
        long = np.zeros(300_000, np.uint8)
        deadline = time.monotonic() + seconds
        while comm.allreduce(np.array([time.monotonic()]), "rows", "min")[0] < deadline:
            if begun is not None:
                begun.touch()
            for length in (10, 1000, len(long)):
                comm.alltoall([long[:length]] * comm.size, "histograms")
        return comm.rank

    return work


def assert_nothing_left_behind(client):
    """Of a worker that is just starting nothing is known, so it is not asked."""

    def is_clean():
        return all(left == ([], []) for left in client.run(left_behind, on_error="ignore").values())

    wait_until(is_clean, ENDS_WITHIN, "something stays behind")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with open_cluster(8, tmp_path_factory.mktemp("dask")) as cluster:
        yield cluster
        assert_nothing_left_behind(cluster.client)


@pytest.fixture(scope="module")
def client(cluster):
    return cluster.client


class TestDask(Conformance):
    sizes = (1, 3, 8)

    @pytest.fixture(autouse=True)
    def use_cluster(self, client):
        self.client = client
        self.addresses = addresses_of(client)

    def run(self, function, size, *, timeout=60.0):
        return run(self.client, function, self.addresses[:size], timeout=timeout)


# How data travels


def test_long_data_travels_in_pieces(client):
    """Every length around the limits, in both directions between two workers at once."""
    lengths = [0, dask_line.SHORT_BYTES // 8, dask_line.SHORT_BYTES // 8 + 1, dask_line.PIECE_BYTES // 8 + 1]

    def exchange(comm):
        to_each = [np.arange(lengths[(comm.rank + to) % 4], dtype=np.int64) + comm.rank for to in range(3)]
        arrived = comm.alltoall(to_each, "histograms")
        for sender, part in enumerate(arrived):
            np.testing.assert_array_equal(part, np.arange(lengths[(sender + comm.rank) % 4]) + sender)
            assert part.flags.writeable and part.flags.aligned

    run(client, exchange, addresses_of(client)[:3])


@pytest.mark.parametrize("n", [DaskCommunicator.straight_bytes // 8 + more for more in (0, 1)])
def test_floats_are_added_in_the_order_of_ranks(client, n):
    given = [np.random.default_rng(rank).normal(size=n) for rank in range(5)]
    expected = given[0]
    for each in given[1:]:
        expected = expected + each
    for result in run(client, lambda comm: comm.allreduce(given[comm.rank], "scores"), addresses_of(client)[:5]):
        assert result.tobytes() == expected.tobytes()


def test_the_ledger_is_that_of_a_virtual_cluster(client):
    def work(comm):
        comm.allgather(np.zeros(comm.rank * 1000), "ballots")
        comm.alltoall([np.zeros(to + comm.rank) for to in range(3)], "histograms")
        comm.allreduce(np.zeros(10_000), "scores")
        comm.broadcast(np.zeros(99), "splits", 1)
        return comm.traffic.to_array()[:, :2].tolist()

    assert run(client, work, addresses_of(client)[:3]) == local.run(work, 3)


def test_ranks_and_arguments_follow_the_given_order(client):
    addresses = addresses_of(client)[:3][::-1]
    futures = client.map(lambda rank: f"data {rank}", range(3))
    arguments = {address: (rank, [{"X": futures[rank]}]) for rank, address in enumerate(addresses)}

    def work(comm, number, parts):
        return comm.rank, number, parts, comm.addresses[comm.rank], comm.n_on_host

    assert engine.run(client, work, arguments) == [
        (rank, rank, [{"X": f"data {rank}"}], address, 3) for rank, address in enumerate(addresses)
    ]


def test_only_workers_of_the_same_host_share_its_cores():
    hosts = ["tcp://10.0.0.1:1", "tcp://10.0.0.2:1", "tls://10.0.0.1:2"]

    class Worker:
        class loop:
            asyncio_loop = None

    numbers = [DaskCommunicator(Worker, "key", "run", rank, hosts, 1.0).n_on_host for rank in range(3)]
    assert numbers == [2, 1, 2]


def test_two_runs_at_once_with_one_thread_each(client, tmp_path):
    """Each run continues until it has seen the other one on the same workers, or until a time limit."""
    addresses = addresses_of(client)[:3]

    def work(mine, other):
        def meet(comm):
            (tmp_path / mine).touch()
            deadline = time.monotonic() + 10
            while time.monotonic() < deadline:
                seen = comm.allgather(np.array([(tmp_path / other).exists()]), "rows")
                if all(part[0] for part in seen):
                    return mine
            return "alone"

        return meet

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(run, client, work("a", "b"), addresses)
        second = pool.submit(run, client, work("b", "a"), addresses[::-1])
        assert first.result() == ["a"] * 3
        assert second.result() == ["b"] * 3


@pytest.mark.parametrize("has_left", [False, True], ids=["in the pool", "has left it"])
def test_a_task_may_run_on_the_worker_whose_only_thread_it_has(client, has_left):
    addresses = addresses_of(client)[:2]

    def train():
        with worker_client() if has_left else nullcontext(get_client()) as inside:
            return run(inside, lambda comm: comm.rank, addresses, timeout=20.0)

    assert client.submit(train, workers=addresses[:1], pure=False).result(20) == [0, 1]


def test_workers_in_one_process():
    """Dask passes the objects themselves in this case; what arrives must still belong to the receiver."""

    def work(comm):
        wrong = 0
        for length in (10, 10**6):
            mine = np.full(length, comm.rank)
            received = comm.allgather(mine, "rows")
            mine[:] = -1
            barrier(comm)
            wrong += sum(set(part.tolist()) != {sender} for sender, part in enumerate(received))
        return wrong

    with (
        LocalCluster(n_workers=3, threads_per_worker=1, processes=False, dashboard_address=":0") as cluster,
        Client(cluster, set_as_default=False) as inside,
    ):
        assert run(inside, work, addresses_of(inside)) == [0, 0, 0]
        assert_nothing_left_behind(inside)


# What goes wrong


def test_an_exception_tells_where_it_happened(client):
    addresses = addresses_of(client)[:2]

    def work(comm):
        if comm.rank == 1:
            raise_here()
        barrier(comm)

    def raise_here():
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken") as caught:
        run(client, work, addresses)
    assert caught.value.rank == 1
    assert any(addresses[1] in note for note in caught.value.__notes__)
    assert "raise_here" in [entry.name for entry in caught.traceback]


def test_an_exception_that_cannot_travel_is_told(client):
    def work(comm):
        class Odd(Exception):
            def __reduce__(self):
                raise TypeError("never")

        raise Odd("shard")

    with pytest.raises(CommunicationError, match="Odd: shard") as caught:
        run(client, work, addresses_of(client)[:1])
    assert caught.value.rank == 0


def test_a_communicator_ends_with_its_run(client):
    kept = {}

    def keep(comm):
        import builtins

        builtins.pvtree_kept = comm

    def use(dask_worker=None):
        import builtins

        try:
            barrier(builtins.pvtree_kept)
        except CommunicationError as error:
            kept = str(error)
        del builtins.pvtree_kept
        return kept

    addresses = addresses_of(client)[:2]
    run(client, keep, addresses)
    assert all("only during its run" in text for text in client.run(use, workers=addresses).values())
    assert not kept


def test_the_interrupt_key_ends_the_run_on_the_workers(client):
    timer = threading.Timer(0.5, _thread.interrupt_main)
    timer.start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run(client, exchange_for(30), addresses_of(client)[:3])
    timer.join()
    assert_nothing_left_behind(client)
    assert time.monotonic() - start < 0.5 + 2 * SOON


def test_a_run_whose_client_is_gone_ends(client, tmp_path):
    """Its process may have been killed; the scheduler then drops its tasks."""

    def work(comm):
        (tmp_path / str(comm.rank)).touch()
        exchange_for(30)(comm)

    start = time.monotonic()
    with Client(client.scheduler.address, set_as_default=False) as other, ThreadPoolExecutor(1) as pool:
        future = pool.submit(run, other, work, addresses_of(client)[:2])
        wait_until(lambda: len(list(tmp_path.iterdir())) == 2, 20, "nobody works")
        other.close()
        with pytest.raises(CommunicationError, match="its task was cancelled"):
            future.result(20)
    assert_nothing_left_behind(client)
    assert time.monotonic() - start < 20


def test_an_interrupt_before_the_tasks_have_begun(client, monkeypatch):
    """The workers are prepared, but their tasks never come."""

    def interrupt(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(client, "submit", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run(client, barrier, addresses_of(client)[:3])
    assert_nothing_left_behind(client)


def test_a_box_that_nobody_comes_for_is_thrown_away(client):
    client.run(dask_mailbox.open_mailbox, "forgotten", 1.0)
    assert any(mailboxes for mailboxes, _ in client.run(left_behind).values())
    assert_nothing_left_behind(client)


def test_wrong_arguments(client):
    with pytest.raises(InvalidParameterError, match=r"timeout is 0\.0; give a positive number"):
        run(client, barrier, addresses_of(client), timeout=0.0)
    with pytest.raises(InvalidParameterError, match="no Dask worker"):
        run(client, barrier, [])
    start = time.monotonic()
    with pytest.raises(PeerFailedError, match=r"Worker 1 of 2 \(tcp://127\.0\.0\.1:1\) cannot be reached"):
        run(client, barrier, [*addresses_of(client)[:1], "tcp://127.0.0.1:1"])
    assert time.monotonic() - start < ENDS_WITHIN


def test_other_versions_are_refused(client, monkeypatch):
    monkeypatch.setattr(engine, "version", lambda package: "0.0.7")
    with pytest.raises(CommunicationError, match=r"has pvtree \S+, but the client has 0\.0\.7; install the same"):
        run(client, barrier, addresses_of(client)[:1])


def test_workers_without_pvtree_are_told_the_command(client, monkeypatch):
    def open_mailbox(*arguments, dask_worker=None):
        raise ModuleNotFoundError("No module named 'pvtree'")

    monkeypatch.setattr(dask_mailbox, "open_mailbox", open_mailbox)
    with pytest.raises(MissingDependencyError, match=r"Worker 0 of 1 .* pip install 'pvtree\[dask\]'"):
        run(client, barrier, addresses_of(client)[:1])


def test_an_asynchronous_client_is_refused():
    class Asynchronous:
        asynchronous = True

    with pytest.raises(InvalidTypeError, match="is asynchronous"):
        run(Asynchronous(), barrier, ["tcp://127.0.0.1:1"])


# Workers that end, or stop


@pytest.fixture
def workers(cluster):
    """Addresses and processes of three workers; those that are killed are replaced."""
    yield dict(sorted(cluster.pids().items())[:3])
    missing = 8 - len(cluster.pids())
    if missing:
        cluster.start(missing)


@contextmanager
def signalling(number, pids, seconds, begun=None):
    """Send a signal to these processes after some seconds, or some seconds after the file ``begun`` has appeared.

    Gives a list that then holds the moment.
    """
    sent = []

    def send():
        deadline = time.monotonic() + 60
        while begun is not None and not begun.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(seconds)
        sent.append(time.monotonic())
        for pid in pids:
            os.kill(pid, number)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield sent
    finally:
        thread.join()


@pytest.mark.parametrize("seed", range(8) if IS_THOROUGH else (0, 3, 5))
def test_a_killed_worker_ends_all_others(client, workers, seed):
    """From the first moment of a run, while workers still connect, to the last."""
    moment = random.Random(seed)
    addresses = list(workers)
    victim = addresses[moment.randrange(3)]
    delay = moment.choice([0.02, 0.1, 0.4]) * moment.random()
    start = time.monotonic()
    with signalling(signal.SIGKILL, [workers[victim]], delay), pytest.raises(PeerFailedError) as caught:
        run(client, exchange_for(30), addresses)
    assert time.monotonic() - start < delay + ENDS_WITHIN
    assert f"orker {addresses.index(victim)} " in str(caught.value)
    assert victim in str(caught.value)
    survivors = [address for address in addresses if address != victim]
    assert run(client, lambda comm: int(comm.allreduce(np.ones(1), "rows")[0]), survivors) == [2, 2]


def test_the_others_find_out_by_themselves(client, workers, tmp_path):
    """Each survivor names the lost worker, without being told by the client."""

    begun = tmp_path / "begun"

    def work(comm):
        try:
            exchange_for(60, begun)(comm)
        except PeerFailedError as error:
            (tmp_path / f"{comm.rank}.txt").write_text(str(error))
            raise

    addresses = list(workers)
    with signalling(signal.SIGKILL, [workers[addresses[1]]], 0.1, begun), pytest.raises(PeerFailedError):
        run(client, work, addresses)
    texts = {path.stem: path.read_text() for path in tmp_path.glob("*.txt")}
    assert set(texts) == {"0", "2"}
    assert any(
        "lost its connection to worker 1 of 3 at all" in text and addresses[1] in text for text in texts.values()
    )


def test_the_client_ends_when_all_workers_are_killed(client, workers, tmp_path):
    begun = tmp_path / "begun"
    with (
        signalling(signal.SIGKILL, workers.values(), 0.1, begun) as sent,
        pytest.raises(PeerFailedError, match=r"lost worker 0 \(tcp.*\), worker 1 \(tcp.*\), worker 2 \(tcp.*\) of 3"),
    ):
        run(client, exchange_for(60, begun), list(workers))
    assert time.monotonic() - sent[0] < ENDS_WITHIN


def test_a_stopped_worker_is_named(client, workers, tmp_path):
    addresses = list(workers)
    stopped = workers[addresses[2]]
    begun = tmp_path / "begun"
    try:
        with (
            signalling(signal.SIGSTOP, [stopped], 0.1, begun) as sent,
            pytest.raises(WorkerTimeoutError, match=r"waited 2 s for worker 2 of 3 at .*worker 2 is tcp") as caught,
        ):
            run(client, exchange_for(60, begun), addresses, timeout=2.0)
        assert addresses[2] in str(caught.value)
        assert time.monotonic() - sent[0] < 2 + ENDS_WITHIN
        assert run(client, lambda comm: comm.rank, addresses[:2]) == [0, 1]
    finally:
        os.kill(stopped, signal.SIGCONT)


def test_who_waits_itself_is_not_blamed(client):
    """Worker 2 leaves worker 1 without an answer, so worker 0 misses both of them in the next collective."""

    def work(comm):
        barrier(comm)
        if comm.rank == 1:
            comm.timeout = 30.0
        if comm.rank == 2:
            line = comm._mailbox._lines[1]
            line.comm = FakeComm()
        barrier(comm)
        if comm.rank == 2:
            time.sleep(2.0)
        barrier(comm)

    class FakeComm:
        async def write(self, message):
            pass

        async def close(self):
            pass

        def abort(self):
            pass

    with pytest.raises(WorkerTimeoutError, match=r"Worker 0 waited 0\.5 s for worker 2 of 3 at allgather"):
        run(client, work, addresses_of(client)[:3], timeout=0.5)


# TLS


def test_without_the_certificate_nobody_takes_part(tmp_path):
    security = Security.temporary()
    with open_cluster(2, tmp_path, security) as cluster:
        client = cluster.client
        addresses = addresses_of(client)
        assert all(address.startswith("tls://") for address in addresses)
        total = run(client, lambda comm: comm.allreduce(np.ones(100_000), "rows").sum(), addresses)
        assert total == [200_000.0, 200_000.0]

        host, _, port = addresses[0].removeprefix("tls://").rpartition(":")
        stranger = Security.temporary()
        plain, foreign = f"tcp://{host}:{port}", f"tls://{host}:{port}"
        for address, theirs in ((plain, Security()), (foreign, stranger)):
            assert not can_join(address, theirs)
        assert can_join(addresses[0], security)  # or else the two lines above would say nothing
        for scheme, theirs in (("tcp", None), ("tls", stranger)):
            scheduler = client.scheduler.address.replace("tls://", f"{scheme}://")
            with pytest.raises(OSError):
                Client(scheduler, security=theirs, timeout=1.0, set_as_default=False)
        # And not a byte of an answer for those who speak no TLS.
        with socket.create_connection((host, int(port)), timeout=5) as raw:
            raw.sendall(b"\0" * 64)
            with suppress(ConnectionResetError, ssl.SSLError):
                assert raw.recv(1000)[:1] in (b"", b"\x15")  # TLS's own alert


def can_join(address, security):
    """Whether a line to this worker's handler can be opened."""
    import asyncio

    from distributed.comm import connect

    async def join():
        comm = await connect(address, timeout=1.0, **security.get_connection_args("worker"))
        try:
            await comm.write({"op": dask_line.OPERATION, "reply": True, "run": "x", "sender": 0})
            return await asyncio.wait_for(comm.read(), 2.0) == "unknown"
        finally:
            comm.abort()

    try:
        return asyncio.run(join())
    except (TimeoutError, OSError):
        return False


# Without Dask


def test_importing_pvtree_does_not_import_dask():
    code = (
        "import sys, pvtree, pvtree.comm, pvtree.reading.dask_data; "
        "assert not {'dask', 'distributed'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
