"""Where workers meet over TCP: a listening socket that lets in those who prove that they belong to the training.

Each caller is heard by a thread of its own, for a few seconds and a hundred bytes, so strangers hold up nobody. The
gate is closed as soon as all workers are in: during the training no port listens.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterable
from contextlib import suppress
from time import monotonic, sleep

from pvtree.comm.tcp_greeting import Keyring, Refused, admit, greet
from pvtree.errors import CommunicationError

GREETING_SECONDS = 5.0  # how long a caller may take to prove who it is
MOST_CALLERS = 128  # at a time; further ones are turned away and call again
CALL_AGAIN_SECONDS = 0.05
# A machine that vanishes without a word is noticed within half a minute, and not only at the time limit.
KEEPALIVE = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 4}


class Gate:
    """A listening socket on one address of this host."""

    def __init__(self, host: str, port: int = 0) -> None:
        try:
            family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            self._socket = socket.create_server(address[:2], family=family, backlog=MOST_CALLERS)
        except OSError as error:
            raise CommunicationError(
                f"This worker cannot listen at {host}, port {port} ({error}); give the address of a network interface "
                "of this host, and a port that is free (0 for any)."
            ) from error
        self.host, self.port = host, self._socket.getsockname()[1]
        self._news = threading.Condition()
        self._guests: dict[int, socket.socket] = {}
        self._callers: set[socket.socket] = set()
        self._expected: frozenset[int] = frozenset()
        self._is_closed = False

    def admit_from_now(self, ring: Keyring, expected: Iterable[int]) -> None:
        """Let in these ranks, each once; a rank that calls again has lost its first connection."""
        self._expected = frozenset(expected)
        threading.Thread(target=self._answer_calls, args=(ring,), name="pvtree-gate", daemon=True).start()

    def wait(self, seconds: float) -> dict[int, socket.socket]:
        """Those who are in after at most so many seconds; sooner if nobody is missing."""
        deadline = monotonic() + seconds
        with self._news:
            while len(self._guests) < len(self._expected) and monotonic() < deadline:
                self._news.wait(max(0.0, deadline - monotonic()))
            return dict(self._guests)

    def close(self) -> None:
        """Stop listening and hang up on everybody who is not in yet."""
        with self._news:
            self._is_closed = True
            callers, self._callers = self._callers, set()
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._socket.close()
        for caller in callers:
            hang_up(caller)

    def _answer_calls(self, ring: Keyring) -> None:
        while True:
            try:
                caller, _ = self._socket.accept()
            except OSError:
                if self._is_closed:
                    return
                sleep(CALL_AGAIN_SECONDS)  # too many open files, perhaps; callers wait
                continue
            with self._news:
                is_welcome = not self._is_closed and len(self._callers) < MOST_CALLERS
                if is_welcome:
                    self._callers.add(caller)
            if is_welcome:
                threading.Thread(target=self._hear, args=(caller, ring), name="pvtree-greeting", daemon=True).start()
            else:
                hang_up(caller)

    def _hear(self, caller: socket.socket, ring: Keyring) -> None:
        guest = caller
        try:
            rank, guest = admit(caller, ring, monotonic() + GREETING_SECONDS)
            with self._news:
                if rank not in self._expected or self._is_closed:
                    raise Refused("it is not expected")
                before = self._guests.get(rank)
                self._guests[rank] = guest
                self._news.notify_all()
            if before is not None:
                hang_up(before)
        except (OSError, Refused, ValueError):  # OSError includes TLS's errors and time limits
            hang_up(guest)
            hang_up(caller)
        finally:
            with self._news:
                self._callers.discard(caller)


def call(host: str, port: int, ring: Keyring, listener: int, deadline: float) -> socket.socket:
    """Connect to the gate of another worker; raise OSError or ``Refused`` if it does not let this one in."""
    limit = min(deadline, monotonic() + GREETING_SECONDS)
    sock = socket.create_connection((host, port), timeout=max(0.01, limit - monotonic()))
    try:
        return greet(sock, ring, listener, limit)
    except BaseException:
        hang_up(sock)
        raise


def keep_alive(sock: socket.socket) -> None:
    """Send small messages at once, and notice the end of the peer's machine."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEPALIVE.items():
        if hasattr(socket, name):  # not on all systems
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def hang_up(sock: socket.socket) -> None:
    with suppress(OSError):
        sock.close()


def own_host(towards: str = "192.0.2.1") -> str:
    """The address of this host from which others are reached; no packet is sent to find out."""
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((towards, 9))
        return str(probe.getsockname()[0])
    with suppress(OSError):
        return socket.gethostbyname(socket.gethostname())
    return "127.0.0.1"


def bindable(host: str) -> str | None:
    """The address under which an engine knows this host, if it is an address of this host."""
    with suppress(OSError), socket.socket() as probe:
        probe.bind((host, 0))
        return host
    return None
