import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from pvtree.comm import Solo
from pvtree.errors import InvalidDataError, InvalidParameterError, InvalidTypeError
from pvtree.reading.inputs import Columns, column_names, encode, learn_columns, read_like, read_table


def read(X, categorical_feature="auto", max_bin=255):
    table = read_table(X)
    columns = learn_columns(table, categorical_feature, max_bin, Solo())
    return encode(table, columns), columns


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("order", ["C", "F", "strided"])
def test_float_arrays_are_not_copied(dtype, order):
    X = np.zeros((6, 4), dtype)
    X = X[::2, ::2] if order == "strided" else np.asarray(X, order=order)
    matrix, columns = read(X)
    assert matrix is X
    assert columns == Columns(X.shape[1])


def test_float_frames_are_not_copied():
    frame = pd.DataFrame(np.arange(6.0).reshape(3, 2), columns=["a", "b"])
    matrix, columns = read(frame)
    assert np.shares_memory(matrix, frame.to_numpy())
    assert columns.names == ("a", "b")
    assert read(frame.astype(np.float32))[0].dtype == np.float32


def test_other_numbers_become_float64():
    numbers = [[1, 0], [2, 5]]
    for X in (numbers, np.array(numbers, np.int8), np.array(numbers, object), np.array(numbers, ">f4")):
        matrix, _ = read(X)
        assert matrix.dtype == np.float64
        np.testing.assert_array_equal(matrix, numbers)
    np.testing.assert_array_equal(read(np.array([[True], [False]]))[0], [[1.0], [0.0]])


def test_missing_and_infinite_values_stay():
    X = np.array([[np.nan, np.inf], [-np.inf, 0.0]])
    np.testing.assert_array_equal(read(X.tolist())[0], X)


def test_nullable_and_mixed_frames():
    frame = pd.DataFrame(
        {
            "nullable": pd.array([1, None, 3], dtype="Int64"),
            "flag": pd.array([True, None, False], dtype="boolean"),
            "small": np.array([1.5, 2.5, np.nan], np.float32),
            "objects": np.array([1, None, 2.5], object),
        }
    )
    expected = [[1, 1, 1.5, 1], [np.nan, np.nan, 2.5, np.nan], [3, 0, np.nan, 2.5]]
    np.testing.assert_array_equal(read(frame)[0], expected)


@pytest.mark.parametrize(
    ("X", "error", "sentence"),
    [
        (np.zeros(3), InvalidDataError, "must be two-dimensional, got shape \\(3,\\): Reshape your data"),
        (np.zeros((2, 2, 2)), InvalidDataError, "must be two-dimensional"),
        (1.0, InvalidDataError, "must be two-dimensional"),
        (np.zeros((0, 3)), InvalidDataError, "X has 0 row\\(s\\)"),
        (np.zeros((3, 0)), InvalidDataError, "X has 0 feature\\(s\\)"),
        (np.zeros((2, 2), complex), InvalidDataError, "Complex data not supported"),
        (sparse.csr_matrix(np.eye(2) * 1j), InvalidDataError, "Complex data not supported"),
        ([[1, 2], [3]], InvalidDataError, "cannot be read as a table"),
        ([["a", 1]], InvalidDataError, "could not convert string to float: 'a'"),
        (np.array([["a"]]), InvalidDataError, "which are not numbers"),
        (
            np.array([[{}]], object),
            InvalidTypeError,
            "float\\(\\) argument must be a string or a real number",
        ),
        (pd.DataFrame({"t": ["a", 1]}), InvalidDataError, "column 't' of X .*categorical_feature"),
        (pd.DataFrame({"t": pd.to_timedelta(["1s"])}), InvalidDataError, "which are not numbers"),
        (pd.DataFrame({"t": [1j]}), InvalidDataError, "Complex data not supported"),
        (pd.DataFrame({"a": [1], 2: [3]}), InvalidTypeError, "Some column names"),
    ],
)
def test_unusable_tables_get_one_sentence(X, error, sentence):
    with pytest.raises(error, match=sentence) as caught:
        read(X)
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")


def test_column_names():
    assert column_names(np.zeros((1, 2))) is None
    assert column_names(pd.DataFrame(np.zeros((1, 2)))) is None
    assert column_names(pd.DataFrame({"b": [1], "a": [1]})) == ("b", "a")


def test_categories_are_kept_in_the_order_of_values():
    frame = pd.DataFrame({"n": [1.0, 2.0, 3.0, 4.0], "c": pd.Categorical(["y", "x", None, "y"], ["z", "y", "x"])})
    matrix, columns = read(frame)
    assert columns.categories == {1: ("x", "y")}  # "z" has no row
    np.testing.assert_array_equal(matrix, [[1, 2], [2, 1], [3, 0], [4, 2]])


@pytest.mark.parametrize("container", ["frame", "objects", "list"])
def test_listed_columns_of_any_container(container):
    rows = [["b", 7, 0.5], ["a", 8, 1.5], [None, 7, 2.5]]
    X = {"frame": pd.DataFrame(rows), "objects": np.array(rows, object), "list": rows}[container]
    matrix, columns = read(X, [0, 1])
    assert columns.categories == {0: ("a", "b"), 1: (7, 8)}
    np.testing.assert_array_equal(matrix, [[2, 1, 0.5], [1, 2, 1.5], [0, 1, 2.5]])


def test_numeric_array_with_categories_is_copied_not_changed():
    X = np.array([[10, 1], [20, 2], [10, np.nan]], np.float32)
    before = X.copy()
    matrix, columns = read(X, (0,))
    assert columns.categories == {0: (10.0, 20.0)}
    assert matrix.dtype == np.float32
    np.testing.assert_array_equal(matrix[:, 0], [1, 2, 1])
    np.testing.assert_array_equal(matrix[:, 1], X[:, 1])
    np.testing.assert_array_equal(X, before)


def test_only_the_most_frequent_categories_keep_a_bin():
    X = np.array([[5], [5], [5], [3], [3], [9], [1], [np.nan]])
    matrix, columns = read(X, [0], max_bin=3)
    assert columns.categories == {0: (1, 3, 5)}  # 9 and 1 tie, the smaller wins
    np.testing.assert_array_equal(matrix[:, 0], [3, 3, 3, 2, 2, 0, 1, 0])


def test_listed_by_name():
    frame = pd.DataFrame({"a": [1, 2], "b": [3, 4]})
    assert set(read(frame, ["b"])[1].categories) == {1}
    with pytest.raises(InvalidParameterError, match="names 'c', which is no column of X"):
        read(frame, ["c"])
    with pytest.raises(InvalidParameterError, match="indices from 0 to 1, got 2"):
        read(frame, [2])


@pytest.mark.parametrize(
    "values",
    [
        pd.Categorical(["q", "b", None, "a"], ["b", "q", "a"]),
        np.array(["q", "b", None, "a"], object),
        pd.array(["q", "b", None, "a"], dtype="string"),
    ],
)
def test_unseen_and_missing_categories_at_prediction(values):
    columns = Columns(1, ("c",), {0: ("a", "b")})
    np.testing.assert_array_equal(read_like(pd.DataFrame({"c": values}), columns, "m")[:, 0], [0, 2, 0, 1])


@pytest.mark.parametrize("dtype", [np.int64, np.float32, np.float64, object])
def test_numbers_match_their_category_whatever_their_dtype(dtype):
    columns = Columns(1, None, {0: (2, 5, "x")})
    np.testing.assert_array_equal(read_like(np.array([[5], [3], [2], [9]], dtype), columns, "m")[:, 0], [2, 0, 1, 0])


def test_text_categories_do_not_match_numbers():
    columns = Columns(1, None, {0: ("1", "2")})
    np.testing.assert_array_equal(read_like(np.array([[1.0], [2.0]]), columns, "m"), [[0], [0]])


def test_categories_that_no_model_file_can_hold():
    frame = pd.DataFrame({"c": pd.cut([1.0, 5.0], 2)})
    with pytest.raises(InvalidDataError, match="categories of column 'c' of X are Interval; convert them to strings"):
        read(frame)
    unhashable = np.array([[{}], [{}]], object)
    with pytest.raises(InvalidDataError, match="categories of column 0 of X are dict; convert them to strings"):
        read(unhashable, [0])
    with pytest.raises(InvalidDataError, match="values of column 0 of X cannot be categories"):
        read_like(unhashable, Columns(1, None, {0: ("a",)}), "m")


def test_columns_at_prediction():
    columns = Columns(2, ("a", "b"))
    read_like(pd.DataFrame({"a": [1], "b": [2]}), columns, "GBDT")
    read_like(np.zeros((1, 2)), columns, "GBDT")
    with pytest.raises(InvalidDataError, match=r"^X has 3 features, but GBDT is expecting 2 features as input.$"):
        read_like(np.zeros((1, 3)), columns, "GBDT")
    with pytest.raises(InvalidDataError, match="in another order than in fit"):
        read_like(pd.DataFrame({"b": [1], "a": [2]}), columns, "GBDT")
    with pytest.raises(InvalidDataError, match=r"\('b' missing, 'c' unknown\)"):
        read_like(pd.DataFrame({"a": [1], "c": [2]}), columns, "GBDT")


@pytest.mark.parametrize("dtype", ["datetime64[s]", "datetime64[ns]", "datetime64[us, Europe/Zurich]", "datetime64[D]"])
def test_times_are_seconds_since_1970_as_in_files(dtype):
    days = np.array(["1970-01-02", "NaT", "2020-01-01T00:00:00"], "datetime64[s]")
    if dtype == "datetime64[D]":  # numpy has it, pandas has not
        table, arrow = days.astype(dtype)[:, None], None
    else:
        stamps = pd.Series(days)
        stamps = stamps.dt.tz_localize("UTC").astype(dtype) if "Zurich" in dtype else stamps.astype(dtype)
        table, arrow = pd.DataFrame({"t": stamps}), pa.Table.from_pandas(pd.DataFrame({"t": stamps}))
    seconds, _ = read(table)
    assert_array_equal(seconds[:, 0], [86_400.0, np.nan, 1_577_836_800.0])
    if arrow is not None:
        assert_array_equal(read(arrow)[0].matrix(), seconds)
