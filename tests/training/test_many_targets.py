"""Several columns of y, and several levels of a quantile, in one model."""

import numpy as np
import pytest

from pvtree import DecisionTreeRegressor, GBDTRegressor, RandomForestRegressor, load
from pvtree.errors import InvalidDataError, InvalidParameterError

SMALL = {"n_estimators": 4, "num_leaves": 5, "n_jobs": 1}
LEVELS = [0.2, 0.5, 0.9]


def make_rows(seed=0, n=160):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)).round(2)
    return X, np.column_stack([X[:, 0] + rng.normal(size=n), 10 + 3 * X[:, 1] + rng.normal(size=n)])


def test_each_column_has_its_own_trees():
    X, Y = make_rows()
    weight = np.random.default_rng(1).uniform(0.5, 2.0, len(X))
    model = GBDTRegressor(**SMALL).fit(X, Y, weight, eval_set=[(X, Y)])
    assert model.predict(X).shape == (160, 2)
    np.testing.assert_allclose(model.evals_result_["training"]["l2"][-1], np.mean((model.predict(X) - Y) ** 2))
    assert model.score(X, Y) > 0.3
    # The tree of a column is that of a model of this column, but for the rounding of gradients.
    for k in range(2):
        alone = GBDTRegressor(**SMALL).fit(X, Y[:, k], weight)
        np.testing.assert_allclose(alone.model_.init_score[0], model.model_.init_score[k])
        np.testing.assert_allclose(model.predict(X)[:, k], alone.predict(X), atol=0.05)


@pytest.mark.parametrize("kind", ["l2", "poisson", "levels", "forest", "tree", "rf", "dart"])
def test_any_workers_and_files_give_the_same(kind, tmp_path):
    X, Y = make_rows()
    make = {
        "levels": lambda **p: GBDTRegressor(objective="quantile", quantile_alpha=LEVELS, **SMALL, **p),
        "poisson": lambda **p: GBDTRegressor(objective="poisson", **SMALL, **p),
        "forest": lambda **p: RandomForestRegressor(n_estimators=3, max_depth=3, n_jobs=1, **p),
        "tree": lambda **p: DecisionTreeRegressor(max_depth=3, n_jobs=1, **p),
        "rf": lambda **p: GBDTRegressor(boosting_type="rf", subsample=0.5, subsample_freq=1, **SMALL, **p),
        "dart": lambda **p: GBDTRegressor(boosting_type="dart", drop_rate=0.5, objective="l1", **SMALL, **p),
    }.get(kind, lambda **p: GBDTRegressor(**SMALL, **p))
    target = Y[:, 0] if kind == "levels" else np.abs(Y) if kind == "poisson" else Y
    serial = make().fit(X, target)
    predicted = serial.predict(X)
    assert predicted.shape == (160, 3 if kind == "levels" else 2)
    for learner, n_workers in (("data", 2), ("exact_voting", 5), ("attribute", 2)):
        spread = make(tree_learner=learner, n_workers=n_workers).fit(X, target)
        assert spread.model_.to_json() == serial.model_.to_json()
    serial.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict(X), predicted)
    longer = make().fit(X, target, init_model=serial.model_)
    assert longer.predict(X).shape == predicted.shape
    lightgbm = pytest.importorskip("lightgbm")
    serial.model_.export_lightgbm(tmp_path / "model.txt")
    theirs = lightgbm.Booster(model_file=str(tmp_path / "model.txt")).predict(X)  # raw scores
    np.testing.assert_allclose(theirs, serial.predict(X, raw_score=True))
    with pytest.raises(InvalidParameterError, match=r"several targets|forests"):
        serial.model_.export_xgboost(tmp_path / "model.json")


def test_levels_are_those_of_single_models():
    X, Y = make_rows(n=400)
    y = Y[:, 0]
    model = GBDTRegressor(objective="quantile", quantile_alpha=LEVELS, **SMALL).fit(X, y, eval_set=[(X, y)])
    assert (np.diff(model.model_.init_score) > 0).all()
    np.testing.assert_allclose(model.model_.init_score, np.quantile(y, LEVELS, method="averaged_inverted_cdf"))
    errors = y[:, None] - model.predict(X)
    pinball = np.mean(np.where(errors > 0, LEVELS * errors, (np.array(LEVELS) - 1) * errors))
    np.testing.assert_allclose(model.evals_result_["training"]["quantile"][-1], pinball)
    one = GBDTRegressor(objective="quantile", quantile_alpha=[0.3], **SMALL).fit(X, y)
    assert one.predict(X).shape == (400,)


def test_a_forest_of_columns_is_one_forest_per_column():
    X, Y = make_rows()
    tree = DecisionTreeRegressor(max_depth=3, n_jobs=1)
    both = tree.fit(X, Y).predict(X)
    for k in range(2):
        np.testing.assert_allclose(both[:, k], tree.fit(X, Y[:, k]).predict(X), atol=1e-6)


def test_a_custom_loss_sees_the_table():
    X, Y = make_rows()

    def squared(y, predicted, weight):
        assert y.shape == predicted.shape == (160, 2)
        return (predicted - y) * weight[:, None], np.repeat(weight[:, None], 2, axis=1)

    def error(y, predicted):
        return "error", float(np.mean((y - predicted) ** 2)), False

    weight = np.linspace(0.5, 1.5, 160)
    own = GBDTRegressor(objective=squared, **SMALL).fit(X, Y, weight, eval_set=[(X, Y)], eval_metric=error)
    named = GBDTRegressor(boost_from_average=False, **SMALL).fit(X, Y, weight)
    np.testing.assert_allclose(own.predict(X), named.predict(X))
    np.testing.assert_allclose(own.evals_result_["training"]["error"][-1], np.mean((own.predict(X) - Y) ** 2))


def test_a_checkpoint_of_several_targets(tmp_path):
    X, Y = make_rows()
    GBDTRegressor(**SMALL | {"n_estimators": 2}).fit(X, Y, checkpoint=tmp_path, checkpoint_freq=1)
    resumed = GBDTRegressor(**SMALL).fit(X, Y, checkpoint=tmp_path)
    assert resumed.model_.to_json() == GBDTRegressor(**SMALL).fit(X, Y).model_.to_json()
    with pytest.raises(InvalidParameterError, match="y, the weights"):
        GBDTRegressor(**SMALL).fit(X, Y[:, ::-1], checkpoint=tmp_path)


def test_tables_that_do_not_fit():
    X, Y = make_rows()
    with pytest.raises(InvalidDataError, match="y of eval_set 0 has one column, but training has 2"):
        GBDTRegressor(**SMALL).fit(X, Y, eval_set=[(X, Y[:, 0])])
    with pytest.raises(InvalidParameterError, match="only objective='quantile' trains"):
        GBDTRegressor(quantile_alpha=LEVELS).fit(X, Y)
    with pytest.raises(InvalidParameterError, match="train one model for each column"):
        GBDTRegressor(quantile_alpha=LEVELS, objective="quantile").fit(X, Y)
    with pytest.raises(InvalidParameterError, match="quantile_alpha must be"):
        GBDTRegressor(quantile_alpha=[0.5, 1.0], objective="quantile").fit(X, Y)
    with pytest.raises(InvalidParameterError, match=r"init_model has 1 output\(s\), this fit is for 2"):
        GBDTRegressor(**SMALL).fit(X, Y, init_model=GBDTRegressor(**SMALL).fit(X, Y[:, 0]))
