"""What carries the messages of Dask workers: it lives on each worker's event loop and uses Dask's own connections.

Every worker opens a line to every peer, on the peer's usual port and with Dask's TLS, through one handler that this
file registers. A line keeps its order and its end is noticed at once, so a peer that is missing and whose line has
ended is lost; nobody has to guess. All functions here run on the event loop, unless they say otherwise.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import version
from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from distributed import Worker
    from distributed.comm import Comm

OPERATION = "pvtree_line"  # as the worker's handler is called
WELCOME = "welcome"
FAILED, QUESTION = -1, -2  # instead of a step: a worker has failed; are you waiting for somebody too?
CONFIRMED, WAITING, WORKING = range(3)  # what comes back

SHORT_BYTES = 1 << 16  # up to here data is copied into the message, and nobody waits for its arrival
# Longer data is sent as it lies in memory, in pieces that the receiver confirms: each of them shows that all is well.
PIECE_BYTES = 1 << 23

CONNECT_SECONDS = 1.0  # how long a connection that is refused is tried again
LOOK_SECONDS = 0.5  # how often a waiting worker looks whether it still makes sense to wait
PATIENCE = 1.0  # seconds for a failing peer's last words, when it cannot be reached but was never heard of
ANSWER_SECONDS = 0.5  # for an answer to the question, which a worker's event loop gives at once
FAREWELL_SECONDS = 1.0  # for last words: the others may be gone


class Interruption(Exception):
    """Why an exchange ended; the communicator finds the words."""


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
    """Nobody waits for the result any more, or this worker is closing."""


async def open_box(run: str, seconds: float, dask_worker: Worker | None = None) -> str:
    """Called by the client on every worker before the first task begins, so that early messages find their place.

    Returns the version, as workers of different versions would not understand each other.
    """
    assert dask_worker is not None
    box = Box(run, dask_worker)
    boxes_of(dask_worker)[run] = box
    asyncio.get_running_loop().call_later(seconds, box.expire)
    return version("pvtree")


async def drop_box(run: str, dask_worker: Worker | None = None) -> None:
    """Called by the client if the run ends before this worker's task has begun."""
    assert dask_worker is not None
    box = boxes_of(dask_worker).get(run)
    if box is not None:
        box.expire()


def boxes_of(worker: Worker) -> dict[str, Box]:
    """The runs that this Dask worker takes part in. Not a global: several workers may live in one process."""
    boxes = worker.extensions.get("pvtree")
    if boxes is None:
        boxes = worker.extensions["pvtree"] = {}

        async def listen(comm: Comm, run: str, sender: int) -> Any:
            from distributed import Status

            box = boxes.get(run)
            if box is None:
                await comm.write("unknown")
            else:
                await comm.write(WELCOME)
                await box.listen(comm, sender)
            return Status.dont_reply

        worker.handlers[OPERATION] = listen
    return boxes


class Letter:
    """What one worker sent for one step; it may come in pieces."""

    def __init__(self, text: bytes, n_bytes: int) -> None:
        self.text = text
        self.data = np.empty(n_bytes, np.uint8)
        self.n_missing = n_bytes

    def add(self, start: int, piece: Any) -> None:
        part = np.frombuffer(piece, np.uint8)
        self.data[start : start + len(part)] = part
        self.n_missing -= len(part)


class Line:
    """The way to one peer: messages go out on it, confirmations of long ones come back."""

    def __init__(self, peer: int) -> None:
        self.peer = peer
        self.comm: Comm | None = None
        self.end = ""  # why nothing can be sent on it any more
        self.end_time = 0.0
        self._turn: asyncio.Future[None] | None = None  # done when there is something new to know
        self._answer: asyncio.Future[int] | None = None

    async def connect(self, address: str, run: str, sender: int, worker: Worker) -> None:
        """Open the line and stay until it ends."""
        try:
            while self.comm is None:
                self.comm = await self._open(address, run, sender, worker)
            self._wake()
            while True:
                answer = await self.comm.read()
                if answer == CONFIRMED:  # there is only one message to be confirmed at a time
                    self._wake()
                elif self._answer is not None and not self._answer.done():
                    self._answer.set_result(answer)
        except Exception as error:
            self.end = " ".join(str(error).split()) or type(error).__name__
        finally:
            self.end = self.end or "closed"
            self.end_time = monotonic()
            self._wake()

    async def _open(self, address: str, run: str, sender: int, worker: Worker) -> Comm | None:
        from distributed.comm import connect

        try:
            comm = await connect(address, timeout=CONNECT_SECONDS, **worker.connection_args)
        except OSError as error:
            if isinstance(error, TimeoutError) or isinstance(error.__cause__, TimeoutError):
                return None  # slow or stopped, but not gone: the time limit decides
            raise OSError(f"no connection: {error.__cause__ or error}") from error
        comm.name = "pvtree"
        try:
            await comm.write({"op": OPERATION, "reply": True, "run": run, "sender": sender})
            if await comm.read() != WELCOME:
                raise OSError("it knows nothing of this training, so it was started anew")
        except BaseException:
            comm.abort()
            raise
        return comm

    async def post(self, message: list[Any]) -> None:
        """Returns when the message is on its way, or cannot be: whether the peer is lost, others find out."""
        with suppress(OSError):
            assert self.comm is not None
            await self.comm.write(message)

    async def is_waiting(self) -> bool:
        """Whether the peer stands in a collective itself. Asked when the time is over, to blame the right one."""
        if self.comm is None or self.end:
            return False
        self._answer = asyncio.get_running_loop().create_future()
        await self.post([QUESTION])
        with suppress(TimeoutError):
            return await asyncio.wait_for(self._answer, ANSWER_SECONDS) == WAITING
        return False

    async def send(self, step: int, text: bytes, data: np.ndarray, confirm: bool) -> None:
        """Returns when the peer has confirmed it if asked to, or the line has ended."""
        from distributed.protocol import to_serialize

        while self.comm is None and not self.end:
            await self._news()
        if len(data) <= SHORT_BYTES:
            if not self.end:
                await self._post_one([step, text, len(data), 0, confirm, data.tobytes()], confirm)
            return
        for start in range(0, len(data), PIECE_BYTES):
            if self.end:
                return
            piece = data[start : start + PIECE_BYTES].data
            await self._post_one([step, text, len(data), start, True, to_serialize(piece)], True)

    async def _post_one(self, message: list[Any], confirm: bool) -> None:
        news = self._news()
        await self.post(message)
        if confirm:
            await news

    def _news(self) -> asyncio.Future[None]:
        self._turn = asyncio.get_running_loop().create_future()
        if self.end:
            self._turn.set_result(None)
        return self._turn

    def _wake(self) -> None:
        if self._turn is not None and not self._turn.done():
            self._turn.set_result(None)


class Box:
    """One run's place on one Dask worker: what has arrived, and the lines to the peers."""

    def __init__(self, run: str, worker: Worker) -> None:
        self.run = run
        self.worker = worker
        self.rank = -1  # until this worker's task has begun
        self.size = 0
        self._key = ""  # of that task
        self._lines: dict[int, Line] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._incoming: dict[int, Comm] = {}
        self._ended: set[int] = set()  # whose incoming lines have ended
        self._failure: tuple[int, str] | None = None  # the first that was heard of: whose, and what it was
        self._letters: dict[int, dict[int, Letter]] = {}  # by step and sender; nobody is more than a step ahead
        self._step = 0
        self._text = b""
        self._last_sign = 0.0
        self._waiter: asyncio.Future[None] | None = None

    def begin(self, rank: int, addresses: Sequence[str], key: str) -> None:
        """This worker's task has begun: open its lines."""
        self.rank, self.size, self._key = rank, len(addresses), key
        for peer, address in enumerate(addresses):
            if peer != rank:
                line = self._lines[peer] = Line(peer)
                self._tasks.append(asyncio.create_task(line.connect(address, self.run, rank, self.worker)))
                self._tasks[-1].add_done_callback(lambda task: self._wake())

    def expire(self) -> None:
        """Nobody came for it: the client has gone before it could send the task."""
        if self.rank < 0:
            self.forget()

    def forget(self) -> None:
        boxes = boxes_of(self.worker)
        if boxes.get(self.run) is self:
            del boxes[self.run]
        for comm in self._incoming.values():
            comm.abort()
        self._letters.clear()

    # Receiving.

    async def listen(self, comm: Comm, sender: int) -> None:
        """Take in what a peer sends until its line ends."""
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
                    del message  # its memory, before the next one comes
                    if needs_confirming:
                        await comm.write(CONFIRMED)
        except OSError:
            pass
        finally:
            self._ended.add(sender)
            if self.rank < 0:  # the run is over before it has begun here
                self.forget()
            self._wake()

    def _receive(self, sender: int, step: int, text: bytes, n_bytes: int, start: int, confirm: bool, data: Any) -> bool:
        here = self._letters.setdefault(step, {})
        if start == 0:
            here[sender] = Letter(text, n_bytes)
        here[sender].add(start, data)
        self._last_sign = monotonic()
        # Waking costs as much as the message itself, so only when there is something to do.
        if step == self._step and (text != self._text or not self._missing()):
            self._wake()
        return confirm

    def _missing(self) -> list[int]:
        here = self._letters.get(self._step, {})
        return [peer for peer in self._lines if peer not in here or here[peer].n_missing]

    # Exchanging.

    async def exchange(
        self, text: bytes, outgoing: Sequence[np.ndarray], timeout: float, *, confirm: bool = False
    ) -> list[np.ndarray]:
        """Send ``outgoing[m]`` to worker m and wait for everybody's. With ``confirm`` also for all to have it."""
        self._text, self._last_sign = text, monotonic()
        sending: dict[int, asyncio.Task[None]] = {}
        try:
            for peer, line in self._lines.items():
                data = outgoing[peer]
                if line.comm is not None and len(data) <= SHORT_BYTES and not confirm:
                    await line.post([self._step, text, len(data), 0, False, data.tobytes()])
                else:
                    sending[peer] = asyncio.create_task(line.send(self._step, text, data, confirm))
                    sending[peer].add_done_callback(lambda task: self._wake())
            await self._wait(sending, timeout)
        finally:
            self._waiter = None
            for task in sending.values():
                task.cancel()
        letters = self._letters.pop(self._step, {})
        self._step += 1
        return [letters[m].data if m != self.rank else outgoing[m].copy() for m in range(self.size)]

    async def _wait(self, sending: dict[int, asyncio.Task[None]], timeout: float) -> None:
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
                self._check(self._missing())  # one of them may have given up meanwhile
                raise PeersLate([peer for peer, waits in zip(late, waiting, strict=True) if not waits] or late)
            waiter = self._waiter = loop.create_future()
            look = loop.call_later(min(left, LOOK_SECONDS), self._wake)
            await waiter
            look.cancel()

    def _check(self, missing: list[int]) -> None:
        """Raise if waiting, or going on, makes no sense."""
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
            raise Unwanted("its client has cancelled it, or is gone")
        if self.worker.status.name in ("closing", "closed", "failed", "stopped"):
            raise Unwanted("this Dask worker is closing")

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # Ending.

    async def close(self, failure: str | None = None) -> None:
        """End all lines; a failure is told to the others first. Afterwards the worker knows nothing of the run."""
        # A failure that follows from another's is told as that one, so that all workers hear of the cause.
        told = None if failure is None else self._failure or (self.rank, failure)
        farewells = [asyncio.create_task(say_farewell(line, told)) for line in self._lines.values()]
        farewells += [asyncio.create_task(close_comm(comm)) for comm in self._incoming.values()]
        if farewells:
            _, late = await asyncio.wait(farewells, timeout=FAREWELL_SECONDS)
            for task in (*late, *self._tasks):
                task.cancel()
        for line in self._lines.values():
            if line.comm is not None:
                line.comm.abort()
        self.forget()


async def say_farewell(line: Line, failure: tuple[int, str] | None) -> None:
    if failure is not None:
        while line.comm is None and not line.end:
            await line._news()
        if not line.end:
            await line.post([FAILED, *failure])
    if line.comm is not None:
        await close_comm(line.comm)


async def close_comm(comm: Comm) -> None:
    """Not abort: what was written last must still go out."""
    with suppress(OSError):
        await comm.close()
