"""Universal Binary JSON, the part that XGBoost's model files use. Nothing in a file is believed before it is there."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from pvtree.model.text_format import refuse

_NUMBERS = {"i": ">i1", "U": ">u1", "I": ">i2", "l": ">i4", "L": ">i8", "d": ">f4", "D": ">f8"}
_CODES = {np.dtype(kind).newbyteorder("="): code for code, kind in _NUMBERS.items()}
_WORDS: dict[str, Any] = {"T": True, "F": False, "Z": None, "N": None}
MAX_DEPTH = 32  # XGBoost's models have about ten levels


def decode(data: bytes) -> Any:
    """The value in ``data``; typed arrays become lists. Anything else than one whole value is refused."""
    reader = _Reader(data)
    value = reader.value(reader.mark(), 0)
    if reader.at != len(data):
        refuse("there is more than one value")
    return value


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, n: int) -> bytes:
        if n < 0 or n > len(self.data) - self.at:
            refuse("it is cut off")
        self.at += n
        return self.data[self.at - n : self.at]

    def mark(self) -> str:
        mark = "N"
        while mark == "N":  # N is padding
            mark = self.take(1).decode("latin-1")
        return mark

    def number(self, mark: str) -> Any:
        kind = np.dtype(_NUMBERS[mark])
        return np.frombuffer(self.take(kind.itemsize), kind)[0].item()

    def length(self) -> int:
        mark = self.mark()
        if mark not in "iUIlL":
            refuse("a length is not an integer")
        length: int = self.number(mark)
        if length < 0:
            refuse("a length is negative")
        return length

    def text(self) -> str:
        try:
            return self.take(self.length()).decode("utf-8")
        except UnicodeDecodeError:
            refuse("a text is not UTF-8")

    def value(self, mark: str, depth: int) -> Any:
        if depth > MAX_DEPTH:
            refuse("it is nested too deeply")
        if mark in _NUMBERS:
            return self.number(mark)
        if mark in _WORDS:
            return _WORDS[mark]
        if mark == "S":
            return self.text()
        if mark == "C":
            return self.take(1).decode("latin-1")
        if mark == "[":
            return self.array(depth)
        if mark == "{":
            return self.object(depth)
        refuse("a value has an unknown type")

    def array(self, depth: int) -> list[Any]:
        mark = self.mark()
        if mark == "$":
            kind = self.take(1).decode("latin-1")
            if self.take(1) != b"#" or kind not in _NUMBERS:
                refuse("an array has an unknown type")
            dtype = np.dtype(_NUMBERS[kind])
            typed: list[Any] = np.frombuffer(self.take(self.length() * dtype.itemsize), dtype).tolist()
            return typed
        if mark == "#":
            n = self.length()
            if n > len(self.data) - self.at:  # each value takes a byte at least
                refuse("it is cut off")
            return [self.value(self.mark(), depth + 1) for _ in range(n)]
        values = []
        while mark != "]":
            values.append(self.value(mark, depth + 1))
            mark = self.mark()
        return values

    def object(self, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if self.data[self.at : self.at + 1] == b"#":
            self.take(1)
            for _ in range(self.length()):
                self.pair(found, depth)
            return found
        while self.data[self.at : self.at + 1] != b"}":
            self.pair(found, depth)
        self.take(1)
        return found

    def pair(self, found: dict[str, Any], depth: int) -> None:
        key = self.text()
        if key in found:
            refuse("a key is repeated")
        found[key] = self.value(self.mark(), depth + 1)


def encode(value: Any) -> bytes:
    """Objects, texts, integers, lists of these, and arrays of numbers, which are written with their type."""
    parts: list[bytes] = []
    _write(value, parts)
    return b"".join(parts)


def _write(value: Any, parts: list[bytes]) -> None:
    if isinstance(value, dict):
        parts.append(b"{")
        for key, each in value.items():
            parts += [_length(len(key.encode())), key.encode()]
            _write(each, parts)
        parts.append(b"}")
    elif isinstance(value, np.ndarray):
        code = _CODES[value.dtype]
        parts += [b"[$", code.encode(), b"#", _length(len(value)), value.astype(_NUMBERS[code]).tobytes()]
    elif isinstance(value, list):
        parts += [b"[#", _length(len(value))]
        for each in value:
            _write(each, parts)
    elif isinstance(value, str):
        parts += [b"S", _length(len(value.encode())), value.encode()]
    elif isinstance(value, bool):
        parts.append(b"T" if value else b"F")
    elif isinstance(value, int):
        parts.append(_length(value))
    else:
        parts.append(b"D" + struct.pack(">d", value))


def _length(number: int) -> bytes:
    return b"L" + struct.pack(">q", number)
