"""Bounds on their way to the owners of features, a few bits each, rounded upwards; and the gains they allow.

A bound is written as its distance below a power of two, in eighths of an octave: at most 9 % too large.
"""

from __future__ import annotations

import math

import numpy as np

from pvtree.kernels.bounds.local import NO_HESSIAN
from pvtree.kernels.constants import ENTROPY, ZERO
from pvtree.kernels.growing.records import is_categorical_of, n_bins_of, sums_of, table_of
from pvtree.kernels.growing.split import NOISE, count_rows, node_score, score_unit, x_log_x
from pvtree.kernels.growing.split_options import category_penalty
from pvtree.kernels.jit import njit
from pvtree.kernels.wire.bits import (
    BLOCK_VALUES,
    LIST_HEADER,
    PLAN_SIZE,
    VALUE_BITS,
    bit_length,
    get_bits,
    get_list,
    plan_list,
    put_bits,
    put_list,
)

_STEPS = np.int64(8)  # per octave
_SMALLEST = np.int64(30 * 8)  # smaller bounds are rounded up to this, a billionth of the largest
_NOTHING, _ANYTHING = _SMALLEST + 1, _SMALLEST + 2  # exactly zero, and no bound at all
_EXPONENT_BITS, _EXPONENT_OFFSET = np.int64(12), np.int64(2048)
_POWER_BITS, _DIGITS = np.int64(5), np.int64(8)
_INFINITE = 1e200  # see bounds._NEXT_TO_NOTHING
_ULP = 2.0**-52


def octave_steps() -> np.ndarray:
    """2**(-i / 8), by square roots alone: the same bits on every machine."""
    eighth = math.sqrt(math.sqrt(math.sqrt(0.5)))
    return np.cumprod(np.concatenate(([1.0], np.full(int(_STEPS) - 1, eighth))))


@njit
def most_bits_of_bounds(n_values):
    """The bounds of one row never take more."""
    return _POWER_BITS + _DIGITS + _EXPONENT_BITS + LIST_HEADER + VALUE_BITS * n_values


@njit
def code_bound(value, exponent, steps):
    """The most eighths of an octave below 2**exponent that are not below the bound."""
    if value <= 0.0:
        return _NOTHING
    if not value < _INFINITE:
        return _ANYTHING
    fraction, power = math.frexp(value)
    i = _STEPS - 1
    while steps[i] < fraction:
        i -= 1
    return min(_STEPS * (exponent - power) + i, _SMALLEST)


@njit
def bound_of_code(code, exponent, steps):
    if code >= _NOTHING:
        return 0.0 if code == _NOTHING else math.inf
    code = min(max(code, ZERO), _SMALLEST)  # a broken message may say anything
    return math.ldexp(steps[code % _STEPS], exponent - code // _STEPS)


@njit
def put_floor(number, out, bit):
    """Write a number, rounded downwards, as its first eight binary digits and the power of two of the last."""
    power = max(bit_length(number) - _DIGITS, ZERO)
    bit = put_bits(out, bit, power, _POWER_BITS)
    return put_bits(out, bit, number >> power, _DIGITS)


@njit
def get_floor(data, bit):
    power = get_bits(data, bit, _POWER_BITS)
    return min(get_bits(data, bit + _POWER_BITS, _DIGITS) << power, NO_HESSIAN), bit + _POWER_BITS + _DIGITS


@njit
def write_bounds(n_workers, rank, asked, n_sides, values, smallest, steps, message_start, at, bits):
    """Append the bounds of the features asked for, uint8 (rows, features), to the messages for their owners.

    They follow the smallest hessian of each node's rows here: see bounds.smallest_hessians.
    The message for worker m begins at word message_start[m] of ``bits`` and is at[m] bits long.
    """
    n_features = asked.shape[1]
    codes, ones = np.empty(2 * n_features, np.int64), np.ones(2 * n_features, np.int64)
    coded, plan = np.empty(2 * n_features + BLOCK_VALUES, np.uint64), np.empty(PLAN_SIZE, np.int64)
    for row in range(len(asked)):
        for to in range(n_workers):
            if to == rank:
                continue
            most = 0.0
            for feature in range(to, n_features, n_workers):
                for side in range(n_sides if asked[row, feature] else 0):
                    value = values[side, row, feature]
                    most = value if most < value < _INFINITE else most
            exponent = np.int64(math.frexp(most)[1])
            n = ZERO
            for side in range(n_sides):
                for feature in range(to, n_features, n_workers):
                    if asked[row, feature]:
                        codes[n] = code_bound(values[side, row, feature], exponent, steps)
                        n += 1
            if n > 0:
                own = bits[message_start[to] : message_start[to + 1]]
                at[to] = put_floor(smallest[row], own, at[to])
                at[to] = put_bits(own, at[to], exponent + _EXPONENT_OFFSET, _EXPONENT_BITS)
                plan_list(codes, n, ones, coded, plan)
                at[to] = put_list(codes, n, ones, coded, plan, own, at[to])


@njit
def add_bounds(n_workers, rank, asked, n_sides, steps, data, sums, smallest):
    """Add a worker's bounds of this worker's features to sums[side, row, own feature], and lower ``smallest``."""
    n_features = asked.shape[1]
    codes, ones = np.empty(2 * n_features, np.int64), np.ones(2 * n_features, np.int64)
    bit = ZERO
    for row in range(len(asked)):
        n = ZERO
        for feature in range(rank, n_features, n_workers):
            n += n_sides if asked[row, feature] else ZERO
        if n == 0:
            continue
        its_smallest, bit = get_floor(data, bit)
        smallest[row] = min(smallest[row], its_smallest)
        exponent = get_bits(data, bit, _EXPONENT_BITS) - _EXPONENT_OFFSET
        bit = get_list(data, bit + _EXPONENT_BITS, codes, n, ones)
        n = ZERO
        for side in range(n_sides):
            for feature in range(rank, n_features, n_workers):
                if asked[row, feature]:
                    sums[side, row, feature // n_workers] += bound_of_code(codes[n], exponent, steps)
                    n += 1


@njit
def largest_gains(n_workers, rank, asked, row_node, aims, sums, trees, upper):
    """upper[row, own feature] = the most that the feature could gain, in steps; -inf if it was not asked for.

    Bounds are relative to the aim, so the difference between the aim's score and the node's own is added. So is what
    rounding may have lost: a few units in the last place of the largest terms, the node's score and the bound itself.
    """
    tree = trees[0]
    node_sums = sums_of(tree)
    table = table_of(tree)
    is_categorical, n_bins = is_categorical_of(tree), n_bins_of(tree)
    for row in range(len(asked)):
        own = node_sums[row_node[row]]
        own_score = node_score(own, tree)
        g, h, aim = np.float64(own[tree.n_fields - 1]), np.float64(own[tree.hess_field]), aims[row, 0]
        for feature in range(rank, asked.shape[1], n_workers):
            i = feature // n_workers
            upper[row, i] = -math.inf
            if not asked[row, feature]:
                continue
            bound = max(sums[0, row, i], sums[1, row, i])
            if tree.criterion == ENTROPY:
                total = ZERO
                for j in range(tree.n_planes, tree.n_fields):
                    total += own[j]
                upper[row, i] = bound + 64 * _ULP * (x_log_x(total, table) + bound)
                continue
            penalty = tree.reg_lambda + (category_penalty(n_bins[feature], tree) if is_categorical[feature] else 0.0)
            at_aim = 2.0 * aim * g - aim * aim * (h + 2.0 * penalty / tree.hess_scale)
            at_aim -= 4.0 * tree.reg_alpha / tree.grad_scale * abs(aim)
            # Without a limit of outputs, both terms of the difference are about as large.
            largest = own_score if tree.max_output == math.inf else own_score + abs(at_aim)
            upper[row, i] = bound + (at_aim - own_score) + 64 * _ULP * (largest + bound)


@njit
def least_gains(row_node, limit, trees, nodes, least):
    """least[row] = the gain, in steps, that a feature must reach to change the node's split.

    That is the gain of the split known so far, or ``limit`` if that is larger, but at least what counts as a gain at
    all; a little less, because these few operations round.
    """
    tree = trees[0]
    sums = sums_of(tree)
    table = table_of(tree)
    for row in range(len(row_node)):
        node = row_node[row]
        own_score = node_score(sums[node], tree)
        largest_term = own_score
        if tree.criterion == ENTROPY:
            largest_term = x_log_x(count_rows(sums[node], tree.n_planes), table)
        floor = max(tree.min_gain / tree.gain_scale, tree.noise) / score_unit(tree)
        gain = max(nodes[node].gain, limit) / tree.gain_scale / score_unit(tree)
        least[row] = max(gain, max(floor, NOISE * largest_term)) * (1.0 - 1e-12)
        if tree.criterion == ENTROPY and -own_score <= 0.5 * NOISE * largest_term:
            least[row] = math.inf  # a single class: there is nothing to gain
