"""Ranking with rows spread over workers: a query that a cut goes through is moved whole to where it begins."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from itertools import groupby, pairwise
from typing import Any

import numpy as np

from pvtree.comm import Communicator
from pvtree.comm.agreement import share
from pvtree.errors import InvalidDataError

Columns = list[np.ndarray | None]  # X, y, weights and initial scores; None for what was not given


@dataclass
class QueryBlock:
    """Consecutive rows of the whole data that one worker holds."""

    index: int  # its place among the blocks of all workers
    X: list[np.ndarray]  # the rows, piece after piece
    y: list[np.ndarray]
    weight: list[np.ndarray]  # no pieces where there are no weights
    score: list[np.ndarray]  # (n_rows, n_outputs): initial scores, likewise
    ids: list[Any]
    sizes: list[int]

    @property
    def n_rows(self) -> int:
        return sum(self.sizes)


@dataclass(frozen=True)
class Ends:
    """What all workers know of a block that has rows."""

    index: int
    rank: int
    n_queries: int
    first: Any
    last: Any


def bring_together(blocks: list[QueryBlock], comm: Communicator) -> None:
    """Move the rows of every split query to the block where it begins; no query may be in two places after that."""
    moves = _moves(blocks, comm)
    mine = {block.index: block for block in blocks}
    for source, target in moves:  # one at a time, in the same order everywhere: cuts are few, and so are their rows
        head = _cut_head(mine[source.index]) if source.rank == comm.rank else None
        pieces = _send(head, source.rank, target.rank, comm)
        if target.rank == comm.rank:
            _append(mine[target.index], pieces)
    check_distinct([query for block in blocks for query in block.ids], comm)


def _moves(blocks: list[QueryBlock], comm: Communicator) -> list[tuple[Ends, Ends]]:
    """(from, to) of each block that begins inside a query."""
    own = [[block.index, len(block.ids), block.ids[0], block.ids[-1]] for block in blocks if block.ids]
    every = [Ends(index, rank, *ends) for rank, its in enumerate(share(own, comm)) for index, *ends in its]
    moves: list[tuple[Ends, Ends]] = []
    ordered = sorted(every, key=lambda each: each.index)
    target = ordered[0] if ordered else None  # where the last query so far begins
    for previous, ends in pairwise(ordered):
        goes_on = ends.first == previous.last
        if goes_on and target is not None:
            moves.append((ends, target))
        if not goes_on or ends.n_queries > 1:
            target = ends
    return moves


def _cut_head(block: QueryBlock) -> Columns:
    """Take the rows of the first query out of the block."""
    n_rows = block.sizes.pop(0)
    block.ids.pop(0)
    pieces = (block.X, block.y, block.weight, block.score)
    return [np.ascontiguousarray(_cut_rows(each, n_rows)) if each else None for each in pieces]


def _cut_rows(pieces: list[np.ndarray], n_rows: int) -> np.ndarray:
    """The first rows, which are no longer in ``pieces`` then."""
    cut = []
    while n_rows > 0:
        cut.append(pieces[0][:n_rows])
        pieces[0] = pieces[0][n_rows:]
        n_rows -= len(cut[-1])
        if not len(pieces[0]) and len(pieces) > 1:
            pieces.pop(0)
    return np.concatenate(cut)


def _send(head: Columns | None, source: int, target: int, comm: Communicator) -> Columns:
    """The rows at the target; nothing anywhere else."""
    form = np.empty(0, np.int64)
    if head is not None:
        # Of each column its width, 0 for one dimension and -1 for none; and whether it is narrow.
        widths = [-1 if each is None else each.shape[1] if each.ndim == 2 else 0 for each in head]
        form = np.array(
            [(w, each is not None and each.dtype == np.float32) for w, each in zip(widths, head, strict=True)]
        )
    arrived: Columns = []
    for at, (width, is_narrow) in enumerate(comm.broadcast(form.ravel(), "bins", source).reshape(-1, 2).tolist()):
        if width < 0:
            arrived.append(None)
            continue
        nothing = np.empty((0, width) if width else 0, np.float32 if is_narrow else np.float64)
        own = None if head is None else head[at]
        to_each = [own if own is not None and rank == target else nothing for rank in range(comm.size)]
        arrived.append(comm.alltoall(to_each, "bins")[source])
    return arrived


def _append(block: QueryBlock, rows: Columns) -> None:
    for pieces, values in zip((block.X, block.y, block.weight, block.score), rows, strict=True):
        if values is not None:
            pieces.append(values)
    assert rows[1] is not None  # every row has a label
    block.sizes[-1] += len(rows[1])


def check_distinct(own: list[Any], comm: Communicator) -> None:
    """A query whose rows are in two places cannot be ranked, and nobody would notice; ``own`` are a worker's ids."""
    digests = np.array([_digest(query) for query in own], np.uint64)
    ranks = [(int(digest), rank) for rank, its in enumerate(comm.allgather(digests, "bins")) for digest in its]
    repeated = {digest for digest, same in groupby(sorted(ranks), key=lambda pair: pair[0]) if len(list(same)) > 1}
    named = sorted({repr(query) for query, digest in zip(own, digests, strict=True) if int(digest) in repeated})
    for rank, its in enumerate(share(named[:1], comm)):
        if its:
            raise InvalidDataError(
                f"The query {its[0]} is in two places, one of them on worker {rank}; "
                "sort the rows so that each query is together."
            )


def _digest(query: Any) -> int:
    return int.from_bytes(blake2b(repr(query).encode(), digest_size=8).digest(), "little")
