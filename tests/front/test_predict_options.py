"""LightGBM's further arguments of predict."""

import lightgbm
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import pvtree
from pvtree.errors import InvalidDataError, InvalidParameterError

RNG = np.random.default_rng(1)
FRAME = pd.DataFrame(RNG.normal(size=(120, 3)), columns=list("abc"))
Y = (FRAME["a"] > 0).astype(int)
FITTED = {
    "two": pvtree.GBDTClassifier(n_estimators=20, verbosity=-1).fit(FRAME, Y),
    "three": pvtree.GBDTClassifier(n_estimators=20, verbosity=-1).fit(FRAME, Y + (FRAME["b"] > 1)),
}


def test_names_are_checked_unless_columns_are_taken_by_position():
    renamed = FRAME.rename(columns={"c": "z"})
    made = FITTED["two"]
    for predict in (made.predict, made.booster_.predict, made.predict_proba):
        with pytest.raises(InvalidDataError, match="not those of fit"):
            predict(renamed, validate_features=True)
        np.testing.assert_array_equal(predict(renamed, validate_features=False), predict(FRAME))


@pytest.mark.parametrize("kind", [np.asarray, lambda X: X, sparse.csr_matrix])
def test_any_number_of_columns_is_taken_without_the_shape_check(kind):
    data = kind(FRAME if kind is not sparse.csr_matrix else FRAME.to_numpy())
    made = pvtree.GBDTClassifier(n_estimators=5, verbosity=-1).fit(data, Y)
    wide = pd.concat([FRAME, FRAME.add_suffix("2")], axis=1)
    narrow, padded = FRAME[["a", "b"]], FRAME.assign(c=0.0)
    as_given = (lambda X: X) if kind(FRAME) is FRAME else (lambda X: kind(X.to_numpy()))
    for given, same in ((wide, FRAME), (narrow, padded)):
        with pytest.raises(InvalidDataError, match="features"):
            made.predict(as_given(given))
            made.predict(as_given(given), predict_disable_shape_check=True)  # estimators always check, as LightGBM's
        found = made.booster_.predict(as_given(given), predict_disable_shape_check=True)
        np.testing.assert_array_equal(found, made.booster_.predict(as_given(same)))


def test_absent_columns_are_zero_as_in_lightgbm():
    theirs = lightgbm.LGBMClassifier(n_estimators=5, verbosity=-1).fit(FRAME.to_numpy(), Y).booster_
    narrow, padded = FRAME[["a", "b"]].to_numpy(), FRAME.assign(c=0.0).to_numpy()
    found = theirs.predict(narrow, predict_disable_shape_check=True)
    np.testing.assert_array_equal(found, theirs.predict(padded))


@pytest.mark.parametrize("name", FITTED)
@pytest.mark.parametrize("margin", [0.5, 2.0])
def test_rows_stop_at_the_first_score_beyond_the_margin(name, margin):
    """The oracle walks row by row; LightGBM, given the same trees, agrees."""
    made = FITTED[name]
    stages = [made.model_.predict_raw(FRAME.to_numpy(), n_iterations=n) for n in (4, 8, 12, 16, 20)]
    expected = stages[-1].copy()
    for row in range(len(FRAME)):
        for scores in stages:
            best = np.sort(scores[row])
            if (2 * abs(best[0]) if name == "two" else best[-1] - best[-2]) > margin:
                expected[row] = scores[row]
                break
    given = {"pred_early_stop": True, "pred_early_stop_freq": 4, "pred_early_stop_margin": margin}
    found = made.predict(FRAME, raw_score=True, **given).reshape(expected.shape)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert not np.array_equal(found, stages[-1])
    sparse_rows = sparse.csr_matrix(FRAME.to_numpy())
    with pytest.warns(UserWarning, match="feature names"):
        np.testing.assert_array_equal(made.predict(sparse_rows, raw_score=True, **given).reshape(expected.shape), found)


def test_early_stop_agrees_with_lightgbm_on_the_same_trees(tmp_path):
    made = FITTED["two"]
    made.model_.export_lightgbm(tmp_path / "model.txt")
    theirs = lightgbm.Booster(model_file=tmp_path / "model.txt")
    given = {"pred_early_stop": True, "pred_early_stop_freq": 3, "pred_early_stop_margin": 1.0}
    np.testing.assert_allclose(made.booster_.predict(FRAME, **given), theirs.predict(FRAME, **given), rtol=1e-12)


def test_unknown_arguments_are_errors():
    with pytest.raises(
        InvalidParameterError, match=r"^pred_earl_stop is no argument .*did you mean pred_early_stop\?$"
    ):
        FITTED["two"].predict(FRAME, pred_earl_stop=True)
    with pytest.raises(InvalidParameterError, match="pred_early_stop_freq must be an integer of at least 1"):
        FITTED["two"].predict(FRAME, pred_early_stop=True, pred_early_stop_freq=0)
    np.testing.assert_array_equal(FITTED["two"].predict(FRAME, num_threads=1), FITTED["two"].predict(FRAME))
