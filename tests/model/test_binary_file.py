"""Binary model files: every bit comes back, nothing is trusted, and prediction uses the arrays where they are."""

from __future__ import annotations

import hashlib
import pickle
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import pvtree
from pvtree.errors import ModelFileError
from pvtree.model import Model
from pvtree.model import binary_file as binary
from pvtree.model.predictor import Predictor
from random_trees import random_model, random_rows

CHUNK = 2**16


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binary, "_CHUNK", CHUNK)


def model_of(seed: int, **changes: object) -> Model:
    return replace(random_model(seed, [40, 0, 70, 1, 30]), **changes)


def sealed(data: bytes) -> bytes:
    """The same with the checksum that belongs to it: its author may be hostile."""
    rest = data[64:]
    digests = [hashlib.sha256(rest[at : at + CHUNK]).digest() for at in range(0, len(rest), CHUNK)]
    return data[:24] + hashlib.sha256(b"".join(digests)).digest() + data[56:]


def refusal(data: bytes) -> str:
    with pytest.raises(ModelFileError) as error:
        binary.parse(np.frombuffer(data, np.uint8), "These bytes")
    return str(error.value)


def place_of(model: Model, name: str) -> int:
    """Where an array begins in the file."""
    data = binary.dump(model)
    (n_head,) = struct.unpack_from("<Q", data, 16)
    at = 64 + n_head + -n_head % 64
    for other in binary.TREE_DTYPES:
        if other == name:
            return at
        n_bytes = sum(getattr(tree, other).nbytes for tree in model.trees)
        at += n_bytes + -n_bytes % 64
    raise KeyError(name)


@pytest.mark.parametrize("seed", range(3))
def test_files_and_pickles_hold_every_bit(seed: int, tmp_path: Path) -> None:
    names = [f"\u00e9{i}" for i in range(model_of(seed).n_features)]
    model = model_of(seed, feature_names=names, categories={4: ("a", 1, 1.5, True, float("inf"))})
    model.save(tmp_path / "model.pvtree")
    loaded = Model.load(tmp_path / "model.pvtree")
    assert loaded == model
    assert pickle.loads(pickle.dumps(model)) == model
    assert loaded.to_json() == model.to_json()
    assert (tmp_path / "model.pvtree").read_bytes() == binary.dump(loaded)
    numeric = tuple(tree for tree in model.trees if len(tree.cat_sets) == 0)
    assert 0 < len(numeric) < len(model.trees)
    for trees in ((), numeric):
        some = replace(model, trees=trees)
        assert pickle.loads(pickle.dumps(some)) == some


def test_pickles_also_hold_what_no_file_is_trusted_with() -> None:
    model = model_of(0, feature_names=["\ud800", *"bcdef"])
    assert not binary.is_readable(model)
    assert pickle.loads(pickle.dumps(model)) == model


def test_arrays_are_mapped_and_not_copied_for_prediction(tmp_path: Path) -> None:
    model = model_of(1)
    model.save(tmp_path / "model.pvtree")
    loaded = Model.load(tmp_path / "model.pvtree")
    assert isinstance(loaded.trees[0].value.base.base, np.memmap)
    assert loaded.trees[0].left_child.base.base is None
    packed = Predictor(loaded.trees)._packed
    assert np.shares_memory(packed[-1], loaded.trees[-1].value)
    X = random_rows(np.random.default_rng(2), 500)
    assert loaded.predict_raw(X).tobytes() == model.predict_raw(X).tobytes()
    assert loaded.predict_leaf(X).tobytes() == model.predict_leaf(X).tobytes()


def test_the_suffix_chooses_and_the_content_tells(tmp_path: Path) -> None:
    model = model_of(0)
    model.save(tmp_path / "a.json")
    assert (tmp_path / "a.json").read_bytes().startswith(b"{")
    model.save(tmp_path / "a.pvtree")
    (tmp_path / "a.pvtree").rename(tmp_path / "b.json")
    assert Model.load(tmp_path / "b.json") == model
    assert pvtree.load(tmp_path / "b.json").model_ == model
    with pytest.raises(ModelFileError, match="cannot be read"):
        binary.read(tmp_path / "nothing.pvtree")
    with pytest.raises(ModelFileError, match="Cannot write model file"):
        model.save(tmp_path / "nowhere" / "a.pvtree")


def test_damaged_files_are_refused() -> None:
    data = binary.dump(model_of(0))
    for at in [*range(0, 64), *range(64, len(data), 97)]:
        if 56 <= at < 64:
            continue  # nothing is there
        assert "not a usable pvtree model" in refusal(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    for length in (0, 7, 63, 64, 200, len(data) - 1):
        assert "not a usable pvtree model" in refusal(data[:length])
    assert "longer than its trees" in refusal(sealed(data + bytes(64)))
    assert "truncated" in refusal(sealed(data[:-64]))
    assert "upgrade pvtree" in refusal(sealed(data[:8] + struct.pack("<Q", 2) + data[16:]))


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("feature", struct.pack("<i", 6), "feature is out of range"),
        ("feature", struct.pack("<i", -2), "feature is out of range"),
        ("left_child", struct.pack("<i", 0), "children are not in order"),
        ("left_child", struct.pack("<i", 2**30), "left_child is out of range"),
        ("left_child", struct.pack("<i", -1), "left_child is out of range"),
        ("default_left", b"\2", "default_left is out of range"),
        ("cat_set", struct.pack("<i", 2**20), "cat_set is out of range"),
        ("cat_set", struct.pack("<i", -2), "cat_set is out of range"),
        ("threshold", struct.pack("<d", float("nan")), "threshold is not a number"),
        ("count", struct.pack("<q", -1), "count is out of range"),
    ],
)
def test_indices_of_hostile_authors_are_refused(name: str, value: bytes, reason: str) -> None:
    model = model_of(0)
    data, at = binary.dump(model), place_of(model, name)
    assert reason in refusal(sealed(data[:at] + value + data[at + len(value) :]))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"n_nodes":[', '"n_nodes":[1,'),
        ('"n_nodes":[', '"n_nodes":[1e9,'),
        ('"n_nodes":[', '"n_nodes":[0,'),
        ('"n_nodes":[', '"n_nodes":[9999999999999,'),
        ('"n_sets":[', '"n_sets":[-1,'),
        ('"n_values":1', '"n_values":9'),
        ('"trees":', '"trees":1,"t":'),
    ],
)
def test_heads_that_lie_are_refused(old: str, new: str) -> None:
    data = binary.dump(model_of(0))
    (n_head,) = struct.unpack_from("<Q", data, 16)
    head = data[64 : 64 + n_head].replace(old.encode(), new.encode())
    arrays = data[64 + n_head + -n_head % 64 :]
    start = data[:16] + struct.pack("<Q", len(head)) + data[24:64]
    refusal(sealed(start + head + bytes(-len(head) % 64) + arrays))
