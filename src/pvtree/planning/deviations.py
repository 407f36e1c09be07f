"""How far a machine's gains lie from the true ones: the deviation terms of Theorem 4.1, and Theorem 4.2's coarse bins.

All of it is part of ``pvtree.theory``.
"""

from __future__ import annotations

import numpy as np

from pvtree.errors import InvalidDataError, InvalidParameterError
from pvtree.parameters.rule_kinds import integer
from pvtree.planning.attribute_gains import MOST_BINS, BestSplits, BinnedData, bin_data, numbers

COUNT = integer("of rows, votes, machines or draws", 1)
_SEED = integer("of the draws", 0)


def gain_gaps(gains: np.ndarray, top_k: int, with_best: bool = True) -> np.ndarray:
    """How far each attribute's local gain may lie from its true gain: l_(j)(k), in the order of ``gains``.

    Half the distance to the best attribute for all from rank k + 1 on; infinite for those of rank 2 to k, which may be
    anywhere. The printed sum begins at rank k + 1 and so lets the best attribute itself deviate without limit. The
    proof needs that it falls by no more than the smallest of these gaps; ``with_best=False`` leaves that out, as
    printed.
    """
    gains = numbers("gains", gains)
    if gains.ndim != 1 or len(gains) == 0 or not np.isfinite(gains).all():
        raise InvalidDataError("gains must be a list of finite numbers, one for each attribute.")
    COUNT.check("top_k", top_k)
    order = np.argsort(-gains, kind="stable")
    gaps = np.full(len(gains), np.inf)
    gaps[order[top_k:]] = (gains[order[0]] - gains[order[top_k:]]) / 2.0
    if with_best and len(gains) > top_k:
        gaps[order[0]] = gaps[order[top_k]]
    return gaps


def deviation_constants(impurities: np.ndarray) -> np.ndarray:
    """c_j = min(2 / (9 H_left^2), 2 / (9 H_right^2)) from (attributes, 2) impurities of the sides of the best split.

    Entropies for information gain, variances for variance gain, in the unit of the gains. (The appendix prints the left
    side twice.) Infinite where both sides are pure.
    """
    impurities = numbers("impurities", impurities)
    if impurities.ndim != 2 or impurities.shape[1] != 2 or not (impurities >= 0.0).all():
        raise InvalidDataError("impurities must be an array (attributes, 2) of numbers that are not negative.")
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
    """delta_j(n, k) = alpha_j(n) + 4 exp(-c_j n l_j^2): at most so likely attribute j deviates by more than it may.

    ``alpha`` is the chance that the labels on both sides, and the place of the local split, shift the gain by more than
    l_j / 3. The paper only tells that it vanishes with n. 0 leaves it out, and what is left is then no bound for few
    rows; ``simulate_alpha`` finds it for given data. Attributes that may be anywhere have no term.
    """
    return _deviations(gain_gaps(gains, top_k, with_best), impurities, n_rows, alpha)


def _deviations(limits: np.ndarray, impurities: np.ndarray, n_rows: int, alpha: float | np.ndarray) -> np.ndarray:
    """alpha_j(n) + 4 exp(-c_j n limit_j^2), and 0 where the limit is infinite."""
    constants, alpha = deviation_constants(impurities), numbers("alpha", alpha)
    if len(limits) != len(constants):
        raise InvalidDataError(
            f"impurities must have a line for each of {len(limits)} attributes, have {len(constants)}."
        )
    COUNT.check("n_rows", n_rows)
    if alpha.shape not in ((), limits.shape) or not (alpha >= 0.0).all():
        raise InvalidParameterError(
            f"alpha must be one number that is not negative, or one for each of {len(limits)} attributes."
        )
    # A limit of 0 promises nothing, and an infinite one allows everything, whatever the constant is.
    exponent = np.where((limits > 0.0) & (limits < np.inf), limits, 1.0) ** 2 * constants * n_rows
    exponent = np.where(limits == 0.0, 0.0, exponent)
    return np.where(limits == np.inf, 0.0, alpha + 4.0 * np.exp(-exponent))


def best_splits(
    X: np.ndarray, y: np.ndarray, criterion: str = "entropy", max_bin: int = MOST_BINS, n_bins: int | None = None
) -> BestSplits:
    """Every attribute's best split of given rows: ``gain`` (in bits, or variance) and ``impurities`` of both sides.

    With ``n_bins`` the best split of the quantized histogram, of which only so many bins are kept.
    """
    data = _kept_bins(bin_data(X, y, criterion, max_bin), n_bins, max_bin)
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

    J is the proof's: the local sides' impurity at the local split, less the true sides' at the true split, both
    with the local shares of rows. The given rows stand for the distribution. The proof says that n^(2/3) J converges;
    as printed, however, J holds the labels' own variation, so that it shrinks like n^(-1/2).
    """
    data = bin_data(X, y, criterion, max_bin)
    true = data.best_splits(data.histograms())
    return _share_beyond(data, true, gain_gaps(true.gain, top_k) / 3.0, n_rows, n_draws, random_state)


def _share_beyond(
    data: BinnedData,
    true: BestSplits,
    limit: np.ndarray,
    n_rows: int,
    n_draws: int,
    random_state: int,
    with_node: bool = False,
) -> np.ndarray:
    """How often J of each attribute is beyond its limit."""
    COUNT.check("n_rows", n_rows)
    COUNT.check("n_draws", n_draws)
    _SEED.check("random_state", random_state)
    rng = np.random.default_rng(random_state)
    n_beyond = np.zeros(len(limit), np.int64)
    of_node = data.node_impurity(data.histograms()) if with_node else None
    for _ in range(n_draws):
        local = data.histograms(rng.integers(0, len(data.codes), n_rows))
        n_beyond += np.abs(_rest_term(data, local, true, of_node)) > limit
    return n_beyond / n_draws


def _rest_term(data: BinnedData, sums: np.ndarray, true: BestSplits, of_node: np.ndarray | None = None) -> np.ndarray:
    """J of each attribute; with the node's true impurity, J less the deviation of the node's own."""
    found = data.best_splits(sums)
    n_rows = data.n_rows_of(sums)  # (attributes, bins)
    all_rows = n_rows.sum(axis=1)
    n_left = np.where(np.arange(n_rows.shape[1]) <= true.last_left[:, None], n_rows, 0.0).sum(axis=1)
    at_true = (n_left * true.left_impurity + (all_rows - n_left) * true.right_impurity) / all_rows
    rest: np.ndarray = (data.node_impurity(sums) if of_node is None else of_node) - found.gain - at_true
    return rest


# Theorem 4.2: coarse bins


def quantization_bias(
    x: np.ndarray, y: np.ndarray, n_bins: int, criterion: str = "entropy", max_bin: int = MOST_BINS
) -> float | np.ndarray:
    """``f_j(b) = abs(IG_j - IG_j^b)``: what the best split loses where only ``n_bins`` of ``max_bin`` bins are kept.

    The theorem's point: however many rows there are, the gain of the quantized histogram stays away from the true one
    by about this much. Bins are merged to equal mass as tree_learner="quantized" does. A column gives a number, a
    matrix one for each column.
    """
    X = _as_matrix(x)
    full, coarse = (best_splits(X, y, criterion, max_bin, kept).gain for kept in (None, n_bins))
    bias: np.ndarray = np.abs(full - coarse)
    return float(bias[0]) if np.ndim(x) == 1 else bias


def quantization_certainty(
    bias: float | np.ndarray,
    impurities: np.ndarray,
    n_rows: int,
    epsilon: float = 0.0,
    alpha: float | np.ndarray = 0.0,
) -> float | np.ndarray:
    """Theorem 4.2: at least so surely is a quantized gain of ``n_rows`` rows more than ``epsilon`` off the true one.

    1 - delta_j(n, f_j(b) - epsilon), where the paper prints delta_j. ``bias`` is f_j(b), ``impurities`` are those of
    both sides of the quantized histogram's best split, ``best_splits(..., n_bins=b).impurities``. ``alpha`` as in
    ``deviation_terms``; ``simulate_quantization_alpha`` finds it.
    """
    limits = _bias_left(bias, epsilon)
    terms = _deviations(limits, np.atleast_2d(numbers("impurities", impurities)), n_rows, alpha)
    certainty = np.maximum(0.0, 1.0 - terms)
    return certainty if np.ndim(bias) else float(certainty[0])


def simulate_quantization_alpha(
    x: np.ndarray,
    y: np.ndarray,
    n_bins: int,
    n_rows: int,
    epsilon: float = 0.0,
    criterion: str = "entropy",
    max_bin: int = MOST_BINS,
    n_draws: int = 400,
    random_state: int = 0,
) -> float | np.ndarray:
    """alpha_j(n) of Theorem 4.2 by simulation: how often J is beyond (f_j(b) - epsilon) / 3.

    This J includes the deviation of the node's own impurity. The proof of Theorem 4.1 may drop it, as all attributes
    share it and their ranks survive; but Theorem 4.2 speaks of a gain itself.
    """
    limits = _bias_left(quantization_bias(x, y, n_bins, criterion, max_bin), epsilon)
    data = _kept_bins(bin_data(_as_matrix(x), y, criterion, max_bin), n_bins, max_bin)
    true = data.best_splits(data.histograms())
    alpha = _share_beyond(data, true, limits / 3.0, n_rows, n_draws, random_state, with_node=True)
    return float(alpha[0]) if np.ndim(x) == 1 else alpha


def _bias_left(bias: float | np.ndarray, epsilon: float) -> np.ndarray:
    """f_j(b) - epsilon."""
    each, tolerated = np.atleast_1d(numbers("bias", bias)), numbers("epsilon", epsilon)
    if tolerated.ndim or each.ndim > 1 or not ((each >= tolerated) & (tolerated >= 0.0) & (each < np.inf)).all():
        raise InvalidParameterError(f"epsilon must be a number from 0 to the smallest bias, is {epsilon} with {bias}.")
    left: np.ndarray = each - tolerated
    return left


def _kept_bins(data: BinnedData, n_bins: int | None, max_bin: int) -> BinnedData:
    if n_bins is None:
        return data
    integer("that are kept", 2, max_bin).check("n_bins", n_bins)
    return data.coarser(n_bins)


def _as_matrix(x: np.ndarray) -> np.ndarray:
    x = numbers("x", x)
    return x[:, None] if x.ndim == 1 else x
