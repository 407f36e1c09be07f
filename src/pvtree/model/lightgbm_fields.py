"""The lines of LightGBM's text models: names with lists of numbers, none of which is trusted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pvtree.model.text_format import refuse


def read_fields(text: str) -> dict[str, str]:
    """Parse ``name=values`` lines; a word alone is a name without values.

    A repeated name is refused: readers differ in which line they believe, so a file could be checked as one model and
    used as another.
    """
    fields: dict[str, str] = {}
    for line in text.split("\n"):
        name, _, values = line.partition("=")
        if name in fields:
            refuse(f"the line {_shortened(name)} is repeated")
        if line:
            fields[name] = values
    return fields


def tree_fields(number: int, text: str) -> dict[str, str]:
    """Parse the text after ``Tree=``, which must begin with the tree's number."""
    given, _, lines = text.partition("\n")
    if given != str(number):
        refuse("the trees are not numbered 0, 1, 2, and so on")
    return read_fields(lines)


def _shortened(name: str) -> str:
    return repr(name if len(name) <= 40 else f"{name[:40]}...")


def count(fields: Mapping[str, str], name: str, least: int) -> int:
    text = fields.get(name, "")
    # Bounded in length: with leading zeros, int() would have to read a text of any length.
    if not (text.isdecimal() and text.isascii() and len(text) <= 10 and least <= int(text) < 2**31 - 1):
        refuse(f"{name} is missing or out of range")
    return int(text)


def ints(fields: Mapping[str, str], name: str, n: int, low: int, high: int) -> np.ndarray:
    values = _numbers(fields, name, n, int)
    if n and not (low <= min(values) and max(values) <= high):
        refuse(f"a number in {name} is out of range")
    return np.array(values, np.int64)


def counts(fields: Mapping[str, str], name: str, n: int) -> np.ndarray:
    return ints(fields, name, n, 0, 2**31 - 1)


def floats(fields: Mapping[str, str], name: str, n: int) -> np.ndarray:
    array = np.array(_numbers(fields, name, n, float), np.float64)
    if np.isnan(array).any():
        refuse(f"a value in {name} is not a number")
    return array


def _numbers(fields: Mapping[str, str], name: str, n: int, kind: type) -> list[Any]:
    words = fields.get(name, "").split()
    try:
        values = [kind(word) for word in words]
    except ValueError:
        refuse(f"a value in {name} is not a number")
    if len(values) != n:
        refuse(f"the list {name} has a wrong length")
    return values
