"""Exact voting: PV-Tree's election, and a proof for every split that no other attribute has a better one."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pvtree.comm import Communicator
from pvtree.find_split.bounds import Bounds
from pvtree.find_split.certificates import Certificate
from pvtree.find_split.merging import with_passenger, without_passenger
from pvtree.find_split.proof import Proof
from pvtree.find_split.splits import agree_on_best
from pvtree.find_split.tellers import BYTES_OF_A_COLLECTIVE
from pvtree.find_split.top_k_by_level import TopKByLevel
from pvtree.find_split.voting import Voting, best_of, elect, top_k
from pvtree.growing.frontier_records import Elected

if TYPE_CHECKING:
    from pvtree.growing.frontier import Frontier

# The outcome is the sequential tree, bit for bit. The paper shows that an election probably contains the best
# attribute; here every other attribute is either ruled out by a bound or merged as well (docs/exact-voting.md).

# Attributes in doubt are merged in batches, those with the largest bounds first: one of them may win and settle the
# rest. The first batch has _FIRST_BATCH of each owner; each later batch has _GROWTH times as many.
_FIRST_BATCH, _GROWTH = 4, 8
# A node with at most this many rows per worker merges everything, which is shorter than bounds and the doubts they
# leave. So do the descendants of a node that had to merge more than this share of its attributes: with fewer rows they
# know even less.
_SMALL, _MOST_OF_ALL = 2, 0.5
# How a node's split was proven.
_UNVOTED, _AT_ONCE, _ROUNDED, _MERGED = range(4)
_UNKNOWN = -1


class ExactVoting(Voting):
    """Votes like ``Voting``; then proves the elected winners the best, or finds the better ones.

    A proof waits until its node is about to be split. Most other nodes never need one: whatever their best split is, it
    gains too little for the leaf budget. Then the node is split as elected, and what is left of its proof travels with
    the messages about its children. If that finds a better split, the node is split again.
    """

    def __init__(self, comm: Communicator, top_k: int | str, election_size: float, packs: bool) -> None:
        self.by_level = TopKByLevel(top_k)
        super().__init__(comm, self.by_level.first, election_size, packs)
        self.certificates: list[Certificate] = []
        self.n_trees = 0

    def begin_tree(self, frontier: Frontier) -> None:
        super().begin_tree(frontier)
        self.known = NodesKnown(len(range(self.exchange.comm.rank, frontier.n_features, self.exchange.comm.size)))
        self.n_rounded, self.n_extra = 0, 0
        self.bound_bytes, self.rounded_bytes, self.extra_bytes = 0, 0, 0
        self.sent_before: list[int] = []  # by level: what ``_sent`` was before it
        self.n_open_by_level: list[int] = []
        self.ballots: list[tuple[np.ndarray, np.ndarray]] = []  # (nodes, all workers' ballots): a proof may come later
        self.open_proof: OpenProof | None = None
        self.refuted = np.empty(0, np.int64)  # nodes that have been split, and have a better split

    def find_splits(self, frontier: Frontier) -> None:
        """PV-Tree_FindBestSplit for every open node at once, and bounds of the attributes that it leaves out."""
        self.set_top_k(self.by_level[len(self.sent_before)])
        self.sent_before.append(self._sent())
        self.n_open_by_level.append(int(frontier.is_open.sum()))
        self.known.make_room(frontier.n_node_room)
        if frontier.n_allowed <= self.n_elected:
            super().find_splits(frontier)
            self.known.how[frontier.row_node] = _UNVOTED
            return
        # Local and global voting.
        merges_all = self._merges_all(frontier)
        rows = frontier.is_open & ~merges_all
        ballots = self._vote(frontier, rows)
        all_ballots = np.stack(self.exchange.allgather(ballots, "ballots"))
        elected = elect(all_ballots, self.n_elected, frontier, rows)
        elected = with_all_of(frontier, merges_all, elected)
        self.exchange.decide(elected.start, elected.feature)
        # Merge the elected histograms. The bounds of all other attributes travel in the same messages.
        # So do the rounded sums of an open proof of the nodes above.
        bounds = Bounds(frontier, elected, self.exchange.comm)
        messages = bounds.write()
        self.bound_bytes += sum(len(each) for each in messages)
        self.known.how[frontier.row_node[merges_all]] = _UNVOTED
        above, self.open_proof = self.open_proof, None
        rounded = [messages[0][:0]] * len(messages) if above is None else above.messages
        along = [with_passenger(each, message) for each, message in zip(rounded, messages, strict=True)]
        brought = [without_passenger(each) for each in self.merging.merge(frontier, elected, along=along)]
        upper, smallest = bounds.read([message for _, message in brought])
        self.known.upper[frontier.row_node], self.known.smallest[frontier.row_node] = upper, smallest
        if above is None:
            agree_on_best(frontier, self.exchange)
        else:
            self._read_proof(frontier, above, [each for each, _ in brought] or above.messages)
            most = agree_on_best(frontier, self.exchange, also=above.proof.reach().max(axis=1, initial=-np.inf))
            self._close_proof(frontier, above, most)
        nodes = frontier.row_node[rows]
        if frontier.rules.max_leaves == 0:  # every node that can be split will be
            self._prove(frontier, nodes)
            self._note_votes(frontier, nodes, all_ballots)
        else:
            self.ballots.append((nodes, all_ballots))

    def _vote(self, frontier: Frontier, rows: np.ndarray) -> np.ndarray:
        """Name the features with the largest bounds: these must be found in any case, and order them as gains do."""
        k = min(self.ballot_size, frontier.n_features)
        return best_of(frontier, rows, frontier.local_bounds(rows), k)[rows]

    def confirm(self, frontier: Frontier, nodes: np.ndarray, is_end: bool) -> bool:
        """Begin to prove the splits of these nodes; at the end, also that no other node should be split instead."""
        above, self.open_proof = self.open_proof, None
        if above is not None:  # there was nothing to evaluate among the children
            self._read_proof(frontier, above, self.exchange.alltoall(above.messages, "proofs"))
            self._close_proof(frontier, above, np.full(len(above.nodes), np.inf))
        refuted, self.refuted = self.refuted, self.refuted[:0]
        if len(refuted):
            frontier.undo_splits(refuted)
            return True
        nodes = frontier.open_leaves() if is_end else nodes
        nodes = nodes[self.known.how[nodes] == _UNKNOWN]
        if is_end:
            return len(nodes) > 0 and self._prove(frontier, nodes)
        if len(nodes):
            self._open_proof(frontier, nodes)
        return False

    def _open_proof(self, frontier: Frontier, nodes: np.ndarray) -> None:
        """Find out what is in doubt at these nodes, and write what may rule it out."""
        with frontier.looking_at(nodes):
            proof = Proof(frontier, self.known.upper[nodes], self.known.smallest[nodes], self.exchange)
            to_narrow = self._ask(frontier, proof, nodes)
            if proof.is_settled:
                return
            messages = proof.write(to_narrow)
        self.rounded_bytes += sum(len(each) for to, each in enumerate(messages) if to != self.exchange.comm.rank)
        self.open_proof = OpenProof(nodes, proof, messages)

    def _ask(self, frontier: Frontier, proof: Proof, nodes: np.ndarray) -> np.ndarray:
        """Gather all doubts; returns those that rounded sums may rule out."""
        sent = self._sent_for_proofs()
        in_doubt = proof.gather(proof.doubts())
        self.rounded_bytes += self._sent_for_proofs() - sent
        self.known.how[nodes] = _AT_ONCE
        proof.is_settled = not in_doubt.any()
        to_narrow = proof.to_narrow(in_doubt)
        self.known.how[nodes[to_narrow.any(axis=1)]] = _ROUNDED
        self.n_rounded += int(to_narrow.sum())
        return to_narrow

    def _read_proof(self, frontier: Frontier, above: OpenProof, messages: list[np.ndarray]) -> None:
        with frontier.looking_at(above.nodes):
            above.proof.read(messages)

    def _close_proof(self, frontier: Frontier, above: OpenProof, most: np.ndarray) -> None:
        """Merge what is still in doubt at nodes that are split already; ``most`` is the largest bound of each."""
        gains = frontier.gains_of(above.nodes)
        features = frontier.features_of(above.nodes)
        with frontier.looking_at(above.nodes):
            if (most >= frontier.least_gains()).any():
                self._settle(frontier, above.proof)
        changed = (frontier.gains_of(above.nodes) != gains) | (frontier.features_of(above.nodes) != features)
        self.known.is_missed[above.nodes] = frontier.features_of(above.nodes) != features
        self.known.make_room(frontier.n_node_room)
        self.known.is_hopeless[frontier.children_of(above.nodes)] |= np.repeat(self.known.is_hopeless[above.nodes], 2)
        self.refuted = np.concatenate((self.refuted, above.nodes[changed]))

    def _merges_all(self, frontier: Frontier) -> np.ndarray:
        """By row: whether the node merges everything, because a vote would not save bytes."""
        is_hopeless = self.known.is_hopeless
        if len(frontier.pairs):
            is_hopeless[frontier.row_node] = np.repeat(is_hopeless[frontier.pairs], 2)
        is_small = frontier.row_counts <= _SMALL * self.exchange.comm.size
        return frontier.is_open & (is_small | is_hopeless[frontier.row_node])

    def _prove(self, frontier: Frontier, nodes: np.ndarray) -> bool:
        """Rule out or merge every attribute that was not elected at these nodes; returns whether a split changed."""
        gains, features = frontier.gains_of(nodes), frontier.features_of(nodes)
        with frontier.looking_at(nodes):
            proof = Proof(frontier, self.known.upper[nodes], self.known.smallest[nodes], self.exchange)
            to_narrow = self._ask(frontier, proof, nodes)
            if to_narrow.any():
                sent = self._sent_for_proofs()
                proof.narrow(to_narrow)
                self.rounded_bytes += self._sent_for_proofs() - sent
            if not proof.is_settled:
                self._settle(frontier, proof)
        self.known.is_missed[nodes] = frontier.features_of(nodes) != features
        return bool((frontier.gains_of(nodes) != gains).any())

    def _settle(self, frontier: Frontier, proof: Proof) -> None:
        """Merge attributes that are still in doubt, until none is."""
        n_each, n_merged = _FIRST_BATCH, np.zeros(frontier.n_nodes, np.int64)
        before = self._sent_for_proofs()
        while True:
            more = proof.most_doubtful(n_each)
            if len(more.feature) == 0:
                break
            self.exchange.decide(more.start, more.feature)
            n_more = np.diff(more.start)
            self.known.how[frontier.row_node[n_more > 0]] = _MERGED
            n_merged += n_more
            self.known.is_hopeless[frontier.row_node] |= n_merged > _MOST_OF_ALL * frontier.n_allowed
            self.n_extra += len(more.feature)
            known = frontier.own_splits()
            self.merging.merge_more(frontier, more, "proofs")
            agree_on_best(frontier, self.exchange, "proofs", known)
            proof.settle(more)
            of_owner = np.bincount(more.row * proof.size + more.feature % proof.size)
            if of_owner.max() < n_each:  # no owner has left anything out
                break
            n_each *= _GROWTH
        self.extra_bytes += self._sent_for_proofs() - before

    def _note_votes(self, frontier: Frontier, nodes: np.ndarray, ballots: np.ndarray) -> None:
        """Count how many of the (workers, nodes, k) ballots name the feature of each node's split."""
        feature = frontier.features_of(nodes)
        self.winners_votes.append((nodes, (ballots == feature[:, None]).sum(axis=(0, 2))))

    def _sent(self) -> int:
        """Bytes sent so far, and those that the network could have carried while it began collectives."""
        traffic = self.exchange.comm.traffic.total()
        return traffic.bytes + BYTES_OF_A_COLLECTIVE * traffic.calls

    def _sent_for_proofs(self) -> int:
        return self.exchange.comm.traffic["proofs"].bytes

    def finish_tree(self, frontier: Frontier, is_split: np.ndarray) -> None:
        for nodes, ballots in self.ballots:  # only now the best feature of each node is known
            self._note_votes(frontier, nodes, ballots)
        super().finish_tree(frontier, is_split)
        self.known.make_room(len(is_split))  # a root that cannot be split was never evaluated
        comm, known, is_split = self.exchange.comm, self.known, is_split == 1
        unvoted, at_once, rounded, merged = np.bincount(known.how[: len(is_split)][is_split], minlength=4).tolist()
        sent_by_level = np.diff([*self.sent_before, self._sent()])
        own = np.array([self.bound_bytes, self.rounded_bytes, self.extra_bytes, *sent_by_level])
        sent = comm.allreduce(own, "proofs")
        bound_bytes, rounded_bytes, extra_bytes = (sent[:3] // comm.size).tolist()
        certificate = Certificate(
            self.n_trees, int(is_split.sum()), unvoted, at_once, rounded, merged,
            int(known.is_missed[: len(is_split)][is_split].sum()), self.n_rounded, self.n_extra, bound_bytes,
            rounded_bytes, extra_bytes, tuple(self.by_level[level] for level in range(len(self.sent_before))),
        )  # fmt: skip
        self.certificates.append(certificate)
        self.n_trees += 1
        self.by_level.learn(sent[3:], self.n_open_by_level)


class OpenProof(NamedTuple):
    """A proof of nodes that are split already, whose messages are still to be sent."""

    nodes: np.ndarray
    proof: Proof
    messages: list[np.ndarray]  # rounded sums for each worker


class NodesKnown:
    """What a worker knows about each node of a growing tree."""

    def __init__(self, n_own: int) -> None:
        self.upper = np.empty((0, n_own))  # the most that each of this worker's features may gain: see proof.py
        self.smallest = np.empty(0, np.int64)  # the smallest hessian of its rows
        self.how = np.empty(0, np.int64)  # how its split was proven
        self.is_missed = np.empty(0, bool)  # whether the best feature had not been elected
        self.is_hopeless = np.empty(0, bool)  # whether voting on its descendants would not pay

    def make_room(self, n_nodes: int) -> None:
        more = max(0, n_nodes - len(self.how))
        self.upper = np.pad(self.upper, ((0, more), (0, 0)), constant_values=-np.inf)
        self.smallest = np.pad(self.smallest, (0, more))
        self.how = np.pad(self.how, (0, more), constant_values=_UNKNOWN)
        self.is_missed, self.is_hopeless = np.pad(self.is_missed, (0, more)), np.pad(self.is_hopeless, (0, more))


def with_all_of(frontier: Frontier, rows: np.ndarray, elected: Elected) -> Elected:
    """Add to an election all that these rows may use; an attribute that nobody named has no votes."""
    if not rows.any():
        return elected
    votes = np.where(frontier.allowed & rows[:, None], 0, -1)
    votes[elected.row, elected.feature] = elected.votes
    return Elected.of(votes >= 0)._replace(votes=votes[votes >= 0])


class AuditedVoting(ExactVoting):
    """Plain voting that proves what it can of every n-th tree, and changes nothing."""

    def __init__(
        self, comm: Communicator, top_k: int, election_size: float, packs: bool, every: int, ballot_rows: int = 0
    ) -> None:
        super().__init__(comm, top_k, election_size, packs)
        self.every, self.ballot_rows = every, ballot_rows

    @property
    def is_audited(self) -> bool:
        return self.n_trees % self.every == 0

    def find_splits(self, frontier: Frontier) -> None:
        if self.is_audited:
            super().find_splits(frontier)
        else:
            Voting.find_splits(self, frontier)

    def confirm(self, frontier: Frontier, nodes: np.ndarray, is_end: bool) -> bool:
        """Prove what is split, and nothing else: nobody would act on it."""
        nodes = nodes[self.known.how[nodes] == _UNKNOWN] if self.is_audited else nodes[:0]
        return len(nodes) > 0 and self._prove(frontier, nodes)

    def _vote(self, frontier: Frontier, rows: np.ndarray) -> np.ndarray:
        return top_k(frontier, self.ballot_size, rows, with_bounds=True)

    def _merges_all(self, frontier: Frontier) -> np.ndarray:
        return np.zeros(frontier.n_nodes, bool)  # plain voting votes on every node

    def _settle(self, frontier: Frontier, proof: Proof) -> None:
        self.known.how[frontier.row_node[proof.gather(proof.doubts()).any(axis=1)]] = _MERGED

    def finish_tree(self, frontier: Frontier, is_split: np.ndarray) -> None:
        if self.is_audited:
            super().finish_tree(frontier, is_split)
        else:
            Voting.finish_tree(self, frontier, is_split)
            self.n_trees += 1
