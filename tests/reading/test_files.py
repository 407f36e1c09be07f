"""Files of every format give the rows that were written, to one reader or to several, and the model of these rows."""

from __future__ import annotations

import csv
import gzip
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pvtree
from pvtree.reading import csv_tables, files, libsvm
from pvtree.reading.libsvm_text import BadLine, parse
from pvtree.reading.tables import Columns

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

quickly = settings(max_examples=25)


def write_csv(path, columns, delimiter=",", header=True, gzipped=False):
    with (gzip.open if gzipped else open)(path, "wt", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter)
        if header:
            writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


def values_of(table, name):
    j = table.columns.index(name)
    categories = {table.columns.index("text"): ("a", "b c", 'q"')}
    return table.encode(Columns(len(table.columns), None, categories)).matrix()[:, j]


# CSV

KINDS = {
    "int64": st.integers(-(2**40), 2**40).map(str),
    "double": st.floats(allow_nan=False, width=64).map(repr),
    "bool": st.sampled_from(["true", "False", "TRUE"]),
    "timestamp[s]": st.sampled_from(["2024-01-31", "1970-01-01 00:00:07"]),
    "string": st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), max_size=5),
}


@quickly
@given(data=st.data(), block=st.sampled_from([64, 2**20]))
def test_the_type_of_a_csv_column_fits_all_its_values(tmp_path_factory, data, block):
    """Wherever they are in the file: a block is a row or two, or everything."""
    n = data.draw(st.integers(1, 12))
    made = {}
    for name, texts in KINDS.items():
        missing = data.draw(st.lists(st.booleans(), min_size=n, max_size=n))
        made[name] = ["" if gone else data.draw(texts) for gone in missing]
    # One value decides: the other rows are numbers.
    made["mixed"] = ["1"] * n + []
    made["mixed"][data.draw(st.integers(0, n - 1))] = "x"
    path = write_csv(tmp_path_factory.mktemp("csv") / "a.csv", made)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_tables, "BLOCK_BYTES", max(block, 2 * max(map(len, path.read_bytes().split(b"\n"))) + 64))
        scan = csv_tables.Scan([path], csv_tables.CsvForm(), csv_tables.Wanted(), [])
        types = scan.types()
        assert scan.n_rows == n and str(types["mixed"]) == "string"
        read = pa.Table.from_batches(scan.batches(types))
    for name in ("int64", "double", "bool", "timestamp[s]"):
        if any(made[name]):
            whole = name == "double" and all(_is_int64(text) for text in made[name] if text)
            assert str(types[name]) == ("int64" if whole else name)
        assert [value is None for value in read.column(name).to_pylist()] == [not text for text in made[name]]
    numbers = [value for value in read.column("double").to_pylist() if value is not None]
    assert numbers == [float(text) for text in made["double"] if text]


@pytest.mark.parametrize(
    ("one", "other", "kind"),
    [("7", "true", "string"), ("1", "2.5", "double"), ("2024-01-01", "5", "string"), ("x", "1", "string"),
     ("1", "99999999999999999999", "double"), ("true", "2024-01-01", "string"), ("2024-01-01", "1970-01-01T00:00:00.5",
     "timestamp[us]"), (" 3", "4", "int64"), ("", "", "null")],
)  # fmt: skip
def test_types_do_not_depend_on_which_rows_come_first(one, other, kind, tmp_path, monkeypatch):
    monkeypatch.setattr(csv_tables, "BLOCK_BYTES", 100)
    for first, second in ((one, other), (other, one)):
        path = write_csv(tmp_path / "a.csv", {"a": [first] * 50 + [second] * 50, "b": range(100)})
        assert str(csv_tables.Scan([path], csv_tables.CsvForm(), csv_tables.Wanted(), []).types()["a"]) == kind


def _is_int64(text):
    try:
        return abs(int(text)) < 2**63
    except ValueError:
        return False


def test_csv_of_all_kinds(tmp_path):
    columns = {"x": [1, "", 3.5], "text": ["a", "b c", 'q"'], "when": ["2024-01-01", "2024-01-02 00:00:30", ""]}
    columns |= {"flag": ["true", "false", ""], "y": ["no", "yes", "no"], "w": [1, 2, 3]}
    for name, how in (("a.csv", {}), ("a.tsv", {"delimiter": "\t"}), ("b.csv.gz", {"gzipped": True})):
        rows = pvtree.read_file(write_csv(tmp_path / name, columns, **how), "y", "w")
        assert rows.y.tolist() == ["no", "yes", "no"] and rows.weight.tolist() == [1, 2, 3] and rows.qid is None
        assert rows.X.columns == ["x", "text", "when", "flag"] and len(rows) == 3
        np.testing.assert_array_equal(values_of(rows.X, "x"), [1, np.nan, 3.5])
        np.testing.assert_array_equal(values_of(rows.X, "text"), [1, 2, 3])
        np.testing.assert_array_equal(values_of(rows.X, "when"), [1704067200, 1704153630, np.nan])
        np.testing.assert_array_equal(values_of(rows.X, "flag"), [1, 0, np.nan])
    plain = write_csv(tmp_path / "plain.txt", columns, ";", header=False)
    rows = pvtree.read_file(plain, 4, 5, format="csv", header=False, delimiter=";")
    assert rows.X.columns == ["0", "1", "2", "3"] and rows.y.tolist() == ["no", "yes", "no"]


def test_a_folder_of_csv_files_is_read_in_order_and_temporary_copies_go(tmp_path, monkeypatch):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    (tmp_path / "data").mkdir()
    for i in range(3):
        write_csv(tmp_path / "data" / f"{i}.csv", {"x": [i, i + 0.5], "y": [i, i]})
    rows = pvtree.read_file(tmp_path / "data", "y")
    X = rows.X.encode(Columns(1))
    assert len(os.listdir(temporary)) == 1
    del rows
    assert X.matrix()[:, 0].tolist() == [0, 0.5, 1, 1.5, 2, 2.5]  # still there for those who read it
    del X
    assert not os.listdir(temporary)


def test_like_picks_columns_and_types(tmp_path):
    first = pvtree.read_file(write_csv(tmp_path / "a.csv", {"z": ["1", "x"], "b": [1, 2], "y": [0, 1]}), "y")
    other = {"more": [9, 9], "b": [3, 4], "y": [1, 1], "z": ["1", "2"]}  # z alone would be numbers
    rows = pvtree.read_file(write_csv(tmp_path / "b.csv", other), "y", like=first)
    assert rows.X.columns == ["z", "b"]
    assert rows.X.encode(Columns(2, None, {0: ("1", "x")})).matrix().tolist() == [[1, 3], [0, 4]]
    days = pa.table({"d": pa.array([19000, 19001], pa.date32()), "c": pa.array(["1", "2"]).dictionary_encode()})
    pq.write_table(days, tmp_path / "a.parquet")
    text = write_csv(tmp_path / "d.csv", {"c": ["2", "1"], "d": ["2022-01-09", ""]})
    rows = pvtree.read_file(text, like=pvtree.read_file(tmp_path / "a.parquet"))
    found = rows.X.encode(Columns(2, None, {1: ("1", "2")})).matrix()
    np.testing.assert_array_equal(found, [[19001 * 86_400, 2], [np.nan, 1]])
    with pytest.raises(pvtree.InvalidDataError, match="lacks 'z', which"):
        pvtree.read_file(write_csv(tmp_path / "c.csv", {"b": [1]}), like=first)
    with pytest.raises(pvtree.InvalidTypeError, match="like must be"):
        pvtree.read_file(tmp_path / "b.csv", like=5)


# libsvm

pairs = st.dictionaries(st.integers(0, 30), st.floats(allow_nan=False), max_size=6)


@quickly
@given(
    rows=st.lists(st.tuples(st.floats(allow_nan=False), st.integers(0, 10**12), pairs), min_size=1, max_size=8),
    has_queries=st.booleans(),
    blanks=st.sampled_from([" ", "  ", "\t"]),
    comment=st.sampled_from(["", " # doc 3:4 qid:1", "\n# a line", "\r", "\n"]),
)
def test_libsvm_text_is_what_was_written(rows, has_queries, blanks, comment):
    lines = []
    for label, query, row in rows:
        words = [repr(label), *([f"qid:{query}"] * has_queries), *(f"{j}:{row[j]!r}" for j in sorted(row))]
        lines.append(blanks.join(words) + comment)
    found = parse("\n".join(lines).encode())
    assert found.label.tolist() == [label for label, _, _ in rows]
    assert found.qid.tolist() == [query for _, query, _ in rows] * has_queries
    for i, (_, _, row) in enumerate(rows):
        at = slice(found.starts[i], found.starts[i + 1])
        assert dict(zip(found.column[at].tolist(), found.value[at].tolist(), strict=True)) == row


@pytest.mark.parametrize(
    "text",
    ["a,b\n", "1 3:1 2:1", "1 3:1 3:1", "1 x:1", "1 1:x", "1 qid:x 1:2", "1 -1:2", "1,2 1:3", "0 1 5:2:7", "1 1: 2",
     "1 :2", "0 1:1\n1 qid:3 2:2", "1:2", "1 1:2:", "1 1:0x5", "1 1.5:2", "1 1:2 2", "\x89PNG\r\n\x1a\n", "1 1:2 :"],
)  # fmt: skip
def test_what_is_no_libsvm_is_refused(text):
    with pytest.raises(BadLine):
        parse(text.encode("latin-1"))


def write_libsvm(path, n_rows=100, n_queries=9, seed=0):
    rng = np.random.default_rng(seed)
    qid = np.sort(rng.integers(0, n_queries, n_rows))
    lines = [f"{i % 3} qid:{qid[i]} 1:{i} {i % 5 + 2}:{rng.normal()!r} # d\n" for i in range(n_rows)]
    with (gzip.open if path.suffix == ".gz" else open)(path, "wt") as file:
        file.writelines(lines)
    return path, qid


@pytest.mark.parametrize("name", ["a.svm", "a.letor.gz", "a.csv", "a.parquet"])
@pytest.mark.parametrize("size", [2, 5, 40])
def test_ranks_share_the_rows_and_keep_queries_whole(name, size, tmp_path, monkeypatch):
    monkeypatch.setattr(libsvm, "BLOCK_BYTES", 300)
    path, names = tmp_path / name, {}
    if "csv" in name or "parquet" in name:
        qid = np.sort(np.random.default_rng(1).integers(0, 9, 100))
        columns = {"row": np.arange(100), "q": [f"q{q}" for q in qid]}
        names = {"qid": "q"}
        write_csv(path, columns) if "csv" in name else pq.write_table(pa.table(columns), path, row_group_size=7)
    else:
        write_libsvm(path)
    column = 0 if names else 1
    parts = [pvtree.read_file(path, **names, rank=rank, size=size) for rank in range(size)]
    blocks = [list(files.blocks(part.X, Columns(part.X.shape[1]))) for part in parts]
    row = [value for its in blocks for block in its for value in block[:, column].tolist()]
    assert row == list(range(100))
    owners = {}
    for rank, part in enumerate(parts):
        for query in np.unique(part.qid).tolist():
            assert owners.setdefault(query, rank) == rank
    assert len(owners) == 9
    if size == 2:
        assert all(len(part) >= 30 for part in parts)


def test_a_libsvm_file_is_predicted_for_part_by_part(tmp_path, monkeypatch):
    monkeypatch.setattr(libsvm, "BLOCK_BYTES", 300)
    path, qid = write_libsvm(tmp_path / "a.svm")
    rows = pvtree.read_file(path)
    assert rows.y.dtype == np.int64 and rows.qid.tolist() == qid.tolist()
    parts = list(libsvm.read_parts(path, 4))
    assert len(parts) > 5 and all(part.X.shape[1] == 4 for part in parts)  # columns that a model does not know go
    whole = rows.X.toarray() if hasattr(rows.X, "toarray") else rows.X
    np.testing.assert_array_equal(np.concatenate([part.X.toarray() for part in parts]), whole[:, :4])


# All of them


def test_small_blocks_are_the_rows_of_row_groups(tmp_path):
    """Also of rows that were cut out."""
    x = np.arange(60.0)
    pq.write_table(pa.table({"a": x, "b": -x}), tmp_path / "a.parquet", row_group_size=17)
    table = pvtree.read_file(tmp_path / "a.parquet").X
    for kept in (np.ones(60, bool), (x > 3) & (x < 50), x % 3 == 0):
        source = table.take(kept).encode(Columns(2))
        blocks = list(source.small_blocks(5))
        assert max(map(len, blocks)) <= 5
        np.testing.assert_array_equal(np.concatenate(blocks), np.c_[x, -x][kept])


def test_the_formats_give_one_model(tmp_path):
    rng = np.random.default_rng(3)
    X = np.round(rng.normal(size=(300, 3)), 2)
    X[rng.random(X.shape) < 0.2] = 0
    y = (X[:, 1] > X[:, 2]).astype(int)
    columns = {"0": X[:, 0], "1": X[:, 1], "2": X[:, 2], "y": y}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    write_csv(tmp_path / "a.csv", {name: values.tolist() for name, values in columns.items()})
    (tmp_path / "a.svm").write_text(
        "".join(
            f"{label} {' '.join(f'{j}:{row[j]}' for j in range(3) if row[j])}\n"
            for label, row in zip(y, X, strict=True)
        )
    )
    fitted = pvtree.GBDTClassifier(n_estimators=2, num_leaves=4).fit(X, y)
    for name in ("a.parquet", "a.csv", "a.svm"):
        rows = pvtree.read_file(tmp_path / name, None if name == "a.svm" else "y")
        model = pvtree.GBDTClassifier(n_estimators=2, num_leaves=4).fit(rows.X, rows.y)
        assert model.model_.trees == fitted.model_.trees and model.classes_.tolist() == [0, 1]
        np.testing.assert_array_equal(model.predict(rows.X), fitted.predict(X))


def test_what_no_format_has_is_refused(tmp_path):
    path, _ = write_libsvm(tmp_path / "a.svm")
    with pytest.raises(pvtree.InvalidParameterError, match="leave label='y' out"):
        pvtree.read_file(path, "y")
    with pytest.raises(pvtree.InvalidParameterError, match="format must be one of"):
        pvtree.read_file(path, format="arff")
    with pytest.raises(pvtree.InvalidDataError, match="one file"):
        pvtree.read_file(tmp_path, format="libsvm")
