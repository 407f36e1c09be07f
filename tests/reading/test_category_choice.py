"""categorical_feature names the columns that are categories; others are compared by their places, as in LightGBM."""

import lightgbm
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pvtree
from pvtree.front.cli import main

rng = np.random.default_rng(0)
N = 300
A, B, C = rng.choice(list("wxyz"), N), rng.choice(["low", "mid", "high"], N), rng.choice([5, 7, 90], N)
ORDER = ["low", "mid", "high"]
FRAME = pd.DataFrame(
    {"A": pd.Categorical(A), "B": pd.Categorical(B, ORDER), "C": pd.Categorical(C), "num": rng.normal(size=N)}
)
FRAME.loc[::19, "B"] = None
y = (A == "x") * 1.0 + (B == "mid") * 2.0 + (C == 7) * 3.0 + (np.arange(N) % 19 == 0) + 0.1 * rng.normal(size=N)
SMALL = {"n_estimators": 8, "num_leaves": 8, "min_child_samples": 5, "n_jobs": 1}
CHOICES = ["auto", ["A"], ["B", "C"], [0], [], None, ["A", "B", "C"]]


def fit(X=FRAME, chosen="auto", **options):
    return pvtree.GBDTRegressor(**SMALL, **options).fit(X, y, categorical_feature=chosen)


def split_by(model, names=tuple(FRAME)):
    """Of the columns that split: whether by sets of categories."""
    kinds = {}
    for tree in model.trees:
        for feature, cat_set in zip(tree.feature.tolist(), tree.cat_set.tolist(), strict=True):
            if feature >= 0:
                kinds.setdefault(names[feature], set()).add(cat_set >= 0)
    return kinds


@pytest.mark.parametrize("chosen", CHOICES, ids=str)
def test_only_the_named_columns_are_split_as_categories(chosen):
    named = {"auto": ["A", "B", "C"], "[0]": ["A"], "None": []}.get(str(chosen), chosen)
    kinds = split_by(fit(chosen=chosen).model_)
    assert {"A", "B", "C"} <= kinds.keys()
    assert kinds == {name: {name in named} for name in kinds}


@pytest.mark.parametrize("chosen", [["A"], []], ids=str)
def test_so_are_lightgbms(chosen):
    theirs = lightgbm.LGBMRegressor(**SMALL, verbose=-1).fit(FRAME, y, categorical_feature=chosen)
    table = theirs.booster_.trees_to_dataframe().dropna(subset="split_feature")
    by_sets = {name: set(kinds == "==") for name, kinds in table.groupby("split_feature")["decision_type"]}
    kinds = split_by(fit(chosen=chosen).model_)
    assert all(kinds[name] == its for name, its in by_sets.items() if name in kinds)


def test_categories_that_are_none_predict_what_lightgbms_do():
    """The same codes, apart from the rounding of gradients and the side of missing ones, of which there are none."""
    X = FRAME.assign(B=pd.Categorical(B, ORDER))
    theirs = lightgbm.LGBMRegressor(**SMALL, verbose=-1).fit(X, y, categorical_feature=[])
    ours = fit(X, [])
    assert np.corrcoef(ours.predict(X), theirs.predict(X))[0, 1] > 0.99
    assert ours.score(X, y) == pytest.approx(theirs.score(X, y), abs=0.01)


@pytest.mark.parametrize("chosen", [["A"], []], ids=str)
def test_a_model_depends_on_labels_and_not_on_codes(chosen, tmp_path):
    fitted = fit(chosen=chosen)
    otherwise = FRAME.assign(B=FRAME["B"].cat.set_categories(["high", "unknown", "low", "mid"]))
    np.testing.assert_array_equal(fitted.predict(otherwise), fitted.predict(FRAME))
    fitted.model_.save(tmp_path / "model.json")
    loaded = pvtree.Model.load(tmp_path / "model.json")
    np.testing.assert_array_equal(loaded.predict_raw(loaded.encode(otherwise))[:, 0], fitted.predict(FRAME))


def test_text_is_compared_in_the_order_of_its_type_and_numbers_by_their_values():
    fitted = fit(chosen=[])
    assert dict(fitted.model_.categories) == {0: ("w", "x", "y", "z"), 1: ("low", "mid", "high")}
    plain = FRAME.assign(C=C)
    np.testing.assert_array_equal(fitted.predict(plain), fitted.predict(FRAME))
    assert fit(plain, []).model_ == fitted.model_
    np.testing.assert_array_equal(fitted.predict(FRAME.assign(C=91)), fitted.predict(FRAME.assign(C=90)))


def test_missing_and_unseen_ones_come_before_the_first():
    fitted = fit(chosen=[])
    unseen = FRAME.assign(B=pd.Categorical(["new"] * N))
    missing = FRAME.assign(B=pd.Categorical([None] * N, ORDER))
    np.testing.assert_array_equal(fitted.predict(unseen), fitted.predict(missing))


def test_more_categories_than_bins_keep_their_places():
    many = pd.DataFrame({"many": pd.Categorical([f"{i:04d}" for i in range(2000)])})
    target = (np.arange(2000) > 1000).astype(float)
    fitted = pvtree.GBDTRegressor(n_estimators=30, n_jobs=1).fit(many, target, categorical_feature=[])
    assert len(fitted.model_.categories[0]) == 2000
    assert fitted.score(many, target) > 0.98


# -- Wherever the rows are -------------------------------------------------------------------------------------

SORTED = FRAME.assign(B=pd.Categorical(FRAME["B"], sorted(ORDER)))


@pytest.mark.parametrize("of", [pa.Table.from_pandas, pl.from_pandas], ids=["arrow", "polars"])
@pytest.mark.parametrize("chosen", [["A"], []], ids=str)
def test_arrows_dictionaries_are_pandas_categories_in_sorted_order(of, chosen):
    table, twin = of(SORTED), fit(SORTED, chosen)
    fitted = fit(table, chosen)
    assert fitted.model_ == twin.model_
    np.testing.assert_array_equal(fitted.predict(table), twin.predict(SORTED))


def test_text_that_is_no_category_type_stays_categories():
    text = pa.table({"A": A.tolist(), "num": FRAME["num"]})
    fitted = pvtree.GBDTRegressor(**SMALL).fit(text, y, categorical_feature=[])
    assert split_by(fitted.model_, ["A", "num"])["A"] == {True}


@pytest.mark.parametrize("n_workers", [2, 3])
def test_workers_agree_on_the_places(n_workers):
    spread = fit(chosen=["A"], tree_learner="data", n_workers=n_workers)
    assert spread.model_ == fit(chosen=["A"]).model_


def test_parts_of_a_table_share_one_order():
    from pvtree.reading.stacked import Stacked

    parts = Stacked([FRAME[:100], FRAME[100:]])
    assert fit(parts, []).model_ == fit(chosen=[]).model_
    differing = Stacked([FRAME[:100], SORTED[100:]])
    assert fit(differing, []).model_ == fit(SORTED, []).model_


def test_datasets_and_parameters_choose_as_fit_does():
    twin = fit(chosen=["A"])
    assert pvtree.GBDTRegressor(**SMALL, categorical_feature=["A"]).fit(FRAME, y).model_ == twin.model_
    params = {name: value for name, value in SMALL.items() if name != "n_estimators"}
    booster = pvtree.train(params, pvtree.Dataset(FRAME, y, categorical_feature=["A"]), 8)
    assert booster.model_ == twin.model_
    assert pvtree.train(params, pvtree.Dataset(FRAME, y, categorical_feature=[]), 8).model_ == fit(chosen=[]).model_


@pytest.mark.parametrize(("option", "chosen"), [("A", ["A"]), ("", []), ("auto", "auto")])
def test_the_command_line_chooses_as_fit_does(tmp_path, option, chosen):
    pq.write_table(pa.Table.from_pandas(SORTED.assign(y=y), preserve_index=False), tmp_path / "rows.parquet")
    options = [f"--{name.replace('_', '-')}={value}" for name, value in SMALL.items()]
    status = main(
        ["train", "--data", str(tmp_path / "rows.parquet"), "--label=y", "--task=regression", "--quiet",
         f"--model={tmp_path}/m.json", f"--categorical-feature={option}", *options]
    )  # fmt: skip
    assert not status
    assert pvtree.Model.load(tmp_path / "m.json") == fit(SORTED, chosen).model_


# -- What else knows categories --------------------------------------------------------------------------------


@pytest.mark.parametrize("chosen", [["A"], []], ids=str)
def test_training_goes_on_as_it_began(chosen):
    start = fit(chosen=chosen)
    for again in (chosen, "auto"):
        kinds = split_by(
            pvtree.GBDTRegressor(**SMALL).fit(FRAME, y, init_model=start, categorical_feature=again).model_
        )
        assert kinds == {name: {name in chosen} for name in kinds}
    assert start.model_.ordered_categories() == {j for j in (0, 1) if FRAME.columns[j] not in chosen}


def test_categories_may_be_compared_from_some_tree_on():
    start = fit()
    later = pvtree.GBDTRegressor(**SMALL).fit(FRAME, y, init_model=start, categorical_feature=["A"])
    assert split_by(later.model_)["B"] == {True, False}
    assert later.score(FRAME, y) > start.score(FRAME, y)


@pytest.mark.parametrize("chosen", [["A"], []], ids=str)
def test_lightgbm_predicts_the_same_of_an_exported_model(tmp_path, chosen):
    X = FRAME.assign(C=C)
    fitted = fit(X, chosen)
    fitted.model_.export_lightgbm(tmp_path / "model.txt")
    theirs = lightgbm.Booster(model_file=tmp_path / "model.txt")
    X.loc[::5, "B"] = None
    np.testing.assert_array_equal(theirs.predict(X), fitted.predict(X))


def test_compared_categories_may_be_monotone():
    fitted = fit(chosen=[], monotone_constraints={"B": 1})
    curve = [fitted.predict(FRAME.assign(B=pd.Categorical([label] * N, ORDER))) for label in ORDER]
    assert (np.diff(curve, axis=0) >= 0).all()
    with pytest.raises(pvtree.InvalidParameterError, match=r"'B'.*no order"):
        fit(chosen=["B"], monotone_constraints={"B": 1})


def test_trees_are_shown_with_labels():
    model = fit(chosen=[]).model_
    text = "\n".join(model.tree_text(number) for number in range(8))
    assert "B <= 'low'  " in text
    assert "B > 'low'  " in text
    assert "B <= 'low'" in "".join(model.to_dot(number) for number in range(8))


def test_an_unknown_name_is_refused_when_going_on_too():
    with pytest.raises(pvtree.InvalidParameterError, match="'D', which is no column of X"):
        pvtree.GBDTRegressor(**SMALL).fit(FRAME, y, init_model=fit(), categorical_feature=["D"])
