"""Elections among many workers: one of them counts the ballots of a node and tells the others who is elected."""

from __future__ import annotations

import numpy as np

from pvtree.find_split.exchange import Exchange
from pvtree.kernels.wire import ballots as kernels

# If all workers gather all ballots, each node costs M k names, which grows with the machines. With tellers it costs
# k names to its teller and at most 2 k names with their votes from there, whatever M is, but also another collective.
# An ordinary network carries this many bytes in the time that the collective takes.
BYTES_OF_A_COLLECTIVE = 120_000


def has_tellers(n_workers: int, n_bytes: int) -> bool:
    """Whether ballots of this many bytes on each worker are counted by tellers; the same on every worker."""
    return (n_workers - 1) * n_bytes > BYTES_OF_A_COLLECTIVE


def count_by_tellers(
    ballots: np.ndarray, n_features: int, n_elected: int, exchange: Exchange
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """TopKByMajority of all workers' (nodes, k) ballots: the elected features of each node and their votes.

    Worker m counts the ballots of every M-th node from the m-th on. Returns the first place of every node's features in
    the two arrays that follow.
    """
    (n_nodes, k), size, dtype = ballots.shape, exchange.comm.size, ballots.dtype
    to_tellers = [np.ascontiguousarray(ballots[m::size]).reshape(-1).view(np.uint8) for m in range(size)]
    received = exchange.alltoall(to_tellers, "ballots", about=ballots.nbytes)
    own = np.stack([message.copy().view(dtype).reshape(-1, k) for message in received])
    start, feature, votes = elect(own, n_features, n_elected)
    result = np.concatenate((np.diff(start), feature, votes)).astype(np.uint32)
    counts = np.empty(n_nodes, np.int64)
    found: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []  # by teller: nodes, features, votes
    for m, message in enumerate(exchange.allgather(result, "ballots")):
        nodes = np.arange(m, n_nodes, size)
        counts[nodes] = message[: len(nodes)]
        features, its_votes = np.split(message[len(nodes) :].astype(np.int64), 2)
        found.append((np.repeat(nodes, counts[nodes]), features, its_votes))
    node, feature, votes = (np.concatenate(parts) for parts in zip(*found, strict=True))
    order = np.argsort(node, kind="stable")  # features of a node come from one teller, and stay in order
    return np.concatenate(([0], np.cumsum(counts))), feature[order], votes[order]


def elect(ballots: np.ndarray, n_features: int, n_elected: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The same of (workers, nodes, k) ballots that this worker has."""
    n_workers, n_nodes, k = ballots.shape
    most = n_nodes * min(n_elected, n_workers * k)
    start = np.zeros(n_nodes + 1, np.int64)
    feature, votes = np.empty(most, np.int64), np.empty(most, np.int64)
    n = kernels.elect(ballots, n_features, n_elected, np.iinfo(ballots.dtype).max, start, feature, votes)
    return start, feature[:n], votes[:n]
