"""Monotone and interaction constraints: what users write, what kernels allow, what finished models do."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from typing import Any

import click
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pvtree
from pvtree.front.cli.columns import ColumnSets, Signs
from pvtree.growing.constraints import Constraints, read_interactions, read_monotone
from pvtree.kernels.growing import constraints as kernels
from pvtree.parameters.params import Params
from pvtree.parameters.rules import RULES
from pvtree.reading.tables import Columns
from pvtree.training.fingerprint import PARTS, _deciding, differences
from thoroughness import examples

COLUMNS = Columns(4, ("age", "income", "colour", "size"), {2: ("blue", "red")})


def test_constraints_are_read_by_index_and_name() -> None:
    assert read_monotone([1, 0, 0, -1], COLUMNS, 2) == (1, 0, 0, -1)
    assert read_monotone({"size": -1, 0: 1}, COLUMNS, 1) == (1, 0, 0, -1)
    assert read_monotone(np.zeros(4, np.int64), COLUMNS, 9) == read_monotone(None, COLUMNS, 9) == ()
    assert read_interactions([["size", 0, "size"], [2]], COLUMNS) == ((0, 3), (2,))
    assert read_interactions(None, COLUMNS) == read_interactions([], COLUMNS) == ()


@pytest.mark.parametrize("text", ["(1,0,0,-1)", "1,0,0,-1", "[1, 0, 0, -1]", "size:-1,0:1"])
def test_signs_are_read_from_texts(text: str) -> None:
    RULES["monotone_constraints"].check("monotone_constraints", text)
    assert read_monotone(text, COLUMNS, 1) == (1, 0, 0, -1)


@pytest.mark.parametrize("text", ["[0,3],[2]", "[[0, 3], [2]]", '[["size", "age"], ["colour"]]', "0,size;2"])
def test_sets_are_read_from_texts(text: str) -> None:
    RULES["interaction_constraints"].check("interaction_constraints", text)
    assert read_interactions(text, COLUMNS) == ((0, 3), (2,))


@pytest.mark.parametrize(
    ("parameter", "value", "message"),
    [
        ("monotone_constraints", [1, 0], "has 2 signs, but X has 4 columns; give one for each"),
        ("monotone_constraints", {"weight": 1}, "monotone_constraints names 'weight', which is no column"),
        ("monotone_constraints", {4: 1}, "column indices from 0 to 3, got 4"),
        ("monotone_constraints", {"colour": 1}, "column 'colour', whose categories have no order"),
        ("monotone_constraints", [2, 0, 0, 0], "must be a list of 1, -1 or 0"),
        ("monotone_constraints", "(1,0)", "has 2 signs, but X has 4 columns; give one for each"),
        ("monotone_constraints", "1,up,0,0", "must be a list of 1, -1 or 0"),
        ("monotone_constraints", "(2,0,0,0)", "must be a list of 1, -1 or 0"),
        ("monotone_constraints", [1.5, 0, 0, 0], "must be a list of 1, -1 or 0"),
        ("interaction_constraints", [["age", "weight"]], "interaction_constraints names 'weight'"),
        ("interaction_constraints", [[-1]], "column indices from 0 to 3, got -1"),
        ("interaction_constraints", [[]], "none of them empty"),
        ("interaction_constraints", [0, 1], "must be a list of lists"),
        ("interaction_constraints", "[0,1],[]", "must be a list of lists"),
        ("interaction_constraints", "[0,1],2", "must be a list of lists"),
    ],
)
def test_wrong_constraints_get_a_sentence(parameter: str, value: Any, message: str) -> None:
    def read() -> None:
        RULES[parameter].check(parameter, value)
        reads: Any = {"monotone_constraints": lambda v: read_monotone(v, COLUMNS, 1)}
        reads.get(parameter, lambda v: read_interactions(v, COLUMNS))(value)

    with pytest.raises(pvtree.errors.PvtreeError, match=re.escape(message)):
        read()


def test_more_than_two_classes_cannot_be_monotone() -> None:
    X, y = np.arange(30.0)[:, None], np.arange(30) % 3
    for kind in (pvtree.GBDTClassifier, pvtree.RandomForestClassifier):
        with pytest.raises(pvtree.errors.InvalidParameterError, match="y has 3 classes"):
            kind(monotone_constraints=[1], verbosity=0).fit(X, y)


def test_more_sets_than_bits_of_a_word() -> None:
    sets = (*((i % 3,) for i in range(65)), (1, 2))
    of = Constraints.of(Params(interaction_constraints=sets), 4).sets_of
    assert of.shape == (4, 2) and not of[3].any()
    members = [[bool(int(of[f, i // 64]) >> i % 64 & 1) for f in range(3)] for i in range(len(sets))]
    assert members == [[f in each for f in range(3)] for each in sets]


def test_a_checkpoint_belongs_to_its_constraints() -> None:
    none = Params()
    some = replace(none, monotone_constraints=(1, 0), interaction_constraints=((0,), (0, 1)))
    before = {"parameters": json.loads(json.dumps(_deciding(some, 1)))}
    others = dict.fromkeys(PARTS, None)
    assert not list(differences(others | before, others | {"parameters": _deciding(some, 1)}))
    told = list(differences(others | before, others | {"parameters": _deciding(none, 1)}))
    assert told == [
        "interaction_constraints was [[0], [0, 1]] and is None",
        "monotone_constraints was [1, 0] and is None",
    ]


# On the command line


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        (Signs(), "1,-1,0", [1, -1, 0]),
        (Signs(), "age:1, 3:-1", {"age": 1, 3: -1}),
        (Signs(), [1, 0], [1, 0]),  # of a configuration file
        (ColumnSets(), "0,1;2, size", [[0, 1], [2, "size"]]),
    ],
)
def test_constraints_on_the_command_line(kind: click.ParamType, text: Any, expected: Any) -> None:
    assert kind.convert(text, None, None) == expected


@pytest.mark.parametrize(("kind", "text"), [(Signs(), "up,down"), (Signs(), "age:1,2"), (ColumnSets(), "0,1;;2")])
def test_wrong_words_on_the_command_line(kind: click.ParamType, text: str) -> None:
    with pytest.raises(click.BadParameter, match=re.escape(text)):
        kind.convert(text, None, None)


# Kernels

SUMS = st.floats(-1e6, 1e6)
POSITIVE = st.floats(1e-3, 1e6)


@examples(80)
@given(SUMS, POSITIVE, SUMS, POSITIVE, st.sampled_from([0.0, 3.0]), SUMS, SUMS, st.sampled_from([-1.0, 0.0, 1.0]))
def test_constraints_never_raise_a_score(
    gl: float, hl: float, gr: float, hr: float, alpha: float, a: float, b: float, sign: float
) -> None:
    """What exact voting's proofs rely on, to the last bit; and without limits in the way nothing changes."""
    left, right = (max(abs(g) - alpha, 0.0) for g in (gl, gr))
    score = (left * left * hr + right * right * hl) / (hl * hr)
    low, high = min(a, b), max(a, b)
    kept = kernels.constrained_score(score, gl, hl, gr, hr, alpha, low, high, sign)
    assert kept <= score
    values = [-math.copysign(max(abs(g) - alpha, 0.0), g) / h for g, h in ((gl, hl), (gr, hr))]
    in_order = sign * (values[1] - values[0]) >= 0
    free = kernels.constrained_score(score, gl, hl, gr, hr, alpha, -math.inf, math.inf, sign)
    assert free == (score if in_order else -math.inf)


def test_values_of_a_finished_tree_are_put_in_order() -> None:
    """Also values that no search would have left: those of splits that exact sums turn around."""
    feature, left = np.array([0, 0, 1, -1, -1, -1, -1]), np.array([1, 3, 5, 0, 0, 0, 0])
    value = np.array([0.0, 2.0, -2.0, 5.0, 1.0, 3.0, -9.0])
    kernels.keep_in_order(feature, left, np.array([1.0, -1.0]), value)
    # The root's children meet at 0; on the left, 5 and 1 may be at most that; on the right 3 may be as it is.
    np.testing.assert_array_equal(value, [0.0, 0.0, 0.0, 0.0, 0.0, 3.0, 0.0])


# Models


def fitted(name: str, seed: int, **more: Any) -> tuple[Any, np.ndarray, list[int]]:
    rng = np.random.default_rng(seed)
    n = 90
    X = np.column_stack([rng.normal(size=n), rng.integers(0, 6, n), rng.normal(size=n), rng.normal(size=n)])
    X[rng.random(X.shape) < 0.1] = np.nan
    signal = np.nan_to_num(X) @ rng.normal(size=4) + np.sin(3 * np.nan_to_num(X[:, 0])) + rng.normal(size=n)
    signs = [*rng.choice([-1, 1], 3).tolist(), 0]
    y = np.clip(np.floor(signal), 0, 3) if "Rank" in name else (signal > 0) if "Class" in name else signal
    params: dict[str, Any] = {"num_leaves": 8, "min_child_samples": 2, "verbosity": 0, "random_state": seed}
    if "Tree" not in name:
        params["n_estimators"] = 5
    estimator = getattr(pvtree, name)(**params, monotone_constraints=signs, **more)
    rows = {"group": [40, 50]} if "Rank" in name else {}
    weight = rng.choice([0.3, 1.0, 2.0], n) if seed % 2 else None  # with weights, values come from exact sums
    return estimator.fit(X, y, sample_weight=weight, **rows), X, signs


@pytest.mark.filterwarnings("ignore::pvtree.training.skew.SkewWarning")
@examples(15)
@given(st.integers(0, 2**32), st.data())
def test_predictions_are_monotone(seed: int, draw: st.DataObject) -> None:
    kinds = ["GBDTRegressor", "GBDTClassifier", "GBDTRanker", "RandomForestRegressor", "RandomForestClassifier",
             "DecisionTreeRegressor", "DecisionTreeClassifier"]  # fmt: skip
    name = draw.draw(st.sampled_from(kinds))
    learners = ["serial", "voting", "attribute"] + (["svore", "yu"] if name == "GBDTRegressor" else [])
    learner = draw.draw(st.sampled_from(learners))
    estimator, X, signs = fitted(name, seed, tree_learner=learner, n_workers=1 if learner == "serial" else 2)
    predict = (lambda rows: estimator.predict_proba(rows)[:, 1]) if "Class" in name else estimator.predict
    moving = 0.0
    for column, sign in enumerate(signs[:3]):
        grid = np.unique(X[~np.isnan(X[:, column]), column])
        rows = np.repeat(X[:20], len(grid), axis=0)
        rows[:, column] = np.tile(grid, 20)
        steps = sign * np.diff(predict(rows).reshape(20, -1), axis=1)
        assert steps.min() >= 0.0, (name, learner, column)
        moving = max(moving, float(steps.max()))
    assert moving > 0.0 or "Rank" in name
