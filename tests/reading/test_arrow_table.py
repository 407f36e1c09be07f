"""Tables of pyarrow and polars give the model that the same DataFrame of pandas gives."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from pvtree import GBDTClassifier, GBDTRegressor, InvalidDataError, InvalidTypeError
from pvtree.reading import arrow_table
from pvtree.reading.arrow_columns import reason_of
from pvtree.reading.arrow_table import ArrowTable

N = 300


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=N)
    numbers[::7] = np.nan
    return pd.DataFrame(
        {
            "number": numbers,
            "single": rng.normal(size=N).astype(np.float32),
            "count": pd.array(rng.integers(0, 9, N), "Int16").copy(),
            "yes": rng.integers(0, 2, N).astype(bool),
            "town": pd.Categorical(rng.choice(["Aarhus", "Basel", "Caen", "Delft"], N)),
        }
    ).assign(count=lambda f: f["count"].mask(f["count"] == 3))


@pytest.fixture(scope="module")
def target(frame):
    return frame["number"].fillna(0) + frame["town"].cat.codes + frame["count"].fillna(5).astype(float)


def as_pyarrow(frame):
    return pa.Table.from_pandas(frame, preserve_index=False)


def as_polars(frame):
    return pl.from_pandas(frame)


def as_batch(frame):
    return as_pyarrow(frame).combine_chunks().to_batches()[0]


MAKERS = [as_pyarrow, as_polars, as_batch]


def fit(X, y):
    return GBDTRegressor(n_estimators=3, min_child_samples=5).fit(X, y)


@pytest.mark.parametrize("make", MAKERS)
def test_same_model_and_predictions_as_pandas(make, frame, target, monkeypatch):
    monkeypatch.setattr(arrow_table, "PART_ROWS", 64)
    ours, theirs = fit(make(frame), target), fit(frame, target)
    assert ours.model_ == theirs.model_
    assert ours.feature_names_in_.tolist() == list(frame.columns)
    assert np.array_equal(ours.predict(make(frame)), theirs.predict(frame))
    assert np.array_equal(ours.predict(frame), theirs.predict(make(frame)))


def test_labels_weights_and_evaluation_sets_of_polars(frame):
    labels = np.where(frame["count"].fillna(0) > 4, "many", "few")
    table = as_polars(frame)
    ours = GBDTClassifier(n_estimators=3, min_child_samples=5)
    ours.fit(table, pl.Series(labels), pl.Series(np.arange(N) % 3), eval_set=[(table[:99], pl.Series(labels[:99]))])
    theirs = GBDTClassifier(n_estimators=3, min_child_samples=5)
    theirs.fit(frame, labels, np.arange(N) % 3, eval_set=[(frame[:99], labels[:99])])
    assert ours.model_ == theirs.model_
    assert ours.evals_result_ == theirs.evals_result_
    assert ours.classes_.tolist() == ["few", "many"]


def test_workers_share_an_arrow_table(frame, target):
    def model(X):
        return GBDTRegressor(n_estimators=2, tree_learner="data", n_workers=3).fit(X, target).model_

    assert model(as_pyarrow(frame)) == model(frame)


def test_columns_stay_where_they_are():
    column = np.arange(8.0)
    table = ArrowTable(pa.table({"a": column}))
    assert table.table.column(0).chunk(0).to_numpy().ctypes.data == column.ctypes.data


@pytest.mark.parametrize("make", MAKERS)
def test_other_columns_are_refused(make, frame, target):
    fitted = fit(make(frame), target)
    with pytest.raises(InvalidDataError, match="another order"):
        fitted.predict(make(frame[frame.columns[::-1]]))
    with pytest.raises(InvalidDataError, match="'town' missing, 'city' unknown"):
        fitted.predict(make(frame.rename(columns={"town": "city"})))


def test_what_cannot_be_read_is_told():
    with pytest.raises(InvalidTypeError, match=r"lazy frame.*collect"):
        GBDTRegressor().fit(pl.LazyFrame({"a": [1, 2]}), [1, 2])
    with pytest.raises(InvalidDataError, match="column 'a' of X holds large_list"):
        GBDTRegressor().fit(pl.DataFrame({"a": [[1], [2]]}), [1, 2])
    with pytest.raises(InvalidDataError, match="several columns named 'a'"):
        GBDTRegressor().fit(pa.table([[1, 2], [3, 4]], names=["a", "a"]), [1, 2])
    with pytest.raises(InvalidDataError, match=r"0 row\(s\)"):
        GBDTRegressor().fit(pa.table({"a": pa.array([], pa.float64())}), [])


def test_messages_of_other_libraries_are_quoted_without_control_characters():
    assert reason_of(ValueError("column '\x1b[31mred'   is odd.\nsecond line")) == "column '?[31mred' is odd"
