"""Where workers over TCP meet: in a folder, at the first worker, or by an engine. Who does not come is named."""

from __future__ import annotations

import os
import socket
import threading
import time

import numpy as np
import pytest

from pvtree.comm import rendezvous_file, tcp
from pvtree.comm.rendezvous_env import Environment, find_host, find_port
from pvtree.errors import (
    CommunicationError,
    InvalidParameterError,
    InvalidTypeError,
    PeerFailedError,
    WorkerTimeoutError,
)

SECRET = {"PVTREE_SECRET": "a secret of this test alone"}


def together(connects, seconds=60):
    """The results, or errors, of functions that run at the same time."""
    outcomes = [None] * len(connects)

    def run(index):
        try:
            with connects[index]() as comm:
                outcomes[index] = [int(part[0]) for part in comm.allgather(np.array([comm.rank]), "rows")]
        except Exception as error:
            outcomes[index] = error

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(connects))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds)
    return outcomes


def in_folder(folder, rank, size, **more):
    return lambda: tcp.connect(f"file://{folder}", rank, size, host="127.0.0.1", **more)


@pytest.fixture
def quick(monkeypatch):
    """Time limits of the start that suit tests."""
    monkeypatch.setattr(tcp, "START_SECONDS", 0.5)


def test_workers_meet_in_a_folder_and_leave_nothing_there(tmp_path):
    assert together([in_folder(tmp_path / "new" / "job", rank, 3) for rank in (2, 0, 1)]) == [[0, 1, 2]] * 3
    assert not (tmp_path / "new" / "job").exists()
    (tmp_path / "mine").touch()
    assert together([in_folder(tmp_path, rank, 2) for rank in range(2)]) == [[0, 1]] * 2
    assert sorted(os.listdir(tmp_path)) == ["mine", "new"]


def test_remains_of_a_killed_training_do_no_harm(tmp_path):
    """The others find an earlier run, complete or not, before worker 0 opens a new one."""
    for remains in ({"leader": "old", "old.1": "text", "old.all": '["a", "text"]'}, {"leader": "old"}):
        for name, text in remains.items():
            path = tmp_path / f"{rendezvous_file.PREFIX}{name}"
            path.write_text(text)
            path.chmod(0o600)

        def late():
            time.sleep(0.3)
            return in_folder(tmp_path, 0, 3)()

        assert together([late, in_folder(tmp_path, 1, 3), in_folder(tmp_path, 2, 3)]) == [[0, 1, 2]] * 3
        assert not tmp_path.exists() or not os.listdir(tmp_path)
        tmp_path.mkdir(exist_ok=True)


@pytest.mark.parametrize("missing", [0, 2])
def test_who_does_not_come_is_named(missing, tmp_path, quick):
    outcomes = together([in_folder(tmp_path / "job", r, 3, timeout=0.4) for r in range(3) if r != missing])
    assert [type(each) for each in outcomes] == [WorkerTimeoutError] * 2
    assert all(f"for worker {missing} of 3 to come to file://{tmp_path}/job;" in str(each) for each in outcomes)
    assert not os.listdir(tmp_path)


def test_two_processes_of_one_rank_are_told_so(tmp_path, quick):
    first, second, third = together([in_folder(tmp_path, rank, 2, timeout=1.0) for rank in (0, 1, 1)])
    assert first == [0, 1]
    left = [each for each in (second, third) if each != [0, 1]]
    assert len(left) == 1 and isinstance(left[0], CommunicationError), (second, third)
    outcomes = together([in_folder(tmp_path, 0, 2, timeout=1.0)] * 2)
    assert any("as worker 0; give every worker a rank of its own" in str(each) for each in outcomes)


def test_a_file_that_another_worker_0_removes_while_it_is_written_is_written_again(tmp_path, monkeypatch):
    replace, removed = os.replace, []

    def remove_first(source, target):
        if not removed:
            removed.append(source)
            os.unlink(source)
        replace(source, target)

    monkeypatch.setattr(rendezvous_file.os, "replace", remove_first)
    assert together([in_folder(tmp_path / "job", rank, 2) for rank in range(2)]) == [[0, 1]] * 2
    assert len(removed) == 1 and not os.listdir(tmp_path)


@pytest.mark.skipif(os.geteuid() != 0 and not hasattr(os, "chmod"), reason="needs file permissions")
def test_a_file_that_others_can_read_is_not_trusted(tmp_path):
    path = tmp_path / f"{rendezvous_file.PREFIX}{rendezvous_file.LEADER}"
    path.write_text("a run")
    path.chmod(0o644)
    with pytest.raises(CommunicationError, match="is not this user's alone"):
        in_folder(tmp_path, 1, 2)()


# Environment variables


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return sock.getsockname()[1]


def by_environment(rank, size, port, host="127.0.0.1", timeout=60.0, **more):
    variables = {"MASTER_ADDR": host, "MASTER_PORT": str(port), "RANK": str(rank), "WORLD_SIZE": str(size)}
    return lambda: tcp.connect(Environment(variables=variables | SECRET | more), timeout=timeout)


def test_workers_meet_at_the_first_one_whatever_strangers_say_there():
    port, size, done = free_port(), 3, threading.Event()

    def pester():
        """2 GB announced, garbage and silence, as long as somebody listens."""
        while not done.is_set():
            for message in (b"\xff\xff\xff\x7f" * 1000, b"GET / HTTP/1.1\r\n\r\n", b""):
                try:
                    with socket.create_connection(("127.0.0.1", port), timeout=0.1) as sock:
                        sock.sendall(message)
                        sock.recv(10)
                except OSError:
                    time.sleep(0.005)

    stranger = threading.Thread(target=pester)
    stranger.start()
    try:
        assert together([by_environment(rank, size, port) for rank in (1, 2, 0)]) == [[0, 1, 2]] * 3
    finally:
        done.set()
        stranger.join()


def test_a_worker_with_another_secret_does_not_get_in(quick):
    port = free_port()
    others = [by_environment(0, 2, port, timeout=0.5), by_environment(1, 2, port, timeout=0.5, PVTREE_SECRET="x" * 16)]
    first, second = together(others)
    assert "for worker 1 of 2 to come to env:// (127.0.0.1" in str(first)
    assert "for worker 0 of 2 to come to env:// (127.0.0.1" in str(second)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"PVTREE_SECRET": "short"}, "a secret of at least 16 characters"),
        ({"RANK": "3"}, "rank is 3; give this worker's number, from 0 to 2"),
        ({"RANK": ""}, "needs a number in RANK or SLURM_PROCID"),
        ({"WORLD_SIZE": "many"}, "needs a number in WORLD_SIZE or SLURM_NTASKS"),
        ({"MASTER_ADDR": ""}, "needs MASTER_ADDR"),
        ({"MASTER_PORT": "70000"}, "MASTER_PORT is '70000'"),
    ],
)
def test_wrong_variables_are_refused(given, message):
    variables = {"MASTER_ADDR": "h", "MASTER_PORT": "1", "RANK": "0", "WORLD_SIZE": "3"} | SECRET | given
    with pytest.raises(InvalidParameterError, match=message):
        Environment(variables=variables)


def test_variables_of_launchers():
    slurm = {
        "SLURM_PROCID": "2",
        "SLURM_NTASKS": "4",
        "SLURM_STEP_NODELIST": "gpu[07-09,12],x",
        "SLURM_JOB_ID": "123456",
    }
    place = Environment(variables=slurm | SECRET)
    assert (place.rank, place.size, place.host, place.port) == (2, 4, "gpu07", 23456)
    assert find_host({"SLURM_JOB_NODELIST": "one,two"}) == "one"
    assert find_port({"MASTER_PORT": "29500", "TORCHELASTIC_USE_AGENT_STORE": "True"}) == 29501
    assert find_port({"MASTER_PORT": "29500", "PVTREE_PORT": "7"}) == 7
    with pytest.raises(InvalidParameterError, match="needs MASTER_PORT"):
        find_port({})


# What is refused


@pytest.mark.parametrize(
    ("where", "rank", "size", "error", "message"),
    [
        ("ftp://there", 0, 1, InvalidParameterError, "is not known; use file:///folder"),
        ("file://relative", 0, 1, InvalidParameterError, "is not known; use file:///folder"),
        ("file:///tmp/x", None, 2, InvalidParameterError, "give rank= and size="),
        ("file:///tmp/x", 2, 2, InvalidParameterError, "rank is 2; give this worker's number, from 0 to 1"),
        ("file:///tmp/x", 0, 0, InvalidParameterError, "size is 0; give the number of workers"),
        ("file:///dev/null/x", 0, 2, InvalidParameterError, "cannot be used"),
        (7, 0, 1, InvalidTypeError, "rendezvous is a int; give"),
        (tcp.Engine(0, 1, lambda text: [text]), 1, 2, InvalidParameterError, "rank is 1, but 0 at the rendezvous"),
    ],
)
def test_wrong_places_are_refused(where, rank, size, error, message):
    with pytest.raises(error, match=message):
        tcp.connect(where, rank, size)


@pytest.mark.parametrize(
    ("brought", "message"), [(lambda text: ["{}", text], "brought what is not"), (lambda text: [text], "texts of 1 w")]
)
def test_an_engine_that_brings_the_wrong_texts_is_named(brought, message):
    with pytest.raises(CommunicationError, match=message):
        tcp.connect(tcp.Engine(1, 2, brought), host="127.0.0.1")


def test_a_worker_that_ends_between_meeting_and_connecting_is_named(quick):
    """Its port no longer listens."""
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    dead = f'["127.0.0.1", {port}, 99, "elsewhere", "token"]'
    with pytest.raises(PeerFailedError, match=r"lost its connection to worker 0 of 2 .*process 99 on elsewhere, 127"):
        tcp.connect(tcp.Engine(1, 2, lambda text: [dead, text]), host="127.0.0.1")
    with pytest.raises(WorkerTimeoutError, match=r"for worker 1 of 2 at the start \(process 99 on elsewhere"):
        tcp.connect(tcp.Engine(0, 2, lambda text: [text, dead]), host="127.0.0.1", timeout=0.5)
