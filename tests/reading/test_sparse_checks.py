"""Sparse matrices whose indices leave the matrix are refused before any kernel follows them."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from pvtree import GBDTClassifier, InvalidDataError
from pvtree.reading.sparse_tables import SparseTable

N_ROWS, N_COLUMNS = 60, 4
DENSE = np.random.default_rng(0).integers(0, 3, (N_ROWS, N_COLUMNS)).astype(float)
LABELS = (DENSE[:, 0] > 0).astype(int)
INVALID = "X is not a valid sparse matrix"
SPARSE_KINDS = [sparse.csr_matrix, sparse.csr_array, sparse.csc_matrix, sparse.csc_array, sparse.bsr_array]


def altered(kind, name, change):
    """A matrix of some kind, one of whose arrays is changed behind its back."""
    X = kind(DENSE)
    X.has_canonical_format  # noqa: B018  scipy remembers the answer, which the change makes wrong
    array = getattr(X, name).copy()
    changed = change(array)
    setattr(X, name, array if changed is None else changed)
    return X


def put(at, value):
    def change(array):
        array[at] = value

    return change


def cut(array):
    return array[:-1]


CHANGES = [("indices", put(5, 10**6)), ("indices", put(5, N_ROWS)), ("indices", put(5, -3)), ("indices", cut),
           ("data", cut), ("indptr", put(1, 10**6)), ("indptr", put(1, -1)), ("indptr", put(0, 1)),
           ("indptr", put(-1, 10**6)), ("indptr", put(-1, 0)), ("indptr", cut)]  # fmt: skip


@pytest.mark.parametrize("kind", SPARSE_KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize(("name", "change"), CHANGES)
def test_indices_outside_of_the_matrix(kind, name, change):
    with pytest.raises(InvalidDataError, match=INVALID):
        SparseTable.read(altered(kind, name, change))


@pytest.mark.parametrize("value", [N_ROWS, -1, 10**6])
@pytest.mark.parametrize("name", ["row", "col"])
def test_coordinates_outside_of_the_matrix(name, value):
    X = sparse.coo_matrix(DENSE)
    getattr(X, name)[7] = value
    with pytest.raises(InvalidDataError, match=INVALID):
        SparseTable.read(X)


def test_more_columns_than_can_be_counted():
    with pytest.raises(InvalidDataError, match="at most 2147483647"):
        SparseTable.read(sparse.csr_array((2, 2**31)))


@pytest.fixture(scope="module")
def fitted():
    return GBDTClassifier(n_estimators=2, min_child_samples=2).fit(sparse.csr_array(DENSE), LABELS)


def test_fit_evaluation_and_every_prediction_look(fitted):
    bad = altered(sparse.csr_array, "indices", put(5, N_COLUMNS))
    good, X = GBDTClassifier(n_estimators=2), sparse.csr_array(DENSE)
    calls = [
        lambda: good.fit(bad, LABELS),
        lambda: good.fit(X, LABELS, eval_set=[(bad, LABELS)]),
        lambda: fitted.predict(bad),
        lambda: fitted.predict_proba(bad),
        lambda: fitted.predict(bad, pred_contrib=True),
        lambda: fitted.apply(bad),
        lambda: fitted.model_.predict_raw(bad),
        lambda: fitted.model_.predict_leaf(bad),
        lambda: fitted.model_.predict_contrib(bad),
        lambda: fitted.model_.encode(bad),
    ]
    for call in calls:
        with pytest.raises(InvalidDataError, match=INVALID):
            call()


@pytest.mark.parametrize("form", ["csr", "csc", "bsr", "coo", "lil", "dok", "dia"])
def test_every_form_predicts_as_dense_rows_do(form, fitted):
    X = sparse.csr_array(DENSE).asformat(form)
    assert_array_equal(fitted.predict_proba(X), fitted.predict_proba(DENSE))


def test_unsorted_and_repeated_entries_are_taken_and_left_as_they_are(fitted):
    X = sparse.csr_array(DENSE)
    X.indices, X.data = X.indices.copy(), X.data.copy()
    for start, stop in zip(X.indptr[:-1], X.indptr[1:], strict=True):
        X.indices[start:stop], X.data[start:stop] = X.indices[start:stop][::-1], X.data[start:stop][::-1]
    halves = sparse.csr_array(
        (np.repeat(X.data / 2, 2), np.repeat(X.indices, 2), 2 * X.indptr), shape=X.shape
    )  # each entry twice, which scipy adds up
    for each in (X, halves):
        before = [array.copy() for array in (each.data, each.indices, each.indptr)]
        again = GBDTClassifier(n_estimators=2, min_child_samples=2).fit(each, LABELS)
        assert again.model_ == fitted.model_
        assert_array_equal(again.predict_proba(each), fitted.predict_proba(DENSE))
        for array, old in zip((each.data, each.indices, each.indptr), before, strict=True):
            assert_array_equal(array, old)
