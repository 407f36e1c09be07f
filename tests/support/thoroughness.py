"""How much is tried of what could be: a sample in every run; all, and ten times the examples, by ``make thorough``."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TypeVar

from hypothesis import settings

IS_THOROUGH = bool(os.environ.get("PVTREE_THOROUGH"))
T = TypeVar("T")
U = TypeVar("U")


def examples(n: int) -> settings:
    """So many of Hypothesis."""
    return settings(max_examples=10 * n if IS_THOROUGH else n)


def one_in(n: int, cases: Iterable[T]) -> list[T]:
    """Every n-th case."""
    every = list(cases)
    return every if IS_THOROUGH else every[::n]


def checkered(firsts: Iterable[T], seconds: Iterable[U]) -> list[tuple[T, U]]:
    """Half of all pairs, as the black squares of a chessboard: each of the firsts with half of the seconds."""
    those = list(enumerate(seconds))
    return [(a, b) for i, a in enumerate(firsts) for j, b in those if IS_THOROUGH or (i + j) % 2 == 0]


def one_in_each(n: int, groups: Iterable[list[T]]) -> list[T]:
    """Every n-th of each group, and at least one: from the first, second, third of one group after the other."""
    if IS_THOROUGH:
        n = 1
    return [each for i, group in enumerate(groups) for each in group[i % min(n, len(group)) :: n]]
