"""How constraints on columns are written on the command line."""

from __future__ import annotations

from typing import Any

import click


def column(text: str) -> int | str:
    """A column's index, or its name."""
    text = text.strip()
    return int(text) if text.isdigit() else text


class Signs(click.ParamType):
    """``1,-1,0`` for all columns, or ``age:1,3:-1`` for those with a constraint."""

    name = "signs"

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        if not isinstance(value, str):
            return value
        parts = [part.rpartition(":") for part in value.split(",")]
        try:
            if all(colon for _, colon, _ in parts):
                return {column(name): int(sign) for name, _, sign in parts}
            if not any(colon for _, colon, _ in parts):
                return [int(sign) for _, _, sign in parts]
        except ValueError:
            pass
        self.fail(f"{value!r} is neither like 1,-1,0 nor like age:1,3:-1.", param, ctx)


class ColumnSets(click.ParamType):
    """``0,1;2,3`` or ``age,income;height``."""

    name = "sets"

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        if not isinstance(value, str):
            return value
        sets = [[column(each) for each in part.split(",") if each.strip()] for part in value.split(";")]
        if not all(sets):
            self.fail(f"{value!r} has a set without columns; write sets like 0,1;2,3.", param, ctx)
        return sets
