"""Saving an estimator and loading it back; models of LightGBM and XGBoost as estimators."""

import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost

import pvtree
import pvtree.as_xgboost as xgb
from pvtree.find_split.certificates import Certificate

RNG = np.random.default_rng(5)
FRAME = pd.DataFrame({"a": RNG.normal(size=90), "b": RNG.choice(["u", "v"], 90)})
LABELS = np.where(FRAME["a"] > 0, "yes", "no")
RELEVANCE = RNG.integers(0, 3, 90)


@pytest.mark.parametrize(
    "estimator", [pvtree.GBDTClassifier, pvtree.RandomForestClassifier, pvtree.GBDTRegressor, pvtree.GBDTRanker]
)
def test_a_loaded_estimator_predicts_as_before(estimator, tmp_path):
    y = {"GBDTRegressor": FRAME["a"], "GBDTRanker": RELEVANCE}.get(estimator.__name__, LABELS)
    more = {"group": [90]} if estimator is pvtree.GBDTRanker else {}
    fitted = estimator(n_estimators=3, verbosity=-1).fit(FRAME, y, **more)
    loaded = pvtree.load(fitted.save(tmp_path / "model.json") and tmp_path / "model.json")
    assert type(loaded) is estimator
    np.testing.assert_array_equal(loaded.predict(FRAME), fitted.predict(FRAME))
    np.testing.assert_array_equal(fitted.model_.predict(FRAME), fitted.predict(FRAME))
    assert loaded.feature_names_in_.tolist() == ["a", "b"]
    if hasattr(fitted, "classes_"):
        assert loaded.classes_.tolist() == fitted.classes_.tolist()
        np.testing.assert_array_equal(loaded.predict_proba(FRAME), fitted.predict_proba(FRAME))


def test_models_of_others_are_estimators_too(tmp_path):
    X, y = FRAME[["a"]].to_numpy(), (LABELS == "yes").astype(int)
    theirs = lightgbm.LGBMClassifier(n_estimators=3, verbosity=-1).fit(X, y)
    theirs.booster_.save_model(tmp_path / "m.txt")
    np.testing.assert_array_equal(pvtree.load(tmp_path / "m.txt").predict(X), theirs.predict(X))
    theirs = xgboost.XGBClassifier(n_estimators=3).fit(X, y)
    for name in ("m.json", "m.ubj"):
        theirs.save_model(tmp_path / name)
        loaded = xgb.XGBClassifier()
        loaded.load_model(tmp_path / name)
        np.testing.assert_allclose(loaded.predict_proba(X), theirs.predict_proba(X), rtol=1e-5)
        assert pvtree.load(tmp_path / name).predict(X).tolist() == theirs.predict(X).tolist()
    with pytest.raises(pvtree.ModelFileError, match="cannot be read"):
        pvtree.load(tmp_path / "absent")


def test_representations_are_a_line():
    fitted = pvtree.GBDTClassifier(n_estimators=2, verbosity=-1).fit(FRAME[["a"]], RELEVANCE)
    assert repr(fitted.model_) == "<Model: gbdt for multiclass, 6 trees, 1 features, 3 outputs>"
    shown = [repr(fitted.model_.trees[0]), repr(fitted.booster_), repr(Certificate(*range(12), (20, 20)))]
    assert all(len(text) < 300 and "\n" not in text for text in shown)
