"""Constraints on columns as they are written in one text: on command lines, and in LightGBM's and XGBoost's scripts."""

from __future__ import annotations

import re

Column = int | str
_SET = r"\[[^\[\]]*\]"
_SETS = rf"{_SET}(\s*,\s*{_SET})*"


def signs_of(text: str) -> list[int] | dict[Column, int]:
    """``1,-1,0`` or ``(1,-1,0)`` for all columns, or ``age:1,3:-1`` for those with a constraint; else ValueError."""
    inner = text.strip()
    if re.fullmatch(r"\(.*\)|\[.*\]", inner):
        inner = inner[1:-1].strip().removesuffix(",")  # Python writes (1,) for one
    parts = [part.rpartition(":") for part in inner.split(",")]
    if all(colon for _, colon, _ in parts):
        return {_column(name): int(sign) for name, _, sign in parts}
    if any(colon for _, colon, _ in parts):
        raise ValueError(f"{text!r} has names for some signs only")
    return [int(sign) for _, _, sign in parts]


def sets_of(text: str) -> list[list[Column]]:
    """``0,1;2,3`` or ``[0,1],[2,3]`` or ``[["age", "income"], ["height"]]``; else ValueError."""
    inner = text.strip()
    if re.fullmatch(rf"\[\s*{_SETS}\s*\]", inner):
        inner = inner[1:-1].strip()
    if "[" not in inner:
        parts = inner.split(";")
    elif re.fullmatch(_SETS, inner):
        parts = [part[1:-1] for part in re.findall(_SET, inner)]
    else:
        raise ValueError(f"{text!r} has brackets that are no sets")
    sets = [[_column(each) for each in part.split(",") if each.strip()] for part in parts]
    if not all(sets):
        raise ValueError(f"{text!r} has a set without columns")
    return sets


def _column(text: str) -> Column:
    """A column's index, or its name, perhaps in quotes."""
    text = text.strip()
    if text.isdigit():
        return int(text)
    return text[1:-1] if re.fullmatch(r"\"[^\"]*\"|'[^']*'", text) else text
