"""Exact voting: PV-Tree's election, and a proof for every split that no other attribute has a better one.

The outcome is the sequential tree, bit for bit. The paper shows that an election probably contains the best attribute;
here every attribute outside it is either ruled out by a bound or merged as well (docs/exact-voting.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pvtree.certificates import Certificate
from pvtree.comm import Communicator
from pvtree.find_split.merging import Elected
from pvtree.find_split.proof import ROUNDS, Proof
from pvtree.find_split.splits import agree_on_best
from pvtree.find_split.top_k_by_level import TopKByLevel
from pvtree.find_split.voting import Voting, elect, top_k

if TYPE_CHECKING:
    from pvtree.frontier import Frontier

# Attributes in doubt are merged in batches, those of the largest bounds first: one of them may win and settle the rest.
# So many of each owner.
_FIRST_BATCH, _GROWTH = 1, 8
# A node with so few rows for each worker merges everything: that is shorter than bounds and the doubts they leave. So do
# the descendants of a node that came to merge such a share of its attributes: with fewer rows they know even less.
_SMALL, _MOST_OF_ALL = 16, 0.5
_AT_ONCE, _ROUNDED, _MERGED = range(3)


class ExactVoting(Voting):
    """Votes like ``Voting``; then proves the elected winner the best, or finds the better one."""

    def __init__(self, comm: Communicator, top_k: int | str, election_size: float, packs: bool) -> None:
        self.by_level = TopKByLevel(top_k)
        super().__init__(comm, self.by_level.first, election_size, packs)
        self.election_size = election_size
        self.certificates: list[Certificate] = []
        self.n_trees = 0

    def begin_tree(self, frontier: Frontier) -> None:
        super().begin_tree(frontier)
        self.proven: list[tuple[np.ndarray, np.ndarray]] = []  # (nodes, how their splits were proven)
        self.missed: list[np.ndarray] = []  # nodes whose winner was not elected
        self.n_rounded, self.n_extra = 0, 0
        self.bound_bytes, self.rounded_bytes, self.extra_bytes = 0, 0, 0
        self.is_hopeless = np.zeros(0, bool)  # by node: whether too much was in doubt to vote on its descendants
        self.sent_by_level: list[int] = []
        self.n_open_by_level: list[int] = []

    def find_splits(self, frontier: Frontier) -> None:
        """PV-Tree_FindBestSplit, and the proof of its result, for every open node at once."""
        sent_before = self.exchange.comm.traffic.total().bytes
        self._set_top_k(self.by_level[len(self.sent_by_level)])
        if frontier.n_allowed <= self.n_elected:
            super().find_splits(frontier)
            self._note_proven(frontier, np.full(frontier.n_rows, _AT_ONCE))
        else:
            # Local and global voting.
            merges_all = self._merges_all(frontier)
            rows = frontier.is_open & ~merges_all
            ballots = top_k(frontier, self.top_k, rows, with_bounds=True)
            elected = elect(np.stack(self.exchange.allgather(ballots, "ballots")), self.n_elected, frontier, rows)
            elected = with_all_of(frontier, merges_all, elected)
            self.exchange.decide(elected.start, elected.feature)
            # Merge the elected histograms. Bounds of all other attributes travel along.
            proof = Proof(frontier, elected, self.exchange)
            bounds = proof.write_bounds()
            self.bound_bytes += sum(len(each) for each in bounds)
            proof.read_bounds(self.merging.merge(frontier, elected, along=bounds))
            agree_on_best(frontier, self.exchange)
            self._note_votes(frontier, elected)
            self._prove(frontier, elected, proof)
        self.sent_by_level.append(self.exchange.comm.traffic.total().bytes - sent_before)
        self.n_open_by_level.append(int(frontier.is_open.sum()))

    def _set_top_k(self, k: int) -> None:
        self.top_k, self.n_elected = k, max(1, int(self.election_size * k))

    def _merges_all(self, frontier: Frontier) -> np.ndarray:
        """By row: nodes that merge everything, because a vote would not save bytes."""
        self.is_hopeless = np.pad(self.is_hopeless, (0, len(frontier.memory.nodes) - len(self.is_hopeless)))
        if len(frontier.pairs):
            self.is_hopeless[frontier.row_node] = np.repeat(self.is_hopeless[frontier.pairs], 2)
        is_small = frontier.memory.nodes["n_rows"][frontier.row_node] <= _SMALL * self.exchange.comm.size
        return frontier.is_open & (is_small | self.is_hopeless[frontier.row_node])

    def _prove(self, frontier: Frontier, elected: Elected, proof: Proof) -> None:
        """Rule out every attribute that was not elected, or merge it."""
        how = np.full(frontier.n_rows, _AT_ONCE)
        before = self._sent_for_proofs()
        for grid in ROUNDS:
            in_doubt = proof.gather(proof.doubts_to_narrow())
            if not in_doubt.any():
                break
            how[in_doubt.any(axis=1)] = _ROUNDED
            self.n_rounded += int(in_doubt.sum())
            proof.narrow(grid, in_doubt)
        self.rounded_bytes += self._sent_for_proofs() - before
        before = self._sent_for_proofs()
        self._settle(frontier, proof, how)
        self.extra_bytes += self._sent_for_proofs() - before
        self._note_proven(frontier, how)
        self._note_missed(frontier, elected)

    def _settle(self, frontier: Frontier, proof: Proof, how: np.ndarray) -> None:
        """Merge what is still in doubt, until nothing is."""
        n_each, n_merged = _FIRST_BATCH, np.zeros(frontier.n_rows, np.int64)
        while True:
            more = proof.most_doubtful(n_each)
            if len(more.feature) == 0:
                return
            self.exchange.decide(more.start, more.feature)
            n_more = np.diff(more.start)
            how[n_more > 0] = _MERGED
            n_merged += n_more
            self.is_hopeless[frontier.row_node] |= n_merged > _MOST_OF_ALL * frontier.n_allowed
            self.n_extra += len(more.feature)
            known = frontier.own_splits()
            self.merging.merge_more(frontier, more, "proofs")
            agree_on_best(frontier, self.exchange, "proofs", known)
            proof.settle(more)
            n_each *= _GROWTH

    def _sent_for_proofs(self) -> int:
        return self.exchange.comm.traffic["proofs"].bytes

    def _note_proven(self, frontier: Frontier, how: np.ndarray) -> None:
        self.proven.append((frontier.row_node[frontier.is_open], how[frontier.is_open]))

    def _note_missed(self, frontier: Frontier, elected: Elected) -> None:
        nodes = frontier.row_node
        is_elected = np.zeros((frontier.n_rows, frontier.n_features), bool)
        is_elected[np.repeat(np.arange(frontier.n_rows), np.diff(elected.start)), elected.feature] = True
        winner = frontier.memory.nodes["feature"][nodes]
        missed = frontier.is_open & ~is_elected[np.arange(frontier.n_rows), winner]
        self.missed.append(nodes[missed & (frontier.memory.nodes["gain"][nodes] > -np.inf)])

    def finish_tree(self, frontier: Frontier, is_split: np.ndarray) -> None:
        super().finish_tree(frontier, is_split)
        nodes, how = (np.concatenate([np.empty(0, np.int64), *part]) for part in zip(*self.proven, strict=True))
        n_proven = np.bincount(how[is_split[nodes] == 1], minlength=3)
        missed = np.concatenate([np.empty(0, np.int64), *self.missed])
        comm = self.exchange.comm
        own = [self.bound_bytes, self.rounded_bytes, self.extra_bytes, *self.sent_by_level]
        sent = comm.allreduce(np.array(own), "proofs")
        bound_bytes, rounded_bytes, extra_bytes = (int(total) // comm.size for total in sent[:3])
        self.certificates.append(
            Certificate(
                self.n_trees, int(is_split.sum()), *(int(n) for n in n_proven), int(is_split[missed].sum()),
                self.n_rounded, self.n_extra, bound_bytes, rounded_bytes, extra_bytes,
                tuple(self.by_level[level] for level in range(len(self.sent_by_level))),
            )  # fmt: skip
        )
        self.n_trees += 1
        self.by_level.learn(sent[3:], self.n_open_by_level)


def with_all_of(frontier: Frontier, rows: np.ndarray, elected: Elected) -> Elected:
    """The election, and all that these rows may use; an attribute that nobody named has no votes."""
    if not rows.any():
        return elected
    votes = np.where(frontier.allowed & rows[:, None], 0, -1)
    votes[np.repeat(np.arange(frontier.n_rows), np.diff(elected.start)), elected.feature] = elected.votes
    row, feature = np.nonzero(votes >= 0)
    return Elected(np.searchsorted(row, np.arange(frontier.n_rows + 1)), feature, votes[row, feature])


class AuditedVoting(ExactVoting):
    """Plain voting that proves what it can of every n-th tree, and changes nothing."""

    def __init__(self, comm: Communicator, top_k: int, election_size: float, packs: bool, every: int) -> None:
        super().__init__(comm, top_k, election_size, packs)
        self.every = every

    @property
    def is_audited(self) -> bool:
        return self.n_trees % self.every == 0

    def find_splits(self, frontier: Frontier) -> None:
        if self.is_audited:
            super().find_splits(frontier)
        else:
            Voting.find_splits(self, frontier)

    def _settle(self, frontier: Frontier, proof: Proof, how: np.ndarray) -> None:
        how[proof.gather(proof.doubts()).any(axis=1)] = _MERGED

    def finish_tree(self, frontier: Frontier, is_split: np.ndarray) -> None:
        if self.is_audited:
            super().finish_tree(frontier, is_split)
        else:
            Voting.finish_tree(self, frontier, is_split)
            self.n_trees += 1
