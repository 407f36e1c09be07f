"""Dataset as LightGBM's users write it; LightGBM's own stands beside it."""

import lightgbm
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import sparse

import pvtree
from pvtree.errors import InvalidDataError, InvalidParameterError, InvalidTypeError

RNG = np.random.default_rng(2)
X = RNG.normal(size=(60, 3))
Y = RNG.integers(0, 3, 60).astype(float)
WEIGHT = RNG.uniform(0.5, 2, 60)


@pytest.mark.parametrize("kind", [list, np.asarray, pd.Series, pa.array, lambda v: pd.DataFrame({"y": v})])
def test_getters_return_what_lightgbm_returns(kind):
    ours = pvtree.Dataset(X, label=kind(Y), weight=kind(WEIGHT))
    theirs = lightgbm.Dataset(X, label=Y, weight=WEIGHT).construct()
    for name in ("label", "weight"):
        found, expected = ours.get_field(name), theirs.get_field(name)
        assert found.dtype == expected.dtype == np.float32
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(getattr(ours, f"get_{name}")(), expected)


def test_fields():
    ours, theirs = pvtree.Dataset(X, Y), lightgbm.Dataset(X, Y).construct()
    for each in (ours, theirs):
        each.set_field("weight", WEIGHT)
        each.set_group([20, 30, 10])
        each.set_field("label", Y + 1)
    for name in ("label", "weight", "group"):
        np.testing.assert_array_equal(ours.get_field(name), theirs.get_field(name))
    np.testing.assert_array_equal(ours.get_group(), theirs.get_group())
    assert pvtree.Dataset(X, Y, weight=np.ones(60)).get_weight() is None
    assert pvtree.Dataset(X).get_label() is None
    with pytest.raises(InvalidParameterError, match="'labels' is not a field"):
        ours.get_field("labels")
    with pytest.raises(InvalidDataError, match="weight has length 3"):
        ours.set_weight([1, 2, 3])
    assert pvtree.Dataset(X, qid=np.repeat([5, 3], 30)).get_group().tolist() == [30, 30]


class Batches(pvtree.Sequence):
    batch_size = 7

    def __init__(self, rows):
        self.rows, self.asked = rows, []

    def __getitem__(self, idx):
        self.asked.append(idx)
        return self.rows[idx]

    def __len__(self):
        return len(self.rows)


def test_sequences_are_read_in_batches():
    first = Batches(X[:40])
    made = pvtree.Dataset([first, Batches(X[40:])], Y)
    np.testing.assert_array_equal(made.data, X)
    assert max(part.stop - part.start for part in first.asked) == 7
    np.testing.assert_array_equal(pvtree.Dataset(Batches(X)).data, X)


FRAME = pd.DataFrame({"a": X[:, 0], "b": pd.Categorical(["x", "y", None] * 20), "c": np.arange(60) % 2 == 0})


@pytest.mark.parametrize("data", [X, X.astype(np.float32), sparse.csr_matrix(X * (X > 0)), FRAME], ids=str)
def test_binary_files_hold_everything(data, tmp_path):
    given = pvtree.Dataset(data, Y, weight=WEIGHT, group=[20, 40])
    path = tmp_path / "rows.bin"
    assert given.save_binary(path) is given
    read = pvtree.Dataset(path)
    for name in ("label", "weight", "group"):
        np.testing.assert_array_equal(read.get_field(name), given.get_field(name))
    if isinstance(data, pd.DataFrame):
        pd.testing.assert_frame_equal(read.data, data)
    else:
        assert read.data.dtype == data.dtype
        assert (read.data != data).sum() == 0
    np.testing.assert_array_equal(pvtree.Dataset(str(path), Y + 1).label, Y + 1)


def test_names_travel_with_binary_files(tmp_path):
    pvtree.Dataset(X, Y, feature_name=list("pqr"), categorical_feature=[2]).save_binary(tmp_path / "d")
    read = pvtree.Dataset(tmp_path / "d")
    assert (read.get_feature_name(), read.categorical_feature) == (list("pqr"), [2])


def test_damaged_binary_files_are_refused(tmp_path):
    path = tmp_path / "rows.bin"
    pvtree.Dataset(FRAME, Y).save_binary(path)
    content = path.read_bytes()
    rng = np.random.default_rng(3)
    for cut in (20, 30, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:cut])
        with pytest.raises(InvalidDataError, match="not a usable Dataset"):
            pvtree.Dataset(path)
    for _ in range(60):  # no byte after the first line may change unnoticed
        broken = bytearray(content)
        at = int(rng.integers(17, len(content)))
        broken[at] ^= 1 << int(rng.integers(8))
        path.write_bytes(broken)
        try:
            read = pvtree.Dataset(path)
        except InvalidDataError:
            continue
        assert read.data.shape == FRAME.shape  # a name or a category in the header


def test_a_header_may_not_describe_other_bytes(tmp_path):
    """Whoever writes a file can compute its checksum too."""
    import hashlib
    import json

    from pvtree.front.functional.dataset_file import MAGIC

    settings = {"feature_name": "auto", "categorical_feature": "auto"}
    good = {"kind": "array", "shape": [2, 2], "settings": settings, "arrays": [["data", "<f8", [2, 2]]]}
    body = np.ones((2, 2)).tobytes()

    def read(head, body=body):
        text = json.dumps({**head, "sha256": hashlib.sha256(body).hexdigest()}).encode()
        (tmp_path / "d").write_bytes(MAGIC + len(text).to_bytes(8, "little") + text + body)
        return pvtree.Dataset(tmp_path / "d")

    assert read(good).data.tolist() == [[1.0, 1.0], [1.0, 1.0]]
    csr = [["data", "<f8", [1]], ["indices", "<i8", [1]], ["indptr", "<i8", [3]]]
    numbers = np.array([1.0]).tobytes() + np.array([9], "<i8").tobytes() + np.array([0, 1, 1], "<i8").tobytes()
    for head, data in (
        ({**good, "arrays": [["data", "<f8", [2, 2**62]]]}, body),
        ({**good, "arrays": [["data", "<f8", [2, -2]]]}, body),
        ({**good, "arrays": [["data", "|O8", [2, 2]]]}, body),
        ({**good, "shape": [4, 1]}, body),
        ({**good, "kind": "pickle"}, body),
        ({**good, "arrays": []}, b""),
        ({**good, "arrays": None}, body),
        ({**good, "kind": "sparse", "shape": [2, 3], "arrays": csr}, numbers),
        ({**good, "kind": "frame", "columns": [["a", ["x"], False]] * 2}, body),
        ({**good, "settings": 3}, body),
        ({**good, "settings": {**settings, "label": [1, 2]}}, body),
        ({**good, "settings": {**settings, "feature_name": ["a", 3]}}, body),
    ):
        with pytest.raises(InvalidDataError, match="not a usable Dataset"):
            read(head, data)


@pytest.mark.parametrize(("suffix", "delimiter"), [("csv", ","), ("tsv", "\t"), ("train", "\t")])
def test_text_files_have_the_label_first(tmp_path, suffix, delimiter):
    path = tmp_path / f"rows.{suffix}"
    np.savetxt(path, np.column_stack([Y, X]), delimiter=delimiter)
    (tmp_path / f"rows.{suffix}.weight").write_text("\n".join(map(str, WEIGHT)))
    (tmp_path / f"rows.{suffix}.query").write_text("20\n40\n")
    ours, theirs = pvtree.Dataset(path), lightgbm.Dataset(path).construct()
    for name in ("label", "weight", "group"):
        np.testing.assert_allclose(ours.get_field(name), theirs.get_field(name))
    assert ours.num_data() == theirs.num_data() and ours.num_feature() == theirs.num_feature()
    booster = pvtree.train({"verbosity": -1}, ours, 2)
    expected = pvtree.train({"verbosity": -1}, pvtree.Dataset(X, Y, weight=WEIGHT), 2)
    np.testing.assert_allclose(booster.predict(X), expected.predict(X))


def test_other_files(tmp_path):
    (tmp_path / "rows.txt").write_text("1 0:2.5 2:1\n0 1:3\n")
    assert pvtree.Dataset(tmp_path / "rows.txt").data.shape == (2, 3)
    (tmp_path / "rows.csv").write_text("a,t\n1,0\n2,1\n")
    named = pvtree.Dataset(tmp_path / "rows.csv", params={"header": True, "label_column": "name:t"})
    assert named.get_label().tolist() == [0, 1]
    with pytest.raises(InvalidDataError, match="There is no file"):
        pvtree.Dataset(tmp_path / "absent.bin")


def test_columns_are_added():
    other = np.arange(120.0).reshape(60, 2)
    for left, right in ((X, other), (sparse.csr_matrix(X), sparse.csr_matrix(other)), (sparse.csr_matrix(X), other)):
        made = pvtree.Dataset(left, Y).add_features_from(pvtree.Dataset(right))
        dense = made.data.toarray() if sparse.issparse(made.data) else made.data
        np.testing.assert_array_equal(dense, np.hstack([X, other]))
    named = pvtree.Dataset(FRAME).add_features_from(pvtree.Dataset(FRAME[["a"]]))
    assert named.get_feature_name() == ["a", "b", "c", "D2_a"]
    with pytest.raises(InvalidDataError, match="a different number of rows"):
        pvtree.Dataset(X).add_features_from(pvtree.Dataset(other[:5]))
    with pytest.raises(InvalidTypeError, match="save_binary supports"):
        pvtree.Dataset(pa.table({"a": [1.0]})).save_binary("/dev/null")


def test_names_params_and_references():
    data = pvtree.Dataset(X, Y, params={"max_bin": 15})
    assert data.get_feature_name() == ["Column_0", "Column_1", "Column_2"]
    assert data.feature_name == "auto"
    assert data.set_feature_name(list("uvw")).get_feature_name() == list("uvw")
    with pytest.raises(InvalidDataError, match="3 different names"):
        data.set_feature_name(["u", "u", "v"])
    assert data.get_params() == {"max_bin": 15}
    valid = data.create_valid(X[:5], Y[:5], params={"verbose": -1})
    assert valid.reference is data and valid.get_ref_chain() == {valid, data}
    assert pvtree.Dataset(FRAME, feature_name=list("uvw")).get_feature_name() == list("uvw")
    assert data.subset([3, 1]).used_indices.tolist() == [1, 3]
    assert repr(data) == "<Dataset: 60 rows x 3 columns, with label>"


def test_bins_of_a_column():
    few = np.column_stack([np.arange(60) % 4, X[:, 0], np.where(X[:, 1] > 0, X[:, 1], np.nan)])
    data = pvtree.Dataset(few, Y, params={"max_bin": 15}, feature_name=list("abc"))
    assert data.feature_num_bin(0) == data.feature_num_bin("a") == 4
    assert data.feature_num_bin(1) == 15
    assert data.feature_num_bin(2) == 16  # and the missing ones


def test_sequences_without_a_size_and_what_was_given():
    parts = [Batches(X[:25]), Batches(X[25:])]
    parts[0].batch_size = None  # as LightGBM's own tests have it
    data = pvtree.Dataset(parts, Y)
    assert data.get_data() == parts
    np.testing.assert_array_equal(data.data, X)
    np.testing.assert_array_equal(data.subset([3, 30]).get_data(), X[[3, 30]])


def test_booleans_of_arrow_are_labels():
    for labels in (pa.array(Y > 0), pa.chunked_array([Y[:9] > 0, [], Y[9:] > 0])):
        np.testing.assert_array_equal(pvtree.Dataset(X, labels).get_label(), Y > 0)


def test_names_are_known_once_it_is_constructed():
    ours, theirs = pvtree.Dataset(X, Y), lightgbm.Dataset(X, Y)
    assert ours.feature_name == theirs.feature_name == "auto"
    assert ours.construct().feature_name == theirs.construct().feature_name == ["Column_0", "Column_1", "Column_2"]
    assert pvtree.train({"verbose": -1}, ours, 1).model_.feature_names is None  # the rows still have no names


def test_columns_are_added_twice():
    names = ["a", "b", "c"]
    libraries = []
    for library in (pvtree, lightgbm):
        data = library.Dataset(X, feature_name=names, free_raw_data=False).construct()
        for _ in range(2):
            data.add_features_from(library.Dataset(X, feature_name=names, free_raw_data=False).construct())
        libraries.append(data)
    assert libraries[0].feature_name == libraries[1].feature_name
    assert libraries[0].num_feature() == 9


@pytest.mark.parametrize("columns", [0, "0", "name:a", [0]])
def test_categories_may_be_listed_as_in_lightgbm(columns):
    rows = np.column_stack([np.arange(60) % 4, X[:, 1]])
    data = {"data": rows, "label": rows[:, 0] == 2, "feature_name": ["a", "b"]}
    booster = pvtree.train({"categorical_feature": columns, "verbose": -1}, pvtree.Dataset(**data), 2)
    assert set(booster.model_.categories) == {0}
    assert (
        booster.model_ == pvtree.train({"categorical_feature": ["a"], "verbose": -1}, pvtree.Dataset(**data), 2).model_
    )
    with pytest.raises(InvalidParameterError, match="categorical_feature must be"):
        pvtree.train({"categorical_feature": "all", "verbose": -1}, pvtree.Dataset(**data), 2)


def test_predictions_for_a_file(tmp_path):
    np.savetxt(tmp_path / "rows.csv", np.column_stack([Y, X]), delimiter=",")
    booster = pvtree.train({"verbose": -1, "min_data_in_leaf": 0, "num_leaves": 4}, pvtree.Dataset(X, Y), 2)
    np.testing.assert_array_equal(booster.predict(tmp_path / "rows.csv"), booster.predict(X))
    same = pvtree.train({"verbose": -1, "min_data_in_leaf": 1, "num_leaves": 4}, pvtree.Dataset(X, Y), 2)
    assert booster.model_ == same.model_


def test_names_of_sets_are_texts():
    data = pvtree.Dataset(X, Y)
    with pytest.raises(InvalidTypeError, match=r"Item 1 has type 'Dataset'\."):
        pvtree.train({}, data, 1, [data, data], ["train", data])


def test_texts_of_equal_rows_are_equal(tmp_path):
    table = pa.table({"a": pa.array([1, None, 3], pa.int32()), "b": pa.array([True, False, True])})
    frame = pd.DataFrame({"a": [1.0, np.nan, 3.0], "b": [1.0, 0.0, 1.0]})
    other = pd.DataFrame({"a": [1.0, np.nan, 3.0], "b": [1.0, 0.0, 0.0]})
    texts = []
    assert pvtree.Dataset(table).get_feature_name() == ["a", "b"]
    for rows in (table, frame, other, sparse.csr_matrix([[0, 1.5]])):
        pvtree.Dataset(rows).construct()._dump_text(tmp_path / "rows.txt")
        texts.append((tmp_path / "rows.txt").read_text())
    assert texts[0] == texts[1] != texts[2]
    assert texts[0].splitlines() == ["num_data: 3", "feature_names: a, b", "1 1", "nan 0", "3 1"]
    assert texts[3].splitlines()[2:] == ["0 1.5"]
