"""How two workers prove to each other that they belong to the same training, before either reads the other's data.

The listener sends a challenge; the connector answers with its rank, a challenge of its own and a proof; the listener
answers with its proof. A proof is an HMAC of both challenges and both ranks under the key that the rendezvous gave to
all. A greeting that somebody has recorded is worthless, because the listener never sends the same challenge twice.
"""

from __future__ import annotations

import hmac
import socket
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from secrets import token_bytes
from struct import Struct
from time import monotonic

from pvtree.errors import InvalidParameterError

MAGIC = b"pvtree-1"  # changes with the protocol
NONCE_BYTES = 32
CHALLENGE = Struct(f"<{len(MAGIC)}s{NONCE_BYTES}s")
GREETING = Struct(f"<{len(MAGIC)}sI{NONCE_BYTES}s{sha256().digest_size}s")
ROLES = Struct("<8sII")
CONNECTS, LISTENS = b"connects", b"listens "


class Refused(Exception):
    """The other end did not prove that it belongs to this training."""


@dataclass(frozen=True)
class TLS:
    """Certificates for encrypted connections, the same authority on all workers. Both ends must show one.

    Parameters
    ----------
    certificate : str
        The file of this worker's certificate (PEM).
    key : str
        The file of its private key.
    authority : str
        The file of the authority's certificate, which has signed those of all workers. Names of hosts are not compared.
    """

    certificate: str
    key: str
    authority: str

    def context(self, *, listens: bool) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if listens else ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.check_hostname = False  # workers are known by the key of the rendezvous, and addresses change
        context.verify_mode = ssl.CERT_REQUIRED
        try:
            context.load_verify_locations(self.authority)
            context.load_cert_chain(self.certificate, self.key)
        except OSError as error:
            raise InvalidParameterError(
                f"The certificates for TLS cannot be read ({error}); give the PEM files of a certificate, of its key "
                "and of the authority that signed it."
            ) from error
        return context


@dataclass(frozen=True)
class Keyring:
    """What a worker needs to prove who it is."""

    key: bytes
    rank: int
    tls: TLS | None = None

    @classmethod
    def of(cls, texts: Sequence[str], rank: int, tls: TLS | None = None) -> Keyring:
        """The key that follows from what all workers gave to the rendezvous: only those who saw it know it."""
        digest = sha256(MAGIC)
        for text in texts:
            encoded = text.encode()
            digest.update(len(encoded).to_bytes(8, "little") + encoded)
        return cls(digest.digest(), rank, tls)

    def proof(self, role: bytes, connector: int, listener: int, challenge: bytes, answer: bytes) -> bytes:
        return hmac.digest(self.key, ROLES.pack(role, connector, listener) + challenge + answer, "sha256")


def greet(sock: socket.socket, ring: Keyring, listener: int, deadline: float) -> socket.socket:
    """The connector's part: return the socket, encrypted if there are certificates, or raise ``Refused``."""
    if ring.tls is not None:
        sock.settimeout(left_until(deadline))
        sock = ring.tls.context(listens=False).wrap_socket(sock)
    magic, challenge = CHALLENGE.unpack(receive_exactly(sock, CHALLENGE.size, deadline))
    if magic != MAGIC:
        raise Refused("what listens there is not a worker of this version of pvtree")
    answer = token_bytes(NONCE_BYTES)
    proof = ring.proof(CONNECTS, ring.rank, listener, challenge, answer)
    send_all(sock, GREETING.pack(MAGIC, ring.rank, answer, proof), deadline)
    theirs = receive_exactly(sock, sha256().digest_size, deadline)
    if not hmac.compare_digest(theirs, ring.proof(LISTENS, ring.rank, listener, challenge, answer)):
        raise Refused("what listens there does not know the key of this training")
    return sock


def admit(sock: socket.socket, ring: Keyring, deadline: float) -> tuple[int, socket.socket]:
    """The listener's part: return the connector's rank and the socket, or raise ``Refused``."""
    if ring.tls is not None:
        sock.settimeout(left_until(deadline))
        sock = ring.tls.context(listens=True).wrap_socket(sock, server_side=True)
    challenge = token_bytes(NONCE_BYTES)
    send_all(sock, CHALLENGE.pack(MAGIC, challenge), deadline)
    magic, rank, answer, proof = GREETING.unpack(receive_exactly(sock, GREETING.size, deadline))
    expected = ring.proof(CONNECTS, rank, ring.rank, challenge, answer)
    if not hmac.compare_digest(proof, expected) or magic != MAGIC:
        raise Refused("it does not know the key of this training")
    send_all(sock, ring.proof(LISTENS, rank, ring.rank, challenge, answer), deadline)
    return rank, sock


# Whole messages of known size, within a time limit for all of their bytes together.


def receive_exactly(sock: socket.socket, n_bytes: int, deadline: float) -> bytes:
    received = bytearray()
    while len(received) < n_bytes:
        sock.settimeout(left_until(deadline))
        part = sock.recv(n_bytes - len(received))
        if not part:
            raise ConnectionResetError("it ended the connection")
        received += part
    return bytes(received)


def send_all(sock: socket.socket, data: bytes, deadline: float) -> None:
    sock.settimeout(left_until(deadline))
    sock.sendall(data)


def left_until(deadline: float) -> float:
    left = deadline - monotonic()
    if left <= 0:
        raise TimeoutError("it did not answer in time")
    return left
