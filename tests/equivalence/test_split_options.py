"""Options of the search for splits: trees of a brute force, and the same trees by every strategy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from test_boosting import LARGEST_ALONE

import oracle
from brute_options import Options, build
from oracle import assert_same_tree, hash_number
from pvtree.model import Model
from pvtree.parameters.params import Params
from pvtree.training.train import train
from small_data import categories_of, independent_bins, make_columns

pytestmark = pytest.mark.filterwarnings("ignore::pvtree.training.skew.SkewWarning")
KINDS = ("many", "few", "gaps", "category", "infinite", "many", "category")
N = len(KINDS)
CONTRI, COSTS = (0.5, 1.0, 1.5, 0.7, 0.0, 1.0, 1.2), (0.3, 0.0, 2.0, 0.1, 0.0, 1.0, 0.5)
SIGNS = (1, 0, 0, 0, 0, 1, 0)
OPTIONS: dict[str, dict[str, Any]] = {
    "depthwise": {"grow_policy": "depthwise"},
    "extra_trees": {"extra_trees": True, "extra_seed": 7},
    "path_smooth": {"path_smooth": 9.0, "reg_lambda": 0.5},
    "feature_contri": {"feature_contri": CONTRI},
    "cegb": {"cegb_tradeoff": 0.5, "cegb_penalty_split": 0.004, "cegb_penalty_feature_coupled": COSTS},
    "one category": {"max_cat_to_onehot": 12},
    "sets of categories": {"max_cat_threshold": 2, "min_data_per_group": 12, "cat_smooth": 1.0, "cat_l2": 2.0},
    "levels": {"colsample_bylevel": 0.5},
    "all at once": {
        "extra_trees": True, "path_smooth": 4.0, "feature_contri": CONTRI, "cegb_penalty_split": 0.001,
        "min_data_per_group": 4, "grow_policy": "depthwise", "colsample_bylevel": 0.7,
    },
}  # fmt: skip


def rows(seed: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = make_columns(KINDS, n, rng)
    known = np.nan_to_num(X, nan=-0.5, posinf=2.0, neginf=-2.0).clip(-3, 12)
    return X, known @ rng.normal(size=N) * 0.3 + np.sin(7 * known[:, 3]) + rng.normal(size=n)


def options_of(params: Params, scale: float) -> Options:
    coupled = tuple(params.cegb_tradeoff * cost for cost in params.cegb_penalty_feature_coupled)
    return Options(
        grad_scale=scale, reg_lambda=params.reg_lambda, min_count=params.min_child_samples,
        max_leaves=params.num_leaves, depthwise=params.grow_policy == "depthwise",
        extra_key=hash_number(hash_number(params.extra_seed or params.seed, 5), 0) if params.extra_trees else None,
        path_smooth=params.path_smooth, factor=params.feature_contri, cost=coupled,
        row_cost=params.cegb_tradeoff * params.cegb_penalty_split, monotone=params.monotone_constraints,
        monotone_penalty=params.monotone_penalty, cat_smooth=params.cat_smooth, cat_l2=params.cat_l2,
        max_onehot=params.max_cat_to_onehot, max_cat_threshold=params.max_cat_threshold or 999,
        min_group=params.min_data_per_group,
    )  # fmt: skip


def features_of_level(params: Params, depth: int) -> np.ndarray:
    """A partial shuffle by the hash of the level, from all columns."""
    key, features = oracle.tree_key(params.seed, 0) ^ oracle.MASK_64, list(range(N))
    n = max(1, round(params.colsample_bylevel * N))
    for i in range(n):
        j = i + hash_number(hash_number(key, depth), i) % (N - i)
        features[i], features[j] = features[j], features[i]
    return np.sort(features[:n])


def check(params: Params, seed: int, n: int) -> int:
    """The first tree against the brute force; returns the number of its leaves."""
    X, y = rows(seed, n)
    categorical = categories_of(KINDS)
    tree = train(X, y, params, categorical=categorical).model.trees[0]
    bins, upper = independent_bins(X, categorical, params.max_bin)
    n_bins = [categorical.get(f, len(upper[f]) + 1) for f in range(N)]
    gradient = np.full(n, y.mean()) - y
    scale = float(np.abs(gradient).max() / LARGEST_ALONE)
    integers = oracle.quantize(gradient, scale, oracle.tree_key(params.seed, 0))
    values = np.column_stack([np.ones(n, np.int64), integers])

    def of_path(path: tuple[int, ...]) -> np.ndarray:
        return features_of_level(params, len(path))

    has_levels = params.colsample_bylevel < 1.0
    nodes, outputs = build(
        bins, values, n_bins, options_of(params, scale), categorical, of_path if has_levels else None
    )
    assert_same_tree(tree, nodes, upper, categorical, gain_rtol=1e-9)
    assert_allclose(tree.value[:, 0], outputs * scale, rtol=1e-3, atol=1e-3)  # gradients are rounded, values are not
    return tree.n_leaves


SMALL: dict[str, Any] = {
    "n_estimators": 1, "learning_rate": 1.0, "num_leaves": 9, "min_child_samples": 3, "max_bin": 31, "verbosity": 0,
}  # fmt: skip


@settings(max_examples=40)
@given(
    name=st.sampled_from(list(OPTIONS)), seed=st.integers(0, 2**32), n=st.integers(12, 150),
    num_leaves=st.sampled_from([0, 6]),
)  # fmt: skip
def test_trees_equal_the_brute_force(name: str, seed: int, n: int, num_leaves: int) -> None:
    check(Params(**SMALL | OPTIONS[name] | {"num_leaves": num_leaves, "seed": seed % 1000}), seed, n)


@pytest.mark.parametrize("name", OPTIONS)
def test_options_matter_on_many_rows(name: str) -> None:
    """More rows than a packed word counts, so that sums of one field are searched as well."""
    assert check(Params(**SMALL | OPTIONS[name]), 3, 9000 if name in ("cegb", "path_smooth") else 700) > 3


# Every strategy

MORE = OPTIONS | {
    "monotone_penalty": {"monotone_constraints": SIGNS, "monotone_penalty": 1.5},
    "smooth and monotone": {"monotone_constraints": SIGNS, "path_smooth": 5.0, "max_delta_step": 0.8},
}


def model_of(params: Params, learner: str, n_workers: int) -> Model:
    X, y = rows(5, 170)
    top_k = 1 if learner == "exact_voting" else 4  # an election that proofs must correct, or of all columns
    params = replace(params, tree_learner=learner, n_workers=n_workers, top_k=top_k)
    return train(X, y, params, categorical=categories_of(KINDS)).model


@pytest.mark.parametrize("name", MORE)
def test_strategies_make_the_trees_of_one_worker(name: str) -> None:
    params = Params(**SMALL | MORE[name] | {"n_estimators": 3})
    alone = model_of(params, "serial", 1)
    plain = Params(**SMALL | {key: MORE[name][key] for key in MORE[name] if key == "monotone_constraints"})
    assert alone.trees[0] != model_of(plain, "serial", 1).trees[0]
    for learner, n_workers in (("data", 2), ("attribute", 3), ("exact_voting", 5), ("exact_voting", 2), ("voting", 2)):
        assert model_of(params, learner, n_workers).to_json() == alone.to_json(), (learner, n_workers)


@settings(max_examples=25)
@given(st.integers(0, 2**32), st.sampled_from(list(MORE)), st.integers(12, 90), st.integers(2, 5), st.booleans())
def test_proofs_hold_with_options(seed: int, name: str, n: int, n_workers: int, has_weights: bool) -> None:
    """A worker's bounds, adjusted, never rule out the split that all rows together would choose."""
    X, y = rows(seed, n)
    weight = np.random.default_rng(seed).uniform(0.2, 3.0, n) if has_weights else None
    params = Params(**SMALL | MORE[name] | {"min_child_samples": 1, "num_leaves": 6, "top_k": 1})
    spread = replace(params, tree_learner="exact_voting", n_workers=n_workers)
    serial, exact = (
        train(X, y, each, categorical=categories_of(KINDS), weight=weight).model.to_json() for each in (params, spread)
    )
    assert serial == exact
