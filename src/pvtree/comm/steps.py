"""In which steps a collective travels: to all others at once, or to a few at a time who pass on what they have.

Few messages cost less than many, and a step costs a latency. All workers choose alike, from what all of them know.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

# What the choice assumes: an ordinary network, as ``Network`` describes it.
_LATENCY, _MESSAGE, _BYTE = 50e-6, 20e-6, 8.5e-9
_LONG = 2**40  # bytes: certainly too many to be sent twice


class Step(NamedTuple):
    """A worker sends to the worker ``away`` places after it and receives from the one as many places before it."""

    away: int
    blocks: tuple[int, ...]  # which of its blocks it sends, by their number: see ``gather_steps`` and ``swap_steps``


@lru_cache(1024)
def gather_steps(n_workers: int) -> tuple[tuple[Step, ...], ...]:
    """An all-gather, after Bruck: each step multiplies what a worker has; messages of a step travel together.

    Block i of a worker is what it knows of the worker i places before it. No byte travels more often than if
    everybody sent to everybody, so the choice depends on the number of workers alone.
    """
    plans = [tuple(_gather_by(radix, n_workers)) for radix in range(2, max(3, min(n_workers, 64) + 1))]
    plans.append(tuple(_gather_by(n_workers, n_workers)))
    return min(plans, key=lambda plan: (_cost(plan), len(plan)))


@lru_cache(4096)
def swap_radix(n_workers: int, n_bytes: int | None) -> int:
    """The radix of an all-to-all in which each worker sends about ``n_bytes``: ``n_workers`` if all goes straight.

    Fewer messages mean that most bytes travel more than once. None: unknown, hence straight.
    """
    n_bytes = _LONG if n_bytes is None else n_bytes

    def cost(radix: int) -> float:
        mean_hops = n_sent(n_workers, radix) / max(1, n_workers - 1)
        return _cost(swap_steps(n_workers, radix)) + mean_hops * n_bytes * _BYTE

    roots = {round(n_workers ** (1 / n) + 0.499) for n in range(1, 5)}  # rounded up: as few steps as may be
    return min(sorted((max(2, root) for root in roots), reverse=True), key=cost)


@lru_cache(1024)
def swap_steps(n_workers: int, radix: int) -> tuple[tuple[Step, ...], ...]:
    """An all-to-all, after Bruck: a message that goes x places makes one hop for each digit of x that is not zero.

    Block x is everything that still has to go x places in total, whoever sent it.
    """
    steps, weight = [], 1
    while weight < n_workers:
        away = range(weight, min(radix * weight, n_workers), weight)
        steps.append(tuple(Step(each, tuple(_with_digit(each, weight, radix, n_workers))) for each in away))
        weight *= radix
    return tuple(steps)


def n_hops(away: int, radix: int) -> int:
    """How often a message of an all-to-all is sent until it is ``away`` places farther."""
    n = 0
    while away:
        n += away % radix > 0
        away //= radix
    return n


@lru_cache(1024)
def n_sent(n_workers: int, radix: int) -> int:
    """How many messages of an all-to-all a worker sends on average, those of others included."""
    return sum(n_hops(away, radix) for away in range(n_workers))


@lru_cache(1024)
def n_choice_messages(n_workers: int) -> int:
    """How many messages a worker sends in a choice: it takes the steps of an all-gather, with one block each."""
    return sum(map(len, gather_steps(n_workers)))


def _gather_by(radix: int, n_workers: int) -> Iterator[tuple[Step, ...]]:
    known = 1
    while known < n_workers:
        away = range(known, min(radix * known, n_workers), known)
        yield tuple(Step(each, tuple(range(min(known, n_workers - each)))) for each in away)
        known *= radix


def _with_digit(away: int, weight: int, radix: int, n_workers: int) -> Iterator[int]:
    """All distances whose digit of this weight is that of ``away``."""
    for first in range(away, n_workers, radix * weight):
        yield from range(first, min(first + weight, n_workers))


def _cost(plan: tuple[tuple[Step, ...], ...]) -> float:
    return sum(_LATENCY + 2 * len(step) * _MESSAGE for step in plan)
