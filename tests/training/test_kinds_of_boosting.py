"""DART, averaged trees, parallel trees, and rows drawn by their gradients."""

import numpy as np
import pytest

from pvtree import GBDTClassifier, GBDTRanker, GBDTRegressor, load
from pvtree.as_xgboost import XGBRFClassifier, XGBRFRegressor
from pvtree.comm import Solo, local
from pvtree.errors import InvalidParameterError
from pvtree.growing.sampling import subsample_rows
from pvtree.kernels.team import Team
from pvtree.parameters.params import Params
from pvtree.reading.row_ids import RowIds
from pvtree.training.dart import draw_dropped, weights_after
from pvtree.training.row_draws import goss_probabilities, mvs_probabilities

SMALL = {"n_estimators": 6, "num_leaves": 5, "n_jobs": 1}
DART = {"boosting_type": "dart", "drop_rate": 0.5, "skip_drop": 0.2}
RF = {"boosting_type": "rf", "subsample": 0.5, "subsample_freq": 1}
KINDS = {
    "dart": DART,
    "dart of XGBoost": DART | {"xgboost_dart_mode": True, "one_drop": True, "uniform_drop": True} | {"subsample": 0.7},
    "rf": RF,
    "goss": {"boosting_type": "goss", "learning_rate": 0.5},
    "mvs": {"data_sample_strategy": "mvs", "subsample": 0.5},
    "parallel": {"num_parallel_tree": 2, "subsample": 0.5, "subsample_freq": 1},
    "several, with medians": DART
    | {"objective": "l1", "num_parallel_tree": 2, "data_sample_strategy": "mvs", "subsample": 0.6},
}  # fmt: skip


def make_rows(seed=0, n=160):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)).round(2)
    return X, X[:, 0] * 2 + rng.normal(size=n)


@pytest.mark.parametrize("kind", KINDS)
def test_any_workers_grow_the_same_trees(kind):
    X, y = make_rows()
    with_freq = {"subsample_freq": 1} | KINDS[kind] | SMALL
    serial = GBDTRegressor(**with_freq).fit(X, y, eval_set=[(X, y)])
    for learner, n_workers in (("data", 2), ("exact_voting", 5), ("attribute", 2)):
        spread = GBDTRegressor(tree_learner=learner, n_workers=n_workers, **with_freq).fit(X, y, eval_set=[(X, y)])
        assert spread.model_.to_json() == serial.model_.to_json()
        assert spread.evals_result_ == serial.evals_result_
    name, values = next(iter(serial.evals_result_["training"].items()))
    errors = serial.predict(X) - y
    np.testing.assert_allclose(values[-1], np.mean(np.abs(errors) if name == "l1" else errors**2))


@pytest.mark.parametrize(
    "mode", [{}, {"xgboost_dart_mode": True}, {"xgboost_dart_mode": True, "normalize_type": "forest"}]
)
def test_dart_in_plain_numpy(mode):
    X, y = make_rows()
    weight = np.random.default_rng(1).uniform(0.5, 2.0, len(y))
    model = GBDTRegressor(**SMALL, **DART, **mode, learning_rate=0.3).fit(X, y, weight).model_
    leaves = model.predict_leaf(X)
    params = Params(drop_rate=0.5, skip_drop=0.2)
    w, values, n_dropped = [], [], 0
    for t in range(6):
        dropped = draw_dropped(params, t, w)
        n_dropped += len(dropped)
        score = model.init_score[0] + sum(w[i] * values[i][leaves[:, i]] for i in range(t) if i not in dropped)
        grouped = [leaves[:, t] == leaf for leaf in range(model.trees[t].n_leaves)]
        values.append(np.array([0.3 * np.average((y - score)[rows], weights=weight[rows]) for rows in grouped]))
        k = len(dropped)
        new, factor = (1.0, 1.0) if k == 0 else (1 / (k + 1), k / (k + 1))
        if mode and k:
            new, factor = (1 / (k + 0.3), k / (k + 0.3)) if len(mode) == 1 else (1 / 1.3, 1 / 1.3)
        w = [each * factor if i in dropped else each for i, each in enumerate(w)] + [new]
    assert n_dropped > 3
    for t, tree in enumerate(model.trees):
        np.testing.assert_allclose(tree.value[tree.feature < 0, 0], w[t] * values[t], rtol=1e-9, atol=1e-12)


def test_what_dart_leaves_out():
    def counts(weight, **more):
        params = Params(**{"drop_rate": 0.3, "skip_drop": 0.0, "max_drop": 0} | more)
        draws = [draw_dropped(params, t, weight) for t in range(3000)]
        assert all(draw == sorted(set(draw)) for draw in draws)
        return np.bincount(np.concatenate(draws).astype(int), minlength=len(weight)) / 3000, draws

    even, _ = counts([1.0] * 10)
    np.testing.assert_allclose(even, 0.3, atol=0.04)
    by_weight, _ = counts([0.5, 1.0, 1.5])
    np.testing.assert_allclose(by_weight, [0.15, 0.3, 0.45], atol=0.04)
    uniform, _ = counts([0.5, 1.0, 1.5], uniform_drop=True)
    np.testing.assert_allclose(uniform, 0.3, atol=0.04)
    limited, draws = counts([1.0] * 10, max_drop=2)
    assert max(map(len, draws)) == 2
    assert np.ptp(limited) < 0.04  # LightGBM would leave out hardly any late iteration
    _, draws = counts([1.0] * 4, drop_rate=0.0, one_drop=True, skip_drop=0.25)
    np.testing.assert_allclose(np.mean([len(draw) for draw in draws]), 0.75, atol=0.04)
    assert {len(draw) for draw in draws} == {0, 1}
    assert draw_dropped(Params(drop_rate=1.0, skip_drop=0.0, drop_seed=5), 3, [1.0, 1.0]) == [0, 1]
    assert weights_after([[(0, 1.0)], [(0, 0.5), (1, 0.5)]]) == [0.5, 0.5]


def test_dart_stops_and_resumes_with_the_same_bits(tmp_path):
    X, y = make_rows()
    held = {"eval_set": [(X[:40], -y[:40])]}  # gets worse from some iteration on
    whole = GBDTRegressor(**DART, **SMALL).fit(X, y).model_.to_json()
    stopped = GBDTRegressor(**DART, **SMALL, early_stopping_rounds=2).fit(X, y, **held)
    assert 0 < stopped.best_iteration_ < 6
    up_to_best = GBDTRegressor(**DART, **SMALL | {"n_estimators": stopped.best_iteration_}).fit(X, y)
    assert stopped.model_.to_json() == up_to_best.model_.to_json()
    GBDTRegressor(**DART, **SMALL | {"n_estimators": 4}).fit(X, y, checkpoint=tmp_path, checkpoint_freq=1)
    resumed = GBDTRegressor(**DART, **SMALL, tree_learner="attribute", n_workers=2)
    assert resumed.fit(X, y, checkpoint=tmp_path, checkpoint_freq=1).model_.to_json() == whole
    # The trees of an init_model are not left out.
    first = GBDTRegressor(**SMALL).fit(X, y)
    longer = GBDTRegressor(**DART, **SMALL).fit(X, y, init_model=first)
    assert longer.model_.trees[:6] == first.model_.trees
    assert len(longer.model_.trees) == 12


def test_averaged_trees(tmp_path):
    X, y = make_rows()
    label = y > 0
    model = GBDTClassifier(**RF, **SMALL).fit(X, label, eval_set=[(X, label)])
    raw = np.mean([tree_values(model.model_, X, t) for t in range(6)], axis=0) + model.model_.init_score[0]
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], 1 / (1 + np.exp(-raw)))
    p = model.predict_proba(X)[:, 1]
    logloss = -np.mean(np.log(np.where(label, p, 1 - p)))
    np.testing.assert_allclose(model.evals_result_["training"]["binary_logloss"][-1], logloss)
    # No tree depends on another one, or on the learning rate.
    more = GBDTClassifier(**RF, **SMALL | {"n_estimators": 2}, learning_rate=0.7).fit(X, label)
    assert model.model_.trees[:2] == more.model_.trees
    longer = GBDTClassifier(**RF, **SMALL | {"n_estimators": 4}).fit(X, label, init_model=more)
    assert longer.model_.to_json() == model.model_.to_json()
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict_proba(X), model.predict_proba(X))
    assert (model.model_.predict(X) == model.predict(X)).all()
    lightgbm = pytest.importorskip("lightgbm")
    model.model_.export_lightgbm(tmp_path / "model.txt")
    np.testing.assert_allclose(lightgbm.Booster(model_file=str(tmp_path / "model.txt")).predict(X), p)


def tree_values(model, X, t):
    leaf = model.predict_leaf(X)[:, t]
    return model.trees[t].value[model.trees[t].feature < 0, 0][leaf]


def test_parallel_trees_are_fitted_to_the_same_scores(tmp_path):
    X, y = make_rows()
    # Without chance, three thirds of a tree are the whole tree, but for the rounding of gradients.
    sizes = {"n_estimators": 2, "num_leaves": 3, "n_jobs": 1}
    one, three = (GBDTRegressor(num_parallel_tree=p, **sizes).fit(X, y) for p in (1, 3))
    assert len(three.model_.trees) == 6
    np.testing.assert_allclose(three.predict(X), one.predict(X), atol=1e-3)
    forest = XGBRFRegressor(n_estimators=20, n_jobs=1).fit(X, y)
    assert forest.model_.n_parallel_trees == 20
    assert forest.model_.n_iterations == 1
    assert len({tree.count[0] for tree in forest.model_.trees}) > 5  # each draws its own rows
    xgboost = pytest.importorskip("xgboost")
    forest.save_model(tmp_path / "model.json")
    theirs = xgboost.Booster(model_file=str(tmp_path / "model.json")).predict(xgboost.DMatrix(X))
    np.testing.assert_allclose(theirs, forest.predict(X), rtol=1e-5)
    assert XGBRFClassifier(n_estimators=3, n_jobs=1).fit(X, np.digitize(y, [-1, 1])).predict_proba(X).shape[1] == 3
    with pytest.raises(InvalidParameterError, match="cannot stop early"):
        XGBRFRegressor(early_stopping_rounds=2).fit(X, y)


def test_probabilities_by_gradients():
    size = np.random.default_rng(0).exponential(size=50) ** 2
    size[:3] = 0.0
    params = Params(top_rate=0.3, other_rate=0.2)

    def both(comm):
        own = slice(0, 50) if comm.size == 1 else [slice(0, 7), slice(7, 7), slice(7, 50)][comm.rank]
        return goss_probabilities(size[own], params, 50, comm), mvs_probabilities(size[own], 20.0, comm)

    goss, mvs = both(Solo())
    for number, alone in enumerate((goss, mvs)):
        spread = np.concatenate([parts[number] for parts in local.run(both, 3)])
        assert alone.tobytes() == spread.tobytes()
    threshold = np.sort(size)[-15]
    np.testing.assert_array_equal(goss, np.where(size >= threshold, 1.0, 0.2 / 0.7))
    np.testing.assert_allclose(mvs.sum(), 20.0, rtol=1e-9)
    scale = mvs[mvs < 1].max() / size[mvs < 1].max()
    np.testing.assert_allclose(mvs, np.minimum(1.0, size * scale), rtol=1e-9)


def test_gradients_of_drawn_rows_count_more():
    X, y = make_rows(n=2000)
    for more in ({"boosting_type": "goss"}, {"data_sample_strategy": "mvs", "subsample": 0.3}):
        many = {"n_estimators": 1, "num_parallel_tree": 30, "num_leaves": 4, "learning_rate": 2.0}
        trees = GBDTRegressor(**many, **more).fit(X, y).model_.trees
        np.testing.assert_allclose(np.mean([tree.count[0] for tree in trees]), 600, rtol=0.05)
        np.testing.assert_allclose(np.mean([tree.weight[0] for tree in trees]), 2000, rtol=0.05)


def test_fractions_by_class_and_queries():
    ids, y = RowIds.consecutive(4000), np.arange(4000) % 2.0
    group = np.full(400, 10)
    with Team(1) as team:

        def drawn(**more):
            return subsample_rows(Params(subsample_freq=1, **more), 0, ids, team, 0, y, group)

        by_class = drawn(pos_bagging_fraction=0.8, neg_bagging_fraction=0.3)
        np.testing.assert_allclose(np.bincount(y[by_class].astype(int)) / 2000, [0.3, 0.8], atol=0.04)
        whole = drawn(subsample=0.4, bagging_by_query=True)
        assert set(np.bincount(whole // 10, minlength=400)) == {0, 10}
        np.testing.assert_allclose(len(whole) / 4000, 0.4, atol=0.08)
        # Only its own seed decides a draw.
        one, other = drawn(subsample=0.4, bagging_seed=3), drawn(subsample=0.4, bagging_seed=3, seed=9)
        np.testing.assert_array_equal(one, other)
        assert len(one) != len(drawn(subsample=0.4))
    ranker = GBDTRanker(bagging_by_query=True, subsample=0.5, subsample_freq=1, **SMALL)
    X, relevance = np.random.default_rng(0).normal(size=(200, 3)), np.arange(200) % 3
    trees = ranker.fit(X, relevance, group=[10] * 20).model_.trees
    assert all(tree.count[0] % 10 == 0 for tree in trees)
    spread = ranker.set_params(n_workers=3).fit(X, relevance, group=[10] * 20)
    assert spread.model_.trees == trees


def test_each_seed_has_its_own_draw():
    X, y = make_rows()
    columns = {"colsample_bytree": 0.5, "subsample": 0.5, "subsample_freq": 1, **SMALL}

    def used(**seeds):
        model = GBDTRegressor(**columns, **seeds).fit(X, y).model_
        return [sorted(set(tree.feature) - {-1}) for tree in model.trees], [int(tree.count[0]) for tree in model.trees]

    features, rows = used()
    assert used(bagging_seed=7)[1] != rows
    assert used(feature_fraction_seed=7)[0] != features
    assert used(bagging_seed=7)[1] == used(bagging_seed=7, random_state=5)[1]
    assert used(feature_fraction_seed=7, bagging_seed=7)[0] != used(bagging_seed=7)[0]
    assert RowIds.consecutive(1000).sample(100).tolist() != RowIds.consecutive(1000).sample(100, seed=1).tolist()


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"boosting_type": "rf"}, "the same tree again"),
        ({"boosting_type": "rf", "num_parallel_tree": 2}, "averages all trees"),
        ({"boosting_type": "goss", "subsample": 0.5, "subsample_freq": 1}, "draws rows itself"),
        ({"boosting_type": "goss", "top_rate": 0.7, "other_rate": 0.4}, "must sum to 1 at most"),
        ({"boosting_type": "dart", "tree_learner": "svore"}, "does not support boosting_type='dart'"),
        ({"pos_bagging_fraction": 0.5, "subsample_freq": 1}, "need two classes"),
        ({"booster": "gblinear"}, "boosting_type must be 'gbdt' or 'dart' or 'rf' or 'goss', got 'gblinear'"),
    ],
)
def test_what_does_not_go_together(params, words):
    with pytest.raises(InvalidParameterError, match=words):
        GBDTRegressor(**params).fit(*make_rows(n=30))


def test_names_of_the_other_libraries():
    def values(**given):
        made = GBDTRegressor(**given)
        return made.boosting_type, made.data_sample_strategy, made.uniform_drop

    assert values(boosting="random_forest") == ("rf", "bagging", False)
    assert values(booster="gbtree", sampling_method="gradient_based") == ("gbdt", "mvs", False)
    assert values(booster="dart", sample_type="uniform", rate_drop=0.2) == ("dart", "bagging", True)
    X, y = make_rows()
    with pytest.raises(InvalidParameterError, match="starts from init_score"):
        GBDTRegressor(**RF, **SMALL).fit(X, y, init_score=y)
