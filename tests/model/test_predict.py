"""Prediction kernels against their naive twin, on every layout, blocking and number of threads."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import typeof

from naive_kernels import find_leaf_naive
from pvtree.errors import InvalidDataError, InvalidParameterError
from pvtree.kernels.team import Team
from pvtree.model import Model, Tree, predictor
from random_trees import N_FEATURES, random_model, random_rows, random_tree

# 63 splits are 64 exits, all that fit into a bit set; more are walked below them.
SIZES = st.lists(st.sampled_from([0, 1, 2, 5, 30, 62, 63, 64, 65, 150]), min_size=1, max_size=5)


def add_tree(tree: Tree, X: np.ndarray, scores: np.ndarray, team: Team) -> None:
    """Add one tree's outputs to OUT scores, (n,) or (n_values, n)."""
    predictor.Predictor((tree,)).add_outputs(X, scores.reshape(-1, X.shape[0]), 0, 1, team)


def leaves_naive(model: Model, X: np.ndarray) -> np.ndarray:
    """Node numbers, (n, n_trees)."""
    nodes = [[find_leaf_naive(tree, row) for tree in model.trees] for row in X]
    return np.array(nodes, np.int64).reshape(len(X), len(model.trees))


def raw_naive(model: Model, X: np.ndarray, trees: range | None = None) -> np.ndarray:
    nodes = leaves_naive(model, X)
    trees = range(len(model.trees)) if trees is None else trees
    out = np.zeros((len(X), model.n_outputs)) + (model.init_score if model.ensemble == "gbdt" else 0.0)
    for t in trees:
        value = model.trees[t].value[nodes[:, t]]
        if model.ensemble == "gbdt":
            out[:, t % model.n_outputs] += value[:, 0]
        else:
            out += value
    return out if model.ensemble == "gbdt" else out / max(1, len(trees)) + model.init_score


@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**32),
    sizes=SIZES,
    n_rows=st.sampled_from([0, 1, 7, 31, 32, 33, 70]),
    kind=st.sampled_from([("gbdt", 1), ("gbdt", 3), ("forest", 1), ("forest", 3)]),
    dtype=st.sampled_from([np.float32, np.float64]),
)
def test_kernels_equal_their_naive_twin(seed, sizes, n_rows, kind, dtype):
    ensemble, n_outputs = kind
    if ensemble == "gbdt":
        sizes = sizes * n_outputs
    model = random_model(seed, sizes, n_outputs, ensemble)
    with np.errstate(over="ignore"):
        X = random_rows(np.random.default_rng(seed + 1), n_rows).astype(dtype)
    leaves = model.predict_leaf(X)
    assert leaves.dtype == np.int32 and leaves.shape == (n_rows, len(sizes))
    numbers = [np.cumsum(tree.feature < 0) - 1 for tree in model.trees]  # of leaves in level order
    expected = leaves_naive(model, X)
    for t in range(len(sizes)):
        np.testing.assert_array_equal(leaves[:, t], numbers[t][expected[:, t]])
    np.testing.assert_array_equal(model.predict_raw(X), raw_naive(model, X))


def stump(threshold: float, default_left: int = 1, cat_set: list[int] | None = None) -> Model:
    """-1 on the left, +1 on the right of a split of the only feature."""
    tree = Tree(
        feature=[0, -1, -1],
        threshold=[threshold, 0, 0],
        left_child=[1, 0, 0],
        default_left=[default_left, 0, 0],
        cat_set=[-1 if cat_set is None else 0, -1, -1],
        cat_sets=np.array([cat_set or [0] * 4][: cat_set is not None], np.uint64).reshape(-1, 4),
        value=[[0.0], [-1.0], [1.0]],
        gain=[1.0, 0, 0],
        count=[2, 1, 1],
        weight=[2.0, 1, 1],
    )
    return Model((tree,), "regression", "gbdt", 1, 1, np.zeros(1))


@pytest.mark.parametrize(
    ("threshold", "default_left", "x", "expected"),
    [
        (0.0, 1, [-0.0, 0.0, 5e-324, -5e-324], [-1, -1, 1, -1]),
        (-0.0, 1, [-0.0, 0.0, 5e-324], [-1, -1, 1]),
        (1.0, 0, [1.0, np.nextafter(1, 2), np.nan, np.inf, -np.inf], [-1, 1, 1, 1, -1]),
        (1.0, 1, [np.nan, np.inf], [-1, 1]),
        (np.inf, 0, [np.inf, 1e308, -np.inf, np.nan], [-1, -1, -1, 1]),
        (np.inf, 1, [np.inf, np.nan], [-1, -1]),
        (-np.inf, 1, [-np.inf, -1e308], [-1, 1]),
    ],
)
def test_the_comparison(threshold, default_left, x, expected):
    assert stump(threshold, default_left).predict_raw(np.array(x)[:, None])[:, 0].tolist() == expected


def test_float32_rows_are_compared_exactly():
    # float32(0.1) is above the float64 0.1, float32(0.3) is above 0.3, float32(0.7) is below 0.7.
    x = np.array([[0.1], [0.3], [0.7]], np.float32)
    assert [stump(cut).predict_raw(x[i : i + 1])[0, 0] for i, cut in enumerate([0.1, 0.3, 0.7])] == [1, 1, -1]


def test_categories_outside_the_sets_range_are_the_unseen_bin():
    codes = np.array([0, 1, 64, 255, 256, -1, 1e300, -1e300, np.nan, np.inf, -np.inf, -0.5])[:, None]
    seen = [1 | 1 << 1, 1, 0, 1 << 63]  # bins 0, 1, 64 and 255
    assert stump(0.0, 0, seen).predict_raw(codes)[:, 0].tolist() == [-1] * 12
    unseen_right = [1 << 1, 1, 0, 1 << 63]
    assert stump(0.0, 1, unseen_right).predict_raw(codes)[:, 0].tolist() == [1, -1, -1, -1] + [1] * 8


def layouts() -> list[Callable[[np.ndarray], np.ndarray]]:
    def unaligned(X: np.ndarray) -> np.ndarray:
        raw = np.empty(X.nbytes + 1, np.uint8)[1:]
        raw[:] = X.reshape(-1).view(np.uint8)
        return raw.view(X.dtype).reshape(X.shape)

    def read_only(X: np.ndarray) -> np.ndarray:
        X = X.copy()
        X.flags.writeable = False
        return X

    def spread(X: np.ndarray) -> np.ndarray:
        wide = np.full((2 * len(X), 3 * X.shape[1]), np.nan, X.dtype)
        wide[1::2, 2::3] = X
        return wide[1::2, 2::3]

    def backwards(X: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(X[::-1, ::-1])[::-1, ::-1]

    def foreign(X: np.ndarray) -> np.ndarray:
        return X.astype(X.dtype.newbyteorder())

    return [np.ascontiguousarray, np.asfortranarray, unaligned, read_only, spread, backwards, foreign]


@pytest.mark.parametrize("layout", layouts(), ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_memory_layout_does_not_matter(layout, dtype):
    model = random_model(3, [20, 63, 200])
    with np.errstate(over="ignore"):
        X = random_rows(np.random.default_rng(4), 700).astype(dtype)
    given_X = layout(X)
    before = given_X.copy()
    np.testing.assert_array_equal(model.predict_raw(given_X), raw_naive(model, X))
    np.testing.assert_array_equal(given_X, before)


@pytest.mark.parametrize("n_threads", [2, 3, 7])
def test_threads_and_blocks_do_not_matter(n_threads, monkeypatch):
    model = random_model(5, [40, 0, 63, 90] * 3, 2)
    X = random_rows(np.random.default_rng(6), 2000)
    expected_raw, expected_leaf = model.predict_raw(X), model.predict_leaf(X)
    monkeypatch.setattr(predictor, "MIN_THREAD_WORK", 1000)
    monkeypatch.setattr(predictor, "BLOCK_BYTES", 1)  # blocks of one group of rows
    other = pickle.loads(pickle.dumps(model))
    assert other._predictor.block_rows < model._predictor.block_rows
    np.testing.assert_array_equal(other.predict_raw(X, n_threads=n_threads), expected_raw)
    np.testing.assert_array_equal(other.predict_leaf(X, n_threads=n_threads), expected_leaf)
    np.testing.assert_array_equal(np.vstack([other.predict_raw(row[None]) for row in X[:50]]), expected_raw[:50])
    stages = list(other.staged_raw(X, n_threads=n_threads))
    np.testing.assert_array_equal(stages[-1], expected_raw)


def test_a_tree_deeper_than_any_stack_is_walked():
    rng = np.random.default_rng(8)
    tree = random_tree(rng, 3000, depth_first=True)
    model = Model((tree,), "regression", "gbdt", N_FEATURES, 1, np.zeros(1))
    X = random_rows(rng, 300)
    np.testing.assert_array_equal(model.predict_raw(X), raw_naive(model, X))


@pytest.mark.parametrize(("ensemble", "n_outputs"), [("gbdt", 1), ("gbdt", 3), ("forest", 2)])
def test_iterations_are_ranges_of_trees(ensemble, n_outputs):
    model = random_model(9, [10] * 12, n_outputs, ensemble)
    X = random_rows(np.random.default_rng(10), 40)
    step = n_outputs if ensemble == "gbdt" else 1
    assert model.n_iterations == 12 // step
    for start, n_iterations in [(0, None), (0, 0), (0, 2), (1, 2), (2, None), (99, None), (1, 99)]:
        end = 12 if n_iterations is None else min(12, (start + n_iterations) * step)
        trees = range(min(12, start * step), end)
        # Boosting begins with the initial score, a forest is a mean: a later range of boosting is without it.
        begun = replace(model, init_score=np.zeros(n_outputs)) if start and ensemble == "gbdt" else model
        np.testing.assert_array_equal(model.predict_raw(X, n_iterations, start), raw_naive(begun, X, trees))
        leaves = model.predict_leaf(X, n_iterations, start)
        np.testing.assert_array_equal(leaves, model.predict_leaf(X)[:, trees.start : trees.stop])
        stages = list(model.staged_raw(X, n_iterations, start))
        assert len(stages) == len(trees) // step
        for i, stage in enumerate(stages):
            np.testing.assert_array_equal(stage, model.predict_raw(X, i + 1, start))


def test_no_rows_no_trees_and_trees_without_splits():
    model = random_model(11, [5, 0])
    assert model.predict_raw(np.empty((0, N_FEATURES))).shape == (0, 1)
    assert model.predict_leaf(np.empty((0, N_FEATURES))).shape == (0, 2)
    X = random_rows(np.random.default_rng(0), 5)
    for ensemble in ("gbdt", "forest"):
        empty = Model((), "regression", ensemble, N_FEATURES, 1, np.array([0.5]))
        assert empty.predict_raw(X)[:, 0].tolist() == [0.5] * 5
        assert empty.predict_leaf(X).shape == (5, 0) and list(empty.staged_raw(X)) == []
    roots = random_model(12, [0, 0])
    np.testing.assert_array_equal(roots.predict_raw(X), raw_naive(roots, X))
    assert roots.predict_leaf(X).tolist() == [[0, 0]] * 5


@pytest.mark.parametrize("n_values", [1, 3])
def test_add_tree_adds_to_scores_in_place(n_values):
    rng = np.random.default_rng(13)
    tree, X = random_tree(rng, 100, n_values), random_rows(rng, 5000)
    scores = rng.normal(size=(n_values, 5000))
    outputs = tree.value[[find_leaf_naive(tree, row) for row in X]].T
    expected, alone = scores + outputs, scores.copy()
    with Team(1) as one, Team(2) as two:
        add_tree(tree, X, scores, one)
        add_tree(tree, np.asfortranarray(X), alone, two)
        if n_values == 1:
            flat = np.zeros(5000)
            add_tree(tree, X, flat, two)
            np.testing.assert_array_equal(flat, outputs[0])
    np.testing.assert_array_equal(scores, expected)
    np.testing.assert_array_equal(alone, expected)


def test_what_does_not_fit_is_refused():
    model = random_model(14, [5])
    with pytest.raises(InvalidDataError, match=rf"shape \(3, 2\).*\(n_rows, {N_FEATURES}\)"):
        model.predict_raw(np.zeros((3, 2)))
    with pytest.raises(InvalidDataError, match=r"shape \(6,\)"):
        model.predict_leaf(np.zeros(N_FEATURES))
    with pytest.raises(InvalidParameterError, match="n_iterations=-2"):
        next(model.staged_raw(np.zeros((1, N_FEATURES)), n_iterations=-2))
    with Team(1) as team:
        with pytest.raises(InvalidDataError, match="0 columns"):
            add_tree(model.trees[0], np.zeros((3, 0)), np.zeros(3), team)
        with pytest.raises(InvalidDataError, match=r"shape \(1, 3\).*2 values"):
            add_tree(random_tree(np.random.default_rng(0), 3, 2), np.zeros((3, N_FEATURES)), np.zeros(3), team)


def test_integers_are_rows_too():
    model = random_model(15, [20])
    X = np.random.default_rng(0).integers(-2, 3, (30, N_FEATURES))
    np.testing.assert_array_equal(model.predict_raw(X), raw_naive(model, X.astype(np.float64)))


def test_kernels_are_compiled_for_one_kind_of_arrays(tmp_path):
    """Whether a model has one tree or several, or is mapped from a file."""
    several = random_model(0, [3, 5])
    several.save(tmp_path / "model.pvtree")
    models = several, random_model(0, [3]), Model.load(tmp_path / "model.pvtree")
    kinds = [[typeof(array) for array in predictor.Predictor(model.trees)._packed] for model in models]
    assert kinds[0] == kinds[1] == kinds[2]
