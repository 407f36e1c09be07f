"""A warning if the workers' rows differ so much that votes or trees are unreliable, as in data sorted by label or time.
PV-Tree's proof assumes that each worker's rows are a random sample of all rows; this tests the assumption."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pvtree.binning.coarsening import count_rows
from pvtree.comm.user_warnings import SkewWarning, warn_user
from pvtree.kernels.constants import N_BINS
from pvtree.kernels.team import Team
from pvtree.parameters.params import PARTITION_LEARNERS

if TYPE_CHECKING:
    from pvtree.binning.shard import Shard
    from pvtree.comm import Communicator
    from pvtree.parameters.params import Params

# The least share of the variance between workers that is reported. At a fifth, the workers' means lie half a worker's
# standard deviation apart (sqrt(0.2 / 0.8)). Sorted data reach 1 - 1/M^2 = 0.75 or more on M workers.
DOUBTFUL_SHARE = 0.2
# The probability of a warning about rows that were distributed at random. It is low, as real cases are far beyond.
FALSE_ALARMS = 1e-4
FEATURE_ROWS = 20_000  # sampled: gives a share to about 1 % and costs less than a tree
LABEL_VALUES = 1024  # exchanged to rank the labels of a regression
LABEL_RANKS = 64
MOST_NAMED = 3


@dataclass(frozen=True)
class Skew:
    """The share of the variance that lies between workers, 0 to 1; 0 if it is too small to report."""

    label: float
    features: np.ndarray  # float64 (n_features,)


def warn_if_skewed(
    shard: Shard, params: Params, comm: Communicator, feature_names: Sequence[str] | None = None
) -> None:
    """Warn on worker 0 if the learner needs rows that are distributed at random, but they are not."""
    if params.tree_learner not in PARTITION_LEARNERS or comm.size == 1:
        return
    skew = measure_skew(shard, params.n_classes, comm)
    if comm.rank == 0 and (skew.label or skew.features.any()):
        votes = params.tree_learner == "voting"
        warn_user(_sentence(skew, votes, shard.group is not None, feature_names), SkewWarning)


def measure_skew(shard: Shard, n_classes: int, comm: Communicator) -> Skew:
    """Computed from sums over all workers; all get the same result."""
    labels = _label_moments(shard, n_classes, comm)  # (n_labels, 3)
    features = _feature_moments(shard)  # (n_features, 3)
    # Rows of a query resemble each other, so they count as fewer: one per query if all have the same size (Kish's
    # effective sample size).
    squares = shard.n_rows if shard.group is None else float(np.square(shard.group, dtype=np.float64).sum())
    sums = comm.allreduce(np.concatenate([[squares], labels.ravel(), features.ravel()]), "bins")
    n_units = shard.ids.n_all**2 / sums[0]
    labels = sums[1 : 1 + labels.size].reshape(labels.shape)
    features = sums[1 + labels.size :].reshape(features.shape)
    attainable = _attainable(labels) if n_classes > 1 else np.ones(1)
    n_tests = len(labels) + len(features) - 2
    label = _doubtful(labels, attainable, n_units, n_tests).max(initial=0.0)
    return Skew(float(label), _doubtful(features, np.ones(len(features) - 1), n_units, n_tests))


def _moments(n: int, sums: np.ndarray, squares: np.ndarray) -> np.ndarray:
    """For each variable (sum, sum of squares, sum^2 / n), which can be added over workers. The first row is that of the
    constant 1, with a 1 in place of sum^2 / n: added up, it counts the workers with rows."""
    table = np.zeros((len(sums) + 1, 3))
    if n:
        table[0] = n, n, 1
        table[1:] = np.column_stack([sums, squares, np.square(sums) / n])
    return table


def _label_moments(shard: Shard, n_classes: int, comm: Communicator) -> np.ndarray:
    """Moments of the indicator of every class, or of a number's rank: a few extreme labels would hide an order."""
    labels = shard.y if shard.y.ndim == 1 else shard.y[:, 0]
    y = labels[shard.ids.sample()]
    if n_classes > 1:
        counts = np.bincount(y.astype(np.int64), minlength=n_classes).astype(np.float64)
        return _moments(len(y), counts, counts)
    some = labels[:: max(1, shard.ids.n_all // LABEL_VALUES)]
    known = np.sort(np.concatenate(comm.allgather(np.ascontiguousarray(some), "bins")))
    cuts = np.unique(known[np.arange(1, LABEL_RANKS) * len(known) // LABEL_RANKS])
    rank = np.searchsorted(cuts, y).astype(np.float64)
    return _moments(len(y), rank.sum(keepdims=True), np.square(rank).sum(keepdims=True))


def _feature_moments(shard: Shard) -> np.ndarray:
    """Moments of every feature's bin number, which is 0 for missing values."""
    rows = shard.ids.sample(FEATURE_ROWS)
    with Team(1) as team:
        counts = count_rows(shard.data, rows, team).astype(np.float64)  # (n_features, N_BINS)
    bins = np.arange(N_BINS, dtype=np.float64)
    return _moments(len(rows), counts @ bins, counts @ np.square(bins))


def _attainable(moments: np.ndarray) -> np.ndarray:
    """The share that data sorted by class would have: small for a rare class, however unevenly it is distributed."""
    n_rows, _, n_workers = moments[0]
    share = moments[1:, 0] / n_rows
    full = share * n_workers  # this many workers would have rows of this class only, and one more some of them
    between = (np.floor(full) + np.square(full % 1)) / n_workers - np.square(share)
    within_all = share * (1 - share)
    return np.where(within_all > 0, between / np.where(within_all > 0, within_all, 1.0), 1.0)


def _doubtful(moments: np.ndarray, attainable: np.ndarray, n_units: float, n_tests: int) -> np.ndarray:
    """Each variable's share between workers (eta squared), relative to the attainable; 0 if it may be chance.

    For rows distributed at random, eta^2 (n - 1) is about chi-square with k = workers - 1 degrees of freedom; if whole
    queries are distributed, n counts queries. It exceeds k + 2 sqrt(k x) + 2 x with a probability below e^-x (Laurent
    and Massart, 2000).
    """
    n_rows, _, n_workers = moments[0]
    n, k = min(n_rows, n_units), n_workers - 1
    if k < 1 or n <= n_workers:
        return np.zeros(len(moments) - 1)
    sums, squares, between = moments[1:].T
    total = squares - np.square(sums) / n_rows
    varies = total > 1e-9 * squares
    eta = np.where(varies, (between - np.square(sums) / n_rows) / np.where(varies, total, 1.0), 0.0)
    x = math.log(n_tests / FALSE_ALARMS)
    expected = k / (n - 1)
    chance = (k + 2 * math.sqrt(k * x) + 2 * x) / (n - 1)
    above = (eta - expected) / np.maximum(attainable - expected, 1e-9)
    return np.where((eta > chance) & (above > DOUBTFUL_SHARE), np.minimum(above, 1.0), 0.0)


def _sentence(skew: Skew, votes: bool, has_queries: bool, feature_names: Sequence[str] | None) -> str:
    differing = []
    if skew.label:
        differing.append(f"the label ({skew.label:.0%})")
    order = np.argsort(-skew.features, kind="stable")[: np.count_nonzero(skew.features)]
    for feature in order[:MOST_NAMED]:
        name = int(feature) if feature_names is None else repr(feature_names[feature])
        differing.append(f"column {name} ({skew.features[feature]:.0%})")
    n_more = len(order) - MOST_NAMED
    if n_more > 0:
        differing.append(f"{n_more} more column{'s' if n_more > 1 else ''}")
    listed = " and ".join([", ".join(differing[:-1])] * (len(differing) > 1) + differing[-1:])
    what = "the queries (keeping the rows of each together)" if has_queries else "the rows (sklearn.utils.shuffle)"
    doubt = "votes may miss the best features" if votes else "trees may fit their own rows only"
    other = "'exact_voting', which proves every split, or 'data', which does not vote"
    if not votes:
        other = "'exact_voting' or 'data', which grow every tree on all rows"
    return (
        f"The workers hold different data, so their {doubt} (share of the possible variance between workers: "
        f"{listed}); shuffle {what} before training, or use tree_learner={other}."
    )
