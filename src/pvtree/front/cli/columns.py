"""Option types for constraints on columns."""

from __future__ import annotations

from typing import Any

import click

from pvtree.parameters.constraint_texts import sets_of, signs_of


class Signs(click.ParamType):
    name = "signs"

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        try:
            return signs_of(value) if isinstance(value, str) else value
        except ValueError:
            self.fail(f"{value!r} is not a list of signs; write 1,-1,0 or age:1,3:-1.", param, ctx)


class ColumnSets(click.ParamType):
    name = "sets"

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        try:
            return sets_of(value) if isinstance(value, str) else value
        except ValueError as error:
            self.fail(f"{error}; write sets such as 0,1;2,3.", param, ctx)
