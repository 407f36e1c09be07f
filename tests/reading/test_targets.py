import numpy as np
import pandas as pd
import pytest

from pvtree.comm import Solo
from pvtree.comm.agreement import agree_weights
from pvtree.errors import InvalidDataError, InvalidTypeError
from pvtree.reading.targets import (
    check_several_classes,
    find_classes,
    read_column,
    read_labels,
    read_queries,
    read_relevance,
    read_values,
    read_weight,
)


def classes_of(y, n_rows):
    classes = find_classes(read_column(y, n_rows))
    check_several_classes(classes)
    return classes


def sizes_of(group, qid, n_rows):
    return read_queries(group, qid, n_rows).sizes.tolist()


@pytest.mark.parametrize(
    ("y", "classes", "indices"),
    [
        ([3, 1, 3], [1, 3], [1, 0, 1]),
        ([2.0, 0.0, 1.0], [0.0, 1.0, 2.0], [2, 0, 1]),
        (["b", "a", "b"], ["a", "b"], [1, 0, 1]),
        ([True, False, True], [False, True], [1, 0, 1]),
        (np.array(["b", "a", "b"], object), ["a", "b"], [1, 0, 1]),
        (pd.Series(["b", "a", "b"], dtype="category"), ["a", "b"], [1, 0, 1]),
    ],
)
def test_labels(y, classes, indices):
    known = classes_of(y, 3)
    found = read_labels(y, 3, known)
    assert known.tolist() == classes
    assert found.dtype == np.float64
    assert found.tolist() == indices


@pytest.mark.parametrize(
    ("y", "sentence"),
    [
        ([1, 1, 1], "^y has only one class, 1; a classifier needs at least two classes.$"),
        ([0.5, 1.5, 1.0], "Unknown label type: y is continuous"),
        ([0.0, np.nan, 1.0], "y contains NaN"),
        ([0.0, np.inf, 1.0], "y contains infinity"),
        ([1, 2], "^y has length 2, but X has 3 rows; pass one label a row.$"),
        (np.zeros((3, 2)), "must be one-dimensional"),
        (np.array(["a", None, "b"], object), "missing labels"),
        (np.array(["a", 1, "b"], object), "mixes labels"),
        (np.array([(1,), {}, 2], object), "Unknown label type"),
        (np.array(["2020-01-01"] * 3, "M8[D]"), "Unknown label type"),
        (None, "requires y to be passed"),
    ],
)
def test_bad_labels(y, sentence):
    with pytest.raises(InvalidDataError, match=sentence):
        classes_of(y, 3)


def test_labels_of_known_classes():
    assert read_labels([3, 3], 2, np.array([1, 3])).tolist() == [1, 1]
    with pytest.raises(InvalidDataError, match=r"^y of eval_set 0 has the label 2, but the classes are 1, 3.$"):
        read_labels([2, 3], 2, np.array([1, 3]), "y of eval_set 0")


def test_values():
    assert read_values(np.array([1, 2], object), 2).tolist() == [1.0, 2.0]
    for y in (["a", "b"], np.array(["1", "2"]), np.array([None, 1], object)):
        with pytest.raises((InvalidTypeError, InvalidDataError)):
            read_values(y, 2)
    with pytest.raises(InvalidDataError, match="y contains NaN"):
        read_values([1.0, np.nan], 2)
    with pytest.raises(InvalidDataError, match=r"^y must lie between -1e\+70 and 1e\+70; scale it down\.$"):
        read_values([1.0, -1e71], 2)  # whose square is close to infinity


@pytest.mark.parametrize("bad", [-1, 0.5, 31])
def test_relevance(bad):
    assert read_relevance([0, 4, 30], 3).tolist() == [0, 4, 30]
    with pytest.raises(InvalidDataError, match=f"whole relevance labels from 0 to 30, got {bad}"):
        read_relevance([0, bad], 2)


def test_unit_weights_are_no_weights():
    assert read_weight(None, 2) is None
    assert agree_weights(read_weight(np.ones(2, int), 2), 2, Solo(), "sample_weight") is None
    assert read_weight([1, 2], 2).tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("weight", "sentence"),
    [
        ([1.0, -2.0], "must not be negative, got -2"),
        ([1.0, np.nan], "contains NaN"),
        ([1.0, np.inf], "contains infinity"),
        ([0.0, 0.0], "only zero weights"),
        ([1.0], "has length 1, but X has 2 rows"),
        ([[1.0], [1.0]], "one-dimensional"),
        (1.0, "one-dimensional"),
        ([1.0, 1e300], r"must be 0 or between 1e-70 and 1e\+70; scale the weights"),
        ([0.0, 5e-324], r"must be 0 or between 1e-70 and 1e\+70; scale the weights"),
    ],
)
def test_bad_weights(weight, sentence):
    with pytest.raises(InvalidDataError, match=sentence):
        agree_weights(read_weight(weight, 2), 2, Solo(), "sample_weight")


def test_groups_from_sizes_and_ids():
    assert sizes_of([2, 1], None, 3) == [2, 1]
    assert sizes_of(None, ["q", "q", "p"], 3) == [2, 1]
    assert read_queries(None, ["q", "q", "p"], 3).ids == ["q", "p"]
    assert sizes_of(None, [7, 7, 7], 3) == [3]
    assert sizes_of(None, [], 0) == []
    assert read_queries(None, None, 3) is None


@pytest.mark.parametrize(
    ("group", "qid", "sentence"),
    [
        ([2, 2], None, "^group adds up to 4 rows, but X has 3; sizes must cover X.$"),
        ([3, 0], None, "sizes of at least 1, got 0"),
        ([1.5, 1.5], None, "whole numbers"),
        ([[3]], None, "whole numbers"),
        (["a"], None, "whole numbers"),
        ([3], [1, 1, 1], "pass only one of them"),
        (
            None,
            [1, 2, 1],
            "^qid has the query 1 in two places; sort the rows so that each query is together.$",
        ),
        (None, [1, 2], "has length 2, but X has 3 rows"),
        (None, [1.0, np.nan, 2.0], "^qid has missing values; give every row a query id.$"),
        (None, np.array(["a", float("nan"), 2], object), "has missing values"),
        (None, np.array([None, "a", "a"], object), "^qid must hold a number or a text in every row.$"),
        (None, np.array([np.zeros(2), "a", []], object), "a number or a text in every row"),
        (None, np.array([1j, 2, 3]), "a number or a text in every row"),
    ],
)
def test_bad_groups(group, qid, sentence):
    with pytest.raises(InvalidDataError, match=sentence):
        read_queries(group, qid, 3)
