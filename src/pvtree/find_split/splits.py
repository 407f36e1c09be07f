"""The last step of every parallel strategy: take the best of all workers' best splits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pvtree.find_split.exchange import Exchange

if TYPE_CHECKING:
    from pvtree.growing.frontier import Frontier


def agree_on_best(
    frontier: Frontier, exchange: Exchange, phase: str = "splits", known: np.ndarray | None = None
) -> None:
    """Give every open node the best split of all workers; ties go to the lower feature.

    ``known`` are splits that every worker knows already; they compete as well.
    """
    own = frontier.own_splits()
    others = [] if known is None else [known]
    splits = np.stack(exchange.allgather(own, phase) + others)  # (workers, open nodes)
    is_best = splits["gain"] == splits["gain"].max(axis=0)
    feature = np.where(is_best, splits["feature"], np.iinfo(np.int32).max)
    winners = splits[feature.argmin(axis=0), np.arange(splits.shape[1])]
    exchange.decide(winners)
    frontier.set_splits(winners)
