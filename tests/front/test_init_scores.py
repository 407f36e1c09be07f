"""Scores to start from beside a Dataset or a DMatrix, and parameters whose meaning depends on the objective."""

import numpy as np
import pytest
from sklearn.base import clone

import pvtree
from pvtree import as_xgboost as xgb
from pvtree.errors import InvalidDataError

RNG = np.random.default_rng(3)
X = RNG.normal(size=(60, 2))
Y = X[:, 0] + RNG.normal(size=60)
SCORES = RNG.normal(size=60)


def test_a_dataset_carries_its_scores(tmp_path):
    data = pvtree.Dataset(X, Y)
    assert data.get_init_score() is None
    data.set_field("init_score", SCORES.tolist())
    np.testing.assert_array_equal(data.get_field("init_score"), SCORES)
    assert data.get_init_score().dtype == np.float64 and "init_score" in repr(data)
    np.testing.assert_array_equal(data.subset([2, 5]).get_init_score(), SCORES[[2, 5]])
    np.testing.assert_array_equal(data.create_valid(X, Y, init_score=SCORES).get_init_score(), SCORES)
    data.save_binary(tmp_path / "d.bin")
    np.testing.assert_array_equal(pvtree.Dataset(tmp_path / "d.bin").get_init_score(), SCORES)
    by_class = np.column_stack([SCORES, -SCORES, SCORES])
    pvtree.Dataset(X, Y, init_score=by_class.ravel(order="F")).save_binary(tmp_path / "d.bin")
    np.testing.assert_array_equal(pvtree.Dataset(tmp_path / "d.bin").get_init_score(), by_class)
    with pytest.raises(InvalidDataError, match="init_score"):
        data.set_init_score(SCORES[:7])


def test_a_dmatrix_carries_its_margins():
    made = [xgb.DMatrix(X, Y) for _ in range(2)]
    made[0].set_base_margin(SCORES)
    made[1].set_info(base_margin=SCORES)
    for data in [*made, xgb.DMatrix(X, Y, base_margin=SCORES)]:
        np.testing.assert_array_equal(data.get_base_margin(), SCORES.astype(np.float32))
        np.testing.assert_array_equal(data.slice([1, 4]).get_base_margin(), SCORES[[1, 4]].astype(np.float32))

    class Batches(xgb.DataIter):
        def reset(self):
            self.at = 0

        def next(self, input_data):
            part = slice(30 * self.at, 30 * self.at + 30)
            if self.at < 2:
                input_data(data=X[part], label=Y[part], base_margin=SCORES[part])
            self.at += 1
            return self.at <= 2

    np.testing.assert_array_equal(xgb.DMatrix(Batches()).get_base_margin(), SCORES.astype(np.float32))


def test_updates_and_metrics_start_from_the_scores():
    params = {"objective": "quantile", "alpha": 0.3, "num_leaves": 4, "verbosity": -1, "min_data_in_leaf": 3}
    data = pvtree.Dataset(X, Y, init_score=SCORES)
    result = {}
    whole = pvtree.train(params, data, 2, valid_sets=[data], valid_names=["rows"], evals_result=result)
    stepwise = pvtree.Booster(params, data)
    stepwise.update()
    stepwise.update()
    assert stepwise.model_ == whole.model_
    [(_, metric, value, _)] = stepwise.eval(data, "rows")
    assert metric == "quantile" and value == pytest.approx(result["rows"]["quantile"][-1], rel=1e-12)
    residual = Y - SCORES - whole.predict(X, raw_score=True)
    assert value == pytest.approx(np.maximum(0.3 * residual, -0.7 * residual).mean(), rel=1e-9)


def test_alpha_follows_the_objective_through_set_params_and_clone():
    made = pvtree.GBDTRegressor(objective="quantile", alpha=0.3)
    assert (made.quantile_alpha, made.reg_alpha) == (0.3, 0.0)
    assert clone(made).get_params() == made.get_params()
    assert made.set_params(alpha=0.4).quantile_alpha == 0.4
    made.set_params(objective="regression")
    again = clone(made)
    assert (again.quantile_alpha, again.reg_alpha) == (0.4, 0.0)
    assert "alpha" not in made.get_params()
    assert pvtree.GBDTRegressor(alpha=0.3).reg_alpha == 0.3
    assert pvtree.GBDTRegressor(loss="huber", alpha=0.5).huber_slope == 0.5


def test_the_base_class_trains_any_loss_and_weighs_classes():
    two, settings = Y > 0, {"n_estimators": 2, "num_leaves": 4, "verbosity": -1}
    hinge = pvtree.GBDTModel(objective="hinge", **settings).fit(X, two)
    assert set(hinge.predict(X)) <= {0.0, 1.0} and hinge.predict(X).shape == (60,)
    weighed = pvtree.GBDTModel(objective="binary", scale_pos_weight=3.0, **settings).fit(X, two)
    known = pvtree.GBDTClassifier(**settings).fit(X, two, sample_weight=np.where(two, 3.0, 1.0))
    np.testing.assert_array_equal(weighed.predict(X), known.predict_proba(X)[:, 1])
