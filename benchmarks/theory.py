"""Section 4 of the paper against elections that are really held: many random draws of machines' rows, in numpy.

It shares no code with the package except the functions under test, so that tests can compare the two.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NamedTuple

import numpy as np

import pvtree
from pvtree import theory
from tables import command, markdown, write_between_marks

N_BINS, N_COARSE = 100, 10  # full-grained bins of equal mass, and the quantized histogram's 10 %
LOW, RISE = 0.1, 0.8  # the smooth attribute: x is uniform on [0, 1], and y is 1 with probability LOW + RISE x
ATTRIBUTES = (40, 400, 4_000)  # of discussion 2
MACHINES, ALL_ROWS = (1, 2, 4, 8, 16, 32), 200  # of discussion 3


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
    of: Population,
    n_workers: int,
    n_rows: int,
    top_k: int,
    election_size: float,
    n_trials: int,
    seed: int = 0,
    n_added: int = 0,
) -> Elections:
    """Each trial: every machine draws rows of its own, names k attributes, the most named [beta k] are merged.

    ``n_added`` further attributes tell nothing; they are made where they are needed, as a table of them would be large.
    """
    rng = np.random.default_rng(seed)
    is_named = np.empty((n_trials, n_workers), bool)
    is_elected = np.empty(n_trials, bool)
    losses = np.empty((2, n_trials))
    n_attributes, best_gain = of.codes.shape[1] + n_added, of.gains.max()
    true_gains = np.concatenate((of.gains, np.zeros((n_added, N_BINS - 1))))
    for trial in range(n_trials):
        rows = rng.permutation(len(of.y))[: n_workers * n_rows].reshape(n_workers, n_rows)
        codes = of.codes[rows]
        if n_added:
            codes = np.concatenate((codes, rng.integers(0, N_BINS, (n_workers, n_rows, n_added))), axis=2)
        counts = histograms(codes, of.y[rows])
        # Lots decide between equals: the best attribute must not win by its number.
        local = gains_of(counts).max(axis=2) + 1e-9 * rng.random((n_workers, n_attributes))
        ballots = np.argsort(-local, axis=1)[:, :top_k]
        votes = np.bincount(ballots.ravel(), minlength=n_attributes)
        elected = np.argsort(-votes - 0.5 * rng.random(n_attributes))[: int(election_size * top_k)]
        is_named[trial] = (ballots == of.best).any(axis=1)
        is_elected[trial] = of.best in elected[votes[elected] > 0]
        merged = gains_of(counts.sum(axis=0))
        coarse = merged[:, N_BINS // N_COARSE - 1 :: N_BINS // N_COARSE]
        attribute, place = np.unravel_index(coarse.argmax(), coarse.shape)
        losses[1, trial] = best_gain - true_gains[attribute, (place + 1) * (N_BINS // N_COARSE) - 1]
        attribute = elected[merged[elected].max(axis=1).argmax()]
        losses[0, trial] = best_gain - true_gains[attribute, merged[attribute].argmax()]
    return Elections(is_named, is_elected, losses[0], losses[1])


def bound_of(of: Population, n_workers: int, n_rows: int, top_k: int, election_size: float, n_draws: int) -> float:
    """The theorem's bound, with alpha from a simulation."""
    found = theory.best_splits(of.X, of.y, max_bin=N_BINS)
    alpha = theory.simulate_alpha(of.X, of.y, n_rows, top_k, max_bin=N_BINS, n_draws=n_draws)
    return theory.election_bound(found.gain, found.impurities, n_rows, top_k, n_workers, election_size, alpha)


def draw_smooth(n_rows: int, n_draws: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The smooth attribute's J, and its contrast: what the local split gains above the true one, by the local rows.

    Its best split is at 1/2, and both sides then have the same entropy, so that their shares of the rows do not matter.
    """
    rng = np.random.default_rng(seed)
    rest, contrast = np.empty(n_draws), np.empty(n_draws)
    true_sides = float(entropy(np.array([LOW + RISE / 4, 1.0 - LOW - RISE / 4])))
    n_left = np.arange(1, n_rows)
    for draw in range(n_draws):
        x = np.sort(rng.random(n_rows))
        ones = np.cumsum(rng.random(n_rows) < LOW + RISE * x)
        left = np.stack((ones[:-1], n_left - ones[:-1]), axis=1)
        right = np.array([ones[-1], n_rows - ones[-1]]) - left
        sides = (n_left * entropy(left) + (n_rows - n_left) * entropy(right)) / n_rows
        rest[draw] = sides.min() - true_sides
        contrast[draw] = sides[np.clip(np.searchsorted(x, 0.5), 1, n_rows - 1) - 1] - sides.min()
    return rest, contrast


def rate_table(n_draws: int) -> str:
    rows, points = [], []
    for n_rows in (400, 1_600, 6_400, 25_600, 102_400):
        rest, contrast = draw_smooth(n_rows, n_draws)
        points.append([np.log(n_rows), np.log(rest.std()), np.log(contrast.mean())])
        scaled = np.sqrt(n_rows) * rest.std(), n_rows ** (2 / 3) * np.abs(rest).mean(), contrast.mean()
        rows.append([f"{n_rows:,}", f"{scaled[0]:.3f}", f"{scaled[1]:.2f}", f"{n_rows ** (2 / 3) * scaled[2]:.2f}"])
    slopes = np.polyfit(*np.array(points)[:, [0, 1]].T, 1)[0], np.polyfit(*np.array(points)[:, [0, 2]].T, 1)[0]
    header = ["rows", "√n x deviation of J", "n^(2/3) x mean of abs(J)", "n^(2/3) x mean contrast"]
    return (
        f"A smooth attribute, P(y = 1) = {LOW} + {RISE} x: J shrinks like n^{slopes[0]:.2f}, the contrast at the best "
        f"split like n^{slopes[1]:.2f} (slopes of {n_draws} draws of each size).\n\n{markdown(header, rows)}"
    )


def attribute_points(of: Population, n_trials: int) -> list[tuple[int, int, Elections]]:
    """Discussion 2: (rows, attributes, elections), with fewer trials where there are many attributes."""
    return [
        (n_rows, d, hold_elections(of, 8, n_rows, 1, 2.0, max(20, n_trials * 40 // d), n_added=d - 40))
        for n_rows in (100, 400)
        for d in ATTRIBUTES
    ]


def attribute_table(of: Population, points: list[tuple[int, int, Elections]], n_draws: int) -> str:
    bounds = attribute_bounds(of, (2_400, 3_200, 6_400), ATTRIBUTES, n_draws)
    rows = []
    for i, d in enumerate(ATTRIBUTES):
        held = [held for _, number, held in points if number == d]
        rows.append([f"{d:,}", *(f"{each.p:.3f}, {each.frequency:.3f}" for each in held)])
        rows[-1] += [f"{bound[i]:.3f}" for bound in bounds.values()]
    header = ["attributes", "p, elections with the best: k = 1, n = 100", "the same, n = 400"]
    header += [f"whole bound, k = 8, n = {n_rows:,}" for n_rows in bounds]
    return f"Discussion 2, 8 machines, attributes that tell nothing are added:\n\n{markdown(header, rows)}"


def attribute_bounds(
    of: Population, sizes: tuple[int, ...], n_attributes: tuple[int, ...] | np.ndarray, n_draws: int
) -> dict[int, np.ndarray]:
    found = theory.best_splits(of.X, of.y, max_bin=N_BINS)
    bounds = {}
    for n_rows in sizes:
        alpha = theory.simulate_alpha(of.X, of.y, n_rows, 8, max_bin=N_BINS, n_draws=n_draws)
        bounds[n_rows] = np.asarray(
            theory.bound_by_attributes(found.gain, found.impurities, n_attributes, n_rows, 8, 8, alpha=alpha)
        )
    return bounds


def machine_points(of: Population, n_trials: int) -> dict[int, Elections]:
    """Discussion 3: elections of M machines that share out so many rows."""
    return {m: hold_elections(of, m, ALL_ROWS // m, 1, 2.0, n_trials) for m in MACHINES}


def machine_bounds(points: dict[int, Elections]) -> list[np.ndarray]:
    """By the paper's number of votes, and by the number that suffices; p as measured."""
    p_of = {ALL_ROWS // m: held.p for m, held in points.items()}
    return [theory.bound_by_machines(p_of.__getitem__, ALL_ROWS, MACHINES, top_k=top_k) for top_k in (None, 1)]


def machine_table(points: dict[int, Elections]) -> str:
    printed, counted = machine_bounds(points)
    rows = [
        [str(m), str(ALL_ROWS // m), f"{held.p:.3f}", f"{printed[i]:.3f}", f"{counted[i]:.3f}", f"{held.frequency:.3f}"]
        for i, (m, held) in enumerate(points.items())
    ]
    header = ["machines", "rows each", "p", "binomial at p", "with the votes that suffice", "elections with the best"]
    return f"Discussion 3, {ALL_ROWS} rows in all, k = 1:\n\n{markdown(header, rows)}"


def draw_picture(
    of: Population, by_attributes: list[tuple[int, int, Elections]], by_machines: dict[int, Elections], n_draws: int,
    path: Path,
) -> None:  # fmt: skip
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4))
    many = np.unique(np.geomspace(40, 10**7, 60).astype(np.int64))
    for n_rows, bound in attribute_bounds(of, (2_400, 3_200, 4_800, 6_400), many, n_draws).items():
        left.plot(many, bound, label=f"bound, k = 8, {n_rows:,} rows each")
    for n_rows in dict.fromkeys(n for n, _, _ in by_attributes):
        held = {d: each.frequency for n, d, each in by_attributes if n == n_rows}
        left.plot(held.keys(), held.values(), "o--", label=f"elections held, k = 1, {n_rows} rows each")
    left.set(xscale="log", xlabel="attributes d", ylabel="probability", title="Discussion 2: 8 machines")
    printed, counted = machine_bounds(by_machines)
    right.plot(MACHINES, [held.frequency for held in by_machines.values()], "o--", label="elections held")
    right.plot(MACHINES, counted, "s-", label="bound with the votes that suffice")
    right.plot(MACHINES, printed, "^-", label="bound as printed")
    right.plot(MACHINES, [held.p for held in by_machines.values()], ":", color="0.5", label="p of one machine")
    right.set(xscale="log", xlabel="machines M", title=f"Discussion 3: {ALL_ROWS} rows in all, k = 1")
    right.set_xticks(MACHINES, [str(m) for m in MACHINES])
    right.minorticks_off()
    for panel in (left, right):
        panel.set_ylim(-0.02, 1.02)
        panel.grid(alpha=0.3)
        panel.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=110, metadata={"Software": None})  # the same bytes from the same figures
    plt.close(figure)


def election_table(of: Population, n_trials: int) -> str:
    rows = []
    for n_workers, top_k in ((8, 1), (8, 8), (32, 1)):
        for n_rows in (25, 100, 400, 1600, 6400):
            if n_workers * n_rows > len(of.y):
                continue
            held = hold_elections(of, n_workers, n_rows, top_k, 2.0, n_trials)
            binomial = theory.selection_probability(held.p, n_workers)
            rows.append(
                [n_workers, top_k, n_rows, f"{held.p:.3f}", f"{binomial:.3f}", f"{held.frequency:.3f}",
                 f"{bound_of(of, n_workers, n_rows, top_k, 2.0, n_trials):.3f}",
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
        f"Theorems 4.1 and 4.2, 40 attributes: the best gains {best.max():.3f} bits "
        f"and the second {np.sort(best)[-2]:.3f}; f(10 of 100 bins) of the best attribute is {bias:.4f} bits."
    )
    return f"{title}\n\n{markdown(header, [[str(cell) for cell in row] for row in rows])}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=400, help="draws of each setting (400)")
    parser.add_argument("--output", type=Path, help="markdown file to write the tables into, with a picture beside it")
    options = parser.parse_args()
    of = make_population()
    by_attributes, by_machines = attribute_points(of, options.trials), machine_points(of, options.trials)
    parts = [
        f"`{command('theory.py', '--output')}`, pvtree {pvtree.__version__}.", election_table(of, options.trials),
        attribute_table(of, by_attributes, options.trials), machine_table(by_machines), rate_table(options.trials),
    ]  # fmt: skip
    print("\n\n".join(parts))
    if options.output:
        picture = options.output.with_suffix(".png")
        draw_picture(of, by_attributes, by_machines, options.trials, picture)
        parts.insert(4, f"![Discussions 2 and 3]({picture.name})")
        write_between_marks(options.output, "\n\n".join(parts))


if __name__ == "__main__":
    main()
