"""One Dask worker's connection to one peer: messages go out on it, and confirmations of long ones come back.

It uses the peer's usual port and Dask's TLS. A line keeps the order of its messages, and its end is noticed at once.
Everything here runs on the worker's event loop.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from distributed import Worker
    from distributed.comm import Comm

OPERATION = "pvtree_line"  # the name of the worker's handler
WELCOME = "welcome"
FAILED, QUESTION = -1, -2  # in place of a step: the sender has failed; is the receiver waiting for somebody too?
CONFIRMED, WAITING, WORKING = range(3)  # answers

SHORT_BYTES = 1 << 16  # data up to this size is copied into the message, and nobody waits for its arrival
# Longer data is sent from where it lies in memory, in pieces. The receiver confirms each piece, which shows progress.
PIECE_BYTES = 1 << 23

CONNECT_SECONDS = 1.0  # how long to retry a refused connection
ANSWER_SECONDS = 0.5  # limit for the answer to QUESTION, which an event loop gives at once


class Line:
    """An outgoing line to one peer."""

    def __init__(self, peer: int) -> None:
        self.peer = peer
        self.comm: Comm | None = None
        self.end = ""  # why nothing more can be sent
        self.end_time = 0.0
        self._news: asyncio.Future[None] | None = None  # done as soon as the line opens, confirms a message or ends
        self._answer: asyncio.Future[int] | None = None

    async def connect(self, address: str, run: str, sender: int, worker: Worker) -> None:
        """Open the line, and read from it until it ends."""
        try:
            while self.comm is None:
                self.comm = await self._open(address, run, sender, worker)
            self._wake()
            while True:
                answer = await self.comm.read()
                if answer == CONFIRMED:  # at most one message awaits confirmation
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
                return None  # the peer is slow or stopped, but not gone: the time limit decides
            raise OSError(f"no connection: {error.__cause__ or error}") from error
        comm.name = "pvtree"
        try:
            await comm.write({"op": OPERATION, "reply": True, "run": run, "sender": sender})
            if await comm.read() != WELCOME:
                raise OSError("it does not know this training, so it was restarted")
        except BaseException:
            comm.abort()
            raise
        return comm

    async def post(self, message: list[Any]) -> None:
        """Return once the message is on its way, or cannot be sent; whether the peer is lost is decided elsewhere."""
        with suppress(OSError):
            assert self.comm is not None
            await self.comm.write(message)

    async def is_waiting(self) -> bool:
        """Whether the peer itself waits in a collective. Asked after the time limit, to blame the right worker."""
        if self.comm is None or self.end:
            return False
        self._answer = asyncio.get_running_loop().create_future()
        await self.post([QUESTION])
        with suppress(TimeoutError):
            return await asyncio.wait_for(self._answer, ANSWER_SECONDS) == WAITING
        return False

    async def send(self, step: int, text: bytes, data: np.ndarray, confirm: bool) -> None:
        """Return once the data is sent, and confirmed if it is long or ``confirm`` is set; or once the line has ended.

        Waits for the line to open.
        """
        from distributed.protocol import to_serialize

        while self.comm is None and not self.end:
            await self._next_news()
        if len(data) <= SHORT_BYTES:
            if not self.end:
                await self._post_one([step, text, len(data), 0, confirm, data.tobytes()], confirm)
            return
        for start in range(0, len(data), PIECE_BYTES):
            if self.end:
                return
            piece = data[start : start + PIECE_BYTES].data
            await self._post_one([step, text, len(data), start, True, to_serialize(piece)], True)

    async def say_farewell(self, failure: tuple[int, str] | None) -> None:
        """Tell the peer of a failure, given as (rank, name of the error), and close the line."""
        if failure is not None:
            while self.comm is None and not self.end:
                await self._next_news()
            if not self.end:
                await self.post([FAILED, *failure])
        if self.comm is not None:
            await close_comm(self.comm)

    async def _post_one(self, message: list[Any], confirm: bool) -> None:
        news = self._next_news()  # before posting: the confirmation may arrive while the post is still being awaited
        await self.post(message)
        if confirm:
            await news

    def _next_news(self) -> asyncio.Future[None]:
        self._news = asyncio.get_running_loop().create_future()
        if self.end:
            self._news.set_result(None)
        return self._news

    def _wake(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)


async def close_comm(comm: Comm) -> None:
    """Close, not abort: the last message must still go out."""
    with suppress(OSError):
        await comm.close()
