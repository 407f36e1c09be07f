"""Seeded changes of bytes, of lines of text and of JSON documents."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from typing import Any

from case import Case

WHOLE = [0, 1, -1, 2, -2, 3, 255, 256, 2**20, 2**31 - 2, 2**31 - 1, 2**31, -(2**31), 2**32 - 1, 2**53 + 1, 2**63 - 1,
         -(2**63), 2**63, 2**64, 10**30]  # fmt: skip
REAL = [0.0, -0.0, 0.5, -1.5, 5e-324, 1e-300, 1e9, 1e30, 1e300, 1.7976931348623157e308]
WORDS = ["nan", "inf", "-inf", "NaN", "Infinity", "1e999", "", "+1", "0x10", "1_0", "--1", "1e", ".", "000000000001",
         "000000000000000000000001000000000000", "\u0661", "\u00b2", "true", "null", "1 2", "1,2", "a=b"]  # fmt: skip
TEXTS = ["", " ", "\0", "\n", "\r", "\t", "\ufeff", '"', "'", "=", ":", ";", ",", "#", "\u2028", "\U0001f333", "%s",
         "{}", "../x", "x" * 5000, "[" * 3000, "qid:1", "-1:", "Tree=", "NA", "\x1b[31m"]  # fmt: skip
BYTES = [
    b"\0",
    b"\xff",
    b"\x80",
    b"\xed\xa0\x80",
    b"\r\n",
    b"\n",
    b"\x1f\x8b",
    b"PAR1",
    b"\xff\xff\xff\xff",
    b"\0" * 5000,
]
NUMBER = re.compile(rb"[-+]?\d+(\.\d*)?(e[-+]?\d+)?", re.IGNORECASE)


def several(case: Case, data: Any, ways: list[Callable[[Case, Any], Any]]) -> Any:
    """One to four changes; none if the case is to stay as it is."""
    if case.is_untouched:
        return data
    for _ in range(int(case.rng.geometric(0.6))):
        data = case.choose(ways)(case, data)
    return data


def number_word(case: Case) -> str:
    return str(case.choose(case.choose([WHOLE, REAL, WORDS])))


# Bytes


def _span(case: Case, n: int, longest: int) -> slice:
    start = int(case.rng.integers(n + 1))
    return slice(start, min(n, start + int(case.rng.integers(1, longest + 1))))


def flip(case: Case, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(int(case.rng.integers(1, 5)) if changed else 0):
        changed[int(case.rng.integers(len(changed)))] ^= 1 << int(case.rng.integers(8))
    return bytes(changed)


def cut_out(case: Case, data: bytes) -> bytes:
    gone = _span(case, len(data), 40)
    return data[: gone.start] + data[gone.stop :]


def cut_off(case: Case, data: bytes) -> bytes:
    return data[: int(case.rng.integers(len(data) + 1))]


def repeat_bytes(case: Case, data: bytes) -> bytes:
    again = _span(case, len(data), 200)
    return data[: again.stop] + data[again] * int(case.rng.integers(1, 20)) + data[again.stop :]


def put_in(case: Case, data: bytes) -> bytes:
    at = int(case.rng.integers(len(data) + 1))
    piece = case.choose(BYTES) if case.rng.random() < 0.5 else case.choose(TEXTS).encode()
    return data[:at] + piece + data[at:]


# Text


def change_number(case: Case, data: bytes) -> bytes:
    found = list(NUMBER.finditer(data))
    if not found:
        return data
    at = case.choose(found)
    return data[: at.start()] + number_word(case).encode() + data[at.end() :]


def change_lines(case: Case, data: bytes) -> bytes:
    """A line goes, is there twice, or changes places."""
    lines = data.split(b"\n")
    a, b = int(case.rng.integers(len(lines))), int(case.rng.integers(len(lines)))
    how = int(case.rng.integers(3))
    if how == 0:
        del lines[a]
    elif how == 1:
        lines.insert(b, lines[a])
    else:
        lines[a], lines[b] = lines[b], lines[a]
    return b"\n".join(lines)


def change_words(case: Case, data: bytes) -> bytes:
    """A line of words that are split by blanks or commas gets one more, one less, or another."""
    lines = data.split(b"\n")
    at = int(case.rng.integers(len(lines)))
    separator = b"," if b"," in lines[at] else b" "
    words = lines[at].split(separator)
    place = int(case.rng.integers(len(words)))
    words[place : place + int(case.rng.integers(2))] = [number_word(case).encode()] * int(case.rng.integers(3))
    lines[at] = separator.join(words)
    return b"\n".join(lines)


OF_BYTES = [flip, cut_out, cut_off, repeat_bytes, put_in]
OF_TEXT = [change_number, change_number, change_lines, change_words, change_words, flip, cut_out, cut_off, put_in]


# JSON


def hostile_value(case: Case) -> Any:
    odd = [None, True, False, [], {}, [[]], {"float": "NaN"}, {"float": 1}, "\ud800", "\udfff\ud800"]
    return copy.deepcopy(case.choose(case.choose([WHOLE, REAL, WORDS, TEXTS, odd])))


def change_document(case: Case, document: Any) -> Any:
    """One place of a document of lists and dicts: changed, taken away, repeated, or put in the place of another."""
    changed = copy.deepcopy(document)
    inside, key = _place(case, changed)
    if inside is None:
        return hostile_value(case)
    value, how = inside[key], int(case.rng.integers(6))
    if how == 0:
        del inside[key]
    elif how == 1 and isinstance(inside, list):
        inside[key:key] = [value] * int(case.rng.integers(1, 4))
    elif how == 2 and isinstance(value, int | float) and not isinstance(value, bool):
        inside[key] = value + case.choose([-1, 1, 2, -value])
    elif how == 3:
        other, place = _place(case, changed)
        inside[key] = copy.deepcopy(other[place]) if other is not None else value
    elif how == 4 and isinstance(value, list):
        inside[key] = value[: int(case.rng.integers(len(value) + 1))]
    else:
        inside[key] = hostile_value(case)
    return changed


def _place(case: Case, document: Any) -> tuple[Any, Any]:
    """(container, key), each level as likely as its neighbours: most of a model's values are deep inside."""
    inside, key, value = None, None, document
    while isinstance(value, list | dict) and value and (inside is None or case.rng.random() < 0.8):
        inside, key = value, case.choose(value if isinstance(value, dict) else range(len(value)))
        value = inside[key]
    return inside, key
