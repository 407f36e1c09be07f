"""XGBoost's JSON and UBJSON models, read and written; XGBoost itself stands beside them."""

import json
from dataclasses import replace

import numpy as np
import pytest
import xgboost

import pvtree
from pvtree.errors import InvalidParameterError, ModelFileError
from pvtree.model import Model
from pvtree.model.export_xgboost import dump, first_right
from pvtree.model.import_xgboost import last_left, parse
from pvtree.model.prediction_kinds import finished
from pvtree.model.ubjson import decode, encode
from pvtree.parameters.loss_table import LOSSES

RNG = np.random.default_rng(6)
X = RNG.normal(size=(120, 4))
X[RNG.random(X.shape) < 0.1] = np.nan
VALUES = np.nan_to_num(X[:, 0]) + 0.1 * RNG.normal(size=120)
CLASSES = np.digitize(VALUES, [-0.5, 0.5])
KINDS = {
    "regression": ({"objective": "reg:squarederror"}, VALUES),
    "two classes": ({"objective": "binary:logistic"}, VALUES > 0),
    "classes": ({"objective": "multi:softprob", "num_class": 3}, CLASSES),
    "several trees": ({"objective": "binary:logistic", "num_parallel_tree": 3, "subsample": 0.5}, VALUES > 0),
    "dart": ({"objective": "reg:squarederror", "booster": "dart", "rate_drop": 0.5}, VALUES),
    "unknown": ({"objective": "reg:squarederror"}, VALUES),
    "times": ({"objective": "survival:aft"}, None),
    **{
        name: ({"objective": name}, CLASSES + 1)
        for name in ("count:poisson", "reg:gamma", "reg:tweedie", "reg:squaredlogerror", "survival:cox")
    },
    **{name: ({"objective": name}, VALUES) for name in ("reg:absoluteerror", "reg:pseudohubererror")},
    **{name: ({"objective": name}, VALUES > 0) for name in ("reg:logistic", "binary:hinge")},
}


def rows_of(y):
    if y is not None:
        return xgboost.DMatrix(X, y)
    times = np.exp(VALUES)
    return xgboost.DMatrix(X, label_lower_bound=times, label_upper_bound=times)


THEIRS = {
    name: xgboost.train({"max_depth": 3, "nthread": 1, **params}, rows_of(y), 4) for name, (params, y) in KINDS.items()
}


def margins(booster):
    return booster.predict(xgboost.DMatrix(X), output_margin=True)


@pytest.mark.parametrize("suffix", ["json", "ubj"])
@pytest.mark.parametrize("kind", KINDS)
def test_models_of_xgboost_are_read(kind, suffix, tmp_path):
    theirs, path = THEIRS[kind], tmp_path / f"m.{suffix}"
    theirs.save_model(path)
    if kind == "unknown":
        path.write_bytes(path.read_bytes().replace(b"reg:squarederror", b"reg:unknownerror"))
        with pytest.warns(UserWarning, match="does not know how the objective 'reg:unknownerror'"):
            model = Model.from_xgboost(path)
    else:
        model = pvtree.Booster(model_file=path).model_
        expected = theirs.predict(xgboost.DMatrix(X))
        np.testing.assert_allclose(pvtree.Booster(model_file=path).predict(X), expected, rtol=1e-5, atol=1e-6)
    raw = model.predict_raw(X)
    np.testing.assert_allclose(raw, margins(theirs).reshape(raw.shape), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("suffix", ["json", "ubj"])
@pytest.mark.parametrize("kind", ["regression", "two classes", "classes", "forest", "ranking", "one tree each"])
def test_models_are_written_for_xgboost(kind, suffix, tmp_path):
    settings = {"n_estimators": 3, "num_leaves": 6, "verbosity": -1}
    if kind == "forest":
        fitted = pvtree.RandomForestRegressor(n_estimators=3, verbosity=-1).fit(X, VALUES)
    elif kind == "ranking":
        fitted = pvtree.GBDTRanker(**settings).fit(X, CLASSES, group=[60, 60])
    elif kind in ("regression", "one tree each"):
        more = {"tree_learner": "yu", "n_workers": 2} if kind == "one tree each" else {}
        fitted = pvtree.GBDTRegressor(**settings, **more).fit(X, VALUES)
    else:
        fitted = pvtree.GBDTClassifier(**settings).fit(X, CLASSES if kind == "classes" else VALUES > 0)
    path = tmp_path / f"m.{suffix}"
    fitted.model_.export_xgboost(path)
    theirs = xgboost.Booster(model_file=path)
    rows = X.astype(np.float32)
    raw = fitted.model_.predict_raw(rows)
    found = theirs.predict(xgboost.DMatrix(rows), output_margin=True)
    np.testing.assert_allclose(found.reshape(raw.shape), raw, rtol=1e-5, atol=1e-5)
    if hasattr(fitted, "predict_proba"):
        proba = fitted.predict_proba(rows)
        found = theirs.predict(xgboost.DMatrix(rows))
        np.testing.assert_allclose(found, proba if kind == "classes" else proba[:, 1], atol=1e-5)
    again = Model.from_xgboost(path)
    np.testing.assert_allclose(again.predict_raw(rows), raw, rtol=1e-5, atol=1e-5)
    assert theirs.num_boosted_rounds() == 3 or kind == "forest"


def test_every_loss_is_written_or_refused(tmp_path):
    fitted = pvtree.GBDTRegressor(n_estimators=2, num_leaves=4, verbosity=-1).fit(X, VALUES)
    path, rows = tmp_path / "m.json", X.astype(np.float32)
    for objective in (name for name, kind in LOSSES.items() if kind.n_outputs == 1):
        for trees in (fitted.model_.trees, ()):
            model = replace(fitted.model_, objective=objective, trees=trees, init_score=np.array([0.3]))
            if objective == "cross_entropy_lambda":
                with pytest.raises(InvalidParameterError, match="does not support objective='cross_entropy_lambda'"):
                    model.export_xgboost(path)
                continue
            if not trees and LOSSES[objective].link in ("sigmoid", "exp"):
                with pytest.raises(InvalidParameterError, match="without trees; train at least one tree"):
                    model.export_xgboost(path)
                continue
            model.export_xgboost(path)
            expected = finished(model)(model.predict_raw(rows))
            found = xgboost.Booster(model_file=path).predict(xgboost.DMatrix(rows))
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6, err_msg=objective)
            again = Model.from_xgboost(path)
            np.testing.assert_allclose(finished(again)(again.predict_raw(rows)), expected, rtol=1e-5, atol=1e-6)
    with pytest.raises(InvalidParameterError, match="does not support objective='multiclassova'"):
        replace(fitted.model_, objective="multiclassova").export_xgboost(path)


def test_thresholds_keep_every_float32_on_its_side():
    conditions = np.concatenate([RNG.normal(size=200), [0.0, 1.0, -1.0, 1e-38, 3e38]]).astype(np.float32)
    ends = last_left(conditions)
    for condition, end in zip(conditions, ends, strict=True):
        for x in (end, np.nextafter(end, np.inf), np.nextafter(end, -np.inf), float(condition)):
            assert (np.float32(x) < condition) == (x <= end)
    thresholds = np.concatenate([RNG.normal(size=200), [0.0, 1e-300, -1e-300, 1e300, np.inf]])
    for threshold, condition in zip(thresholds, first_right(thresholds), strict=True):
        near = np.float32(min(threshold, 3e38))
        for x in (near, np.nextafter(near, np.float32(np.inf)), np.nextafter(near, np.float32(-np.inf))):
            if abs(x) < 3e38:
                assert (x < condition) == (float(x) <= threshold)


def test_what_xgboost_cannot_hold_is_refused(tmp_path):
    import pandas as pd

    frame = pd.DataFrame({"a": pd.Categorical(["x", "y"] * 30)})
    fitted = pvtree.GBDTRegressor(n_estimators=1, verbosity=-1).fit(frame, np.arange(60))
    with pytest.raises(InvalidParameterError, match="does not support categories"):
        fitted.model_.export_xgboost(tmp_path / "m.json")
    theirs = xgboost.train({}, xgboost.DMatrix(frame, np.arange(60), enable_categorical=True), 1)
    theirs.save_model(tmp_path / "m.json")
    with pytest.raises(ModelFileError, match="splits on categories"):
        Model.from_xgboost(tmp_path / "m.json")
    linear = xgboost.train({"booster": "gblinear"}, xgboost.DMatrix(X[:, :1], VALUES), 1)
    linear.save_model(tmp_path / "m.json")
    with pytest.raises(ModelFileError, match="not a model of trees"):
        Model.from_xgboost(tmp_path / "m.json")


MODEL = pvtree.GBDTRegressor(n_estimators=2, num_leaves=4, verbosity=-1).fit(X, VALUES).model_


def test_damaged_files_are_refused_in_one_sentence():
    """Every prefix and 400 changed bytes of either form: a model or a ModelFileError, never anything else."""
    for form in ("json", "ubj"):
        content = dump(MODEL, form)
        for cut in range(0, len(content), 97):
            with pytest.raises(ModelFileError):
                parse(content[:cut], "this")
        for _ in range(400):
            broken = bytearray(content)
            for at in RNG.integers(0, len(content), RNG.integers(1, 4)):
                broken[at] = RNG.integers(256)
            try:
                parse(bytes(broken), "this").predict_raw(X)
            except ModelFileError as error:
                assert str(error).count(";") >= 1


def test_hostile_documents_are_refused():
    def altered(change):
        document = json.loads(dump(MODEL))
        change(document["learner"], document["learner"]["gradient_booster"]["model"]["trees"][0])
        return json.dumps(document).encode()

    def put(name, value, at=0):
        return lambda learner, tree: tree[name].__setitem__(at, value)

    attacks = [
        put("left_children", 0),  # a cycle
        put("left_children", 10**6),
        put("right_children", -1),
        put("split_indices", 99),
        put("split_indices", -1),
        put("split_conditions", float("nan")),
        put("default_left", 7),
        lambda learner, tree: tree.update(left_children=[]),
        lambda learner, tree: tree.update(left_children=None),
        lambda learner, tree: tree["tree_param"].update(size_leaf_vector="3"),
        lambda learner, tree: learner["learner_model_param"].update(num_feature="999999999999"),
        lambda learner, tree: learner["learner_model_param"].update(num_class="1000000"),
        lambda learner, tree: learner["learner_model_param"].update(base_score="nan"),
        lambda learner, tree: learner["learner_model_param"].update(num_target="5"),
        lambda learner, tree: learner["gradient_booster"]["model"].update(tree_info=[0]),
        lambda learner, tree: learner["gradient_booster"].update(name="gblinear"),
        lambda learner, tree: learner["objective"].update(name=3),
        lambda learner, tree: learner.update(feature_names=["a"]),
        lambda learner, tree: learner.clear(),
    ]
    for attack in attacks:
        with pytest.raises(ModelFileError, match="cannot be used"):
            parse(altered(attack), "this")
    for content in (b"", b"{", b"[]", b"{}", b'{"learner":' + b"[" * 100_000, b"{L\x7f" + b"\xff" * 20):
        with pytest.raises(ModelFileError):
            parse(content, "this")
    bombs = [
        b"[$d#L" + (2**60).to_bytes(8, "big"),
        b"[$Z#L" + (2**40).to_bytes(8, "big"),
        b"[#L" + (2**40).to_bytes(8, "big") + b"Z" * 10,
        b"[" * 10_000,
        b"{L" + (2**62).to_bytes(8, "big") + b"x",
        b"{l\xff\xff\xff\xffx",
    ]
    for bomb in bombs:
        with pytest.raises(ModelFileError):
            parse(bomb, "this")


def test_ubjson_round_trip():
    value = {"a": [1, "two", {"three": [True, False]}], "b": np.arange(5, dtype=np.int32), "c": 1.5, "d": ""}
    assert decode(encode(value)) == {**value, "b": [0, 1, 2, 3, 4]}
    theirs = THEIRS["classes"]
    ours, expected = decode(bytes(theirs.save_raw("ubj"))), json.loads(bytes(theirs.save_raw("json")))
    assert ours["learner"]["learner_model_param"] == expected["learner"]["learner_model_param"]
