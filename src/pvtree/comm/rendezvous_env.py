"""Workers that meet at the first of them: for launchers that set environment variables, such as torchrun and Slurm.

Worker 0 listens at MASTER_ADDR, port MASTER_PORT. The others call it, prove that they know PVTREE_SECRET, hand in their
text and get the texts of all.
"""

from __future__ import annotations

import errno
import json
import os
import re
import socket
from collections.abc import Mapping
from struct import Struct
from time import monotonic, sleep

from pvtree.comm.rendezvous import check_place, nobody_came
from pvtree.comm.tcp_gate import CALL_AGAIN_SECONDS, GREETING_SECONDS, Gate, call, hang_up
from pvtree.comm.tcp_greeting import TLS, Keyring, Refused, left_until, receive_exactly, send_all
from pvtree.errors import CommunicationError, InvalidParameterError, PeerFailedError

SECRET = "PVTREE_SECRET"
SHORTEST_SECRET = 16  # characters
LENGTH = Struct("<I")
LONGEST_TEXT = 1 << 16  # bytes of one worker's text
FIRST_PORT, N_PORTS = 20_000, 10_000  # from which the port of a Slurm job follows


class Environment:
    """The rendezvous ``env://``."""

    def __init__(
        self,
        rank: int | None = None,
        size: int | None = None,
        tls: TLS | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        given = os.environ if variables is None else variables
        self.rank = number_in(given, "RANK", "SLURM_PROCID") if rank is None else rank
        self.size = number_in(given, "WORLD_SIZE", "SLURM_NTASKS") if size is None else size
        check_place(self.rank, self.size)
        self.host, self.port = find_host(given), find_port(given)
        self.towards: str | None = self.host
        secret = given.get(SECRET, "")
        if len(secret) < SHORTEST_SECRET:
            raise InvalidParameterError(
                f"env:// needs a secret of at least {SHORTEST_SECRET} characters that only the workers know; set "
                f"{SECRET} on all of them, such as export {SECRET}=$(openssl rand -hex 32)."
            )
        self._ring = Keyring.of(["rendezvous", secret, str(self.size)], self.rank, tls)
        self._guests: dict[int, socket.socket] = {}

    def __str__(self) -> str:
        return f"env:// ({self.host}, port {self.port})"

    def allgather(self, text: str, seconds: float) -> list[str]:
        deadline = monotonic() + seconds
        return self._receive_all(text, deadline, seconds) if self.rank == 0 else self._call(text, deadline, seconds)

    def close(self) -> None:
        for guest in self._guests.values():
            hang_up(guest)

    def _receive_all(self, text: str, deadline: float, seconds: float) -> list[str]:
        gate = self._gate()
        try:
            gate.admit_from_now(self._ring, range(1, self.size))
            self._guests = gate.wait(left_until(deadline))
        finally:
            gate.close()
        missing = [rank for rank in range(1, self.size) if rank not in self._guests]
        if missing:
            raise nobody_came(0, self.size, missing, str(self), seconds)
        texts = [text]
        for rank in range(1, self.size):
            try:
                limit = min(deadline, monotonic() + GREETING_SECONDS)
                length = LENGTH.unpack(receive_exactly(self._guests[rank], LENGTH.size, limit))[0]
                if length > LONGEST_TEXT:
                    raise Refused(f"it announced a text of {length} bytes")
                texts.append(receive_exactly(self._guests[rank], length, limit).decode())
            except (OSError, Refused) as error:
                raise self._lost(rank, error) from error
        everybody = json.dumps(texts).encode()
        for rank in range(1, self.size):
            try:
                send_all(self._guests[rank], LENGTH.pack(len(everybody)) + everybody, deadline)
            except OSError as error:
                raise self._lost(rank, error) from error
        return texts

    def _gate(self) -> Gate:
        try:
            return Gate(self.host, self.port)
        except CommunicationError as error:
            if getattr(error.__cause__, "errno", None) != errno.EADDRNOTAVAIL:
                raise
            return Gate("0.0.0.0", self.port)  # MASTER_ADDR is that of a service in front of this host

    def _call(self, text: str, deadline: float, seconds: float) -> list[str]:
        """Worker 0 may start later, so call until it answers."""
        reason = ""
        while monotonic() < deadline:
            try:
                sock = call(self.host, self.port, self._ring, 0, deadline)
                break
            except (OSError, Refused) as refusal:
                reason = str(refusal)
                sleep(CALL_AGAIN_SECONDS)
        else:
            overdue = nobody_came(self.rank, self.size, [0], str(self), seconds)
            overdue.add_note(f"The last answer was: {reason}")
            raise overdue
        try:
            encoded = text.encode()
            send_all(sock, LENGTH.pack(len(encoded)) + encoded, deadline)
            length = LENGTH.unpack(receive_exactly(sock, LENGTH.size, deadline))[0]
            if length > 2 * LONGEST_TEXT * self.size:
                raise Refused(f"it announced {length} bytes")
            return list(json.loads(receive_exactly(sock, length, deadline)))
        except (OSError, Refused) as error:
            raise self._lost(0, error) from error
        finally:
            hang_up(sock)

    def _lost(self, rank: int, reason: object) -> PeerFailedError:
        return PeerFailedError(
            f"Worker {self.rank} lost its connection to worker {rank} of {self.size} at {self} ({reason}); find out "
            "why that process ended, or what is wrong with the network."
        )


def number_in(given: Mapping[str, str], *names: str) -> int:
    for name in names:
        if given.get(name, "").isdigit():
            return int(given[name])
    raise InvalidParameterError(f"env:// needs a number in {' or '.join(names)}; set it on every worker.")


def find_host(given: Mapping[str, str]) -> str:
    if given.get("MASTER_ADDR"):
        return given["MASTER_ADDR"]
    nodes = given.get("SLURM_STEP_NODELIST") or given.get("SLURM_JOB_NODELIST", "")
    if not nodes:
        raise InvalidParameterError("env:// needs MASTER_ADDR, the host of worker 0; set it on every worker.")
    # node[03-07,9],other -> node03
    return re.sub(r"\[([^],-]+)[^]]*\]", r"\1", nodes).partition(",")[0]


def find_port(given: Mapping[str, str]) -> int:
    """The port of worker 0: torchrun's own store may occupy MASTER_PORT, so take the next one then."""
    for name, after in (("PVTREE_PORT", 0), ("MASTER_PORT", given.get("TORCHELASTIC_USE_AGENT_STORE") == "True")):
        if name in given:
            if not given[name].isdigit() or not 0 < int(given[name]) + after < 65_536:
                raise InvalidParameterError(f"{name} is {given[name]!r}; set a port from 1 to 65535.")
            return int(given[name]) + after
    if given.get("SLURM_JOB_ID", "").isdigit():
        return FIRST_PORT + int(given["SLURM_JOB_ID"]) % N_PORTS
    raise InvalidParameterError("env:// needs MASTER_PORT, a free port of worker 0; set it on every worker.")
