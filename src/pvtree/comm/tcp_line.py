"""One worker's connection to one peer over TCP: letters in both directions, cut into frames of bounded size.

A frame is a head (its kind, and how many bytes follow) and at most a piece of data. Failures and questions fit between
two frames of a long letter. Sockets do not block: whoever waits for several lines waits for all of them at once.
"""

from __future__ import annotations

import socket
import ssl
from collections import deque
from struct import Struct

import numpy as np

from pvtree.comm.pairwise import LONGEST_TEXT

LETTER, PIECE, FAILED, QUESTION, ANSWER, GOODBYE = range(1, 7)  # kinds of frames
FRAME_HEAD = Struct("<BI")  # kind, bytes that follow
LETTER_HEAD = Struct("<QH")  # bytes of data, bytes of text; then the text; then the data if it is short
SHORT_BYTES = 1 << 15  # data up to this size travels in the letter's first frame
PIECE_BYTES = 1 << 20  # longer data travels in frames of this size
LONGEST_LETTER = 1 << 40  # bytes: no worker has so much to say
# A frame with a text must fit into the room for frames; a piece of data goes where it belongs.
LONGEST_FRAME = LETTER_HEAD.size + LONGEST_TEXT + SHORT_BYTES
ROOM_BYTES = 2 * (FRAME_HEAD.size + LONGEST_FRAME)
WOULD_BLOCK = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class Garbled(Exception):
    """The peer sent what is no frame: another version of pvtree, or a broken machine."""


class Letter:
    """What the peer has sent for one exchange. It may arrive in pieces."""

    def __init__(self, text: bytes, n_bytes: int) -> None:
        self.text = text
        self.data = np.empty(n_bytes, np.uint8)
        self.n_arrived = 0

    @property
    def room(self) -> memoryview:
        """Where the next byte belongs."""
        return self.data.data[self.n_arrived :]

    @property
    def is_whole(self) -> bool:
        return self.n_arrived == len(self.data)


class Line:
    """A connection to one peer that has proved who it is."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self.socket = sock
        self.end = ""  # why nothing more arrives
        self.failure: tuple[int, str] | None = None  # that the peer has reported: rank, name of the error
        self.has_answered = False  # that it waits too
        self.is_asked = False  # whether this worker waits too
        self.has_left = False  # the peer has said its last word
        self.watched = 0  # the events for which a selector watches it
        self.letters: deque[Letter] = deque()  # in the order of exchanges; the last one may still be arriving
        self.n_moved = 0  # bytes of letters, in both directions: a sign of progress
        self._frames: deque[list[memoryview]] = deque()  # to be sent, each in parts
        self._has_begun = False  # whether some of the first frame may be sent
        self._is_deaf = False  # the peer is gone: nothing can be sent
        self._room = memoryview(bytearray(ROOM_BYTES))
        self._n_held = 0  # bytes in the room
        self._missing: memoryview | None = None  # where the rest of a piece belongs

    # Sending.

    @property
    def is_sending(self) -> bool:
        return bool(self._frames)

    def post(self, text: bytes, data: np.ndarray) -> None:
        """Send a letter, or begin to: its data must not change before ``is_sending`` is false."""
        is_short = len(data) <= SHORT_BYTES
        first = LETTER_HEAD.pack(len(data), len(text)) + text + (data.tobytes() if is_short else b"")
        self._frames.append([memoryview(FRAME_HEAD.pack(LETTER, len(first)) + first)])
        for start in range(0, 0 if is_short else len(data), PIECE_BYTES):
            piece = data.data[start : start + PIECE_BYTES]
            self._frames.append([memoryview(FRAME_HEAD.pack(PIECE, len(piece))), piece])
        self.send()

    def say(self, kind: int, text: bytes = b"") -> None:
        """Send a failure, a question or an answer after what is under way."""
        self._frames.append([memoryview(FRAME_HEAD.pack(kind, len(text)) + text)])
        self.send()

    def drop_letters(self) -> None:
        """Send nothing more of what is queued, but for the end of a frame that has begun."""
        while len(self._frames) > self._has_begun:
            self._frames.pop()

    def send(self) -> None:
        """Send what the network takes now."""
        try:
            while self._frames and not self._is_deaf:
                parts = self._frames[0]
                self._has_begun = True  # even if nothing can be sent now: TLS must be given the same bytes again
                n_sent = self.socket.send(parts[0])
                self.n_moved += n_sent
                if n_sent < len(parts[0]):
                    parts[0] = parts[0][n_sent:]
                else:
                    del parts[0]
                if not parts:
                    self._frames.popleft()
                    self._has_begun = False
        except WOULD_BLOCK:
            pass  # the rest is sent when the selector says so
        except OSError:
            self._is_deaf = True  # what it has said before is still to be read, and then the end
        if self._is_deaf or self.end:
            self._frames.clear()

    # Receiving.

    def receive(self) -> None:
        """Read all that has arrived."""
        is_tls = isinstance(self.socket, ssl.SSLSocket)
        try:
            while not self.end:
                room = self._room[self._n_held :] if self._missing is None else self._missing
                n_read = self.socket.recv_into(room)
                if n_read == 0:
                    self.end = "its connection has ended"
                elif self._missing is None:
                    self._n_held += n_read
                    self._open_frames()
                else:
                    self._add(n_read)
                if n_read < len(room) and not is_tls:  # nothing is left; TLS may hold more than the socket shows
                    return
        except WOULD_BLOCK:
            pass
        except OSError as error:
            self.end = f"its connection has ended: {error.strerror or error}"
        except Garbled as error:
            self.end = str(error)

    def _open_frames(self) -> None:
        start = 0
        while self._n_held - start >= FRAME_HEAD.size:
            kind, length = FRAME_HEAD.unpack_from(self._room, start)
            begin = start + FRAME_HEAD.size
            if kind == PIECE:
                start = self._begin_piece(begin, length)
                continue
            if length > LONGEST_FRAME:
                raise Garbled(f"it announced a frame of {length} bytes")
            if begin + length > self._n_held:
                break
            self._take(kind, self._room[begin : begin + length])
            start = begin + length
        self._room[: self._n_held - start] = bytes(self._room[start : self._n_held])
        self._n_held -= start

    def _begin_piece(self, begin: int, length: int) -> int:
        """Move what is here of a piece to its letter; return where the next frame starts in the room."""
        if not self.letters or not 0 < length <= min(PIECE_BYTES, len(self.letters[-1].room)):
            raise Garbled(f"it sent {length} bytes of data that belong to no letter")
        room = self.letters[-1].room[:length]
        n_here = min(length, self._n_held - begin)
        self._missing = room
        room[:n_here] = self._room[begin : begin + n_here]
        self._add(n_here)
        return begin + n_here

    def _add(self, n_bytes: int) -> None:
        assert self._missing is not None
        self.letters[-1].n_arrived += n_bytes
        self.n_moved += n_bytes
        self._missing = self._missing[n_bytes:] if n_bytes < len(self._missing) else None

    def _take(self, kind: int, payload: memoryview) -> None:
        if kind == LETTER and len(payload) >= LETTER_HEAD.size:
            n_bytes, n_text = LETTER_HEAD.unpack_from(payload)
            data = payload[LETTER_HEAD.size + n_text :]
            expected = n_bytes if n_bytes <= SHORT_BYTES else 0
            if n_bytes > LONGEST_LETTER or len(data) != expected or (self.letters and not self.letters[-1].is_whole):
                raise Garbled(f"it announced a letter of {n_bytes} bytes")
            letter = Letter(bytes(payload[LETTER_HEAD.size : LETTER_HEAD.size + n_text]), n_bytes)
            letter.data[: len(data)] = data
            letter.n_arrived = len(data)
            self.letters.append(letter)
            self.n_moved += 1 + len(data)
        elif kind == FAILED:
            rank, _, name = bytes(payload).decode(errors="replace").partition(" ")
            self.failure = (int(rank) if rank.isdigit() else -1, name)
        elif kind == QUESTION:
            self.is_asked = True
        elif kind == ANSWER:
            self.has_answered = True
        elif kind == GOODBYE:
            self.has_left = True
        else:
            raise Garbled(f"it sent a frame of the unknown kind {kind}")
