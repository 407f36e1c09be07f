"""MPI ranks as workers: collectives made of MPI's nonblocking messages between pairs of ranks.

A collective of few workers is one round; many workers pass messages on in a few rounds (steps.py). In a round each
worker sends some others a note (its call, and how many bytes follow) and then the data, and waits for others' notes.
MPI's own collectives are not used, because with messages between pairs:

- A worker that is missing, or makes another call, is known by its number: to those who wait for it, who tell all.
- A waiting rank can sleep without delaying others; MPI's collectives pass data on from rank to rank. ADR 0013 has the
  measurements.
- Bytes that leave a host are those in the ledger, and floats are added in the order of ranks, as on threads.

The ledger leaves out the notes, about 60 bytes per message, and 8 bytes per message that is passed on. It also counts
an all-reduce of at most 1 kB like a ring, although it is gathered, which costs M/2 times the bytes but saves a round.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from struct import Struct
from time import monotonic, sleep
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from pvtree.comm.base import Call, kind_of
from pvtree.comm.mpi_ending import ENDING, OUTPUT_SECONDS, WITNESS, end_all, head_start, host_name, who_failed
from pvtree.comm.mpi_waiting import BrokenRequests, nothing, wait_politely
from pvtree.comm.pairwise import END, LONGEST_TEXT, PairwiseCommunicator, text_of
from pvtree.errors import (
    CommunicationError,
    InvalidTypeError,
    MissingDependencyError,
    WorkerTimeoutError,
)

if TYPE_CHECKING:
    from mpi4py import MPI

__all__ = ["OUTPUT_SECONDS", "MPICommunicator", "join", "load_mpi", "run"]

Result = TypeVar("Result")

# A note: bytes of data, length of the text, whether the sender has failed; then the text; then the data if it is short.
NOTE_HEAD = Struct("<qi?")
SHORT_BYTES = 4096  # data up to this size travels inside the note, in one message
NOTE_TAG, DATA_TAG, QUESTION_TAG, ANSWER_TAG = 1, 2, 3, 4
ROLL_TAG = 31_415  # and the 999 after it, on the user's own communicator; MPI guarantees tags up to 32,767
START = Call("the start", "")
# Longer data travels in pieces: MPI before version 4 counts to 2^31, and each piece that arrives shows progress. Pieces
# are small, because MPICH over TCP may let one direction wait for the other: with pieces of 16 MiB, rounds of 9 MB
# between two hosts at 100 Mbit/s took up to twice as long as the wire needs; with 4 MiB or less they never did.
PIECE_BYTES = 1 << 20
STRAIGHT_BYTES = 1024  # all-reduces up to this size take one round

FAREWELL_SECONDS = 1.0  # limit for telling the others of a failure: they may be gone
ROLL_SECONDS = 0.3  # limit for answers when somebody is missing
MOST_QUESTIONS = 8  # how often somebody who waits itself is waited for again

# Messages that were abandoned. MPI may still read or write their memory, so it must not be freed.
UNFINISHED: list[list[MPI.Request]] = []
KEYS: list[int] = []  # the attribute in which a communicator keeps its number of starts


def run(
    function: Callable[[MPICommunicator], Result], comm: MPI.Intracomm | None = None, *, timeout: float = 600.0
) -> Result:
    """Run ``function(comm)`` on every rank that mpiexec has started, and return this rank's result.

    All ranks must call it. An exception is printed with its rank, and then MPI ends all ranks, so no rank waits for one
    that has failed. To handle exceptions instead, use ``with MPICommunicator() as comm``.

    Parameters
    ----------
    function : callable
        Called with this rank's communicator.
    comm : mpi4py.MPI.Intracomm or None, default=None
        The ranks that take part. None for COMM_WORLD.
    timeout : float, default=600.0
        How many seconds a collective waits without a sign of the other ranks. Greater than 0.
    """
    world = checked_comm(comm)
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(line_buffering=True)  # keeps printed lines if another rank ends this one
    try:
        worker = MPICommunicator(world, timeout=timeout)
        result = function(worker)
        worker.leave()
        worker.close()
    except BaseException as error:
        sleep(head_start(world.rank, error))
        end_all(world, f"{who_failed(world)}:\n" + "".join(traceback.format_exception(error)))
    return result


@contextmanager
def join(comm: MPI.Intracomm, timeout: float) -> Iterator[MPICommunicator]:
    """Connect this rank to the others for one fit. If the fit fails, no rank is left waiting when the job ends."""
    world = checked_comm(comm)
    try:
        with MPICommunicator(world, timeout=timeout) as connected:
            yield connected
    except BaseException as error:
        is_stuck = isinstance(error, WorkerTimeoutError) or isinstance(error.__cause__, BrokenRequests)
        ENDING.remember(world, error, is_stuck)
        raise
    ENDING.all_are_well(world)


class MPICommunicator(PairwiseCommunicator):
    """One rank's connection to the others of an mpi4py communicator. All of its ranks must create one.

    Used as a context manager, it makes all workers end alike: if one block raises an exception, or ends while others
    still wait, all of them raise an error. The given communicator is duplicated, so that other messages on it do not
    mix with these.

    Parameters
    ----------
    comm : mpi4py.MPI.Intracomm or None, default=None
        The ranks that take part. None for COMM_WORLD.
    timeout : float, default=600.0
        How many seconds a collective waits without a sign of the other ranks. Greater than 0.
    """

    straight_bytes = STRAIGHT_BYTES

    def __init__(self, comm: MPI.Intracomm | None = None, *, timeout: float = 600.0) -> None:
        given = checked_comm(comm)
        super().__init__(given.rank, given.size, timeout)
        self._mpi = load_mpi()
        self._notes = np.empty((self.size, NOTE_HEAD.size + LONGEST_TEXT + SHORT_BYTES), np.uint8)
        self._broken: CommunicationError | None = None  # why nothing more can be sent
        self._heard = ""  # of which failure, as others are told
        self._pids: list[int] = []
        self._hosts: list[str] = []
        WITNESS.watch(self._mpi.COMM_WORLD)
        self._meet(given)
        own = np.frombuffer(f"{os.getpid()} {host_name()}".encode(), np.uint8)
        for sent in self._gather_bytes(own, START):  # not in the ledger
            pid, _, host = sent.tobytes().decode().partition(" ")
            self._pids.append(int(pid))
            self._hosts.append(host)
        self.n_on_host = self._hosts.count(self._hosts[self.rank])

    def _meet(self, given: MPI.Intracomm) -> None:
        """Duplicate the communicator, which MPI does once all ranks have arrived; find out which are missing.

        A rank that has waited too long calls the roll, on the given communicator because there is no other yet. A rank
        that is present and receives the call gives up as well, and calls the roll too.
        """
        began, present, tag = monotonic(), set(), roll_tag(given)
        self._line, joined = given.Idup()
        rolls = [given.Irecv([bytearray(1), self._mpi.BYTE], other, tag) for other in self._others]

        def on_done(index: int) -> None:
            if joined == self._mpi.REQUEST_NULL:  # all are here: nobody will call the roll
                for roll in rolls:
                    if index == 0 and roll != self._mpi.REQUEST_NULL:
                        roll.Cancel()
            else:
                present.add(self._others[index - 1])
                raise overdue()

        def overdue() -> WorkerTimeoutError:
            seconds = min(self.timeout, round(monotonic() - began, 1))
            calls = [given.Isend([bytearray(1), self._mpi.BYTE], other, tag) for other in self._others]
            UNFINISHED.append([joined, *rolls, *calls])
            with suppress(TimeoutError, BrokenRequests):
                wait_politely(self._mpi, rolls, ROLL_SECONDS, lambda i: present.add(self._others[i]), TimeoutError)
            return self._overdue([other for other in self._others if other not in present], START, seconds)

        try:
            wait_politely(self._mpi, [joined, *rolls], self.timeout, on_done, overdue)
        except BaseException:
            UNFINISHED.append([joined, *rolls])
            raise

    def _where(self, ranks: Sequence[int]) -> str:
        if not self._pids or not ranks:
            return ""
        return f" ({', '.join(f'process {self._pids[rank]} on {self._hosts[rank]}' for rank in ranks)})"

    def __enter__(self) -> MPICommunicator:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._end_alike(error)

    def fail(self, error: BaseException) -> None:
        """Tell all others, whose current or next collective then raises PeerFailedError. Does not wait for them."""
        self._mark(error)
        if self._line == self._mpi.COMM_NULL:
            return
        # Whoever has heard of another's failure passes that on, so that the first one is named everywhere.
        text = (self._heard or f"{self.rank} {kind_of(error)}").encode()[:LONGEST_TEXT]
        note = [pack_note(text, None, has_failed=True), self._mpi.BYTE]
        requests = [self._line.Isend(note, other, NOTE_TAG) for other in self._others]
        try:
            wait_politely(self._mpi, requests, FAREWELL_SECONDS, lambda done: None, TimeoutError)
        except (TimeoutError, BrokenRequests):
            UNFINISHED.append(requests)
        self._broken = self._broken or self._left_early(END, error)

    def close(self) -> None:
        """Free the duplicate; but not after a failure, when a message still under way could reach its successor."""
        if self._line != self._mpi.COMM_NULL and self._broken is None:
            self._line.Free()
        self._broken = CommunicationError("This communicator is closed; create a new one on all workers.")
        self._line = self._mpi.COMM_NULL

    # How data travels.

    def _exchange(
        self, call: Call, outgoing: Mapping[int, np.ndarray], awaited: Sequence[int]
    ) -> dict[int, np.ndarray]:
        if self._broken is not None:
            raise type(self._broken)(str(self._broken))
        text = text_of(call)
        arrived: dict[int, np.ndarray] = {}
        requests: list[MPI.Request] = []
        peers: list[int] = []  # the peer of each request
        n_questions = 0

        def start(send_or_receive: Callable[..., MPI.Request], data: object, peer: int, tag: int) -> None:
            requests.append(send_or_receive([data, self._mpi.BYTE], peer, tag))
            peers.append(peer)

        def on_done(index: int) -> None:
            """The first requests receive notes. A peer that made the same call is asked for its data."""
            if index >= len(awaited):
                return
            peer = peers[index]
            arrived[peer], is_complete = self._open_note(peer, call, text)
            if not is_complete:
                for piece in pieces(arrived[peer]):
                    start(self._line.Irecv, piece, peer, DATA_TAG)

        def overdue() -> WorkerTimeoutError | None:
            nonlocal n_questions
            late = {peer for peer, each in zip(peers, requests, strict=True) if each != self._mpi.REQUEST_NULL}
            if self._passes_on and n_questions < MOST_QUESTIONS:
                n_questions += 1
                late -= self._who_waits(sorted(late))
            return self._overdue(sorted(late), call) if late else None

        try:
            for peer in awaited:
                start(self._line.Irecv, self._notes[peer], peer, NOTE_TAG)
            for peer, data in outgoing.items():
                start(self._line.Isend, pack_note(text, data), peer, NOTE_TAG)
            for peer, data in outgoing.items():  # sent unasked: waiting for a request would cost another round
                if data.nbytes > SHORT_BYTES:
                    for piece in pieces(data):
                        start(self._line.Isend, piece, peer, DATA_TAG)
            on_idle = self._answer_questions if self._passes_on else nothing
            wait_politely(self._mpi, requests, self.timeout, on_done, overdue, on_idle)
        except BaseException as error:
            give_up(self._mpi, requests[: len(awaited)], requests)
            if isinstance(error, BrokenRequests):
                self._broken = self._lost(sorted({peers[index] for index in error.indices}), call, error)
                raise self._broken from error
            self._broken = error if isinstance(error, CommunicationError) else self._left_early(call, error)
            raise
        return arrived

    def _who_waits(self, late: Sequence[int]) -> set[int]:
        """Which of these wait for somebody themselves, and so are not to blame. Asked when the time is up."""
        waiting: set[int] = set()
        byte = self._mpi.BYTE
        answers = [self._line.Irecv([bytearray(1), byte], peer, ANSWER_TAG) for peer in late]
        questions = [self._line.Isend([bytearray(1), byte], peer, QUESTION_TAG) for peer in late]
        with suppress(TimeoutError):
            wait_politely(
                self._mpi, answers, ROLL_SECONDS, lambda i: waiting.add(late[i]), TimeoutError, self._answer_questions
            )
        UNFINISHED.append([each for each in (*answers, *questions) if each != self._mpi.REQUEST_NULL])
        return waiting

    def _answer_questions(self) -> None:
        """Tell everybody who asks that this worker waits too."""
        status = self._mpi.Status()
        while self._line.Iprobe(self._mpi.ANY_SOURCE, QUESTION_TAG, status):
            room = [bytearray(1), self._mpi.BYTE]
            self._line.Recv(room, status.source, QUESTION_TAG)
            UNFINISHED.append([self._line.Isend(room, status.source, ANSWER_TAG)])

    def _open_note(self, peer: int, call: Call, text: bytes) -> tuple[np.ndarray, bool]:
        """The peer's data and True, or room for it and False. Raise if the peer failed or made another call."""
        note = self._notes[peer]
        n_bytes, n_text, has_failed = NOTE_HEAD.unpack_from(note)
        begin = NOTE_HEAD.size + n_text
        its_text = note[NOTE_HEAD.size : begin].tobytes()
        if has_failed:
            self._heard = its_text.decode()
            origin, _, kind = self._heard.partition(" ")
            raise self._peer_failed(int(origin), kind)
        if its_text != text:
            raise self._diverged(call, peer, its_text.decode())
        if n_bytes > SHORT_BYTES:
            return np.empty(n_bytes, np.uint8), False
        return note[begin : begin + n_bytes].copy(), True  # a copy belongs to the caller and is aligned for any dtype


def roll_tag(given: MPI.Intracomm) -> int:
    """A new tag for each start on the same communicator, so that nobody receives the roll call of an earlier start."""
    if not KEYS:  # plain numbers: MPI may delete them after Python has ended, and must not call Python then
        KEYS.append(load_mpi().Comm.Create_keyval(nopython=True))
    n_before = given.Get_attr(KEYS[0]) or 0
    given.Set_attr(KEYS[0], n_before + 1)
    return ROLL_TAG + n_before % 1000


def give_up(mpi: ModuleType, receives: list[MPI.Request], requests: list[MPI.Request]) -> None:
    """Cancel the receives of notes; keep the other requests, and with them the memory of their messages."""
    for request in receives:
        if request != mpi.REQUEST_NULL:
            request.Cancel()
    UNFINISHED.append(requests)


def pack_note(text: bytes, data: np.ndarray | None, *, has_failed: bool = False) -> bytearray:
    n_bytes = 0 if data is None else data.nbytes
    note = bytearray(NOTE_HEAD.pack(n_bytes, len(text), has_failed) + text)
    if data is not None and n_bytes <= SHORT_BYTES:
        note += data.data
    return note


def pieces(data: np.ndarray) -> list[np.ndarray]:
    return [data[start : start + PIECE_BYTES] for start in range(0, len(data), PIECE_BYTES)]


def checked_comm(comm: MPI.Intracomm | None) -> MPI.Intracomm:
    mpi = load_mpi()
    if comm is None:
        return mpi.COMM_WORLD
    if not isinstance(comm, mpi.Intracomm) or comm == mpi.COMM_NULL:
        raise InvalidTypeError(
            f"comm is {type(comm).__name__} {comm!r}; pass an mpi4py communicator that this rank belongs to, "
            "such as MPI.COMM_WORLD."
        )
    return comm


def load_mpi() -> ModuleType:
    """Import mpi4py late: importing it starts MPI."""
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:  # RuntimeError: mpi4py is installed, but no MPI library
        raise MissingDependencyError(
            f"Training with MPI needs mpi4py and an MPI library ({error}); install both: pip install 'pvtree[mpi]'."
        ) from error
    return MPI
