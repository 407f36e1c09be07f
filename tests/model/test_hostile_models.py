"""Model files that ask for more than they hold: memory and time are bounded by a file's own size."""

from __future__ import annotations

import json
import tracemalloc
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from test_model import refusal, sealed

import pvtree
from pvtree.errors import InvalidDataError, ModelFileError
from pvtree.model import Model
from pvtree.model.contributions import MOST_POINTS, quadrature
from pvtree.model.export_lightgbm import dump
from pvtree.model.import_lightgbm import parse_text
from pvtree.reading.tables import MAX_UNNAMED
from random_trees import chain, random_model

MOST_BYTES = 200  # of memory for each character of a file; lists of Python's numbers take 36 for each digit and blank


def peak_bytes(work):
    """The most memory that ``work`` held at once, numpy's included."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def read_within_its_size(text):
    """The model or the refusal, after a look at the memory that it took."""
    outcome = []

    def read():
        try:
            outcome.append(parse_text(text, "this text"))
        except ModelFileError as error:
            outcome.append(str(error))

    assert peak_bytes(read) < MOST_BYTES * len(text)
    return outcome[0]


# LightGBM's text models


def lightgbm_text(*trees, n_features=1, n_outputs=1, objective="custom", average=False):
    lines = [
        "tree", "version=v4", f"num_class={n_outputs}", f"num_tree_per_iteration={n_outputs}",
        f"max_feature_idx={n_features - 1}", f"objective={objective}", *["average_output"] * average,
        f"feature_names={' '.join(f'f{j}' for j in range(n_features))}",
        f"feature_infos={' '.join(['none'] * n_features)}", "",
    ]  # fmt: skip
    blocks = [f"Tree={number}\n{tree}\n" for number, tree in enumerate(trees)]
    return "\n".join(lines) + "\n" + "\n".join(blocks) + "\nend of trees\n"


def category_chain(n_splits, words, n_features=1):
    """A tree all of whose splits name the same set of categories."""
    numbers = range(n_splits)
    lists = {
        "split_feature": [j % n_features for j in numbers],
        "split_gain": [1] * n_splits,
        "threshold": [0] * n_splits,
        "decision_type": [1] * n_splits,
        "left_child": [~j for j in numbers],
        "right_child": [*range(1, n_splits), ~n_splits],
        "leaf_value": [0] * (n_splits + 1),
        "leaf_weight": [1] * (n_splits + 1),
        "leaf_count": [1] * (n_splits + 1),
        "internal_value": [0] * n_splits,
        "internal_weight": [1] * n_splits,
        "internal_count": [1] * n_splits,
        "cat_boundaries": [0, len(words)],
        "cat_threshold": words,
    }
    body = "\n".join(f"{name}={' '.join(map(str, values))}" for name, values in lists.items())
    return f"num_leaves={n_splits + 1}\nnum_cat=1\n{body}\n"


LEAF = "num_leaves=1\nnum_cat=0\nleaf_value={}\n"


def test_many_splits_may_name_one_large_set():
    every = [2**32 - 1] * (2**20 // 32)
    assert "more than 255 categories" in read_within_its_size(lightgbm_text(category_chain(2000, every)))
    some = [2**32 - 1] * 7
    model = read_within_its_size(lightgbm_text(category_chain(500, some, n_features=400), n_features=400))
    assert len(model.categories) == 400 and model.categories[7] == tuple(range(224))
    assert len(model.trees[0].cat_sets) == 500


@pytest.mark.parametrize("n_outputs", ["2147483646", "100000", "0" * 23 + "1", "0" * 5000 + "1", "0" * 5000])
def test_a_file_without_trees_may_not_name_any_number_of_outputs(n_outputs):
    text = lightgbm_text().replace("num_tree_per_iteration=1", f"num_tree_per_iteration={n_outputs}")
    assert "num_tree_per_iteration is missing or out of range" in read_within_its_size(text)


@pytest.mark.parametrize("name", ["num_leaves=", "num_cat=", "max_feature_idx=", "num_tree_per_iteration="])
@pytest.mark.parametrize("zeros", ["0" * 12 + "1" + "0" * 12, "0" * 5000 + "1"])
def test_zeros_before_a_count_hide_nothing(name, zeros):
    text = lightgbm_text(LEAF.format(0.5))
    before, _, after = text.partition(name)
    answer = read_within_its_size(f"{before}{name}{zeros}{after[1:]}")
    assert f"{name[:-1]} is missing or out of range" in answer


def test_a_forest_of_many_outputs_takes_no_square_of_them():
    leaves = [LEAF.format(number) for number in range(799)]
    text = lightgbm_text(
        *leaves, category_chain(1, [6]).replace("leaf_value=0 0", "leaf_value=7 8"), n_outputs=800, average=True
    )
    model = read_within_its_size(text)
    assert (model.n_iterations, model.n_outputs) == (1, 800)
    expected = np.append(np.arange(799.0), 7)
    np.testing.assert_array_equal(model.predict_raw(model.encode([[2.0]]))[0], expected)
    again = parse_text(dump(model), "the export")
    np.testing.assert_array_equal(again.predict_raw(again.encode([[2.0]]))[0], expected)


@pytest.mark.parametrize("objective", ["binary", "lambdarank"])
def test_an_objective_of_one_output_has_one(objective):
    text = lightgbm_text(LEAF.format(1), LEAF.format(2), n_outputs=2, objective=objective)
    assert "has one output, not 2" in read_within_its_size(text)


CATEGORICAL = dump(random_model(0, [12, 3]))


@pytest.mark.parametrize(
    "line",
    ["leaf_value=1 2 3", "num_leaves=2", "num_leaves=13", "max_feature_idx=5", "objective=regression", "tree",
     "average_output", "feature_infos=none", "left_child=0"],
)  # fmt: skip
def test_a_line_that_comes_twice_is_refused(line):
    name = line.partition("=")[0]
    where = "\nTree=1" if f"\n{name}=" in CATEGORICAL.partition("Tree=0")[2] else "\nTree=0"
    extra = [line, line] if f"\n{name}" not in f"\n{CATEGORICAL}" else [line]
    text = CATEGORICAL.replace(where, "\n".join(["", *extra]) + where, 1)
    with pytest.raises(ModelFileError, match=f"the line '{name}' is repeated"):
        parse_text(text, "this text")


def test_what_else_may_come_twice():
    def refused(old, new):
        assert old in CATEGORICAL
        with pytest.raises(ModelFileError) as caught:
            parse_text(CATEGORICAL.replace(old, new, 1), "this text")
        return str(caught.value)

    labels = "pandas_categorical:null"
    assert "the line pandas_categorical is repeated" in refused(labels, f"{labels}\n{labels}")
    assert "not numbered 0, 1, 2" in refused("Tree=1", "Tree=0")
    assert "not numbered 0, 1, 2" in refused("Tree=0", "Tree=00")
    name = "x" * 1000
    assert len(refused("\nTree=0", f"\n{name}=1\n{name}=2\nTree=0")) < 300


# Our own


def altered(model=None, **fields):
    document = json.loads((model or random_model(1, [6, 0, 70])).to_json())
    document["payload"] |= fields
    return sealed(document)


@pytest.mark.parametrize("classes", [[], [0], [0, 1, 2]])
def test_classes_fit_the_outputs(classes):
    assert "the classes do not match the outputs" in refusal(altered(objective="binary", classes=classes))
    assert Model.from_json(altered(objective="binary", classes=["a", "b"])).classes == ("a", "b")
    forest = random_model(1, [2], 4, "forest")
    assert "the classes do not match the outputs" in refusal(altered(forest, classes=classes))


def test_features_without_names_are_not_endless():
    assert f"more than {MAX_UNNAMED}" in refusal(altered(n_features=2**31 - 1))
    assert f"more than {MAX_UNNAMED}" in refusal(altered(n_features=MAX_UNNAMED + 1))
    model = Model.from_json(altered(n_features=MAX_UNNAMED))
    assert peak_bytes(model.feature_importance) < 2 * 8 * MAX_UNNAMED  # the result, and no more for every tree


def test_an_export_takes_no_tables_of_unused_features():
    model = Model.from_json(altered(n_features=50_000))
    assert peak_bytes(lambda: dump(model)) < 300 * 50_000


def test_equal_names_are_numbered_in_time():
    model = replace(random_model(1, [2]), n_features=30_000, feature_names=("a", "a_3", *["a"] * 29_998))
    names = dump(model).partition("feature_names=")[2].partition("\n")[0].split(" ")
    assert len(set(names)) == 30_000 and names[:5] == ["a", "a_3", "a_2", "a_4", "a_5"]


LONE = "a\ud800"


def test_lone_surrogates_are_refused_in_files_and_in_fit():
    names = ["a", "b", LONE, "d", "e", "f"]
    assert "a feature name has a lone surrogate" in refusal(altered(feature_names=names))
    assert "label or category has a lone surrogate" in refusal(altered(objective="binary", classes=["a", LONE]))
    assert "label or category has a lone surrogate" in refusal(altered(categories=[[5, [LONE]]]))
    tables = f'pandas_categorical:[["{LONE.encode("unicode_escape").decode()}"]]'
    with pytest.raises(ModelFileError, match="pandas_categorical is malformed"):
        parse_text(CATEGORICAL.replace("pandas_categorical:null", tables), "this text")

    X, y = np.arange(40.0).reshape(20, 2), np.arange(20) % 2
    model = pvtree.GBDTClassifier(n_estimators=1, n_jobs=1)
    with pytest.raises(InvalidDataError, match=r"name 'a\\ud800' of column 1 of X has a lone surrogate.*rename"):
        model.fit(pd.DataFrame(X, columns=pd.Index(["a", LONE], dtype=object)), y)
    with pytest.raises(InvalidDataError, match=r"label 'a\\ud800' of y has a lone surrogate.*rename"):
        model.fit(X, np.where(y, "b", LONE).astype(object))
    labels = pd.Categorical.from_codes([0, 1] * 10, categories=pd.Index([LONE, "b"], dtype=object))
    with pytest.raises(InvalidDataError, match=r"category 'a\\ud800' in column 0 of X has a lone surrogate.*rename"):
        model.fit(pd.DataFrame({"a": labels}), y)


def test_deep_trees_take_short_lines():
    model = chain(20_000, 3)
    text = model.tree_text(0)
    assert len(text) < 200 * 40_001
    assert "[level 19999] column 1" in text and "\n      column" in text
    named = replace(chain(500, 3), feature_names=("x" * 10**4, "b", "c"))
    assert max(map(len, named.tree_text(0).splitlines())) < 300
    assert len(named.to_dot()) < 300 * 1001


def test_a_chain_of_many_features_is_explained_with_few_points():
    """Half as many points as features would be 2,000, and so many numbers for each of 8,001 nodes."""
    model = chain(4000, 4000)
    assert quadrature(4000).shape[1] <= 320
    assert model._explainer._scratch_shape == (3, 8001, MOST_POINTS)
    X = np.random.default_rng(0).normal(scale=0.3, size=(2, 4000))
    X[1] = 0.0  # all the way down
    values = model.predict_contrib(X)
    np.testing.assert_allclose(values.sum(axis=1), model.predict_raw(X)[:, 0], rtol=0, atol=1e-11)


@pytest.mark.parametrize("n_features", [120, 400, 4000])
def test_few_points_are_enough(n_features):
    """For products of factors that are not negative from 0 to 1: int t^a (1 - t)^b dt = a! b! / (a + b + 1)!."""
    from scipy.special import betaln

    points, weights = quadrature(n_features)
    assert len(points) < n_features / 2
    for a in np.linspace(0, n_features - 1, 7).astype(int):
        b = n_features - 1 - a
        logs = np.log(weights) + a * np.log(points) + b * np.log1p(-points)
        assert np.exp(logs - betaln(a + 1, b + 1)).sum() == pytest.approx(1.0, abs=1e-9)  # as exact as betaln is
