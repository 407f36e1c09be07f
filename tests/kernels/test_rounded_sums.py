"""Sums rounded outward: intervals hold the exact sums, bounds hold the exact gain, and both are narrow and short."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from naive_kernels import message_words
from pvtree.kernels.bounds.rounded_bound import bound_of_intervals, rounding_unit
from pvtree.kernels.bounds.rounded_sums import SCRATCH_SHAPE, add_exact, add_rounded, most_bits, put_rounded
from pvtree.kernels.bounds.rounding_grid import ROUNDS, Grid, make_grid
from pvtree.kernels.elementary import log
from pvtree.kernels.wire.bits import put_bits
from pvtree.kernels.wire.histograms import from_bytes, max_bits, put_histogram, to_bytes, wire_scratch
from thoroughness import examples

int64 = np.int64
SETTINGS = examples(25)
GRIDS = [*ROUNDS, make_grid(0.01, 0.02), make_grid(5.0, 3.0)]


class Sums(NamedTuple):
    """By feature and position: 0 for missing values, p for bins 1 to p."""

    g: np.ndarray  # int64 (n_features, 256)
    h: np.ndarray
    n_bins: np.ndarray

    def point(self, j: int, p: int, missing_left: bool) -> tuple[int, int]:
        add = int64(missing_left)
        return int(self.g[j, p] + add * self.g[j, 0]), int(self.h[j, p] + add * self.h[j, 0])


def sums_of(rng: np.random.Generator, n_bins: list[int], rows: int, g_step: int, h_step: int, kind: str) -> Sums:
    """Sums of the same rows, spread anew over the bins of each feature; "odd": some rows have no hessian."""
    h = rng.integers(int(kind != "odd"), h_step + 1, rows)
    g = h * rng.integers(0, 2, rows) if kind == "classes" else rng.integers(-g_step, g_step + 1, rows)
    by_bin = np.zeros((2, len(n_bins), 256), int64)
    for j, n in enumerate(n_bins):
        few = rng.integers(0, n + 1, rng.integers(1, 5))  # some features have a few values only
        bins = rng.choice(few, rows) if rng.random() < 0.3 else rng.integers(int(n > 0 and j % 3 > 0), n + 1, rows)
        np.add.at(by_bin[0, j], bins, g)
        np.add.at(by_bin[1, j], bins, h)
    by_bin[:, :, 1:] = np.cumsum(by_bin[:, :, 1:], axis=2)
    return Sums(by_bin[0], by_bin[1], np.array(n_bins, int64))


def empty_intervals(n_features: int) -> list[np.ndarray]:
    return [np.zeros((n_features, 256)) for _ in range(4)]


def send(sums: Sums, slope: float, unit: float, grid: Grid, intervals: list[np.ndarray], first_bit: int = 0) -> int:
    """Through bytes, from dirty words at any bit; returns the bits."""
    n, scratch = int64(len(sums.n_bins)), np.zeros(SCRATCH_SHAPE, int64)
    out = message_words(first_bit + int(most_bits(n)))
    out[:] = np.random.default_rng(1).integers(0, 2**64, len(out), np.uint64)
    args = (sums.n_bins, n, slope, grid.step * unit, grid.levels)
    stop = put_rounded(sums.g, sums.h, *args, out, int64(first_bit), scratch)
    assert stop - first_bit <= most_bits(n)
    put_bits(out, stop, np.uint64(2**64 - 1), int64(64))  # what follows must not matter
    scratch[:] = np.random.default_rng(2).integers(0, 100, scratch.shape)
    data = from_bytes(to_bytes(out, stop + 64).copy())
    assert add_rounded(data, int64(first_bit), *args, *intervals, scratch) == stop
    return stop - first_bit


def check_inside(workers: list[Sums], slope: float, intervals: list[np.ndarray]) -> None:
    for j, n in enumerate(workers[0].n_bins):
        for p in range(n + 1):
            g, h = (sum(int(values[j, p]) for values in column) for column in list(zip(*workers, strict=True))[:2])
            low_x, high_x, low_h, high_h = (float(values[j, p]) for values in intervals)
            assert low_h <= h <= high_h
            if math.isfinite(low_x) and math.isfinite(high_x):
                assert Fraction(low_x) <= g - Fraction(slope) * h <= Fraction(high_x)
            else:
                assert low_x == -math.inf and high_x == math.inf


@st.composite
def worlds(draw):
    """Workers' sums of the same features, the number of rows and the size of the values as different as can be."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n_bins = draw(st.lists(st.sampled_from([0, 1, 2, 3, 7, 40, 255]), min_size=1, max_size=4))
    g_step, h_step = draw(st.sampled_from([(1, 1), (5, 3), (2047, 4095), (2**40, 2**40), (0, 9), (2**40, 1)]))
    rows = draw(st.lists(st.sampled_from([0, 1, 2, 30, 3000]), min_size=1, max_size=3))
    kind = draw(st.sampled_from(["plain", "odd", "classes"]))
    return [sums_of(rng, n_bins, n, g_step, h_step, kind) for n in rows], kind


def totals_of(workers: list[Sums]) -> tuple[int, int]:
    n = workers[0].n_bins[0]
    points = [w.point(0, n, n > 0) for w in workers]
    return sum(g for g, _ in points), sum(h for _, h in points)


@given(
    worlds(), st.integers(0, len(GRIDS) - 1), st.sampled_from([0.0, 1e-300, 1e-3, 1.0, 30.0, 1e9, 1e300]), st.booleans()
)
@SETTINGS
def test_intervals_hold_the_exact_sums(world, which, unit, own_slope):
    workers, _ = world
    g, h = totals_of(workers)
    slope = g / h if own_slope and h > 0 else -1.25e3
    intervals = empty_intervals(len(workers[0].n_bins))
    for i, worker in enumerate(workers):
        send(worker, slope, unit, GRIDS[which], intervals, first_bit=i * 37)
    check_inside(workers, slope, intervals)


@pytest.mark.parametrize("case", ["not monotone", "negative", "unlike totals", "huge", "gradients without hessian"])
def test_sums_that_no_rows_have_are_bounded_by_nothing_false(case):
    rng = np.random.default_rng(0)
    sums = sums_of(rng, [255, 40, 255], 500, 100, 100, "plain")
    if case == "not monotone":
        sums.h[0, 1:255] = rng.integers(0, sums.h[0, 255], 254)
    elif case == "negative":
        sums.h[1, 1:40] -= 10**6
    elif case == "unlike totals":
        sums.g[1, 0] += 1
    elif case == "huge":
        sums.g[:] *= 2**45
        sums.h[:] *= 2**45
    else:
        sums.h[:] = 0
    for grid in GRIDS:
        for unit in (1e-6, 10.0, 1e6, math.nan, math.inf):
            intervals = empty_intervals(3)
            send(sums, 0.3, unit, grid, intervals)
            if case != "negative":  # there is no such sum, and no promise
                check_inside([sums], 0.3, intervals)


def test_a_message_never_exceeds_its_room():
    """Gradients that jump to and fro in a hundred bins take more bits than a histogram: then most are skipped."""
    rng = np.random.default_rng(0)
    n_features = 500
    h = np.tile(np.arange(256) * 1000, (n_features, 1))
    g = rng.integers(-(2**23), 2**23, h.shape)
    g[:, :65], g[:, 190:], h[:, 0] = 0, 0, 2**50
    g[:, 0] = -(2**50)
    intervals = empty_intervals(n_features)
    send(Sums(g, h, np.full(n_features, 255)), 0.0, 1.0, ROUNDS[0], intervals)
    n_skipped = (intervals[0][:, 0] == -math.inf).sum()
    assert n_skipped not in (0, n_features)


def test_broken_messages_are_read_without_harm():
    rng = np.random.default_rng(0)
    room = [np.full((12, 256), 7.0) for _ in range(4)]
    for size in (2, 3, 60):
        for _ in range(50):
            data = rng.integers(0, 2**64, size, np.uint64) >> np.uint64(rng.integers(0, 64))
            n_bins, args = np.full(4, 255), (int64(4), 0.2, 3.0, ROUNDS[0].levels)
            add_rounded(
                data,
                int64(rng.integers(0, 200)),
                n_bins,
                *args,
                *(r[4:8] for r in room),
                np.zeros(SCRATCH_SHAPE, int64),
            )
    for values in room:
        assert (values[:4] == 7).all() and (values[8:] == 7).all()


class Rule(NamedTuple):
    penalty: float
    alpha: float
    least_hess: float
    is_entropy: bool


def x_log_x(x: float) -> float:
    return x * log(float(x)) if x > 0 else 0.0


def side_score(g: int, h: int, rule: Rule) -> float:
    if rule.is_entropy:
        return x_log_x(g) + x_log_x(h - g) - x_log_x(h)
    over = max(abs(g) - rule.alpha, 0.0)
    return np.float64(over * over) / (h + rule.penalty) if over > 0 else 0.0


def best_gain(total: Sums, j: int, rule: Rule) -> float:
    """By trying every boundary with missing values on either side; -inf if none is allowed."""
    n, best = int(total.n_bins[j]), -math.inf
    g_total, h_total = total.point(j, n, n > 0)
    own = side_score(g_total, h_total, rule)
    for missing_left in (False, True):
        for p in range(1, n + 1):
            g, h = total.point(j, p, missing_left)
            if (g, h) in ((0, 0), (g_total, h_total)) or min(h, h_total - h) < rule.least_hess:
                continue
            best = max(best, side_score(g, h, rule) + side_score(g_total - g, h_total - h, rule) - own)
    return best


PENALTIES = [(0.0, 0.0, 1.0), (0.0, 0.0, 0.0), (3.5, 0.0, 0.0), (0.0, 2.0, 40.0), (100.0, 50.0, 1.0)]


@given(worlds(), st.sampled_from(PENALTIES), st.integers(0, len(GRIDS) - 1), st.sampled_from([0.01, 1.0, 20.0]))
@SETTINGS
@np.errstate(all="ignore")
def test_the_bound_holds_every_gain(world, penalties, which, threshold):
    workers, kind = world
    rule = Rule(0.0, 0.0, penalties[2], True) if kind == "classes" else Rule(*penalties, False)
    g_total, h_total = totals_of(workers)
    slope = g_total / max(h_total + rule.penalty, 1.0)
    unit = rounding_unit(threshold, len(workers), slope, rule.is_entropy)
    exact, rounded = empty_intervals(len(workers[0].n_bins)), empty_intervals(len(workers[0].n_bins))
    for worker in workers:
        add_exact(worker.g, worker.h, worker.n_bins, int64(len(worker.n_bins)), slope, *exact)
        send(worker, slope, unit, GRIDS[which], rounded)
    total = Sums(sum(w.g for w in workers), sum(w.h for w in workers), workers[0].n_bins)
    for j, n in enumerate(total.n_bins):
        g_total, h_total = total.point(j, n, n > 0)
        gain = best_gain(total, j, rule)
        args = (n, g_total, h_total, slope, *rule[:3], math.inf, rule.is_entropy)
        assert bound_of_intervals(*(values[j] for values in rounded), *args) >= gain
        close = bound_of_intervals(*(values[j] for values in exact), *args)
        assert close >= gain
        if rule.least_hess > 0 and gain > -math.inf:
            assert close <= gain + 1e-9 * (h_total + abs(g_total) + side_score(g_total, h_total, rule))


@pytest.mark.parametrize("is_entropy", [False, True])
def test_no_point_of_a_box_has_more_than_its_bound(is_entropy):
    rng = np.random.default_rng(0)
    h_total, args = 1000.0, (2.0, 5.0)
    for _ in range(300):
        g_total = float(rng.integers(1, 1000) if is_entropy else rng.integers(-2000, 2000))
        slope = g_total / h_total * rng.choice([1.0, 0.7])
        rule = Rule(*((0.0, 0.0) if is_entropy else args), 50.0, is_entropy)
        h = rng.uniform(0, 1000) + rng.uniform(0, 300, 2) * rng.choice([0.01, 1.0])
        x = rng.normal() * 100 + rng.uniform(0, 300, 2) * rng.choice([0.01, 1.0])
        box = [np.array([0.0, end, 0.0]) for end in (x.min(), x.max(), h.min(), h.max())]
        bound = bound_of_intervals(*box, int64(2), g_total, h_total, slope, *rule[:3], math.inf, is_entropy)
        best = -math.inf
        for share_x in (0.0, 0.3, 0.5, 1.0):
            for share_h in (0.0, 0.1, 0.5, 0.9, 1.0):
                left = h.min() + share_h * np.ptp(h)
                g = x.min() + share_x * np.ptp(x) + slope * left
                possible = 0 <= g <= left and 0 <= g_total - g <= h_total - left
                if 50.0 <= left <= 950.0 and (possible or not is_entropy):
                    score = side_score(g, left, rule) + side_score(g_total - g, h_total - left, rule)
                    best = max(best, score - side_score(g_total, h_total, rule))
        assert bound >= best
        if h.max() < 50.0 or h.min() > 950.0:
            assert bound == -math.inf


def noise(rng: np.random.Generator, n_workers: int, n_features: int, rows: int) -> list[np.ndarray]:
    """Histograms (n_features, 3, 256) of count, hessian and gradient, with rows spread by chance."""
    workers = []
    for _ in range(n_workers):
        fields = np.zeros((n_features, 3, 256), int64)
        h = rng.integers(500, 4096, rows)
        g = np.rint(rng.normal(size=rows) * np.sqrt(h * 4095.0 / 4)).astype(int64)
        for j in range(n_features):
            bins = rng.integers(1, 256, rows)
            for field, values in enumerate((np.ones(rows, int64), h, g)):
                np.add.at(fields[j, field], bins, values)
        workers.append(fields)
    return workers


def test_few_bytes_prove_that_chance_has_no_gain():
    """Sums of noise: at 25 times its variance per degree of freedom all are ruled out in a fifteenth of the bits."""
    rng = np.random.default_rng(0)
    n_features, n_workers = 30, 8
    workers = noise(rng, n_workers, n_features, 2000)
    all_sums = [
        Sums(*np.ascontiguousarray(np.cumsum(w, axis=2)[:, [2, 1]].swapaxes(0, 1)), np.full(n_features, 255))
        for w in workers
    ]
    g_total, h_total = totals_of(all_sums)
    slope, threshold = g_total / h_total, 25.0 * 4095 / 4
    unit = rounding_unit(threshold, n_workers, slope, False)
    wire, scratch = message_words(int(max_bits(int64(3), int64(255)))), wire_scratch(1)
    full = sum(
        put_histogram(fields.reshape(-1), int64(1), int64(3), int64(255), wire, int64(0), scratch)
        for w in workers
        for fields in w
    )
    for grid, most_open, factor in zip(ROUNDS, (2, 0), (50, 25), strict=True):
        intervals = empty_intervals(n_features)
        bits = sum(send(sums, slope, unit, grid, intervals) for sums in all_sums)
        args = (int64(255), g_total, h_total, slope, 0.0, 0.0, 16.0, math.inf, False)
        bounds = [bound_of_intervals(*(values[j] for values in intervals), *args) for j in range(n_features)]
        assert sum(bound > threshold for bound in bounds) <= most_open
        assert bits * factor < full
