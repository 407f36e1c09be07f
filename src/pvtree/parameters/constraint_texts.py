"""Columns and constraints on them written as text, as on command lines and in LightGBM's and XGBoost's scripts."""

from __future__ import annotations

import re
from typing import Any

Column = int | str
_SET = r"\[[^\[\]]*\]"
_SETS = rf"{_SET}(\s*,\s*{_SET})*"


def signs_of(text: str) -> list[int] | dict[Column, int]:
    """Parse ``1,-1,0`` or ``(1,-1,0)`` (all columns) or ``age:1,3:-1`` (some columns); raise ValueError otherwise."""
    inner = text.strip()
    if re.fullmatch(r"\(.*\)|\[.*\]", inner):
        inner = inner[1:-1].strip().removesuffix(",")  # Python writes a tuple of one as (1,)
    parts = [part.rpartition(":") for part in inner.split(",")]
    if all(colon for _, colon, _ in parts):
        return {_column(name): int(sign) for name, _, sign in parts}
    if any(colon for _, colon, _ in parts):
        raise ValueError(f"{text!r} names columns for only some of its signs")
    return [int(sign) for _, _, sign in parts]


def sets_of(text: str) -> list[list[Column]]:
    """Parse ``0,1;2,3``, ``[0,1],[2,3]``, ``[["age", "income"], ["height"]]`` or ``[]``; raise ValueError otherwise."""
    inner = text.strip()
    if re.fullmatch(r"\[\s*\]", inner):
        return []
    if re.fullmatch(rf"\[\s*{_SETS}\s*\]", inner):
        inner = inner[1:-1].strip()
    if "[" not in inner:
        parts = inner.split(";")
    elif re.fullmatch(_SETS, inner):
        parts = [part[1:-1] for part in re.findall(_SET, inner)]
    else:
        raise ValueError(f"{text!r} has brackets that do not form sets")
    sets = [[_column(each) for each in part.split(",") if each.strip()] for part in parts]
    if not all(sets):
        raise ValueError(f"{text!r} has a set without columns")
    return sets


def is_list_of_columns(text: str) -> bool:
    """Whether it is LightGBM's way to list columns: ``0,2,3`` or ``name:age,city``."""
    return re.fullmatch(r"name:.+|\s*\d+\s*(,\s*\d+\s*)*", text) is not None


def listed_columns(columns: Any) -> Any:
    """A column's number, or a text that lists columns, as a list; anything else as it is."""
    if isinstance(columns, int) and not isinstance(columns, bool):
        return [columns]
    if not isinstance(columns, str) or not is_list_of_columns(columns):
        return columns
    if columns.startswith("name:"):
        return [name.strip() for name in columns.removeprefix("name:").split(",")]
    return [int(number) for number in columns.split(",")]


def _column(text: str) -> Column:
    """A column's index, or its name, which may be quoted."""
    text = text.strip()
    if text.isdigit():
        return int(text)
    return text[1:-1] if re.fullmatch(r"\"[^\"]*\"|'[^']*'", text) else text
