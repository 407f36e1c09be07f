"""Local and global voting: each worker names its best features, and the most often named are elected."""

from __future__ import annotations

import math

import numpy as np

from pvtree.kernels.jit import njit


@njit
def top_k(start, stop, votes, gains, allowed, no_vote, ballots):
    """ballots[row] = the features with the largest gains, best first, ties to the lower index; then ``no_vote``.

    Rows that do not vote have blank ballots. Only features with a valid local split are named: the gain of any other
    is -inf.
    """
    k = ballots.shape[1]
    best = np.empty(k)
    for row in range(start, stop):
        n = 0
        if votes[row]:
            for feature in range(gains.shape[1]):
                gain = gains[row, feature] if allowed[row, feature] else -math.inf
                if gain == -math.inf or (n == k and gain <= best[k - 1]):
                    continue
                at = min(n, k - 1)
                while at > 0 and gain > best[at - 1]:
                    best[at] = best[at - 1]
                    ballots[row, at] = ballots[row, at - 1]
                    at -= 1
                best[at] = gain
                ballots[row, at] = feature
                n = min(n + 1, k)
        for at in range(n, k):
            ballots[row, at] = no_vote


@njit
def elect(ballots, n_features, n_elected, no_vote, elected_start, elected, votes):
    """TopKByMajority: elect for each node the features on most ballots; ties go by the sum of places, then by index.

    ``ballots`` is (workers, nodes, k). Elected features are listed in rising order, with their votes.
    """
    n_workers, n_rows, k = ballots.shape
    n_votes = np.zeros(n_features, np.int64)
    places = np.zeros(n_features, np.int64)
    named = np.empty(min(n_features, n_workers * k), np.int64)
    total = 0
    elected_start[0] = 0
    for row in range(n_rows):
        n_named = 0
        for worker in range(n_workers):
            for at in range(k):
                feature = np.int64(ballots[worker, row, at])
                if feature == no_vote:
                    break
                if n_votes[feature] == 0:
                    named[n_named] = feature
                    n_named += 1
                n_votes[feature] += 1
                places[feature] += at
        # One number orders them: most votes first, then the lowest sum of places, then the lowest index.
        keys = np.empty(n_named, np.int64)
        for i in range(n_named):
            feature = named[i]
            keys[i] = ((n_workers - n_votes[feature]) * (n_workers * k) + places[feature]) * n_features + feature
        keys.sort()
        winners = keys[: min(n_elected, n_named)] % n_features
        winners.sort()
        for feature in winners:
            elected[total] = feature
            votes[total] = n_votes[feature]
            total += 1
        for i in range(n_named):  # all zeros again for the next node
            n_votes[named[i]] = 0
            places[named[i]] = 0
        elected_start[row + 1] = total
    return total
