"""scipy sparse matrices: binned, trained and predicted on as X.toarray() is, to the last bit, in fewer bytes."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse

from pvtree import GBDTClassifier, GBDTRegressor, RandomForestClassifier
from pvtree.binning import bundling
from pvtree.binning.coarsening import count_rows
from pvtree.binning.thresholds import bin_rows, choose_own_bins
from pvtree.comm import local
from pvtree.errors import InvalidDataError
from pvtree.kernels.constants import BLOCK
from pvtree.kernels.team import Team
from pvtree.reading import sparse_rows
from pvtree.reading.sources import Matrices
from pvtree.reading.sparse_tables import SparseTable
from pvtree.reading.tables import Columns

VALUES = (-2.0, -0.5, -0.0, 0.0, 0.25, 1.0, 1.5, 3.0, float("nan"))


@st.composite
def matrices(draw):
    """CSR with duplicates, explicit zeros, unsorted rows and NaN; empty rows and columns come by themselves."""
    n_rows, n_columns = draw(st.integers(1, 30)), draw(st.integers(1, 40))
    n_entries = draw(st.integers(0, 3 * n_rows))
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    start = np.concatenate(([0], np.sort(rng.integers(0, n_entries + 1, n_rows - 1)), [n_entries])).astype(np.int32)
    column = rng.integers(0, n_columns, n_entries).astype(np.int32)
    return sparse.csr_matrix((rng.choice(VALUES, n_entries), column, start), shape=(n_rows, n_columns))


def bins_of(data):
    """The bin of every row and feature."""
    features = np.arange(data.n_features)
    column = features if data.bundles is None else data.bundles.bundle_of
    block = np.searchsorted(data.block_start, column, side="right") - 1
    lanes = data.bins.reshape(len(data.bins), -1, BLOCK)
    bins = lanes[block, :, column - data.block_start[block]].T  # (rows, features)
    if data.bundles is not None:
        bins = data.bundles.bins_of_codes(features)[features, bins]
    return bins


@settings(max_examples=60)
@given(matrices(), st.integers(2, 8), st.booleans())
def test_bins_are_those_of_the_dense_matrix(matrix, max_bin, by_category):
    n_rows, n_features = matrix.shape
    dense, categorical = matrix.toarray(), {0: 2} if by_category else {}
    if by_category:
        matrix = sparse.csr_matrix(np.where(np.arange(n_features) == 0, 1.0 + (dense == 1.0), dense))
        dense = matrix.toarray()
    rows = SparseTable.read(matrix).encode(Columns(n_features))
    with Team(1) as team:
        sample = np.arange(0, n_rows, 1 + n_rows % 2)
        thresholds = choose_own_bins(dense, sample, (0, n_features), categorical, max_bin, team)
        own = choose_own_bins(rows, sample, (0, n_features), categorical, max_bin, team)
        assert_array_equal(own.upper, thresholds.upper)
        assert_array_equal(own.n_bins, thresholds.n_bins)
        for first, stop in ((0, n_features), (n_features // 3, n_features)):
            expected = bin_rows(dense, thresholds, first, stop, team)
            binned = bin_rows(rows, thresholds, first, stop, team)
            assert_array_equal(bins_of(binned), bins_of(expected))
            assert_array_equal(count_rows(binned, sample, team), count_rows(expected, sample, team))


def one_hot(n_rows=400, n_variables=6, n_categories=12, dtype=np.float64):
    """One-hot columns, some of them with NaN, and labels that depend on them."""
    rng = np.random.default_rng(1)
    category = rng.integers(0, n_categories, (n_rows, n_variables))
    column = (category + n_categories * np.arange(n_variables)).ravel()
    values = np.ones(column.size, dtype)
    values[::41], values[::7] = np.nan, 2.0
    X = sparse.csr_matrix((values, column, np.arange(0, column.size + 1, n_variables)))
    y = (category[:, 0] > 5).astype(int) + (category[:, 1] * rng.random(n_rows) > 4)
    return X, y


def test_columns_that_exclude_each_other_share_bytes():
    X, _ = one_hot()
    rows = SparseTable.read(X).encode(Columns(X.shape[1]))
    with Team(1) as team:
        thresholds = choose_own_bins(rows, np.arange(len(rows)), (0, X.shape[1]), {}, 255, team)
        data = bin_rows(rows, thresholds, 0, X.shape[1], team)
    assert len(data.bundles.last_code) == 6  # one for each variable
    assert data.bins.nbytes == 16 * len(rows)


MAKES = {
    "serial": (GBDTClassifier, {}),
    "forest": (RandomForestClassifier, {}),
    "singly": (RandomForestClassifier, {"max_features": 4}),
    "voting": (GBDTClassifier, {"tree_learner": "voting", "n_workers": 3, "top_k": 8}),
    "voting forest": (RandomForestClassifier, {"tree_learner": "voting", "n_workers": 3, "top_k": 8}),
    "exact voting": (GBDTClassifier, {"tree_learner": "exact_voting", "n_workers": 3, "top_k": 4}),
    "data": (GBDTClassifier, {"tree_learner": "data", "n_workers": 3}),
    "attribute": (GBDTClassifier, {"tree_learner": "attribute", "n_workers": 3}),
    "quantized": (GBDTClassifier, {"tree_learner": "quantized", "n_workers": 2, "quantized_bins": 0.01}),
    "bagging": (GBDTClassifier, {"subsample": 0.5, "subsample_freq": 1}),
    "monotone": (GBDTClassifier, {"monotone_constraints": [1, -1, 0] * 24, "interaction_constraints": [[0, 1, 2, 20]]}),
    "categories": (GBDTClassifier, {"categorical_feature": [0, 13]}),
}


def settings_of(more):
    return {"n_estimators": 3, "num_leaves": 15, "min_child_samples": 5, "verbosity": 0, "n_jobs": 1, **more}


@pytest.mark.parametrize("name", MAKES)
def test_the_model_is_that_of_the_dense_matrix(name):
    make, more = MAKES[name]
    X, y = one_hot(dtype=np.float32 if name == "data" else np.float64)
    if "Forest" not in make.__name__:
        y = y > 0
    if name == "forest":
        more = {"max_features": None}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = make(**settings_of(more)).fit(X.tocsc() if name == "serial" else X, y)
        expected = make(**settings_of(more)).fit(X.toarray(), y)
    assert fitted.model_.to_json() == expected.model_.to_json()


def test_of_equal_splits_the_lower_column_is_taken():
    """Whichever is looked at first: here the second column, which has more rows that are not zero."""
    rng = np.random.default_rng(0)
    others, one, either = (rng.random((3, 400)) < [[0.3], [0.4], [0.5]]).astype(float)
    both = np.maximum(others, one)  # the same as ``one`` where ``others`` is 0
    X = np.column_stack([one, both, others, np.eye(12)[rng.integers(0, 12, 400)]])
    y = 10 * others + np.where(others == 0, one, either)
    fitted = GBDTRegressor(**settings_of({"num_leaves": 3})).fit(sparse.csr_matrix(X), y)
    assert fitted.model_.to_json() == GBDTRegressor(**settings_of({"num_leaves": 3})).fit(X, y).model_.to_json()
    assert {0, 2} <= set(fitted.model_.trees[0].feature)


def test_dense_columns_that_exclude_each_other_share_bytes_too(monkeypatch):
    X, y = one_hot()
    dense = X.toarray()
    expected = GBDTClassifier(**settings_of({})).fit(dense, y > 0).model_.to_json()
    monkeypatch.setattr(bundling, "_LEAST_CELLS", 1)
    rows = Matrices([dense[:150], dense[150:]])
    with Team(1) as team:
        thresholds = choose_own_bins(rows, np.arange(len(rows)), (0, X.shape[1]), {}, 255, team)
        assert len(bin_rows(rows, thresholds, 0, X.shape[1], team).bundles.last_code) == 6
    for learner in ("serial", "attribute"):
        options = settings_of({"tree_learner": learner, "n_workers": 1 if learner == "serial" else 2})
        assert GBDTClassifier(**options).fit(dense, y > 0).model_.to_json() == expected


def test_bundles_chosen_some_at_a_time_are_the_same(monkeypatch):
    X, y = one_hot()
    expected = GBDTRegressor(**settings_of({})).fit(X, y).model_
    monkeypatch.setattr(bundling, "ENTRIES_AT_ONCE", 50)
    n_calls, choose = [], bundling.choose_bundles
    monkeypatch.setattr(bundling, "choose_bundles", lambda *args: n_calls.append(1) or choose(*args))
    assert GBDTRegressor(**settings_of({})).fit(X, y).model_ == expected and len(n_calls) > 10


def test_predictions_are_those_of_the_dense_matrix(monkeypatch):
    for limit in ("DENSE_BYTES", "PREDICTED_BYTES"):
        monkeypatch.setattr(sparse_rows, limit, 4096)  # several blocks
    monkeypatch.setattr(sparse_rows.SparseRows, "matrix", None)  # never all rows at once
    X, y = one_hot()
    dense, weight = X.toarray(), (np.arange(len(y)) % 5).astype(float)
    options = {"eval_set": [(X[:100], y[:100])], "sample_weight": weight}
    fitted = GBDTRegressor(**settings_of({})).fit(X, y, **options)
    expected = GBDTRegressor(**settings_of({})).fit(dense, y, **options | {"eval_set": [(dense[:100], y[:100])]})
    assert fitted.evals_result_ == expected.evals_result_
    for form in (X, X.tocsc(), sparse.coo_array(X)):
        assert_array_equal(fitted.predict(form), expected.predict(dense))
    assert_array_equal(fitted.apply(X), expected.apply(dense))
    assert_array_equal(fitted.predict(X, pred_contrib=True).toarray(), expected.predict(dense, pred_contrib=True))
    assert_array_equal(fitted.model_.predict_raw(X), expected.model_.predict_raw(dense))
    more = GBDTRegressor(**settings_of({})).fit(X, y, init_model=fitted)
    assert more.model_.to_json() == GBDTRegressor(**settings_of({})).fit(dense, y, init_model=expected).model_.to_json()


@pytest.mark.parametrize("learner", ["attribute", "data"])
def test_workers_with_some_sparse_rows_each(learner):
    X, y = one_hot()
    cuts = [0, 150, 150, 400]
    options = settings_of({"tree_learner": learner})

    def work(comm):
        own = slice(*cuts[comm.rank : comm.rank + 2])
        return GBDTRegressor(**options).fit(X[own], y[own], comm=comm).model_.to_json()

    expected = GBDTRegressor(**settings_of({})).fit(X.toarray(), y).model_.to_json()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert local.run(work, 3, timeout=60) == [expected] * 3


@pytest.mark.parametrize(
    "X, message",
    [
        (sparse.csr_matrix(np.eye(3) * 1j), "Complex data not supported"),
        (sparse.csr_matrix((0, 3)), "X has 0 row"),
        (sparse.csr_matrix((3, 0)), "X has 0 feature"),
        (sparse.csr_matrix((3, 2)), "X has 2 features, but GBDTRegressor is expecting 72"),
    ],
)
def test_wrong_matrices_are_refused(X, message):
    with pytest.raises(InvalidDataError, match=message):
        if "expecting" in message:
            GBDTRegressor(**settings_of({"n_estimators": 1})).fit(*one_hot()).predict(X)
        else:
            GBDTRegressor(verbosity=0).fit(X, np.arange(X.shape[0]))
