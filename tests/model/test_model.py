"""Models as data and as files: exact, canonical, and nothing else is let in."""

from __future__ import annotations

import copy
import hashlib
import json
import math
import os
import pickle
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pvtree.errors import InvalidParameterError, InvalidTypeError, ModelFileError
from pvtree.model.model import Model
from pvtree.model.tree import TREE_DTYPES, Tree
from random_trees import N_FEATURES, random_model, random_rows
from thoroughness import examples

LABELS = ("a", "NaN", "", "ü", 0, -3, 2**80, 1.0, -0.0, 5e-324, math.inf, -math.inf, True, False)


def rich_model() -> Model:
    return replace(
        random_model(1, [6, 0, 70], 1),
        feature_names=("a", "b c", 'd"', "ü", "", "f"),
        classes=("no", "yes"),
        categories={5: LABELS, 4: (math.nan,)},
    )


def sealed(document: dict) -> str:
    """The document with a checksum that fits: what a hostile author would write."""
    body = json.dumps(document["payload"], sort_keys=True, separators=(",", ":"))
    return json.dumps({**document, "sha256": hashlib.sha256(body.encode()).hexdigest()})


def refusal(text: object) -> str:
    with pytest.raises(ModelFileError) as caught:
        Model.from_json(text)  # type: ignore[arg-type]
    message = str(caught.value)
    assert message.startswith("this text is not a usable pvtree model (") and message.count(". ") == 0
    assert message.endswith(".") and ";" in message and "\n" not in message
    return message


floats = st.floats(allow_nan=False) | st.sampled_from([math.inf, -math.inf, 5e-324, -0.0, 1.7976931348623157e308])
labels = st.text() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.booleans()


@examples(15)
@given(
    seed=st.integers(0, 2**32),
    sizes=st.lists(st.integers(0, 20), max_size=3),
    cuts=st.lists(floats, min_size=1),
    classes=st.none() | st.lists(labels, min_size=3, max_size=3).map(tuple),
    categories=st.dictionaries(st.integers(0, N_FEATURES - 1), st.lists(labels).map(tuple)),
    names=st.none() | st.lists(st.text(), min_size=N_FEATURES, max_size=N_FEATURES).map(tuple),
    kind=st.sampled_from([("gbdt", 1), ("forest", 1), ("forest", 3)]),
)
def test_round_trip_is_exact_and_canonical(seed, sizes, cuts, classes, categories, names, kind):
    ensemble, n_outputs = kind
    model = random_model(seed, sizes, n_outputs, ensemble)
    cuts = np.array(cuts)
    trees = tuple(
        replace(t, threshold=np.resize(cuts, t.n_nodes), value=np.resize(cuts, t.value.shape)) for t in model.trees
    )
    classes = classes and classes[: max(2, n_outputs)]
    model = replace(model, trees=trees, classes=classes, categories=categories, feature_names=names)
    text = model.to_json()
    again = Model.from_json(text)
    assert again == model and again.to_json() == text
    for tree, other in zip(model.trees, again.trees, strict=True):
        for name, dtype in TREE_DTYPES.items():
            assert getattr(other, name).dtype == dtype
            assert getattr(other, name).tobytes() == getattr(tree, name).tobytes()
    assert repr(again.classes) == repr(model.classes) and repr(again.categories) == repr(model.categories)
    json.loads(text, parse_constant=lambda token: pytest.fail(f"{token} is no JSON"))


def test_files_of_equal_models_are_equal_bytes(tmp_path):
    model, twin = rich_model(), rich_model()
    twin.predict_raw(random_rows(np.random.default_rng(0), 3))
    model.save(tmp_path / "a.json")
    twin.save(str(tmp_path / "b.json"))
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    loaded = Model.load(tmp_path / "a.json")
    assert loaded == model
    X = random_rows(np.random.default_rng(1), 100)
    assert loaded.predict_raw(X).tobytes() == model.predict_raw(X).tobytes()
    # Order of the categories' keys is no part of a model.
    assert replace(model, categories=dict(reversed(model.categories.items()))).to_json() == model.to_json()


def test_labels_keep_their_types():
    model = Model.from_json(rich_model().to_json())
    assert [type(label) for label in model.categories[5]] == [type(label) for label in LABELS]
    assert math.isnan(model.categories[4][0])
    plain = replace(model, classes=(np.int64(3), np.str_("x"), np.bool_(True), np.float64(0.5)))
    assert plain.classes == (3, "x", True, 0.5) and type(plain.classes[2]) is bool
    assert replace(model, classes=(1,)) != replace(model, classes=(True,))
    assert replace(model, classes=(0.0,)) != replace(model, classes=(-0.0,))
    with pytest.raises(InvalidTypeError, match="type date cannot be kept"):
        import datetime

        replace(model, classes=(datetime.date(2016, 12, 5),))


_TEXT = rich_model().to_json()


@examples(120)
@given(data=st.data())
def test_mutations_give_an_error_or_the_same_model(data, tmp_path_factory):
    raw = bytearray(_TEXT.encode())
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(raw)))
        kind = data.draw(st.sampled_from(["cut", "change", "insert", "delete", "repeat"]))
        length = data.draw(st.integers(1, 20))
        if kind == "cut":
            del raw[place:]
        elif kind == "delete":
            del raw[place : place + length]
        elif kind == "repeat":
            raw[place:place] = raw[place : place + length]
        elif kind == "insert":
            raw[place:place] = data.draw(st.binary(max_size=4) | st.sampled_from([b"0", b" ", b"9", b"-", b"[", b"}"]))
        elif place < len(raw):
            raw[place] = data.draw(st.integers(0, 255) | st.sampled_from(list(b'0123456789-.e,:[]{}" ')))
    path = tmp_path_factory.getbasetemp() / "mutated.json"
    path.write_bytes(bytes(raw))
    try:
        model = Model.load(path)
    except ModelFileError as error:
        assert str(path) in str(error) and "\n" not in str(error)
    else:
        assert model.to_json() == _TEXT


def test_every_truncation_is_refused(tmp_path):
    path = tmp_path / "model.json"
    rich_model().save(path)
    whole = path.read_bytes()
    for length in [*range(0, len(whole) - 1, 97), len(whole) - 2]:
        path.write_bytes(whole[:length])
        with pytest.raises(ModelFileError, match="save the model again"):
            Model.load(path)


NO_MODELS = [
    b"", b"\x00" * 100, b"\x80\x04K\x01.", b"PK\x03\x04", b"[" * 100_000, b'{"a":' * 100_000, b"null", b"[]",
    b"{}", b"1" * 10_000, '{"format":"ü"}'.encode(), b'{"format":"pvtree-model"}',
]  # fmt: skip


@pytest.mark.parametrize("raw", NO_MODELS, ids=lambda raw: repr(raw[:12]))
def test_what_is_no_model_is_refused(raw, tmp_path):
    path = tmp_path / "some.file"
    path.write_bytes(raw)
    with pytest.raises(ModelFileError, match=r"some\.file.* is not a .*model \(.*\); give a file written by"):
        Model.load(path)


@pytest.mark.parametrize("text", [None, b"{}", 3])
def test_only_text_is_parsed(text):
    assert "not text" in refusal(text)


def test_other_versions_are_named():
    document = json.loads(_TEXT)
    newer = refusal(sealed({**document, "version": 2, "payload": {"new": 1}}))
    assert "version 2 is newer" in newer and newer.endswith("upgrade pvtree.")
    for version in ("1", 0, -1, 1.0, None, True, [1]):
        assert "version is not a number" in refusal(sealed({**document, "version": version}))


def test_reformatted_files_still_load_but_doubled_keys_do_not():
    assert Model.from_json(json.dumps(json.loads(_TEXT), indent=2)) == rich_model()
    assert "repeated" in refusal(_TEXT.replace('"version":1', '"version":1,"version":1'))
    assert "NaN is not JSON" in refusal(_TEXT.replace('"version":1', '"version":NaN'))


def test_an_altered_number_breaks_the_checksum():
    assert "checksum" in refusal(_TEXT.replace('"n_outputs":1', '"n_outputs":2'))


MISSING = object()


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("n_features", 0, "out of range"),
        ("n_features", 3, "feature"),
        ("n_features", 2**31, "out of range"),
        ("n_features", 6.0, "wrong type"),
        ("n_features", True, "wrong type"),
        ("n_outputs", 10**30, "out of range"),
        ("n_outputs", 2, "init_score"),
        ("n_parallel_trees", 2, "multiple"),
        ("init_score", [0.5, 0.5], "init_score"),
        ("init_score", [1], "init_score"),
        ("init_score", ["Nan"], "init_score"),
        ("ensemble", "bagging", "ensemble"),
        ("objective", None, "objective"),
        ("feature_names", ["a"], "names"),
        ("feature_names", [1, 2, 3, 4, 5, 6], "names"),
        ("classes", [None], "label"),
        ("classes", [["x"]], "label"),
        ("classes", [{"float": "1"}], "label"),
        ("classes", [{"float": []}], "label"),
        ("categories", {}, "categories"),
        ("categories", [[6, []]], "does not exist"),
        ("categories", [[-1, []]], "does not exist"),
        ("categories", [[1, []], [1, []]], "does not exist"),
        ("categories", [[1]], "malformed"),
        ("trees", {}, "trees"),
        ("trees", [[]], "fields"),
        ("extra", 1, "fields"),
        ("trees", MISSING, "fields"),
    ],
)
def test_hostile_models_are_refused(key, value, reason):
    document = json.loads(_TEXT)
    if value is MISSING:
        del document["payload"][key]
    else:
        document["payload"][key] = value
    assert reason in refusal(sealed(document))


def at(place: int, value: object):
    return lambda values: [*values[:place], value, *values[place + 1 :]]


@pytest.mark.parametrize(
    ("key", "change", "reason"),
    [
        ("left_child", at(0, 0), "children"),  # a root that is its own child
        ("left_child", at(1, 1), "children"),  # a cycle
        ("left_child", lambda v: [v[1], v[0], *v[2:]], "children"),  # a cycle in which all have one parent
        ("left_child", at(1, 0), "children"),
        ("left_child", at(0, 12), "children"),  # the right child would lie outside
        ("left_child", at(0, 10**6), "out of range"),
        ("left_child", at(0, -1), "out of range"),
        ("left_child", at(0, 2**70), "out of range"),
        ("left_child", at(12, 3), "leaf has children"),
        ("left_child", at(0, 1.0), "length or type"),
        ("left_child", at(0, True), "length or type"),
        ("left_child", lambda v: v[:-1], "length or type"),
        ("feature", at(0, 6), "out of range"),
        ("feature", at(0, -2), "out of range"),
        ("feature", at(0, -1), "children"),
        ("feature", at(12, 0), "children"),
        ("feature", lambda v: [], "length or type"),
        ("feature", lambda v: "x", "wrong type"),
        ("threshold", at(0, "NaN"), "not a number"),
        ("threshold", at(0, "inf"), "not a number"),
        ("threshold", at(0, 1), "length or type"),
        ("threshold", at(0, None), "length or type"),
        ("threshold", at(0, [1.0]), "length or type"),
        ("default_left", at(0, 2), "out of range"),
        ("cat_set", at(0, 99), "out of range"),
        ("cat_set", at(0, -2), "out of range"),
        ("cat_sets", lambda v: ["0" * 63], "malformed"),
        ("cat_sets", lambda v: ["0x" + "0" * 62], "malformed"),
        ("cat_sets", lambda v: [1], "malformed"),
        ("value", lambda v: v * 2, "value"),
        ("value", lambda v: [], "value"),
        ("count", at(0, -1), "out of range"),
        ("count", at(0, 2**63), "out of range"),
        ("gain", lambda v: v * 1000, "gain"),
        ("weight", at(0, {}), "length or type"),
    ],
)
def test_hostile_trees_are_refused(key, change, reason):
    document = json.loads(_TEXT)
    tree = document["payload"]["trees"][0]
    assert len(tree["feature"]) == 13 and tree["left_child"][1] == 3
    tree[key] = change(tree[key])
    assert reason in refusal(sealed(document))


def test_numbers_beyond_float64_are_refused():
    document = json.loads(_TEXT)
    document["payload"]["init_score"] = [12345.5]
    assert "out of range" in refusal(sealed(document).replace("12345.5", "1e999"))


def test_saving_replaces_the_file_or_leaves_it(tmp_path, monkeypatch):
    path = tmp_path / "model.json"
    model = random_model(1, [3])
    model.save(path)
    before = path.read_bytes()

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(ModelFileError, match=r"model\.json' \(No space left on device\); use a folder"):
        random_model(2, [3]).save(path)
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["model.json"]
    monkeypatch.undo()
    random_model(2, [3]).save(path)
    assert path.read_bytes() != before and os.listdir(tmp_path) == ["model.json"]


def test_saving_through_a_link_keeps_the_link(tmp_path):
    (tmp_path / "real.json").write_text("old")
    (tmp_path / "link.json").symlink_to(tmp_path / "real.json")
    random_model(1, [3]).save(tmp_path / "link.json")
    assert (tmp_path / "link.json").is_symlink()
    assert Model.load(tmp_path / "real.json") == random_model(1, [3])


def test_places_that_cannot_be_read_or_written(tmp_path):
    with pytest.raises(ModelFileError, match=r"none\.json' cannot be read \(No such file"):
        Model.load(tmp_path / "none.json")
    with pytest.raises(ModelFileError, match="cannot be read"):
        Model.load(tmp_path)
    for place in (tmp_path, tmp_path / "no" / "folder.json"):
        with pytest.raises(ModelFileError, match="Cannot write model file"):
            random_model(1, [1]).save(place)
    assert os.listdir(tmp_path) == []


def test_models_cannot_be_changed():
    mine = np.zeros(1)
    model = replace(random_model(1, [3]), init_score=mine)
    with pytest.raises(FrozenInstanceError):
        model.n_features = 3  # type: ignore[misc]
    for array in (model.init_score, model.trees[0].threshold, model.trees[0].value):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    mine[0] = 1.0  # the caller's array stays the caller's
    assert model.init_score[0] == 0.0


@pytest.mark.parametrize("clone", [lambda m: pickle.loads(pickle.dumps(m)), copy.copy, copy.deepcopy])
def test_copies_are_equal_and_leave_the_packed_trees_behind(clone):
    model = rich_model()
    size = len(pickle.dumps(model))
    model.predict_raw(random_rows(np.random.default_rng(0), 3))
    assert "_predictor" in vars(model) and len(pickle.dumps(model)) == size
    other = clone(model)
    assert "_predictor" not in vars(other) and other == model
    assert not other.trees[0].feature.flags.writeable


def test_equality_sees_every_bit():
    model = random_model(1, [3])
    assert model == random_model(1, [3]) and model != random_model(2, [3]) and model != "model"
    tree = model.trees[0]
    assert tree == Tree(**{name: getattr(tree, name) for name in TREE_DTYPES}) and tree != 3
    for name in TREE_DTYPES:
        array = getattr(tree, name).copy()
        if array.size == 0:
            array = np.zeros((1, 4), np.uint64)
        else:
            array.reshape(-1).view(np.uint8)[0] ^= 1
        assert tree != replace(tree, **{name: array}), name


def test_feature_importance():
    model = random_model(1, [6, 70])
    split, gain = model.feature_importance("split"), model.feature_importance("gain")
    assert split.dtype == gain.dtype == np.float64 and split.shape == (N_FEATURES,)
    assert split.sum() == 76
    for f in range(N_FEATURES):
        uses = [(t.feature == f, t.gain) for t in model.trees]
        assert split[f] == sum(np.sum(u) for u, _ in uses)
        assert gain[f] == pytest.approx(sum(g[u].sum() for u, g in uses))
    with pytest.raises(InvalidParameterError, match="'cover' is unknown"):
        model.feature_importance("cover")
