"""Mailboxes of Dask workers: each holds what has arrived for one training, and the lines to the peers.

A handler, registered on every Dask worker, passes incoming lines to the mailbox of their run. The end of a line is
noticed at once, so a peer that is missing and whose line has ended is lost; nobody has to guess. Everything here runs
on the worker's event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np

from pvtree.comm.dask_line import (
    CONFIRMED,
    FAILED,
    OPERATION,
    QUESTION,
    SHORT_BYTES,
    WAITING,
    WELCOME,
    WORKING,
    Line,
    close_comm,
)

if TYPE_CHECKING:
    from distributed import Worker
    from distributed.comm import Comm

LOOK_SECONDS = 0.5  # how often a waiting worker checks whether waiting still makes sense
PATIENCE = 1.0  # seconds for the last words of a peer that cannot be reached and has never been heard from
FAREWELL_SECONDS = 1.0  # limit for sending last words: the others may be gone
MOST_QUESTIONS = 8  # how often somebody who waits itself is waited for again, where messages are passed on


class Interruption(Exception):
    """Why an exchange ended. The communicator turns it into an error for the user."""


class PeerFailed(Interruption):
    def __init__(self, peer: int, kind: str) -> None:
        self.peer, self.kind = peer, kind


class PeerDiverged(Interruption):
    def __init__(self, peer: int, text: bytes) -> None:
        self.peer, self.text = peer, text


class PeersLost(Interruption):
    def __init__(self, peers: list[int], reason: str) -> None:
        self.peers, self.reason = peers, reason


class PeersLate(Interruption):
    def __init__(self, peers: list[int]) -> None:
        self.peers = peers


class Unwanted(Interruption):
    """Nobody waits for the result any longer, or this worker is closing."""


async def open_mailbox(run: str, seconds: float, dask_worker: Worker | None = None) -> str:
    """Called by the client on every worker before the first task begins, so that early messages find a mailbox.

    Returns pvtree's version here: workers of different versions would not understand each other.
    """
    assert dask_worker is not None
    mailbox = Mailbox(run, dask_worker)
    mailboxes_of(dask_worker)[run] = mailbox
    asyncio.get_running_loop().call_later(seconds, mailbox.expire)
    return version("pvtree")


async def drop_mailbox(run: str, dask_worker: Worker | None = None) -> None:
    """Called by the client if the run ends before the task of this worker has begun."""
    assert dask_worker is not None
    mailbox = mailboxes_of(dask_worker).get(run)
    if mailbox is not None:
        mailbox.expire()


def mailboxes_of(worker: Worker) -> dict[str, Mailbox]:
    """This Dask worker's mailboxes by run. Not a global: several workers may live in one process."""
    mailboxes = worker.extensions.get("pvtree")
    if mailboxes is None:
        mailboxes = worker.extensions["pvtree"] = {}

        async def listen(comm: Comm, run: str, sender: int) -> Any:
            from distributed import Status

            mailbox = mailboxes.get(run)
            if mailbox is None:
                await comm.write("unknown")
            else:
                await comm.write(WELCOME)
                await mailbox.listen(comm, sender)
            return Status.dont_reply

        worker.handlers[OPERATION] = listen
    return mailboxes


class Letter:
    """What one peer has sent for one step. It may arrive in pieces."""

    def __init__(self, text: bytes, n_bytes: int) -> None:
        self.text = text
        self.data = np.empty(n_bytes, np.uint8)
        self.n_missing = n_bytes

    def add(self, start: int, piece: Any) -> None:
        part = np.frombuffer(piece, np.uint8)
        self.data[start : start + len(part)] = part
        self.n_missing -= len(part)


class Mailbox:
    """One run on one Dask worker: what has arrived, and the lines to the peers."""

    def __init__(self, run: str, worker: Worker) -> None:
        self.run = run
        self.worker = worker
        self.rank = -1  # until the task of this worker has begun
        self.size = 0
        self._key = ""  # of that task
        self._lines: dict[int, Line] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._incoming: dict[int, Comm] = {}
        self._ended: set[int] = set()  # peers whose incoming lines have ended
        self._failure: tuple[int, str] | None = None  # the first one reported: rank, name of the error
        self._letters: dict[int, dict[int, Letter]] = {}  # by step, then sender; others may be some steps ahead
        self._step = 0
        self._awaited: Sequence[int] = ()
        self._text = b""
        self._last_sign = 0.0
        self._waiter: asyncio.Future[None] | None = None

    def begin(self, rank: int, addresses: Sequence[str], key: str) -> None:
        """The task of this worker has begun: open its lines."""
        self.rank, self.size, self._key = rank, len(addresses), key
        for peer, address in enumerate(addresses):
            if peer != rank:
                line = self._lines[peer] = Line(peer)
                self._tasks.append(asyncio.create_task(line.connect(address, self.run, rank, self.worker)))
                self._tasks[-1].add_done_callback(lambda task: self._wake())

    def expire(self) -> None:
        """Forget the run if its task never came: the client went away before it could send it."""
        if self.rank < 0:
            self.forget()

    def forget(self) -> None:
        mailboxes = mailboxes_of(self.worker)
        if mailboxes.get(self.run) is self:
            del mailboxes[self.run]
        for comm in self._incoming.values():
            comm.abort()
        self._letters.clear()

    # Receiving.

    async def listen(self, comm: Comm, sender: int) -> None:
        """Read what a peer sends until its line ends."""
        self._incoming[sender] = comm
        try:
            while True:
                step, *message = await comm.read()
                if step == FAILED:
                    self._failure = self._failure or tuple(message)
                    self._wake()
                elif step == QUESTION:
                    await comm.write(WAITING if self._waiter is not None else WORKING)
                else:
                    needs_confirming = self._receive(sender, step, *message)
                    del message  # frees its memory before the next one arrives
                    if needs_confirming:
                        await comm.write(CONFIRMED)
        except OSError:
            pass
        finally:
            self._ended.add(sender)
            if self.rank < 0:  # the run ended before it began here
                self.forget()
            self._wake()

    def _receive(self, sender: int, step: int, text: bytes, n_bytes: int, start: int, confirm: bool, data: Any) -> bool:
        here = self._letters.setdefault(step, {})
        if start == 0:
            here[sender] = Letter(text, n_bytes)
        here[sender].add(start, data)
        self._last_sign = monotonic()
        # Waking costs as much as the message itself, so wake only if there is something to do.
        if step == self._step and (text != self._text or not self._missing()):
            self._wake()
        return confirm

    def _missing(self) -> list[int]:
        here = self._letters.get(self._step, {})
        return [peer for peer in self._awaited if peer not in here or here[peer].n_missing]

    # Exchanging.

    async def exchange(
        self,
        text: bytes,
        outgoing: Mapping[int, np.ndarray],
        awaited: Sequence[int],
        timeout: float,
        *,
        confirm: bool = False,
        asks_again: bool = False,
    ) -> dict[int, np.ndarray]:
        """Send ``outgoing[m]`` to worker m and wait for what the awaited ones send.

        With ``confirm``, also wait for all receipts. With ``asks_again``, whoever waits itself is waited for again.
        """
        self._text, self._last_sign, self._awaited = text, monotonic(), awaited
        sending: dict[int, asyncio.Task[None]] = {}
        try:
            for peer, data in outgoing.items():
                line = self._lines[peer]
                if line.comm is not None and len(data) <= SHORT_BYTES and not confirm:
                    await line.post([self._step, text, len(data), 0, False, data.tobytes()])
                else:
                    sending[peer] = asyncio.create_task(line.send(self._step, text, data, confirm))
                    sending[peer].add_done_callback(lambda task: self._wake())
            await self._wait(sending, timeout, MOST_QUESTIONS if asks_again else 0)
        finally:
            self._waiter = None
            for task in sending.values():
                task.cancel()
        letters = self._letters.pop(self._step, {})
        self._step += 1
        return {peer: letters[peer].data for peer in awaited}

    async def _wait(self, sending: dict[int, asyncio.Task[None]], timeout: float, n_questions: int) -> None:
        loop = asyncio.get_running_loop()
        n_unsent = len(sending)
        while True:
            missing = self._missing()
            unsent = [peer for peer, task in sending.items() if not task.done()]
            if len(unsent) < n_unsent:
                n_unsent, self._last_sign = len(unsent), monotonic()
            self._check(missing)
            if not missing and not unsent:
                return
            left = self._last_sign + timeout - monotonic()
            if left <= 0:
                late = sorted({*missing, *unsent})
                waiting = await asyncio.gather(*(self._lines[peer].is_waiting() for peer in late))
                self._check(self._missing())  # one of them may have failed in the meantime
                guilty = [peer for peer, waits in zip(late, waiting, strict=True) if not waits]
                if guilty or n_questions == 0:
                    raise PeersLate(guilty or late)
                n_questions, self._last_sign = n_questions - 1, monotonic()
                continue
            waiter = self._waiter = loop.create_future()
            look = loop.call_later(min(left, LOOK_SECONDS), self._wake)
            await waiter
            look.cancel()

    def _check(self, missing: list[int]) -> None:
        """Raise if it makes no sense to wait or to continue."""
        for peer, letter in self._letters.get(self._step, {}).items():
            if letter.text != self._text:
                raise PeerDiverged(peer, letter.text)
        if self._failure is not None:
            raise PeerFailed(*self._failure)
        silent = [peer for peer in missing if peer in self._ended]
        if silent:
            raise PeersLost(silent, "its connection has ended")
        for peer in missing:
            line = self._lines[peer]
            if line.end and peer not in self._incoming and monotonic() - line.end_time > PATIENCE:
                raise PeersLost([peer], line.end)
        task = self.worker.state.tasks.get(self._key)
        if task is None or task.state == "cancelled":
            raise Unwanted("its client has cancelled it or is gone")
        if self.worker.status.name in ("closing", "closed", "failed", "stopped"):
            raise Unwanted("this Dask worker is closing")

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # Ending.

    async def close(self, failure: str | None = None) -> None:
        """Close all lines, after telling the others of a failure if there is one, and forget the run."""
        # A worker that failed because of a peer reports the peer's failure, so that all workers hear the cause.
        reported = None if failure is None else self._failure or (self.rank, failure)
        farewells = [asyncio.create_task(line.say_farewell(reported)) for line in self._lines.values()]
        farewells += [asyncio.create_task(close_comm(comm)) for comm in self._incoming.values()]
        if farewells:
            _, late = await asyncio.wait(farewells, timeout=FAREWELL_SECONDS)
            for task in (*late, *self._tasks):
                task.cancel()
        for line in self._lines.values():
            if line.comm is not None:
                line.comm.abort()
        self.forget()
