"""The paper's theorems as functions: how likely the election contains the best attribute, and what coarse bins lose.

Theorems 4.1 and 4.2 of Meng et al., NIPS 2016. docs/theory.md states them in words and says what the proofs leave open.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import betainc, ndtri

from pvtree.errors import InvalidDataError, InvalidParameterError
from pvtree.planning.attribute_gains import MOST_BINS, BestSplits, BinnedData, bin_data

if TYPE_CHECKING:
    from pvtree.find_split import Votes

__all__ = [
    "Estimate",
    "best_splits",
    "deviation_constants",
    "deviation_terms",
    "election_bound",
    "estimate_p",
    "estimate_selection",
    "gain_gaps",
    "least_votes",
    "local_success",
    "quantization_bias",
    "selection_probability",
    "simulate_alpha",
]

_ALMOST = 1e-9  # keeps rounding from pushing M / beta below a whole number; an extra vote is on the safe side


# Global voting: from the chance of one machine to that of the election


def least_votes(n_workers: int, election_size: float = 2.0, top_k: int | None = None) -> int:
    """The number of ballots that certainly elect the attribute that they name, whatever the other ballots say.

    The paper's number is [M / beta] + 1. With ``top_k`` the count is exact: an attribute with v votes is passed over
    only if e = [beta k] others have at least v votes. There are M k names in total, so v (e + 1) <= M k.

    Parameters
    ----------
    n_workers : int
        The number M of machines. Must be at least 1.
    election_size : float, default=2.0
        beta: beta k attributes are elected. Must be at least 1.
    top_k : int or None, default=None
        k, for the exact count; None for the paper's. Must be at least 1.
    """
    _check_election(n_workers, election_size, top_k)
    if top_k is None:
        return math.floor(n_workers / election_size + _ALMOST) + 1
    n_elected = max(1, int(election_size * top_k))
    return n_workers * top_k // (n_elected + 1) + 1


def selection_probability(
    p: float | np.ndarray, n_workers: int, election_size: float = 2.0, top_k: int | None = None
) -> float | np.ndarray:
    """Theorem 4.1's binomial: how likely the best attribute is elected if each machine names it with probability p.

    It is P(Binomial(M, p) >= [M / beta] + 1) for machines that decide independently. With ``top_k`` it uses the smaller
    number of votes that suffices (``least_votes``). It is a lower bound: if other votes scatter, fewer are enough.

    Parameters
    ----------
    p : float or array
        The probability of one machine. Must lie between 0 and 1.
    n_workers, election_size, top_k
        As in ``least_votes``.
    """
    share = np.asarray(p, np.float64)
    if not ((share >= 0.0) & (share <= 1.0)).all():
        raise InvalidParameterError(f"p must lie between 0 and 1, got {p}.")
    least = least_votes(n_workers, election_size, top_k)
    # The tail of a binomial is an incomplete beta function.
    tail = np.zeros(share.shape) if least > n_workers else betainc(least, n_workers - least + 1, share)
    return tail if isinstance(p, np.ndarray) else float(tail)


# Local voting: deviation terms


def gain_gaps(gains: np.ndarray, top_k: int, with_best: bool = True) -> np.ndarray:
    """How far each attribute's local gain may deviate from its true gain: l_(j)(k), in the order of ``gains``.

    From rank k + 1 on it is half the distance to the best attribute; for ranks 2 to k it is infinite, because these may
    be anywhere. The printed sum begins at rank k + 1, so it lets the best attribute deviate without limit. But the
    proof needs that the best attribute falls by no more than the smallest of these gaps.

    Parameters
    ----------
    gains : array of shape (n_attributes,)
        The true gains. Must be finite.
    top_k : int
        The number k of names on a ballot. Must be at least 1.
    with_best : bool, default=True
        Whether to bound the best attribute's own deviation, which the proof needs; False for the sum as printed.
    """
    gains = np.asarray(gains, np.float64)
    if gains.ndim != 1 or len(gains) == 0 or not np.isfinite(gains).all():
        raise InvalidDataError("gains must be a list of finite numbers, one per attribute.")
    if top_k < 1:
        raise InvalidParameterError(f"top_k must be an integer of at least 1, got {top_k}.")
    order = np.argsort(-gains, kind="stable")
    gaps = np.full(len(gains), np.inf)
    gaps[order[top_k:]] = (gains[order[0]] - gains[order[top_k:]]) / 2.0
    if with_best and len(gains) > top_k:
        gaps[order[0]] = gaps[order[top_k]]
    return gaps


def deviation_constants(impurities: np.ndarray) -> np.ndarray:
    """c_j = min(2 / (9 H_left^2), 2 / (9 H_right^2)); infinite if both sides are pure.

    (The appendix prints the left side twice.)

    Parameters
    ----------
    impurities : array of shape (n_attributes, 2)
        The impurities of both sides of each best split, in the unit of the gains: entropies for information gain,
        variances for variance gain. Must not be negative.
    """
    impurities = np.asarray(impurities, np.float64)
    if impurities.ndim != 2 or impurities.shape[1] != 2 or not (impurities >= 0.0).all():
        raise InvalidDataError("impurities must be an array (attributes, 2) of non-negative numbers.")
    with np.errstate(divide="ignore"):
        constants: np.ndarray = 2.0 / (9.0 * impurities.max(axis=1) ** 2)
    return constants


def deviation_terms(
    gains: np.ndarray,
    impurities: np.ndarray,
    n_rows: int,
    top_k: int,
    alpha: float | np.ndarray = 0.0,
    with_best: bool = True,
) -> np.ndarray:
    """delta_j(n, k) = alpha_j(n) + 4 exp(-c_j n l_j^2): a bound on the probability that attribute j deviates too far.

    The paper only says that alpha vanishes with n. With ``alpha=0`` the result is not a bound for few rows;
    ``simulate_alpha`` finds alpha for given data. Attributes that may be anywhere have no term.

    Parameters
    ----------
    gains : array of shape (n_attributes,)
        The true gains. Must be finite.
    impurities : array of shape (n_attributes, 2)
        The impurities of both sides of each best split. Must not be negative.
    n_rows : int
        The number n of rows of a machine. Must not be negative.
    top_k : int
        The number k of names on a ballot. Must be at least 1.
    alpha : float or array of shape (n_attributes,), default=0.0
        The chance that labels and the place of the local split shift the gain by more than l_j / 3. Must not be
        negative.
    with_best : bool, default=True
        Whether to bound the best attribute's own deviation, as in ``gain_gaps``.
    """
    gaps, constants = gain_gaps(gains, top_k, with_best), deviation_constants(impurities)
    if len(gaps) != len(constants):
        raise InvalidDataError(
            f"gains and impurities must have as many attributes as each other, got {len(gaps)} and {len(constants)}."
        )
    if n_rows < 0 or not (np.asarray(alpha) >= 0.0).all():
        raise InvalidParameterError("n_rows and alpha must not be negative.")
    # A gap of 0 promises nothing and an infinite gap allows everything, whatever the constant is.
    exponent = np.where((gaps > 0.0) & (gaps < np.inf), gaps, 1.0) ** 2 * constants * n_rows
    exponent = np.where(gaps == 0.0, 0.0, exponent)
    return np.where(gaps == np.inf, 0.0, alpha + 4.0 * np.exp(-exponent))


def local_success(
    gains: np.ndarray,
    impurities: np.ndarray,
    n_rows: int,
    top_k: int,
    alpha: float | np.ndarray = 0.0,
    with_best: bool = True,
) -> float:
    """1 - sum of delta_j: a machine with ``n_rows`` rows names the best attribute with at least this probability.

    Parameters are those of ``deviation_terms``.
    """
    return max(0.0, 1.0 - float(deviation_terms(gains, impurities, n_rows, top_k, alpha, with_best).sum()))


def election_bound(
    gains: np.ndarray,
    impurities: np.ndarray,
    n_rows: int,
    top_k: int,
    n_workers: int,
    election_size: float = 2.0,
    alpha: float | np.ndarray = 0.0,
    with_best: bool = True,
) -> float:
    """Theorem 4.1: a lower bound on the probability that the election contains the best attribute.

    Each of the ``n_workers`` machines has ``n_rows`` rows. Parameters are those of ``deviation_terms`` and
    ``selection_probability``.
    """
    p = local_success(gains, impurities, n_rows, top_k, alpha, with_best)
    return float(selection_probability(p, n_workers, election_size))


def best_splits(X: np.ndarray, y: np.ndarray, criterion: str = "entropy", max_bin: int = MOST_BINS) -> BestSplits:
    """The best split of every attribute on given rows: its ``gain`` (bits or variance) and both sides' ``impurities``.

    Parameters
    ----------
    X : array of shape (n_rows, n_attributes)
        The rows. Must be finite.
    y : array of shape (n_rows,)
        Classes for entropy, numbers for variance.
    criterion : {"entropy", "variance"}, default="entropy"
        The impurity.
    max_bin : int, default=255
        The maximum number of bins of an attribute. Must be from 2 to 255.
    """
    data = bin_data(X, y, criterion, max_bin)
    return data.best_splits(data.histograms())


def simulate_alpha(
    X: np.ndarray,
    y: np.ndarray,
    n_rows: int,
    top_k: int,
    criterion: str = "entropy",
    max_bin: int = MOST_BINS,
    n_draws: int = 400,
    random_state: int = 0,
) -> np.ndarray:
    """alpha_j(n) by simulation: the share of draws of ``n_rows`` of the given rows with ``abs(J_j) > l_j / 3``.

    J is defined as in the proof: the impurity of the local sides at the local split, less that of the true sides at the
    true split, both weighted by the local shares of rows. The given rows stand for the distribution. The proof says
    that n^(2/3) J converges. As printed, however, J contains the variation of the labels, so it shrinks like n^(-1/2).

    Parameters
    ----------
    X, y : arrays
        The rows and their labels, as in ``best_splits``.
    n_rows : int
        The number n of rows of a machine. Must be at least 1.
    top_k : int
        The number k of names on a ballot. Must be at least 1.
    criterion : {"entropy", "variance"}, default="entropy"
        The impurity.
    max_bin : int, default=255
        The maximum number of bins of an attribute. Must be from 2 to 255.
    n_draws : int, default=400
        The number of draws. Must be at least 1.
    random_state : int, default=0
        The seed of the draws.
    """
    if n_rows < 1 or n_draws < 1:
        raise InvalidParameterError(f"n_rows and n_draws must be at least 1, got {n_rows} and {n_draws}.")
    data = bin_data(X, y, criterion, max_bin)
    true = data.best_splits(data.histograms())
    limit = gain_gaps(true.gain, top_k) / 3.0
    rng = np.random.default_rng(random_state)
    n_beyond = np.zeros(len(limit), np.int64)
    for _ in range(n_draws):
        local = data.histograms(rng.integers(0, len(data.codes), n_rows))
        n_beyond += np.abs(_rest_term(data, local, true)) > limit
    return n_beyond / n_draws


def _rest_term(data: BinnedData, sums: np.ndarray, true: BestSplits) -> np.ndarray:
    """J of each attribute."""
    found = data.best_splits(sums)
    n_rows = data.n_rows_of(sums)  # (attributes, bins)
    all_rows = n_rows.sum(axis=1)
    n_left = np.where(np.arange(n_rows.shape[1]) <= true.last_left[:, None], n_rows, 0.0).sum(axis=1)
    at_true = (n_left * true.left_impurity + (all_rows - n_left) * true.right_impurity) / all_rows
    of_node = data.weighted_impurity(sums.sum(axis=1)) / all_rows
    rest: np.ndarray = of_node - found.gain - at_true
    return rest


# Theorem 4.2: coarse bins


def quantization_bias(
    x: np.ndarray, y: np.ndarray, n_bins: int, criterion: str = "entropy", max_bin: int = MOST_BINS
) -> float | np.ndarray:
    """``f_j(b) = abs(IG_j - IG_j^b)``: what the best split loses if only ``n_bins`` of ``max_bin`` bins are kept.

    The point of the theorem: with any number of rows, the gain of the quantized histogram differs from the true one by
    about this much. Bins are merged to equal mass, as tree_learner="quantized" does.

    Parameters
    ----------
    x : array of shape (n_rows,) or (n_rows, n_attributes)
        A column gives a number, a matrix one number per column. Must be finite.
    y : array of shape (n_rows,)
        Classes for entropy, numbers for variance.
    n_bins : int
        The number b of bins to keep. Must be from 2 to ``max_bin``.
    criterion : {"entropy", "variance"}, default="entropy"
        The impurity.
    max_bin : int, default=255
        The maximum number of bins of an attribute. Must be from 2 to 255.
    """
    if not 2 <= n_bins <= max_bin:
        raise InvalidParameterError(f"n_bins must be an integer from 2 to max_bin, which is {max_bin}, got {n_bins}.")
    x = np.asarray(x, np.float64)
    data = bin_data(x[:, None] if x.ndim == 1 else x, y, criterion, max_bin)
    coarse = data.coarser(n_bins)
    full = data.best_splits(data.histograms()).gain
    bias: np.ndarray = np.abs(full - coarse.best_splits(coarse.histograms()).gain)
    return float(bias[0]) if x.ndim == 1 else bias


# Estimates from the ballots of a training


class Estimate(NamedTuple):
    """A probability estimated from counts, with its interval."""

    value: float
    low: float
    high: float


def estimate_p(votes: Votes | Iterable[Votes], n_workers: int, confidence: float = 0.95) -> Estimate:
    """The probability that a machine names the attribute by which the node is split.

    It is the share of all ballots, with Wilson's interval as if ballots were independent. Plain voting sees only
    winners that were elected. If a better attribute was passed over, the ballots that missed it are not counted, so the
    estimate tends to be too high. With tree_learner="exact_voting" the winner is the best, so there is no such bias.

    Parameters
    ----------
    votes : Votes or iterable of Votes
        ``est.votes_``, or the votes of one tree.
    n_workers : int
        The number of workers that voted. Must be at least 1.
    confidence : float, default=0.95
        The confidence of the interval. Must lie between 0 and 1.
    """
    n_named, n_ballots = _counted(votes, n_workers)
    if not 0.0 < confidence < 1.0:
        raise InvalidParameterError(f"confidence must lie between 0 and 1, got {confidence}.")
    share, z = n_named / n_ballots, float(ndtri((1.0 + confidence) / 2.0))
    spread = z * z / n_ballots
    middle = (share + spread / 2.0) / (1.0 + spread)
    half = math.sqrt(spread * (share * (1.0 - share) + spread / 4.0)) / (1.0 + spread)
    return Estimate(share, max(0.0, middle - half), min(1.0, middle + half))


def estimate_selection(
    votes: Votes | Iterable[Votes],
    n_workers: int,
    election_size: float = 2.0,
    top_k: int | None = None,
    confidence: float = 0.95,
) -> Estimate:
    """``selection_probability`` at the estimated p and at both ends of its interval, as if p were the same everywhere.

    It is not: nodes with few rows are harder. Estimates per tree, or trainings of several sizes, show how much.
    Parameters are those of ``estimate_p`` and ``selection_probability``.
    """
    estimate = estimate_p(votes, n_workers, confidence)
    return Estimate(*(float(selection_probability(p, n_workers, election_size, top_k)) for p in estimate))


def _counted(votes: Votes | Iterable[Votes], n_workers: int) -> tuple[int, int]:
    """The number of ballots that named the winner, and of all ballots."""
    each: list[Votes] = [votes] if hasattr(votes, "named") else list(votes)  # type: ignore[list-item]
    n_named, n_ballots = sum(tree.named for tree in each), n_workers * sum(tree.splits for tree in each)
    if n_ballots <= 0:
        raise InvalidDataError(
            "votes hold no split that workers voted about; train on more attributes than are elected."
        )
    if n_named > n_ballots:
        raise InvalidParameterError(
            f"n_workers is {n_workers}, but the votes are those of more workers; give the number that voted."
        )
    return n_named, n_ballots


def _check_election(n_workers: int, election_size: float, top_k: int | None) -> None:
    if n_workers < 1 or n_workers != int(n_workers):
        raise InvalidParameterError(f"n_workers must be an integer of at least 1, got {n_workers}.")
    if not 1.0 <= election_size < math.inf:
        raise InvalidParameterError(f"election_size must be a number of at least 1, got {election_size}.")
    if top_k is not None and (top_k < 1 or top_k != int(top_k)):
        raise InvalidParameterError(f"top_k must be an integer of at least 1, got {top_k}.")
