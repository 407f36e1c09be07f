"""The paper's theorems as functions: how surely the election contains the best attribute, and what coarse bins lose.

Section 4 of Meng et al., NIPS 2016. docs/theory.md tells it in words, with what the proofs leave open.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from numbers import Real
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import betainc, ndtri

from pvtree.errors import InvalidDataError, InvalidParameterError, InvalidTypeError
from pvtree.parameters.rule_kinds import Rule, integer
from pvtree.planning.attribute_gains import numbers
from pvtree.planning.deviations import (
    COUNT,
    best_splits,
    deviation_constants,
    deviation_terms,
    gain_gaps,
    quantization_bias,
    quantization_certainty,
    simulate_alpha,
    simulate_quantization_alpha,
)

if TYPE_CHECKING:
    from pvtree.find_split import Votes

__all__ = [
    "Estimate",
    "best_machine_number",
    "best_splits",
    "bound_by_attributes",
    "bound_by_machines",
    "deviation_constants",
    "deviation_terms",
    "election_bound",
    "estimate_p",
    "estimate_selection",
    "gain_gaps",
    "least_votes",
    "local_success",
    "quantization_bias",
    "quantization_certainty",
    "selection_probability",
    "simulate_alpha",
    "simulate_quantization_alpha",
]

_ELECTION_SIZE = Rule("beta", "a number of at least 1", lambda v: isinstance(v, Real), lambda v: 1.0 <= v < math.inf)
_CONFIDENCE = Rule("of an interval", "a number between 0 and 1", lambda v: isinstance(v, Real), lambda v: 0.0 < v < 1.0)
_ALMOST = 1e-9  # keeps M / beta from falling short of a whole number by rounding; too many votes are on the safe side


# Global voting: from one machine's chance to the election's


def least_votes(n_workers: int, election_size: float = 2.0, top_k: int | None = None) -> int:
    """So many ballots certainly elect the attribute that they name, whatever all other ballots say.

    The paper's number is [M / beta] + 1 where beta k attributes are elected. With ``top_k`` the count is exact: an
    attribute with v votes is passed over only if e = [beta k] others have at least v, and M k names are all there are,
    so that v (e + 1) <= M k.
    """
    _check_election(n_workers, election_size, top_k)
    if top_k is None:
        return math.floor(n_workers / election_size + _ALMOST) + 1
    n_elected = max(1, int(election_size * top_k))
    return n_workers * top_k // (n_elected + 1) + 1


def selection_probability(
    p: float | Sequence[float] | np.ndarray, n_workers: int, election_size: float = 2.0, top_k: int | None = None
) -> float | np.ndarray:
    """Theorem 4.1's binomial: how surely the best attribute is elected if each machine names it with probability p.

    P(Binomial(M, p) >= [M / beta] + 1), for machines that decide independently; with ``top_k``, for the smaller number
    of votes that suffices (``least_votes``). It is a lower bound: where other votes scatter, fewer are enough. Several
    p give an array.
    """
    share = numbers("p", p)
    if not ((share >= 0.0) & (share <= 1.0)).all():
        raise InvalidParameterError(f"p must lie between 0 and 1, is {p}.")
    least = least_votes(n_workers, election_size, top_k)
    # The tail of a binomial is an incomplete beta function.
    tail = np.zeros(share.shape) if least > n_workers else betainc(least, n_workers - least + 1, share)
    return np.asarray(tail) if share.ndim else float(tail)


# Local voting: from deviation terms to one machine's chance


def local_success(
    gains: np.ndarray,
    impurities: np.ndarray,
    n_rows: int,
    top_k: int,
    alpha: float | np.ndarray = 0.0,
    with_best: bool = True,
) -> float:
    """A machine with ``n_rows`` rows names the best attribute with at least this probability: 1 - sum of delta_j."""
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
    """Theorem 4.1: how surely, at least, the election of machines with ``n_rows`` rows each has the best attribute."""
    p = local_success(gains, impurities, n_rows, top_k, alpha, with_best)
    return float(selection_probability(p, n_workers, election_size))


# The discussions of Theorem 4.1


def bound_by_attributes(
    gains: np.ndarray,
    impurities: np.ndarray,
    n_attributes: int | Sequence[int] | np.ndarray,
    n_rows: int,
    top_k: int,
    n_workers: int,
    election_size: float = 2.0,
    alpha: float | np.ndarray = 0.0,
    with_best: bool = True,
) -> float | np.ndarray:
    """Discussion 2: ``election_bound`` for each of these numbers of attributes d.

    Fewer than given are those of the largest gains. More are copies of the least informative one: among very many
    attributes most are far from the best, so that each adds only its own small term to the sum.
    """
    gains, impurities, alpha = numbers("gains", gains), numbers("impurities", impurities), numbers("alpha", alpha)
    wanted = np.atleast_1d(n_attributes)
    for number in wanted:
        COUNT.check("Each number in n_attributes", number)
    deviation_terms(gains, impurities, n_rows, top_k, alpha, with_best)  # checks them all
    order = np.argsort(-gains, kind="stable")
    # Ranks from 0; the best one's own term needs rank top_k, which may be a copy's.
    of_rank = order[np.minimum(np.arange(max(len(gains), top_k + 1)), len(gains) - 1)]
    alpha = np.broadcast_to(alpha, gains.shape)[of_rank]
    terms = deviation_terms(gains[of_rank], impurities[of_rank], n_rows, top_k, alpha, with_best)
    sums = np.cumsum(terms[top_k:])[np.clip(wanted, top_k + 1, len(terms)) - top_k - 1]
    sums = terms[0] + sums + np.maximum(wanted - len(terms), 0) * terms[-1]
    p = np.where(wanted > top_k, np.maximum(0.0, 1.0 - sums), 1.0)  # a ballot with room for all names the best
    bound = selection_probability(p, n_workers, election_size)
    return bound if np.ndim(n_attributes) else float(np.asarray(bound)[0])


def bound_by_machines(
    success: Callable[[int], float],
    n_rows: int,
    machines: Sequence[int] | np.ndarray,
    election_size: float = 2.0,
    top_k: int | None = None,
) -> np.ndarray:
    """Discussion 3: how surely each of these numbers of machines M elects the best attribute if they share N rows.

    ``success`` tells with which probability a machine of n = [N / M] rows names the best attribute: ``local_success``
    for given gains, or what was measured. More machines have fewer rows each, but more votes.
    """
    COUNT.check("n_rows", n_rows)
    shared = integer("that share the rows", 1, n_rows)
    bounds = []
    for n_workers in np.atleast_1d(machines):
        shared.check("Each number in machines", n_workers)
        p = success(n_rows // int(n_workers))
        bounds.append(float(selection_probability(p, int(n_workers), election_size, top_k)))
    return np.array(bounds)


def best_machine_number(
    success: Callable[[int], float],
    n_rows: int,
    machines: Sequence[int] | np.ndarray,
    election_size: float = 2.0,
    top_k: int | None = None,
) -> int:
    """The number of machines with the greatest ``bound_by_machines``; the first of them if several are as good."""
    bounds = bound_by_machines(success, n_rows, machines, election_size, top_k)
    if len(bounds) == 0:
        raise InvalidParameterError("machines must hold at least one number of machines.")
    return int(np.atleast_1d(machines)[np.argmax(bounds)])


# What a training's ballots tell


class Estimate(NamedTuple):
    """A probability from counts, with an interval."""

    value: float
    low: float
    high: float


def estimate_p(votes: Votes | Iterable[Votes], n_workers: int, confidence: float = 0.95) -> Estimate:
    """How likely a machine names the attribute that the node is split by, from ``est.votes_`` (or one tree's votes).

    The share of all ballots, with Wilson's interval as if ballots were independent. Plain voting only sees winners that
    were elected: where a better attribute was passed over, nobody counts the ballots that missed it, so the estimate is
    too high rather than too low. With tree_learner="exact_voting" the winner is known to be the best, and it is not.
    """
    n_named, n_ballots = _counted(votes, n_workers)
    _CONFIDENCE.check("confidence", confidence)
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

    It is not: nodes with few rows are harder. One estimate for each tree, or trainings of several sizes, show how much.
    """
    estimate = estimate_p(votes, n_workers, confidence)
    return Estimate(*(float(selection_probability(p, n_workers, election_size, top_k)) for p in estimate))


def _counted(votes: Votes | Iterable[Votes], n_workers: int) -> tuple[int, int]:
    """Ballots that named the winner, and all ballots."""
    COUNT.check("n_workers", n_workers)
    try:
        each: list[Votes] = [votes] if hasattr(votes, "named") else list(votes)  # type: ignore[list-item]
        n_named, n_ballots = sum(tree.named for tree in each), n_workers * sum(tree.splits for tree in each)
    except (AttributeError, TypeError):
        raise InvalidTypeError("votes must be an estimator's votes_, or those of one tree.") from None
    if n_ballots <= 0:
        raise InvalidDataError("votes hold no split that workers voted about; train with more attributes than elected.")
    if n_named > n_ballots:
        raise InvalidParameterError(
            f"n_workers is {n_workers}, but the votes are of more workers; give the number that voted."
        )
    return n_named, n_ballots


def _check_election(n_workers: int, election_size: float, top_k: int | None) -> None:
    COUNT.check("n_workers", n_workers)
    _ELECTION_SIZE.check("election_size", election_size)
    if top_k is not None:
        COUNT.check("top_k", top_k)
