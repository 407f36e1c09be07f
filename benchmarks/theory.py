"""Theorems 4.1 and 4.2 against simulated elections: many random draws of machines' rows, in numpy.

It shares no code with the package except the functions under test, so that tests can compare the two.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pvtree import theory
from tables import markdown, write_between_marks

N_BINS, N_COARSE = 100, 10  # full-grained bins of equal mass, and the quantized histogram's 10 %


class Population(NamedTuple):
    """Rows that represent the distribution; machines draw their rows from them."""

    X: np.ndarray  # float64 (n_rows, n_attributes)
    y: np.ndarray  # int64 (n_rows,), 0 or 1
    codes: np.ndarray  # int64 (n_rows, n_attributes): bins of equal mass
    gains: np.ndarray  # float64 (n_attributes, N_BINS - 1): true information gain, in bits, of every split

    @property
    def best(self) -> int:
        return int(self.gains.max(axis=1).argmax())


class Elections(NamedTuple):
    """Results of the election at the root of each trial."""

    is_named: np.ndarray  # bool (n_trials, n_workers): whether a machine's ballot has the best attribute
    is_elected: np.ndarray  # bool (n_trials,)
    voting_loss: np.ndarray  # float64 (n_trials,): true gain missed by the split that PV-Tree makes
    quantized_loss: np.ndarray  # the same of the quantized histogram's split

    @property
    def p(self) -> float:
        return float(self.is_named.mean())

    @property
    def frequency(self) -> float:
        return float(self.is_elected.mean())

    @property
    def error(self) -> float:
        """Standard error of the frequency; if there was no miss, that of one miss."""
        n = len(self.is_elected)
        missed = max(1.0, min(n - 1.0, n * (1.0 - self.frequency))) / n
        return float(np.sqrt(missed * (1.0 - missed) / n))


def make_population(n_rows: int = 60_000, n_attributes: int = 40, seed: int = 0) -> Population:
    """Attribute 0 has a step inside a coarse bin; the next seven are ever less informative, the others are noise."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, n_attributes))
    X[:, 0] = rng.permutation(n_rows) / n_rows
    y = ((X[:, 0] >= 0.55) ^ (rng.random(n_rows) < 0.22)).astype(np.int64)
    X[:, 1:8] += np.where(y == 1, 0.5, -0.5)[:, None] * np.linspace(1.3, 0.3, 7)
    rank = X.argsort(axis=0).argsort(axis=0)
    codes = rank * N_BINS // n_rows
    return Population(X, y, codes, gains_of(histograms(codes[None], y[None]))[0])


def histograms(codes: np.ndarray, y: np.ndarray) -> np.ndarray:
    """int64 (n_workers, n_attributes, N_BINS, 2) from (n_workers, n_rows, n_attributes) bins and their labels."""
    n_workers, _, n_attributes = codes.shape
    table = np.arange(n_workers)[:, None, None] * n_attributes + np.arange(n_attributes)
    place = (table * N_BINS + codes) * 2 + y[:, :, None]
    shape = (n_workers, n_attributes, N_BINS, 2)
    return np.bincount(place.ravel(), minlength=int(np.prod(shape))).reshape(shape)


def gains_of(counts: np.ndarray) -> np.ndarray:
    """Information gain in bits of every boundary: (..., N_BINS, 2) becomes (..., N_BINS - 1)."""
    left = np.cumsum(counts, axis=-2)
    whole, left = left[..., -1:, :], left[..., :-1, :]
    n = whole.sum(axis=-1)
    shares = (left.sum(axis=-1) * entropy(left) + (whole - left).sum(axis=-1) * entropy(whole - left)) / n
    return entropy(whole) - shares


def entropy(counts: np.ndarray) -> np.ndarray:
    p = counts[..., 0] / np.maximum(counts.sum(axis=-1), 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        bits = -p * np.log2(p) - (1 - p) * np.log2(1 - p)
    return np.nan_to_num(bits)


def hold_elections(
    of: Population, n_workers: int, n_rows: int, top_k: int, election_size: float, n_trials: int, seed: int = 0
) -> Elections:
    """In each trial, every machine draws its own rows and names k attributes; the [beta k] most named are merged."""
    rng = np.random.default_rng(seed)
    is_named = np.empty((n_trials, n_workers), bool)
    is_elected = np.empty(n_trials, bool)
    losses = np.empty((2, n_trials))
    n_attributes, best_gain = of.codes.shape[1], of.gains.max()
    for trial in range(n_trials):
        rows = rng.permutation(len(of.y))[: n_workers * n_rows].reshape(n_workers, n_rows)
        counts = histograms(of.codes[rows], of.y[rows])
        # Ties are broken at random: the best attribute must not win by its number.
        local = gains_of(counts).max(axis=2) + 1e-9 * rng.random((n_workers, n_attributes))
        ballots = np.argsort(-local, axis=1)[:, :top_k]
        votes = np.bincount(ballots.ravel(), minlength=n_attributes)
        elected = np.argsort(-votes - 0.5 * rng.random(n_attributes))[: int(election_size * top_k)]
        is_named[trial] = (ballots == of.best).any(axis=1)
        is_elected[trial] = of.best in elected[votes[elected] > 0]
        merged = gains_of(counts.sum(axis=0))
        coarse = merged[:, N_BINS // N_COARSE - 1 :: N_BINS // N_COARSE]
        attribute, place = np.unravel_index(coarse.argmax(), coarse.shape)
        losses[1, trial] = best_gain - of.gains[attribute, (place + 1) * (N_BINS // N_COARSE) - 1]
        attribute = elected[merged[elected].max(axis=1).argmax()]
        losses[0, trial] = best_gain - of.gains[attribute, merged[attribute].argmax()]
    return Elections(is_named, is_elected, losses[0], losses[1])


def bound_of(of: Population, n_workers: int, n_rows: int, top_k: int, election_size: float, n_draws: int) -> float:
    """The theorem's bound, with alpha from a simulation."""
    found = theory.best_splits(of.X, of.y, max_bin=N_BINS)
    alpha = theory.simulate_alpha(of.X, of.y, n_rows, top_k, max_bin=N_BINS, n_draws=n_draws)
    return theory.election_bound(found.gain, found.impurities, n_rows, top_k, n_workers, election_size, alpha)


def table(options: argparse.Namespace) -> str:
    of = make_population()
    rows = []
    for n_workers, top_k in ((8, 1), (8, 8), (32, 1)):
        for n_rows in (25, 100, 400, 1600, 6400):
            if n_workers * n_rows > len(of.y):
                continue
            held = hold_elections(of, n_workers, n_rows, top_k, 2.0, options.trials)
            binomial = theory.selection_probability(held.p, n_workers)
            rows.append(
                [n_workers, top_k, n_rows, f"{held.p:.3f}", f"{binomial:.3f}", f"{held.frequency:.3f}",
                 f"{bound_of(of, n_workers, n_rows, top_k, 2.0, options.trials):.3f}",
                 f"{held.voting_loss.mean():.4f}", f"{held.quantized_loss.mean():.4f}"]
            )  # fmt: skip
            print(*rows[-1], flush=True)
    header = [
        "machines", "k", "rows each", "p", "binomial at p", "elections with the best", "whole bound", "PV-Tree's loss",
        "10 % histogram's loss",
    ]  # fmt: skip
    best = of.gains.max(axis=1)
    bias = theory.quantization_bias(of.X[:, 0], of.y, N_COARSE, max_bin=N_BINS)
    title = (
        f"`python benchmarks/theory.py --trials {options.trials}`: 40 attributes, the best gains {best.max():.3f} bits "
        f"and the second {np.sort(best)[-2]:.3f}; f(10 of 100 bins) of the best attribute is {bias:.4f} bits."
    )
    return f"{title}\n\n{markdown(header, [[str(cell) for cell in row] for row in rows])}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=400, help="draws of each setting (400)")
    parser.add_argument("--output", type=Path, help="markdown file to write the table into")
    options = parser.parse_args()
    text = table(options)
    print(text)
    if options.output:
        write_between_marks(options.output, text)


if __name__ == "__main__":
    main()
