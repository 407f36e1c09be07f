"""The last step of every parallel strategy: take the best of all workers' best splits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pvtree.find_split.exchange import Exchange

if TYPE_CHECKING:
    from pvtree.growing.frontier import Frontier


def agree_on_best(
    frontier: Frontier,
    exchange: Exchange,
    phase: str = "splits",
    known: np.ndarray | None = None,
    also: np.ndarray | None = None,
) -> np.ndarray:
    """Give every open node the best split of all workers; ties go to the lower feature.

    ``known`` are splits that every worker knows already; they compete as well. ``also`` are numbers of which the
    largest of all workers are returned: they travel along.
    """
    own = frontier.own_splits()
    if known is not None:
        own = better_splits(own, known)
    numbers = np.zeros(0 if also is None else len(also), own.dtype)
    numbers["gain"] = 0.0 if also is None else also
    winners = exchange.choose(np.concatenate((own, numbers)), phase, better_splits)
    winners, numbers = np.split(winners, [len(own)])
    exchange.decide(winners)
    frontier.set_splits(winners)
    largest: np.ndarray = numbers["gain"]
    return largest


def better_splits(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """At each place the split that gains more; of equals, that of the lower feature."""
    is_first = (a["gain"] > b["gain"]) | ((a["gain"] == b["gain"]) & (a["feature"] <= b["feature"]))
    return np.where(is_first, a, b)
