"""The last step of every parallel strategy: of all workers' best splits, take the best."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pvtree.find_split.exchange import Exchange

if TYPE_CHECKING:
    from pvtree.growing.frontier import Frontier


def split_dtype(n_fields: int, has_categories: bool) -> np.dtype:
    """A split on the wire: no gaps, and no set of categories where no column has any."""
    fields = [
        ("gain", np.float64), ("feature", np.int32), ("split_bin", np.uint8), ("default_left", np.uint8),
        ("left_sums", np.int64, (n_fields,)),
    ]  # fmt: skip
    return np.dtype([*fields, ("left_set", np.uint64, (4,))] if has_categories else fields)


def agree_on_best(
    frontier: Frontier, exchange: Exchange, phase: str = "splits", known: np.ndarray | None = None
) -> None:
    """Every open node gets the split with the largest gain of all workers; ties go to the lower feature.

    ``known`` are splits that all workers know already, and which take part.
    """
    own = frontier.own_splits()
    others = [] if known is None else [known]
    splits = np.stack(exchange.allgather(own, phase) + others)  # (workers, open nodes)
    is_best = splits["gain"] == splits["gain"].max(axis=0)
    feature = np.where(is_best, splits["feature"], np.iinfo(np.int32).max)
    winners = splits[feature.argmin(axis=0), np.arange(splits.shape[1])]
    exchange.decide(winners)
    frontier.set_splits(winners)
