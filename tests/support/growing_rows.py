"""A grower on packed rows without any ensemble around it, and the brute force of the same."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

import oracle
from packed_rows import LAYOUTS, as_blocks, pack
from pvtree.binning.thresholds import block_starts
from pvtree.growing.grower import Grower
from pvtree.growing.tree_memory import GrownTree, Rules
from pvtree.kernels.constants import ENTROPY, GRADIENT
from pvtree.kernels.team import Team

_NEUTRAL: dict[str, Any] = {
    "grad_scale": 1.0, "hess_scale": 1.0, "gain_scale": 1.0, "min_count": 1, "max_depth": -1, "min_hess": 1e-300,
    "max_output": np.inf,
}  # fmt: skip


def make_rules(name: str, **given: Any) -> Rules:
    """Rules for the layout of that name; what is not given is neutral."""
    criterion = GRADIENT if name.startswith("gradient") else ENTROPY
    hess_field = int(name in ("gradient copies", "gradient real", "gradient precise"))
    known = _NEUTRAL | {"criterion": criterion, "hess_field": hess_field} | given
    return Rules(**{each.name: known.get(each.name, 0) for each in fields(Rules)})


def make_grower(
    name: str, bins: np.ndarray, values: np.ndarray, team: Team, rules: Rules, categorical: tuple[int, ...] = ()
) -> Grower:
    data = as_blocks(bins, block_starts(bins.shape[1], team.n_threads).astype(np.int64), categorical)
    grower = Grower(data, LAYOUTS[name], len(bins), rules.max_leaves, rules.n_sampled, team)
    load(grower, name, values)
    return grower


def load(grower: Grower, name: str, values: np.ndarray, rows: np.ndarray | None = None) -> int:
    """Put the rows (None: all) and their words where growing starts; returns how many."""
    rows = np.arange(len(values)) if rows is None else rows
    words, planes = pack(values, name)
    grower.memory.rows[0, : len(rows)] = rows
    grower.memory.words[0, : len(rows)] = words[rows]
    if len(planes):
        grower.memory.planes[0, : len(rows)] = planes[rows]
    return len(rows)


def grow(
    name: str, bins: np.ndarray, values: np.ndarray, rules: Rules, categorical: tuple[int, ...] = (), n_threads: int = 1
) -> GrownTree:
    with Team(n_threads) as team:
        grower = make_grower(name, bins, values, team, rules, categorical)
        return grow_loaded(grower, len(bins), rules, np.arange(bins.shape[1]))


def grow_loaded(grower: Grower, n_rows: int, rules: Rules, features: np.ndarray) -> GrownTree:
    """A tree on the rows that ``load`` put in place."""
    return grower.grow(n_rows, grower.memory.add_up(n_rows), rules, features)


def brute_force(
    name: str, bins: np.ndarray, values: np.ndarray, rules: Rules, categorical: tuple[int, ...] = (), **more: Any
) -> list[oracle.Node]:
    if name == "gradient constant":
        values = np.column_stack([np.ones(len(values), np.int64), values])
    shared = {each.name: getattr(rules, each.name) for each in fields(oracle.Rules) if hasattr(rules, each.name)}
    same_rules = oracle.Rules(entropy=rules.criterion == ENTROPY, **shared)
    return oracle.build_tree(bins, values, same_rules, categorical, **more)


def assert_same(name: str, grown: GrownTree, nodes: list[oracle.Node], categorical: tuple[int, ...] = ()) -> None:
    """Splits in terms of bins, sums and counts; ``grown`` is in level order."""
    splits = [node.split if node.children else None for node in nodes]
    np.testing.assert_array_equal(grown.feature, [split.feature if split else -1 for split in splits])
    n_planes, n_values = LAYOUTS[name].n_planes, len(LAYOUTS[name].shift)
    np.testing.assert_array_equal(grown.sums[:, :n_planes].sum(axis=1), [len(node.rows) for node in nodes])
    np.testing.assert_array_equal(grown.sums[:, n_planes:], [node.sums[-n_values:] for node in nodes])
    for i, split in enumerate(splits):
        if split is None:
            assert grown.left_child[i] == 0
            continue
        np.testing.assert_allclose(grown.gain[i], split.gain, rtol=1e-12)
        assert grown.default_left[i] == split.default_left
        if split.feature in categorical:
            words = grown.left_set[i].tolist()
            assert {b for b in range(256) if words[b // 64] >> (b % 64) & 1} == split.goes_left
        else:
            assert grown.split_bin[i] == split.split_bin
