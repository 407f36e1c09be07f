"""Where scores start (init_score, base_score), weights by class, and limits of leaf values."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pvtree import Dataset, GBDTClassifier, GBDTRanker, GBDTRegressor, RandomForestRegressor, train
from pvtree.as_xgboost import DMatrix, XGBRegressor
from pvtree.errors import InvalidDataError, InvalidParameterError
from pvtree.kernels.binning.dense import choose_filled_bins
from pvtree.reading.targets import read_init_score

SMALL = {"n_estimators": 4, "num_leaves": 5, "n_jobs": 1}


def make_rows(seed=0, n=120):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)).round(2)
    return X, X[:, 0] * 2 + rng.normal(size=n), rng.normal(size=n)


def test_squared_error_from_given_scores_is_that_of_the_residuals():
    X, y, score = make_rows()
    with_score = GBDTRegressor(**SMALL).fit(X, y, init_score=score, eval_set=[(X, y)])
    of_residuals = GBDTRegressor(boost_from_average=False, **SMALL).fit(X, y - score)
    np.testing.assert_allclose(with_score.predict(X), of_residuals.predict(X), atol=1e-12)
    assert with_score.model_.init_score.tolist() == [0.0]
    # The training data is evaluated from its own scores.
    expected = np.mean((with_score.predict(X) + score - y) ** 2)
    np.testing.assert_allclose(with_score.evals_result_["training"]["l2"][-1], expected)


@pytest.mark.parametrize("learner", ["data", "exact_voting", "attribute"])
def test_given_scores_and_limits_on_any_workers(learner):
    X, y, score = make_rows()
    more = {"max_delta_step": 0.2, "min_data_in_bin": 4, **SMALL}
    serial = GBDTRegressor(**more).fit(X, y, init_score=score).model_.to_json()
    for n_workers in (2, 5):
        spread = GBDTRegressor(tree_learner=learner, n_workers=n_workers, **more).fit(X, y, init_score=score)
        assert spread.model_.to_json() == serial


def test_fronts_take_the_same_scores():
    X, y, score = make_rows()
    expected = GBDTRegressor(**SMALL).fit(X, y, init_score=score).predict(X)
    booster = train(SMALL, Dataset(X, y, init_score=score))
    np.testing.assert_array_equal(booster.predict(X), expected)
    assert Dataset(X, y, init_score=score).subset([1, 5]).get_init_score().ravel().tolist() == score[[1, 5]].tolist()
    XGBRegressor(n_estimators=1, n_jobs=1).fit(X, y, base_margin=score, eval_set=[(X, y)], base_margin_eval_set=[score])
    assert DMatrix(X, y, base_margin=score).get_init_score().tolist() == score.tolist()


def test_an_evaluation_set_starts_from_its_own_scores():
    X, y, score = make_rows()
    model = GBDTRegressor(**SMALL).fit(X, y, eval_set=[(X[:50], y[:50])], eval_init_score=[score[:50]])
    expected = np.mean((model.predict(X[:50]) + score[:50] - y[:50]) ** 2)
    np.testing.assert_allclose(model.evals_result_["valid_0"]["l2"][-1], expected)


def test_a_resumed_training_gets_the_same_bits(tmp_path):
    X, y, score = make_rows()
    whole = GBDTRegressor(**SMALL).fit(X, y, init_score=score)
    half = GBDTRegressor(**SMALL | {"n_estimators": 2})
    half.fit(X, y, init_score=score, checkpoint=tmp_path, checkpoint_freq=1)
    resumed = GBDTRegressor(**SMALL).fit(X, y, init_score=score, checkpoint=tmp_path, checkpoint_freq=1)
    assert resumed.model_.to_json() == whole.model_.to_json()
    with pytest.raises(InvalidParameterError, match="the initial scores, y, the weights or the queries have changed"):
        GBDTRegressor(**SMALL).fit(X, y, init_score=score + 1, checkpoint=tmp_path)


def test_queries_cut_between_workers_keep_their_scores():
    from pvtree.comm import local
    from pvtree.reading.inputs import learn_columns
    from pvtree.reading.training_rows import GivenRows, Target, open_rows, read_rows

    X = np.arange(12.0).reshape(6, 2)
    qid, score = np.array([0, 0, 0, 1, 1, 2]), np.arange(6.0)

    def read(comm):
        own = slice(0, 2) if comm.rank == 0 else slice(2, 6)
        given = GivenRows(X[own], np.zeros(6)[own], qid=qid[own], init_score=score[own])
        opened = open_rows(given, comm)
        columns = learn_columns(opened.X, None, 255, comm, "auto", None)
        return read_rows(opened, columns, Target("relevance"), "model", comm).init_score.ravel().tolist()

    assert local.run(read, 2) == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]


def test_forms_of_scores():
    flat = np.arange(6.0)
    assert read_init_score(flat, 3).tolist() == [[0, 3], [1, 4], [2, 5]]  # LightGBM's: class after class
    assert read_init_score(flat.reshape(3, 2), 3).tolist() == [[0, 1], [2, 3], [4, 5]]
    for wrong in (np.zeros(4), np.zeros((2, 3)), np.array([0.0, np.nan, 1.0]), np.array([0.0, 1e80, 1.0])):
        with pytest.raises(InvalidDataError, match="init_score"):
            read_init_score(wrong, 3)


def test_scores_that_do_not_fit():
    X, y, score = make_rows()
    with pytest.raises(
        InvalidDataError, match=re.escape("init_score (base_margin) has 2 score(s) per row, but the model has 1")
    ):
        GBDTRegressor(**SMALL).fit(X, y, init_score=np.column_stack([score, score]))
    with pytest.raises(InvalidParameterError, match="forest"):
        RandomForestRegressor(n_estimators=1).fit(X, y, init_score=score)


def test_base_score_and_no_average():
    X, y, _ = make_rows()
    label = y > 1
    assert GBDTClassifier(base_score=0.2, **SMALL).fit(X, label).model_.init_score[0] == pytest.approx(np.log(0.25))
    assert GBDTRegressor(base_score=0.2, **SMALL).fit(X, y).model_.init_score.tolist() == [0.2]
    assert GBDTRegressor(boost_from_average=False, **SMALL).fit(X, y).model_.init_score.tolist() == [0.0]
    with pytest.raises(InvalidParameterError, match="probability"):
        GBDTClassifier(base_score=1.5, **SMALL).fit(X, label)


def test_class_weights_are_row_weights():
    X, y, _ = make_rows()
    label = np.array(["a", "b"])[(y > 2).astype(int)]
    n_a, n_b = (label == "a").sum(), (label == "b").sum()
    weight = np.where(label == "a", 1.0, 3.0)

    def model(fit=None, **more):
        return GBDTClassifier(**more, **SMALL).fit(X, label, **fit or {}).model_.to_json()

    expected = model({"sample_weight": weight})
    assert model(class_weight={"b": 3}) == model(class_weight=[1, 3]) == model(scale_pos_weight=3) == expected
    balanced = np.where(label == "a", len(y) / (2 * n_a), len(y) / (2 * n_b))
    assert model(class_weight="balanced") == model({"sample_weight": balanced})
    assert model(class_weight="balanced", n_workers=3) == model(class_weight="balanced")
    assert model(is_unbalance=True) == model({"sample_weight": np.where(label == "a", 1.0, n_a / n_b)})
    evaluated = {"eval_set": [(X, label)] * 2, "eval_names": ["x", "y"]}
    one = GBDTClassifier(**SMALL).fit(X, label, **evaluated, eval_class_weight=["balanced", None])
    other = GBDTClassifier(**SMALL).fit(X, label, **evaluated, eval_sample_weight=[balanced, None])
    assert one.evals_result_ == other.evals_result_


def test_class_weights_that_do_not_fit():
    X, y, _ = make_rows()
    with pytest.raises(InvalidParameterError, match="the class 7"):
        GBDTClassifier(class_weight={7: 1}, **SMALL).fit(X, y > 0)
    with pytest.raises(InvalidParameterError, match="3 factors, but there are 2"):
        GBDTClassifier(class_weight=[1, 2, 3], **SMALL).fit(X, y > 0)
    with pytest.raises(InvalidParameterError, match="is for two classes"):
        GBDTClassifier(is_unbalance=True, **SMALL).fit(X, np.arange(len(y)) % 3)
    with pytest.warns(UserWarning, match="does nothing without classes"):
        GBDTRegressor(scale_pos_weight=2, **SMALL).fit(X, y)
    with pytest.raises(InvalidParameterError, match="eval_class_weight"):
        GBDTRanker(**SMALL).fit(X, y > 0, group=[len(y)], eval_class_weight=[None])


def best_stump(X, y, limit):
    """The threshold of the largest gain if every output is at most ``limit``: 2 |G| m - H m^2 beyond it."""

    def saved(rows):
        g, h = y[rows].sum(), rows.sum()
        value = np.clip(g / h, -limit, limit)
        return 2 * g * value - h * value**2

    everything = np.ones(len(y), bool)
    gains = {
        t: saved(X[:, 0] <= t) + saved(X[:, 0] > t) - saved(everything) for t in np.unique(X[:, 0])[:-1]
    }  # fmt: skip
    return max(gains, key=gains.get), max(gains.values())


def test_max_delta_step_limits_leaves_and_gains():
    rng = np.random.default_rng(3)
    X = rng.integers(0, 9, (60, 1)).astype(float)
    y = np.where(X[:, 0] > 6, 8.0, X[:, 0] > 2) + rng.normal(scale=0.1, size=60)
    stump = {"n_estimators": 1, "num_leaves": 2, "min_child_samples": 1, "learning_rate": 1.0, "n_jobs": 1}
    thresholds = set()
    for limit in (0.4, 20.0):
        tree = GBDTRegressor(max_delta_step=limit, boost_from_average=False, **stump).fit(X, y).model_.trees[0]
        threshold, gain = best_stump(X, y, limit)
        assert np.floor(tree.threshold[0]) == threshold
        np.testing.assert_allclose(tree.gain[0], gain, rtol=1e-3)
        assert np.abs(tree.value).max() <= limit
        thresholds.add(threshold)
    assert len(thresholds) == 2


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.sampled_from([0.01, 0.1, 0.5, 2.0]), st.integers(2, 4), st.booleans())
def test_proofs_hold_with_limits(seed, limit, n_workers, has_signs):
    """exact_voting's bounds hold for limited gains: it grows the serial trees."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 6, (40, 4)).astype(float)
    y, weight = rng.normal(size=40) * rng.choice([0.1, 5.0]) + X[:, 0], rng.uniform(0.2, 3.0, 40)
    more = {"max_delta_step": limit, "min_child_samples": 2, "boost_from_average": False, "top_k": 1, **SMALL}
    more |= {"reg_alpha": 0.5, "reg_lambda": 0.3, "monotone_constraints": [1, 0, -1, 0]} if has_signs else {}
    serial = GBDTRegressor(**more).fit(X, y, weight).model_.to_json()
    proven = GBDTRegressor(tree_learner="exact_voting", n_workers=n_workers, **more).fit(X, y, weight)
    assert proven.model_.to_json() == serial


def test_bins_have_enough_rows():
    rng = np.random.default_rng(0)
    for values in (np.sort(rng.integers(0, 20, 100)).astype(float), np.sort(rng.normal(size=1000))):
        for least in (2, 7, 40, 2000):
            upper = np.full(256, np.inf)
            n = choose_filled_bins(values, 255, least, upper)
            counts = np.diff(np.searchsorted(values, [-np.inf, *upper[:n], np.inf], side="right"))
            assert (counts >= least).all() or n == 0
            assert n > 0 or least * 2 > len(values)
            assert np.isinf(upper[n:]).all()
