"""PV-Tree: only the attributes that most workers vote for are merged; traffic depends on neither rows nor columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pvtree.comm import Communicator
from pvtree.find_split import tellers
from pvtree.find_split.merging import Merging
from pvtree.find_split.splits import agree_on_best
from pvtree.find_split.strategy import ParallelStrategy, Votes
from pvtree.growing.frontier_records import Elected
from pvtree.kernels.wire import ballots as kernels
from pvtree.kernels.wire.messages import PACKED, PLAIN

if TYPE_CHECKING:
    from pvtree.growing.frontier import Frontier

# A single worker votes by samples of tables with at least this many values. Of smaller ones, the sequential algorithm
# adds up everything in less time than a vote takes (docs/adr/0054-when-one-worker-votes.md).
_WORTH_SAMPLING = 2**25


class Voting(ParallelStrategy):
    """Each worker nominates ``top_k`` features; the ``election_size * top_k`` most nominated are merged.

    ``ballot_rows`` is about how many rows vote at the root, 0 for all: see growing/ballot_sample.py.
    """

    waits = True

    def __init__(self, comm: Communicator, top_k: int, election_size: float, packs: bool, ballot_rows: int = 0) -> None:
        super().__init__(comm)
        self.ballot_rows = ballot_rows
        self.merging = Merging(self.exchange, PACKED if packs else PLAIN)
        self.election_size = election_size
        self.set_top_k(top_k)
        self.votes: list[Votes] = []

    def set_top_k(self, top_k: int) -> None:
        self.top_k, self.n_elected = top_k, max(1, int(self.election_size * top_k))
        # Whoever votes alone names all that are elected.
        self.ballot_size = top_k if self.exchange.comm.size > 1 else self.n_elected

    def n_merged(self, n_features: int) -> int:
        return min(n_features, self.n_elected)

    def n_ballot_rows(self, n_allowed: int, n_rows: int) -> int:
        is_worth_it = self.exchange.comm.size > 1 or n_rows * n_allowed >= _WORTH_SAMPLING
        return self.ballot_rows if n_allowed > self.n_elected and is_worth_it else 0

    def begin_tree(self, frontier: Frontier) -> None:
        self.merging.forget()
        self.winners_votes: list[tuple[np.ndarray, np.ndarray]] = []  # (nodes, votes of their split's feature)

    def find_splits(self, frontier: Frontier) -> None:
        """PV-Tree_FindBestSplit (Meng et al., NIPS 2016, Algorithm 3) for every open node at once."""
        if frontier.n_allowed <= self.n_elected:  # nothing to elect
            self.merging.merge(frontier, frontier.allowed_features())
            agree_on_best(frontier, self.exchange)
            return
        # Local voting: each worker nominates its k best features of every node by its own rows.
        ballots = top_k(frontier, self.ballot_size)  # (open nodes, k)
        # Global voting: the features on most ballots are elected, the same on every worker.
        if tellers.has_tellers(self.exchange.comm.size, ballots.nbytes):
            found = tellers.count_by_tellers(ballots, frontier.n_features, self.n_elected, self.exchange)
            elected = of_rows(frontier, frontier.is_open, *found)
        else:
            all_ballots = np.stack(self.exchange.allgather(ballots, "ballots"))  # (workers, open nodes, k)
            elected = elect(all_ballots, self.n_elected, frontier)
        self.exchange.decide(elected.start, elected.feature)
        # Merge only the elected histograms: traffic does not grow with the number of features.
        self.merging.merge(frontier, elected)
        agree_on_best(frontier, self.exchange)
        # The winners are among the elected, whose votes are known.
        row = elected.row
        is_winner = elected.feature == frontier.features_of(frontier.row_node)[row]
        votes = np.zeros(frontier.n_nodes, np.int64)
        votes[row[is_winner]] = elected.votes[is_winner]
        self.winners_votes.append((frontier.row_node, votes))

    def finish_tree(self, frontier: Frontier, is_split: np.ndarray) -> None:
        votes = np.concatenate([np.empty(0, np.int64), *(v[is_split[nodes] == 1] for nodes, v in self.winners_votes)])
        n_workers = self.exchange.comm.size
        by_all = int((votes == n_workers).sum())
        by_half = int((2 * votes >= n_workers).sum()) - by_all
        self.votes.append(Votes(by_all, by_half, len(votes) - by_all - by_half, int(votes.sum())))


def top_k(frontier: Frontier, k: int, rows: np.ndarray | None = None, with_bounds: bool = False) -> np.ndarray:
    """This worker's ballots: for each open node the features with the largest local gains, best first.

    Only for these rows of the frontier, where not all vote. ``with_bounds`` also finds bounds of what all rows could
    gain.
    """
    rows = frontier.is_open if rows is None else rows
    sample, k = frontier.ballot_sample, min(k, frontier.n_features)
    if sample is None or with_bounds:
        gains = frontier.local_gains(rows, with_bounds)
    if sample is not None:
        n_candidates = sample.n_candidates(frontier, k)
        if n_candidates:
            # Departs from the paper, as samples do: of many features only the best at a first look get a close one.
            candidates = best_of(frontier, rows, sample.first_gains(frontier, rows), n_candidates)
            candidates.sort(axis=1)
            gains = sample.closer_gains(frontier, rows, candidates)
        else:
            gains = sample.gains(frontier, rows)
    return best_of(frontier, rows, gains, k)[rows]


def best_of(frontier: Frontier, rows: np.ndarray, gains: np.ndarray, k: int) -> np.ndarray:
    """(n_nodes, k): the features with the largest gains, best first; for fewer, the largest number of the dtype."""
    dtype = np.uint16 if frontier.n_features < np.iinfo(np.uint16).max else np.uint32
    best = np.empty((frontier.n_nodes, k), dtype)
    kernels.top_k(0, frontier.n_nodes, rows, gains, frontier.allowed, np.iinfo(dtype).max, best)
    return best


def elect(ballots: np.ndarray, n_elected: int, frontier: Frontier, rows: np.ndarray | None = None) -> Elected:
    """TopKByMajority of (workers, nodes, k) ballots, of the open nodes or of those rows of the frontier that voted."""
    rows = frontier.is_open if rows is None else rows
    return of_rows(frontier, rows, *tellers.elect(ballots, frontier.n_features, n_elected))


def of_rows(frontier: Frontier, rows: np.ndarray, start: np.ndarray, feature: np.ndarray, votes: np.ndarray) -> Elected:
    """An election of these rows of the frontier; other rows elect nothing."""
    counts = np.zeros(frontier.n_nodes, np.int64)
    counts[rows] = np.diff(start)
    return Elected(np.concatenate(([0], np.cumsum(counts))), feature, votes)
