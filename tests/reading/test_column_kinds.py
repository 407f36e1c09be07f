"""Columns by one rule in every kind of table: names, text, and integers that floats cannot hold."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest
from scipy import sparse

import pvtree
from pvtree import GBDTRegressor, InvalidDataError
from pvtree.comm import Solo, local
from pvtree.comm.user_warnings import listening
from pvtree.reading.inputs import Columns, learn_columns, read_like, read_table
from pvtree.reading.number_columns import EXACT, rounded
from pvtree.reading.stacked import Stacked

TOWNS = ["Basel", "Caen", None, "Delft"] * 15
NUMBERS = np.arange(60.0)
LABELS = np.array([1.0, 2.0, 3.0, 4.0] * 15)


def fit(X, **arguments):
    return GBDTRegressor(n_estimators=2, min_child_samples=2, **arguments).fit(X, LABELS)


def frame(towns):
    return pd.DataFrame({"town": towns, "n": NUMBERS})


def csv_rows(folder, towns=TOWNS, like=None):
    path = folder / f"rows{like is not None}.csv"
    path.write_text("town,n\n" + "\n".join(f"{town or ''},{n}" for town, n in zip(towns, NUMBERS, strict=True)))
    return pvtree.read_file(path, like=like).X


TEXTS = {
    "category": lambda: frame(pd.Categorical(TOWNS)),
    "object": lambda: frame(pd.Series(TOWNS, dtype=object)),
    "str": lambda: frame(pd.Series(TOWNS, dtype="str")),
    "string": lambda: frame(pd.array(TOWNS, dtype="string")),
    "string[pyarrow]": lambda: frame(pd.array(TOWNS, dtype="string[pyarrow]")),
    "Arrow string": lambda: frame(pd.Series(TOWNS, dtype=pd.ArrowDtype(pa.string()))),
    "Arrow dictionary": lambda: frame(pd.Series(TOWNS, dtype=pd.ArrowDtype(pa.dictionary(pa.int32(), pa.string())))),
    "polars": lambda: pl.DataFrame({"town": TOWNS, "n": NUMBERS}),
    "polars categorical": lambda: pl.DataFrame({"town": pl.Series(TOWNS, dtype=pl.Categorical), "n": NUMBERS}),
    "pyarrow": lambda: pa.table({"town": TOWNS, "n": NUMBERS}),
    "partitions": lambda: Stacked([frame(TOWNS)[:20], frame(TOWNS)[20:]]),
}


@pytest.fixture(scope="module")
def by_category():
    return fit(TEXTS["category"]())


@pytest.mark.parametrize("kind", [*TEXTS, "csv"])
def test_text_is_a_category_in_every_table(kind, by_category, tmp_path):
    X = csv_rows(tmp_path) if kind == "csv" else TEXTS[kind]()
    fitted = fit(X)
    assert fitted.model_ == by_category.model_
    assert fitted.model_.categories == {0: ("Basel", "Caen", "Delft")}
    expected = by_category.predict(TEXTS["category"]())
    new = csv_rows(tmp_path, like=by_category) if kind == "csv" else X
    for model in (fitted, by_category):
        assert np.array_equal(model.predict(new), expected)


@pytest.mark.parametrize("kind", [*TEXTS, "csv"])
def test_text_where_the_model_knows_numbers(kind, tmp_path):
    numbers = fit(frame(NUMBERS))
    X = csv_rows(tmp_path) if kind == "csv" else TEXTS[kind]()
    with pytest.raises(InvalidDataError, match=r"olumn 'town' of .*numbers") as refused:
        numbers.predict(X)
    assert "categor" not in str(refused.value) or kind == "category"


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_numbers_where_the_model_knows_text(make, by_category):
    with pytest.raises(InvalidDataError, match=r"column 'town' of X holds .* but the model knows it as text"):
        by_category.predict(make({"town": NUMBERS, "n": NUMBERS}))
    nothing = make({"town": np.full(60, np.nan) if make is pd.DataFrame else [None] * 60, "n": NUMBERS})
    words = make({"town": ["unheard of"] * 60, "n": NUMBERS})
    assert np.array_equal(by_category.predict(nothing), by_category.predict(words))


def test_objects_that_are_no_text_are_numbers_as_before():
    X = pd.DataFrame({"a": np.array([1, None, 2.5], object), "b": np.array([None] * 3, object)})
    assert not learn_columns(read_table(X), "auto", 255, Solo()).categories


def test_two_columns_of_one_name_are_refused(tmp_path):
    twice = pd.DataFrame(np.zeros((60, 2)), columns=["a", "a"])
    fitted = fit(pd.DataFrame(np.zeros((60, 2)), columns=["a", "b"]))
    (tmp_path / "a.csv").write_text("a,a\n1,2\n")
    several = "X has several columns named 'a'; give each its own name"
    for X in (twice, pa.table([NUMBERS, NUMBERS], names=["a", "a"])):
        with pytest.raises(InvalidDataError, match=several):
            fit(X)
        with pytest.raises(InvalidDataError, match=several):
            fitted.predict(X)
    with pytest.raises(InvalidDataError, match="several columns named 'a'"):
        pvtree.read_file(tmp_path / "a.csv")
    fit(pd.DataFrame(np.zeros((60, 2)), columns=[0, 0]))  # columns that are known by their places


NAMELESS = "X does not have valid feature names, but GBDTRegressor was fitted with feature names"


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array, lambda X: pd.DataFrame(np.asarray(X))])
def test_rows_without_names_for_a_model_with_names(make):
    X = pd.DataFrame({"a": NUMBERS, "b": NUMBERS % 7})
    fitted = fit(X)
    for method in (fitted.predict, fitted.apply, lambda rows: list(fitted.staged_predict(rows))):
        with pytest.warns(UserWarning, match=NAMELESS) as caught:
            method(make(X))
        assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        fitted.predict(X)
        fitted.predict(pl.from_pandas(X))
        fit(make(X)).predict(make(X))
        fitted.fit(np.asarray(X), LABELS, feature_name=["a", "b"]).predict(make(X))  # names, but not of the rows
        GBDTRegressor(n_estimators=1).fit(np.asarray(X), LABELS, init_model=fitted).predict(make(X))


@pytest.mark.dask
def test_one_warning_for_all_partitions_without_names():
    da = pytest.importorskip("dask.array")
    X = pd.DataFrame({"a": NUMBERS, "b": NUMBERS % 7})
    fitted = fit(X)
    with pytest.warns(UserWarning, match=NAMELESS) as caught:
        lazy = fitted.predict(da.from_array(X.to_numpy(), chunks=(20, 2)))
        assert np.array_equal(lazy.compute(scheduler="synchronous"), fitted.predict(X))
    assert len(caught) == 1


def test_missing_columns_are_named():
    columns = Columns(8, tuple("abcdefgh"))
    few = pd.DataFrame({"a": [1], "z": [2]})
    sentence = (
        r"^X has 2 features, but GBDT is expecting 8 features as input \('b', 'c', 'd', 'e', 'f' and 2 more missing, "
        r"'z' unknown\); pass the same columns in the same order\.$"
    )
    for X in (few, pl.from_pandas(few), pa.Table.from_pandas(few)):
        with pytest.raises(InvalidDataError, match=sentence):
            read_like(X, columns, "GBDT")
    with pytest.raises(InvalidDataError, match=r"input \('z' unknown\)"):
        read_like(pd.DataFrame([[1] * 9], columns=[*"abcdefgh", "z"]), columns, "GBDT")


# Integers


@pytest.mark.parametrize(
    ("values", "mask"),
    [
        ([EXACT, -EXACT, 0], None),
        ([EXACT + 1, 5], [True, False]),
        ([EXACT + 2, -EXACT - 1, 2**62], [False, True, False]),
        ([2**63 - 1, -(2**63)], [True, False]),
        (np.array([2**64 - 1, 2**63, EXACT + 1], np.uint64), [True, False, True]),
        (np.array([2**31 - 1], np.int32), None),
        (np.array([1e300, np.nan]), None),
        (np.array([], np.int64), None),
    ],
)
def test_which_integers_floats_round(values, mask):
    found = rounded(np.asarray(values))
    assert (found if found is None else found.tolist()) == mask


WIDE = EXACT + 1 + np.arange(60)  # pairs of neighbours become one float
ROUNDED = r"X holds integers beyond 2\*\*53 in column 'id', which float64 rounds"


def with_ids(kind, folder):
    if kind == "csv":
        (folder / "a.csv").write_text("id,n\n" + "\n".join(f"{i},{n}" for i, n in zip(WIDE, NUMBERS, strict=True)))
        return pvtree.read_file(folder / "a.csv").X
    if kind.startswith("parquet"):
        table = pa.table({"id": WIDE, "n": NUMBERS})
        pa.parquet.write_table(table, folder / "a.parquet", write_statistics=kind == "parquet")
        return pvtree.read_file(folder / "a.parquet").X
    make = {
        "int64": lambda: pd.DataFrame({"id": WIDE, "n": NUMBERS}),
        "uint64": lambda: pd.DataFrame({"id": WIDE.astype(np.uint64), "n": NUMBERS}),
        "Int64": lambda: pd.DataFrame({"id": pd.array([None, *WIDE[1:]], "Int64"), "n": NUMBERS}),
        "Arrow": lambda: pd.DataFrame({"id": pd.Series([None, *WIDE[1:]], dtype="int64[pyarrow]"), "n": NUMBERS}),
        "polars": lambda: pl.DataFrame({"id": [None, *WIDE[1:].tolist()], "n": NUMBERS}),
        "pyarrow": lambda: pa.table({"id": pa.chunked_array([WIDE[:9], WIDE[9:]]), "n": NUMBERS}),
        "partitions": lambda: Stacked([pd.DataFrame({"id": part, "n": part % 7}) for part in np.split(WIDE, 2)]),
    }
    return make[kind]()


@pytest.mark.parametrize(
    "kind", ["int64", "uint64", "Int64", "Arrow", "polars", "pyarrow", "partitions", "csv", "parquet", "parquet bare"]
)
def test_one_warning_for_integers_that_collapse(kind, tmp_path):
    X = with_ids(kind, tmp_path)
    with pytest.warns(UserWarning, match=ROUNDED) as caught:
        fitted = fit(X)
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        fitted.predict(X)
        fit(X, categorical_feature=["id"])  # where each integer stays what it is


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_integers_without_names_are_told_by_number(make):
    with pytest.warns(UserWarning, match=r"2\*\*53 in column 1, which"):
        fit(make(np.column_stack([WIDE % 7, WIDE])))


def test_integers_that_stay_are_not_warned_of(tmp_path):
    exact = EXACT + 2 * np.arange(60)
    pa.parquet.write_table(pa.table({"a": exact % 7, "b": exact}), tmp_path / "a.parquet")
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        for X in (np.column_stack([exact % 7, exact]), pvtree.read_file(tmp_path / "a.parquet").X):
            fit(X)


def test_every_worker_tells_of_integers_that_one_of_them_has():
    def learn(comm):
        table = read_table(pd.DataFrame({"id": WIDE if comm.rank == 1 else WIDE % 7}))
        with listening() as heard:
            learn_columns(table, "auto", 255, comm)
        return [sentence for _, sentence in heard]

    for (sentence,) in local.run(learn, 2):
        assert "in column 'id', which float64 rounds" in sentence
