"""What a libsvm file says about columns and queries is either exact or refused, with the number of the line."""

import gzip

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pvtree
from pvtree import InvalidDataError
from pvtree.front.cli import main
from pvtree.reading import libsvm
from pvtree.reading.files import Place, stream
from pvtree.reading.libsvm_text import MAX_COLUMN, BadLine, parse

GOOD = "1 qid:1 1:1\n0 qid:1 1:3\n\n# a comment\n"  # the next line is the fifth
COLUMNS = ["-1", "-2", "-1.0", "-2e9", "-1e300", "-0.5", "1.5", "nan", "-nan", "inf", "-inf", "1e300", "2147483647"]
QUERIES = ["nan", "1e300", "18446744073709551616", "9223372036854775808", "-9223372036854775809", "1.5", "", "-", "1-2",
           "+", "0x1", "1_0", "9" * 5000]  # fmt: skip
BAD_LINES = [*(f"1 qid:1 {column}:5" for column in COLUMNS), *(f"1 qid:{query} 1:5" for query in QUERIES),
             "1 qid:1 2:1 1:5", "1 qid:1 1:x", "x qid:1 1:1", "1 1:1", "1 qid:1 1: 5", "1 qid:1 1:\0"]  # fmt: skip


@pytest.mark.parametrize("line", BAD_LINES, ids=lambda line: line[:20])
def test_a_bad_line_is_named(line, tmp_path):
    path = tmp_path / "a.svm"
    path.write_text(f"{GOOD}{line}\n0 qid:1 1:2\n")
    with pytest.raises(InvalidDataError, match=r"a.svm cannot be read as libsvm \(.* in line 5\); fix the file"):
        pvtree.read_file(path)


@given(st.one_of(st.floats().map(repr), st.integers(-(2**70), 2**70).map(str)))
def test_columns_are_exact_or_refused(column):
    try:
        found = parse(f"1 {column}:5".encode())
    except BadLine:
        assert not (0 <= float(column) <= MAX_COLUMN and float(column).is_integer())
    else:
        assert found.column.tolist() == [int(float(column))] and 0 <= found.column[0] <= MAX_COLUMN
        assert not len(found.qid)


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1), st.sampled_from(["", ".0", "."]))
def test_query_ids_are_exact(ids, ending):
    assert parse("".join(f"0 qid:{query}{ending} 3:1\n" for query in ids).encode()).qid.tolist() == ids


def test_neighbours_beyond_2_to_the_53_are_two_queries(tmp_path):
    (tmp_path / "a.letor").write_text(f"1 qid:{2**53} 1:1\n0 qid:{2**53 + 1} 1:3\n")
    assert len(set(pvtree.read_file(tmp_path / "a.letor").qid.tolist())) == 2


@pytest.fixture
def hostile(tmp_path, monkeypatch):
    """A bad column in the last of 40 lines, in files that are read block by block."""
    monkeypatch.setattr(libsvm, "BLOCK_BYTES", 64)
    lines = "".join(f"{i % 2} 1:{i} 2:{i % 3}\n" for i in range(39))
    (tmp_path / "good.svm").write_text(lines)
    (tmp_path / "bad.svm").write_text(f"{lines}1 -2:5 1:1\n")
    with gzip.open(tmp_path / "bad.svm.gz", "wt") as file:
        file.write(f"{lines}1 -2:5 1:1\n")
    return tmp_path


@pytest.mark.parametrize("name", ["bad.svm", "bad.svm.gz"])
def test_wherever_libsvm_is_read(name, hostile, capsys):
    refused = pytest.raises(InvalidDataError, match="negative number in line 40")
    rows = pvtree.read_file(hostile / "good.svm")
    fitted = pvtree.GBDTClassifier(n_estimators=2, min_child_samples=2).fit(rows.X, rows.y)
    for like in (None, fitted):
        with refused:
            pvtree.read_file(hostile / name, like=like)
        with refused:  # the last of two ranks, which begins in the middle of the file
            pvtree.read_file(hostile / name, like=like, rank=1, size=2)
    with refused:
        list(stream(Place.of(hostile / name), fitted.model_.columns, None))
    fitted.model_.save(hostile / "model.json")
    for command in (["train", "--task=classification"], ["predict", "--output=/dev/null"], ["evaluate"]):
        with pytest.raises(SystemExit) as ended:
            main([*command, f"--model={hostile / 'model.json'}", f"--data={hostile / name}"])
        assert ended.value.code == 2 and "negative number in line 40" in capsys.readouterr().err


def test_a_line_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(libsvm, "LINE_BYTES", 1000)
    with gzip.open(tmp_path / "a.svm.gz", "wt") as file:
        file.write("1 1:1\n1 " + " ".join(f"{j}:1" for j in range(1000)))
    monkeypatch.setattr(libsvm, "BLOCK_BYTES", 10)
    with pytest.raises(InvalidDataError, match="longer than 1000 bytes in line 2"):
        pvtree.read_file(tmp_path / "a.svm.gz")


def test_a_longest_row_is_read(tmp_path):
    (tmp_path / "a.svm").write_text(f"1 {MAX_COLUMN}:1")
    assert pvtree.read_file(tmp_path / "a.svm").X.shape == (1, MAX_COLUMN + 1)
    assert pvtree.read_file(tmp_path / "a.svm").X.indices.dtype == np.int32


def test_more_columns_than_memory_holds(tmp_path):
    (tmp_path / "a.svm").write_text("1 1000000000:1\n0 3:1\n")
    rows = pvtree.read_file(tmp_path / "a.svm")
    with pytest.raises(InvalidDataError, match="X has 1000000001 columns, whose thresholds take 2048 GB of memory"):
        pvtree.GBDTClassifier().fit(rows.X, rows.y)
