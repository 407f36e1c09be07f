"""TCP: workers in threads pass the conformance tests, and strangers at their ports do no harm."""

from __future__ import annotations

import json
import os
import socket
import ssl
import threading
import time
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

import tcp_threads
from conformance import SOON, Conformance
from pvtree.comm import local, tcp, tcp_gate, tcp_greeting, tcp_line
from pvtree.comm.tcp_greeting import CHALLENGE, GREETING, MAGIC, Keyring
from pvtree.errors import CommunicationError, DivergedError, InvalidParameterError, PeerFailedError
from tcp_strangers import attack


class TestTCP(Conformance):
    sizes = (1, 3, 8)

    def run(self, function, size, *, timeout=60.0):
        return tcp_threads.run(function, size, timeout=timeout)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """A certificate that is its own authority, and that of a stranger."""
    return {name: make_certificate(tmp_path_factory.mktemp(name), name) for name in ("ours", "strange")}


def make_certificate(folder, name):
    pytest.importorskip("cryptography")
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    names = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    certificate = (
        x509.CertificateBuilder(names, names, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "certificate").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (folder / "key").write_bytes(key.private_bytes(serialization.Encoding.PEM, *form))
    return tcp.TLS(*(str(folder / file) for file in ("certificate", "key", "certificate")))


# How data travels


def exchange_much(comm):
    """Every length around the limits, in both directions between two workers at once."""
    lengths = [0, tcp_line.SHORT_BYTES // 8, tcp_line.SHORT_BYTES // 8 + 1, tcp_line.PIECE_BYTES // 8 * 3 + 1]
    for shift in range(4):
        to_each = [np.arange(lengths[(comm.rank + to + shift) % 4], dtype=np.int64) + comm.rank for to in range(3)]
        for sender, part in enumerate(comm.alltoall(to_each, "histograms")):
            np.testing.assert_array_equal(part, np.arange(lengths[(sender + comm.rank + shift) % 4]) + sender)
            assert part.flags.writeable and part.flags.aligned
    return comm.traffic.to_array()[:, :2].tolist()


def test_long_data_travels_in_pieces_and_the_ledger_is_that_of_a_virtual_cluster():
    assert tcp_threads.run(exchange_much, 3) == local.run(exchange_much, 3)


def test_with_certificates_all_is_encrypted(certificates, monkeypatch):
    seen = []
    receive = tcp_line.Line.receive
    monkeypatch.setattr(tcp_line.Line, "receive", lambda line: (seen.append(type(line.socket)), receive(line))[1])
    assert tcp_threads.run(exchange_much, 3, tls=certificates["ours"]) == local.run(exchange_much, 3)
    assert set(seen) == {ssl.SSLSocket}


@pytest.mark.parametrize("n", [tcp.TCPCommunicator.straight_bytes // 8 + more for more in (0, 1)])
def test_floats_are_added_in_the_order_of_ranks(n):
    given = [np.random.default_rng(rank).normal(size=n) for rank in range(5)]
    expected = given[0]
    for each in given[1:]:
        expected = expected + each
    for result in tcp_threads.run(lambda comm: comm.allreduce(given[comm.rank], "scores"), 5):
        assert result.tobytes() == expected.tobytes()


def test_waiting_takes_no_processor_time():
    def wait(comm):
        comm.allgather(np.zeros(1), "rows")
        time.sleep(0.6 * (comm.rank == 0))
        began = time.thread_time()
        comm.allgather(np.zeros(1), "rows")
        return time.thread_time() - began

    assert max(tcp_threads.run(wait, 3)) < 0.1


def test_messages_under_way_when_workers_diverge_are_harmless():
    def go(comm):
        comm.allgather(np.full(300_000, comm.rank), "rows" if comm.rank else "bins")

    for _ in range(3):
        with pytest.raises(DivergedError, match="reached allgather of int64 in phase 'bins'"):
            tcp_threads.run(go, 3)


def test_a_failure_between_pieces_of_a_long_letter_is_heard():
    """Worker 0 gives up while its letter is half-way: worker 1 hears why, and not only that the connection ended."""
    said = []

    def go(comm):
        comm.allgather(np.zeros(1), "rows")
        if comm.rank == 0:
            line = comm._lines[1]
            line.post(b"a letter", np.zeros(60_000_000, np.uint8))
            assert line.is_sending
            raise KeyError("in the middle")
        try:
            comm.allgather(np.zeros(1), "rows")
        except CommunicationError as error:
            said.append(str(error))
            raise

    with pytest.raises(KeyError, match="in the middle"):
        tcp_threads.run(go, 2)
    assert any("worker 0 raised the KeyError" in each or "reached a letter" in each for each in said), said


def test_what_was_sent_before_a_failure_arrives_before_it():
    """All workers learn of wrong input together, although the first to know it ends at once."""
    seen = []

    def go(comm):
        if comm.rank == 1:
            time.sleep(0.3)  # the letter and the failure of worker 0 are both there
        seen.append([int(part[0]) for part in comm.allgather(np.array([comm.rank]), "rows")])
        raise KeyError(comm.rank)

    with pytest.raises(KeyError):
        tcp_threads.run(go, 2)
    assert seen == [[0, 1]] * 2


def test_a_peer_that_sends_no_frames_is_named():
    def go(comm):
        comm.allgather(np.zeros(1), "rows")
        if comm.rank == 1:
            comm._lines[0].socket.setblocking(True)
            comm._lines[0].socket.sendall(tcp_line.FRAME_HEAD.pack(tcp_line.LETTER, 2_000_000_000))
            time.sleep(0.2)
            raise KeyboardInterrupt
        comm.allgather(np.zeros(1), "rows")

    errors = []

    def keep(comm):
        try:
            go(comm)
        except PeerFailedError as error:
            errors.append(str(error))
            raise

    with pytest.raises(KeyboardInterrupt):
        tcp_threads.run(keep, 2)
    assert "lost its connection to worker 1 of 2" in errors[0] and "a frame of 2000000000 bytes" in errors[0]
    assert f"process {os.getpid()} on {socket.gethostname()}, 127.0.0.1" in errors[0]


# Strangers


def test_strangers_are_refused_and_the_training_does_not_notice(monkeypatch):
    """Worker 2 comes late, after strangers have been at the ports of the others, and while some stay connected."""
    recorded, attacked, held = [], [], []
    send_all = tcp_greeting.send_all

    def record(sock, data, deadline):
        if len(data) == GREETING.size:
            recorded.append(data)
        send_all(sock, data, deadline)

    monkeypatch.setattr(tcp_greeting, "send_all", record)
    place = tcp_threads.Table.place

    def late(table, rank):
        engine = place(table, rank)
        if rank == 2:
            gather = engine._allgather

            def attack_first(text):
                texts = gather(text)
                deadline = time.monotonic() + 20
                while not recorded and time.monotonic() < deadline:  # worker 1 has greeted worker 0
                    time.sleep(0.01)
                for member in (tcp.Member(*json.loads(text)) for text in texts[:2]):
                    attack((member.host, member.port), recorded[:1])
                    held.extend(socket.create_connection((member.host, member.port)) for _ in range(10))
                    attacked.append(member)
                return texts

            engine._allgather = attack_first
        return engine

    monkeypatch.setattr(tcp_threads.Table, "place", late)
    began = time.monotonic()
    assert tcp_threads.run(exchange_much, 3) == local.run(exchange_much, 3)
    assert time.monotonic() - began < SOON and len(attacked) == 2 and recorded
    for member in attacked:  # no port listens during the training or after it
        with pytest.raises(OSError):
            socket.create_connection((member.host, member.port), timeout=1)
    for each in held:
        each.close()


def test_a_crowd_of_silent_strangers_delays_the_start_only(monkeypatch):
    monkeypatch.setattr(tcp_gate, "MOST_CALLERS", 4)
    monkeypatch.setattr(tcp_gate, "GREETING_SECONDS", 0.4)
    gate, ring = tcp_gate.Gate("127.0.0.1"), Keyring.of(["a"], 0)
    gate.admit_from_now(ring, [1])
    crowd = [socket.create_connection((gate.host, gate.port)) for _ in range(20)]
    try:
        caller = Keyring.of(["a"], 1)
        deadline = time.monotonic() + 20
        while True:
            try:
                guest = tcp_gate.call(gate.host, gate.port, caller, 0, deadline)
                break
            except OSError:
                assert time.monotonic() < deadline
        assert set(gate.wait(5)) == {1}
        guest.close()
    finally:
        gate.close()
        for each in crowd:
            each.close()
    assert threading.active_count() < 40


@pytest.mark.parametrize(("magic", "reason"), [(MAGIC, "does not know the key"), (b"pvtree-0", "not a worker of this")])
def test_a_worker_does_not_join_a_listener_that_cannot_prove_itself(magic, reason):
    """It may have taken the port of a worker that is gone."""
    own, theirs = socket.socketpair()
    with own, theirs:
        theirs.sendall(CHALLENGE.pack(magic, bytes(32)) + bytes(32))
        with pytest.raises(tcp_greeting.Refused, match=reason):
            tcp_greeting.greet(own, Keyring.of(["texts"], 1), 0, time.monotonic() + 5)


@pytest.mark.parametrize("who", ["plain", "strange"])
def test_without_the_certificate_nobody_takes_part(who, certificates):
    gate = tcp_gate.Gate("127.0.0.1")
    gate.admit_from_now(Keyring.of(["texts"], 0, certificates["ours"]), [1])
    try:
        stranger = Keyring.of(["texts"], 1, certificates["strange"] if who == "strange" else None)
        with pytest.raises((OSError, tcp_greeting.Refused)):
            tcp_gate.call(gate.host, gate.port, stranger, 0, time.monotonic() + 2)
        assert gate.wait(0.1) == {}
    finally:
        gate.close()


def test_certificates_that_cannot_be_read_are_an_error(tmp_path):
    with pytest.raises(InvalidParameterError, match="certificates for TLS cannot be read"):
        tcp.connect(f"file://{tmp_path}/meeting", 0, 2, tls=tcp.TLS(*[str(tmp_path / "none")] * 3))
    assert not list(tmp_path.iterdir())
