"""Workers over plain TCP: for engines that start processes but carry no messages between them.

``connect`` meets the others at a rendezvous (rendezvous.py), which gives all of them the addresses and the key. Each
worker then has one connection to every other one (tcp_gate, tcp_greeting, tcp_line), plain or with TLS. An exchange
waits for all of them at once, in the thread that trains: there is no other thread and no sleep, and the end of a peer's
process is noticed at once.
"""

from __future__ import annotations

import json
import os
import selectors
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from secrets import token_hex
from time import monotonic, sleep
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np

from pvtree.comm.base import Call, kind_of
from pvtree.comm.pairwise import END, LONGEST_TEXT, PairwiseCommunicator, text_of
from pvtree.comm.rendezvous import Engine, Rendezvous, open_rendezvous
from pvtree.comm.tcp_gate import CALL_AGAIN_SECONDS, Gate, call, hang_up, keep_alive, own_host
from pvtree.comm.tcp_greeting import TLS, Keyring, Refused
from pvtree.comm.tcp_line import ANSWER, FAILED, GOODBYE, QUESTION, Line
from pvtree.errors import CommunicationError, InvalidParameterError

__all__ = ["TLS", "Engine", "Rendezvous", "TCPCommunicator", "connect"]

START = Call("the start", "")  # the first collective, which all workers must join
START_SECONDS = 10.0  # the least time limit of the start, and the most for workers that have met to connect
MEET_SECONDS = 30.0
LOOK_SECONDS = 0.2  # how often a worker that waits for callers checks that those who are in are still there
FAREWELL_SECONDS = 1.0  # limit for last words: the others may be gone
ROLL_SECONDS = 0.3  # limit for answers when somebody is missing
READ_WRITE = selectors.EVENT_READ | selectors.EVENT_WRITE
MOST_QUESTIONS = 8  # how often somebody who waits itself is waited for again


class Member(NamedTuple):
    """What each worker tells the others at the rendezvous."""

    host: str
    port: int
    pid: int
    machine: str  # the name of the host, for messages and to count who shares it
    token: str  # makes the key secret and new, and this process another than any that has or had its rank


def connect(
    rendezvous: str | Rendezvous,
    rank: int | None = None,
    size: int | None = None,
    *,
    host: str | None = None,
    port: int = 0,
    tls: TLS | None = None,
    timeout: float = 600.0,
) -> TCPCommunicator:
    """Connect this process to the other workers; all of them must call it.

    Use the result as a context manager, so that all workers end alike, and pass it to ``fit`` as ``comm``. After a fit
    that has failed, connect again.

    Parameters
    ----------
    rendezvous : str or Rendezvous
        Where the workers meet: ``"file:///shared/folder"``, a folder that all of them see and only their user may write
        to; ``"env://"``, the environment variables MASTER_ADDR, MASTER_PORT, RANK, WORLD_SIZE (or Slurm's) and
        PVTREE_SECRET; or an ``Engine(rank, size, allgather)``.
    rank, size : int or None, default=None
        This worker, counted from 0, and how many there are. Needed for folders.
    host : str or None, default=None
        The address of this host at which the others reach it. None finds it out.
    port : int, default=0
        The port to listen at until all are connected. 0 for any that is free.
    tls : TLS or None, default=None
        Certificates, to encrypt all that is sent. None sends plainly: the others are known, but whoever reads the
        network reads the messages.
    timeout : float, default=600.0
        How many seconds a worker waits without a sign of the others, at the rendezvous and later. Greater than 0.
    """
    if tls is not None:
        tls.context(listens=True)  # raises before anybody waits
    place = open_rendezvous(rendezvous, rank, size, tls)
    for name, given in (("rank", rank), ("size", size)):
        if given is not None and given != getattr(place, name):
            raise InvalidParameterError(
                f"{name} is {given}, but {getattr(place, name)} at the rendezvous; leave it out."
            )
    comm = TCPCommunicator(place.rank, place.size, timeout)
    try:
        comm._meet(place, host or own_host(*filter(None, [place.towards])), port, tls)
    except BaseException as error:
        comm.fail(error)
        raise
    finally:
        place.close()
    return comm


class TCPCommunicator(PairwiseCommunicator):
    """One worker's connections to all others. ``connect`` makes it."""

    def __init__(self, rank: int, size: int, timeout: float) -> None:
        super().__init__(rank, size, timeout)
        self.members: list[Member] = []
        self._lines: dict[int, Line] = {}
        self._selector = selectors.DefaultSelector()
        self._broken: CommunicationError | None = None  # why nothing more can be sent
        self._heard: tuple[int, str] | None = None  # of which failure, as others are told

    def __enter__(self) -> TCPCommunicator:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._end_alike(error)

    @contextmanager
    def telling_failures(self) -> Iterator[None]:
        """Tell the others of an exception inside, so that nobody waits for this worker."""
        try:
            yield
        except BaseException as error:
            self.fail(error)
            raise

    def fail(self, error: BaseException) -> None:
        """Tell all others, whose current or next collective then raises PeerFailedError. Does not wait for them."""
        if getattr(error, "rank", None) is None:
            self._mark(error)
        # Whoever has heard of another's failure passes that on, so that the first one is named everywhere.
        rank, name = self._heard or (self.rank, kind_of(error))
        for line in self._lines.values():
            line.drop_letters()
            line.say(FAILED, f"{rank} {name}".encode()[:LONGEST_TEXT])
        self._hang_up()
        self._broken = self._broken or self._left_early(END, error)

    def close(self) -> None:
        """End all connections."""
        self._hang_up()
        self._broken = self._broken or CommunicationError(
            "This communicator is closed; create a new one on all workers."
        )

    def _hang_up(self) -> None:
        """Send what is left, and read the others' last words: bytes that are not read would destroy sent ones."""
        deadline = monotonic() + FAREWELL_SECONDS
        lines, self._lines = self._lines, {}
        for line in lines.values():
            line.say(GOODBYE)
        while monotonic() < deadline and any(
            line.is_sending or not (line.has_left or line.end) for line in lines.values()
        ):
            self._move(lines, deadline - monotonic())
        for line in lines.values():
            hang_up(line.socket)
        self._selector.close()

    # Meeting.

    def _meet(self, place: Rendezvous, host: str, port: int, tls: TLS | None) -> None:
        limit = max(self.timeout, START_SECONDS)
        gate = Gate(host, port)
        try:
            own = Member(gate.host, gate.port, os.getpid(), socket.gethostname(), token_hex(32))
            texts = place.allgather(json.dumps(own), limit)
            self.members = read_members(texts, own, place)
            self.n_on_host = [each.machine for each in self.members].count(own.machine)
            ring = Keyring.of(texts, self.rank, tls)
            gate.admit_from_now(ring, range(self.rank + 1, self.size))
            seconds = min(limit, MEET_SECONDS)
            deadline = monotonic() + seconds
            for peer in range(self.rank):
                self._add_line(peer, self._call(peer, ring, deadline))
            self._await_callers(gate, deadline, seconds)
        finally:
            gate.close()
        self._with_all(START, [np.empty(0, np.uint8)] * self.size)

    def _call(self, peer: int, ring: Keyring, deadline: float) -> socket.socket:
        """Connect to a worker that listens since before the rendezvous; it answers unless its process has ended."""
        member = self.members[peer]
        while True:
            try:
                return call(member.host, member.port, ring, peer, deadline)
            except (ConnectionRefusedError, Refused) as error:
                raise self._lost([peer], START, error) from error
            except OSError:  # it is slow or stopped, or turns callers away because there are too many
                if monotonic() > deadline:
                    raise self._overdue([peer], START, MEET_SECONDS) from None
                sleep(CALL_AGAIN_SECONDS)

    def _await_callers(self, gate: Gate, deadline: float, seconds: float) -> None:
        while True:
            for peer, sock in gate.wait(LOOK_SECONDS).items():
                if peer not in self._lines:
                    self._add_line(peer, sock)
            missing = [peer for peer in self._others if peer not in self._lines]
            if not missing:
                return
            self._move(self._lines, 0)
            self._check_losses(START, list(self._lines))
            if monotonic() > deadline:
                raise self._overdue(missing, START, seconds)

    def _add_line(self, peer: int, sock: socket.socket) -> None:
        keep_alive(sock)
        line = self._lines[peer] = Line(sock)
        line.receive()  # TLS may have read more than the greeting
        self._selector.register(sock, selectors.EVENT_READ, line)
        line.watched = selectors.EVENT_READ

    def _where(self, ranks: Sequence[int]) -> str:
        if not self.members or not ranks:
            return ""
        chosen = [self.members[rank] for rank in ranks]
        return f" ({', '.join(f'process {each.pid} on {each.machine}, {each.host}' for each in chosen)})"

    # How data travels.

    def _exchange(
        self, call: Call, outgoing: Mapping[int, np.ndarray], awaited: Sequence[int]
    ) -> dict[int, np.ndarray]:
        if self._broken is not None:
            raise type(self._broken)(str(self._broken))
        text = text_of(call)
        try:
            for peer, data in outgoing.items():
                self._lines[peer].post(text, data)
            self._wait(call, text, outgoing, awaited)
        except BaseException as error:
            self._broken = error if isinstance(error, CommunicationError) else self._left_early(call, error)
            raise
        return {peer: self._lines[peer].letters.popleft().data for peer in awaited}

    def _wait(self, call: Call, text: bytes, outgoing: Mapping[int, np.ndarray], awaited: Sequence[int]) -> None:
        """Until all is sent, and a whole letter of each awaited worker is here."""
        limit = max(self.timeout, START_SECONDS) if call == START else self.timeout
        n_moved, last_sign, n_questions = -1, monotonic(), 0
        while True:
            missing = [peer for peer in awaited if not self._has_letter(peer)]
            unsent = [peer for peer in outgoing if self._lines[peer].is_sending]
            self._check_texts(call, text, awaited)
            if not missing and not unsent:
                return  # even if somebody has failed since: that belongs to the next exchange
            self._check_losses(call, awaited)
            moved = sum(line.n_moved for line in self._lines.values())
            if moved != n_moved:
                n_moved, last_sign = moved, monotonic()
            left = last_sign + limit - monotonic()
            if left <= 0:
                late = sorted({*missing, *unsent})
                if self._passes_on and n_questions < MOST_QUESTIONS:
                    n_questions += 1
                    late = self._who_is_to_blame(late)
                    self._check_losses(call, awaited)  # one of them may have failed in the meantime
                if late:
                    raise self._overdue(late, call, limit if call == START else None)
                last_sign = monotonic()
                continue
            self._move(self._lines, left)
            self._answer_questions()

    def _has_letter(self, peer: int) -> bool:
        letters = self._lines[peer].letters
        return bool(letters) and letters[0].is_whole

    def _check_texts(self, call: Call, text: bytes, awaited: Sequence[int]) -> None:
        """Raise if an awaited worker has made another call."""
        for peer in awaited:
            letters = self._lines[peer].letters
            if letters and letters[0].text != text:
                raise self._diverged(call, peer, letters[0].text.decode(errors="replace"))

    def _check_losses(self, call: Call, awaited: Sequence[int]) -> None:
        """Raise if it makes no sense to wait any longer."""
        gone = [peer for peer in awaited if self._lines[peer].end and not self._has_letter(peer)]
        silent = [peer for peer in gone if self._lines[peer].failure is None]
        if silent:
            raise self._lost(silent, call, self._lines[silent[0]].end)
        for line in self._lines.values():
            if line.failure is not None:
                self._heard = line.failure
                raise self._peer_failed(*line.failure)

    def _move(self, lines: Mapping[int, Line], seconds: float) -> None:
        """Wait until something arrives or can be sent, but not longer, and move what there is."""
        for line in lines.values():
            wanted = 0 if line.end else READ_WRITE if line.is_sending else selectors.EVENT_READ
            if wanted == line.watched:
                continue
            if wanted:
                self._selector.modify(line.socket, wanted, line)
            else:
                self._selector.unregister(line.socket)
            line.watched = wanted
        for key, events in self._selector.select(max(0.0, seconds)):
            if events & selectors.EVENT_WRITE:
                key.data.send()
            if events & selectors.EVENT_READ:
                key.data.receive()

    def _answer_questions(self) -> None:
        """Tell everybody who asks that this worker waits too."""
        for line in self._lines.values():
            if line.is_asked:
                line.is_asked = False
                line.say(ANSWER)

    def _who_is_to_blame(self, late: Sequence[int]) -> list[int]:
        """Those who do not wait for somebody themselves. Asked when the time is up."""
        for peer in late:
            self._lines[peer].has_answered = False
            self._lines[peer].say(QUESTION)
        deadline = monotonic() + ROLL_SECONDS
        while monotonic() < deadline and not all(self._lines[peer].has_answered for peer in late):
            self._move(self._lines, deadline - monotonic())
            self._answer_questions()
        return [peer for peer in late if not self._lines[peer].has_answered]


def read_members(texts: Sequence[str], own: Member, place: Any) -> list[Member]:
    """What the rendezvous has brought, if it makes sense."""
    try:
        members = [Member(*json.loads(text)) for text in texts]
    except (TypeError, ValueError) as error:
        raise CommunicationError(
            f"The rendezvous brought what is not from a worker of this version of pvtree ({error}); install the same "
            "version everywhere."
        ) from error
    if len(members) != place.size or members[place.rank] != own:
        raise CommunicationError(
            f"The rendezvous brought the texts of {len(members)} workers, and this one is not number {place.rank} of "
            f"{place.size} among them; give every worker a rank of its own, and the same size."
        )
    return members
