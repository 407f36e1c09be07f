"""Parquet in a stream: dealt out to ranks, read as the same table in memory is, in little memory, refused in words."""

from __future__ import annotations

import datetime
import subprocess
import sys
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from pvtree.binning.thresholds import bin_rows, choose_own_bins
from pvtree.errors import InvalidDataError, MissingDependencyError, PvtreeError
from pvtree.kernels.team import Team
from pvtree.reading.parquet import ParquetTable
from pvtree.reading.tables import Columns

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

N = 701


def every_kind(seed: int = 0) -> dict[str, pa.Array]:
    """A column of each type that can be trained on, most of them with nulls."""
    rng = np.random.default_rng(seed)
    mask = rng.random(N) < 0.1
    numbers = rng.normal(size=N)
    whole = rng.integers(-100, 100, N)
    text = np.array(["red", "green", "blue", "ä"])[rng.integers(0, 4, N)]
    columns = {
        "double": pa.array(numbers, mask=mask),
        "float": pa.array(numbers.astype(np.float32), mask=mask),
        "half": pa.array(numbers.astype(np.float16)),
        "int8": pa.array(whole.astype(np.int8), mask=mask),
        "int64": pa.array(whole * 10**15),
        "uint64": pa.array(whole.astype(np.uint64)),
        "flag": pa.array(whole > 3, mask=mask),
        "text": pa.array(text, mask=mask),
        "marked": pa.array(text, mask=mask).dictionary_encode(),
        "coded": pa.array(whole % 5, mask=mask).dictionary_encode(),
        "money": pa.array([Decimal(int(v)) / 4 for v in whole]),
        "day": pa.array([datetime.date(1970, 1, 1) + datetime.timedelta(int(v)) for v in whole], mask=mask),
        "moment": pa.array(whole * 1500, pa.timestamp("ms"), mask=mask),
        "empty": pa.nulls(N),
    }
    return columns


def expected_numbers(columns: dict[str, pa.Array], categories: dict[str, tuple]) -> np.ndarray:
    """The matrix, value by value in plain Python."""

    def number(name: str, value: object) -> float:
        if name in categories:
            return categories[name].index(value) + 1 if value in categories[name] else 0
        if value is None:
            return np.nan
        if isinstance(value, datetime.datetime):
            return (value - datetime.datetime(1970, 1, 1)).total_seconds()
        if isinstance(value, datetime.date):
            return (value - datetime.date(1970, 1, 1)).days * 86_400
        return float(value)  # type: ignore[arg-type]

    return np.array([[number(name, v) for v in column.to_pylist()] for name, column in columns.items()]).T


def write(folder: Path, columns: dict[str, pa.Array], cuts: list[int], row_group_size: int) -> Path:
    """Files with the rows between the cuts, whose row groups have odd sizes."""
    folder.mkdir(parents=True, exist_ok=True)
    table = pa.table(columns)
    ends = [0, *cuts, table.num_rows]
    for i, (start, stop) in enumerate(pairwise(ends)):
        pq.write_table(table.slice(start, stop - start), folder / f"part-{i}.parquet", row_group_size=row_group_size)
    return folder


CATEGORIES = {"text": ("blue", "red", "ä"), "marked": ("green", "red"), "coded": (0, 3, 4), "int8": (-5, 5)}


def test_values_of_every_type(tmp_path: Path) -> None:
    columns = every_kind()
    expected = expected_numbers(columns, CATEGORIES)
    path = write(tmp_path / "data", columns | {"y": pa.array(np.arange(N))}, [100, 100, 333], 57)
    table = ParquetTable(path, "y")
    assert table.columns == list(columns) and table.shape == (N, len(columns)) == expected.shape
    assert [table.columns[j] for j in table.category_columns()] == ["text", "marked"]
    assert_array_equal(table.y, np.arange(N))
    rows = table.encode(Columns(len(columns), None, {table.columns.index(n): c for n, c in CATEGORIES.items()}))
    assert rows.dtype == np.float64 and rows.shape == expected.shape
    assert_array_equal(rows.matrix(), expected)
    assert_array_equal(rows[150:420].matrix(), expected[150:420])
    keep = np.arange(N) % 3 == 1
    keep[:200] = False
    kept = table.take(keep)
    assert_array_equal(kept.y, np.arange(N)[keep])
    assert_array_equal(kept.encode(Columns(14, None, rows.categories)).matrix(), expected[keep])
    assert_array_equal(kept.encode(Columns(14, None, rows.categories))[5:77].matrix(), expected[keep][5:77])


@pytest.mark.parametrize("n_threads", [1, 3])
def test_streamed_bins_are_those_of_the_matrix(tmp_path: Path, n_threads: int) -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(5000, 35)).astype(np.float32)
    X[rng.random(X.shape) < 0.1] = np.nan
    path = write(tmp_path / "data", {f"x{j}": pa.array(X[:, j]) for j in range(35)}, [1000, 1001], 777)
    rows = ParquetTable(path).encode(Columns(35))
    sample = np.flatnonzero(rng.random(5000) < 0.4)
    assert rows.dtype == np.float32
    with Team(n_threads) as team:
        whole = choose_own_bins(X, sample, (0, 35), {}, 50, team)
        streamed = choose_own_bins(rows, sample, (0, 35), {}, 50, team)
        assert whole.upper.tobytes() == streamed.upper.tobytes()
        assert_array_equal(bin_rows(rows, whole, 0, 35, team).bins, bin_rows(X, whole, 0, 35, team).bins)


def test_values_are_counted(tmp_path: Path) -> None:
    columns = every_kind()
    table = ParquetTable(write(tmp_path, columns, [300], 57))
    for name in ("text", "marked", "coded", "int8", "double", "flag", "empty"):
        values = [v for v in columns[name].to_pylist() if v is not None]
        counts = table.count_values(table.columns.index(name))
        assert counts == {v: values.count(v) for v in set(values)}, name
        assert {type(v) for v in counts} == {type(v) for v in values}
    is_red = np.array([v == "red" for v in columns["marked"].to_pylist()])
    assert table.take(is_red).count_values(table.columns.index("marked")) == {"red": is_red.sum()}
    with pytest.raises(InvalidDataError, match="categories of column 'day' are date"):
        table.count_values(table.columns.index("day"))


def test_what_pandas_says_of_its_columns_is_kept(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": pandas.Categorical([7, 2, 7]), "b": [1.0, 2.0, 3.0]}, index=[5, 6, 9])
    frame.to_parquet(tmp_path / "a.parquet")
    table = ParquetTable(tmp_path / "a.parquet")
    assert table.columns == ["a", "b"] and table.category_columns() == [0]
    assert table.count_values(0) == {7: 2, 2: 1}


def test_short_numbers_are_float32_and_long_ones_are_not(tmp_path: Path) -> None:
    columns = every_kind()
    short = {name: columns[name] for name in ("float", "half", "int8", "flag", "empty")}
    pq.write_table(pa.table(short), tmp_path / "short.parquet")
    pq.write_table(pa.table(short | {"int64": columns["int64"]}), tmp_path / "long.parquet")
    assert ParquetTable(tmp_path / "short.parquet").encode(Columns(5)).dtype == np.float32
    assert ParquetTable(tmp_path / "long.parquet").encode(Columns(6)).dtype == np.float64


@pytest.mark.parametrize(
    "labels",
    [
        ["no", "yes", "no", "perhaps"],
        [3, 1, 2, 3],
        [True, False, True, True],
        [0.5, 1.5, -1.0, 2.0],
    ],
)
@pytest.mark.parametrize("marked", [False, True])
def test_labels_of_any_kind(tmp_path: Path, labels: list, marked: bool) -> None:
    column = pa.array(labels * 25)
    columns = {"x": pa.array(np.arange(100.0)), "y": column.dictionary_encode() if marked else column}
    y = ParquetTable(write(tmp_path, columns, [31], 9), "y").y
    assert y is not None and y.tolist() == labels * 25
    assert y.dtype.kind == {str: "O", int: "i", bool: "b", float: "f"}[type(labels[0])]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 40])
def test_row_groups_are_dealt_out(tmp_path: Path, size: int) -> None:
    rng = np.random.default_rng(3)
    columns = {"x": pa.array(rng.normal(size=N)), "y": pa.array(np.arange(N)), "w": pa.array(rng.random(N))}
    path = write(tmp_path, columns, [13, 500], 40)
    tables = [ParquetTable(path, "y", weight="w", rank=rank, size=size) for rank in range(size)]
    assert_array_equal(np.concatenate([t.y for t in tables]), np.arange(N))
    assert_array_equal(np.concatenate([t.weight for t in tables]), columns["w"])
    assert_array_equal(np.concatenate([t.encode(Columns(1)).matrix() for t in tables])[:, 0], columns["x"])
    if size <= 5:
        assert max(abs(len(t) - N / size) for t in tables) <= 40
    else:
        assert min(len(t) for t in tables) == 0
        assert {t.y.dtype for t in tables} == {np.dtype(np.int64)}


@pytest.mark.parametrize("size", [2, 3, 7])
@pytest.mark.parametrize("as_text", [False, True])
def test_queries_stay_together(tmp_path: Path, size: int, as_text: bool) -> None:
    rng = np.random.default_rng(4)
    sizes = [3, 1, 200, 5, 90, 2, 2, 150, 1, 30]
    ids = np.repeat(rng.permutation(len(sizes)), sizes)
    n = len(ids)
    columns = {"x": pa.array(np.arange(n)), "q": pa.array(ids.astype(str) if as_text else ids)}
    path = write(tmp_path, columns, [77], 40)
    tables = [ParquetTable(path, qid="q", rank=rank, size=size) for rank in range(size)]
    found = np.concatenate([t.encode(Columns(1)).matrix() for t in tables])[:, 0]
    assert_array_equal(found, np.arange(n))
    assert_array_equal(np.concatenate([t.qid for t in tables]), columns["q"].to_numpy(zero_copy_only=False))
    seen = [set(t.qid.tolist()) for t in tables]
    assert sum(map(len, seen)) == len(sizes)
    assert sum(bool(s) for s in seen) > 1


# What goes wrong


def write_good(path: Path, **columns: list) -> None:
    pq.write_table(pa.table({"x": [1.0, 2.0], "y": [0, 1]} | columns), path)


def damage(path: Path, keep: float) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * keep)])


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        (lambda d: None, "holds no \\*.parquet files"),
        (lambda d: (d / "b.parquet").write_text("no table"), "b.parquet cannot be read as Parquet"),
        (lambda d: (write_good(d / "b.parquet"), damage(d / "b.parquet", 0.5)), "b.parquet cannot be read as Parquet"),
        (lambda d: write_good(d / "b.parquet", z=[1, 2]), "b.parquet has the column 'z' too, unlike .*a.parquet"),
        (lambda d: pq.write_table(pa.table({"y": [1]}), d / "b.parquet"), "b.parquet lacks the column 'x'"),
        (lambda d: write_good(d / "b.parquet", x=["1", "2"]), "b.parquet holds string values in the column 'x' inst"),
        (
            lambda d: pq.write_table(pa.table({"y": [1], "x": [1.0]}), d / "b.parquet"),
            "b.parquet has the columns in another order",
        ),
    ],
)
def test_files_that_do_not_fit_are_named(tmp_path: Path, prepare, message: str) -> None:
    if "holds no" not in message:
        write_good(tmp_path / "a.parquet")
    prepare(tmp_path)
    with pytest.raises(InvalidDataError, match=message) as caught:
        ParquetTable(tmp_path, "y")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("columns", "arguments", "message"),
    [
        ({}, {"label": "Y"}, "has no column 'Y'; did you mean 'y'"),
        ({}, {"label": "target"}, "has no column 'target'; it has 'x', 'y'"),
        ({}, {"label": "y", "weight": "y"}, "cannot be two of label, weight and query id"),
        ({"z": [[1], [2]]}, {"label": "y"}, "'z' of .* holds list<.*> values, which are neither numbers nor text"),
        ({"z": [b"1", b"2"]}, {"label": "y"}, "'z' of .* holds binary values"),
    ],
)
def test_columns_that_do_not_fit_are_named(tmp_path: Path, columns, arguments, message: str) -> None:
    write_good(tmp_path / "a.parquet", **columns)
    with pytest.raises(PvtreeError, match=message):
        ParquetTable(tmp_path / "a.parquet", **arguments)


def test_nothing_to_read(tmp_path: Path) -> None:
    with pytest.raises(InvalidDataError, match="no file or folder"):
        ParquetTable(tmp_path / "nowhere")
    pq.write_table(pa.table({"x": pa.array([], pa.float64())}), tmp_path / "none.parquet")
    with pytest.raises(InvalidDataError, match="holds no rows"):
        ParquetTable(tmp_path)


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    table = pa.Table.from_arrays([pa.array([1.0]), pa.array([2.0])], names=["x", "x"])
    pq.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(InvalidDataError, match="several columns named 'x'"):
        ParquetTable(tmp_path)


def test_data_damaged_after_the_table_was_opened(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": np.random.default_rng(0).normal(size=1000)}), path, compression="zstd")
    rows = ParquetTable(path).encode(Columns(1))
    data = bytearray(path.read_bytes())
    data[100:-500] = bytes(len(data) - 600)
    path.write_bytes(data)
    with pytest.raises(InvalidDataError, match=r"a\.parquet cannot be read as Parquet"):
        rows.matrix()


def test_missing_pyarrow_is_answered_with_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.parquet").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'pvtree\[parquet\]'"):
        ParquetTable(tmp_path)


# Memory

PEAK = """
import sys
from pathlib import Path
from pvtree import GBDTRegressor
from pvtree.reading import row_ids
from pvtree.reading.parquet import ParquetTable

row_ids.SAMPLE_ROWS = 10_000  # the usual sample would be a third of these rows

def train(path):
    table = ParquetTable(path, "x0")
    GBDTRegressor(n_estimators=2, num_leaves=4, n_jobs=2, verbosity=0).fit(table, table.y)

def bytes_of(name):
    status = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
    return int(status[name].split()[0]) * 1024

train(sys.argv[1])  # compiles, loads libraries
before = bytes_of("VmRSS")
Path("/proc/self/clear_refs").write_text("5")  # the peak so far is forgotten: compiling takes more than training
train(sys.argv[2])
print(bytes_of("VmHWM") - before)
"""


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="measures with Linux's /proc")
def test_the_peak_of_memory_is_the_binned_shard_and_a_row_group(tmp_path: Path) -> None:
    n_rows, row_group = 640_000, 8_000
    rng = np.random.default_rng(5)
    one = pa.table({f"x{j}": rng.normal(size=row_group) for j in range(32)})
    pq.write_table(one.slice(0, 100), tmp_path / "small.parquet")
    with pq.ParquetWriter(tmp_path / "large.parquet", one.schema, compression="none", use_dictionary=False) as writer:
        for _ in range(n_rows // row_group):
            writer.write_table(one)
    command = [sys.executable, "-c", PEAK, str(tmp_path / "small.parquet"), str(tmp_path / "large.parquet")]
    grown = int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    data, shard = n_rows * 32 * 8, n_rows * 32
    # Training itself takes a few numbers a row, such as labels and gradients; the rest is what allocators keep.
    assert shard < grown < shard + 60 * n_rows + 30_000_000 < data * 0.6


@pytest.mark.parametrize("kind", ["text", "category", "name"])
def test_text_that_is_not_utf8_is_refused(kind, tmp_path):
    path = tmp_path / "a.parquet"
    texts = pa.array([b"\xff\xfe", b"b"]).view(pa.string())  # Arrow believes that it is text
    if kind == "name":
        pq.write_table(pa.table({"column": [1, 2]}), path, store_schema=False)
        path.write_bytes(path.read_bytes().replace(b"column", b"col\xff\xfen"))
    else:
        pq.write_table(pa.table({"x": texts.dictionary_encode() if kind == "category" else texts}), path)
    words = "can't decode byte 0xff" if kind == "name" else "'x' holds text that is not UTF-8"
    with pytest.raises(InvalidDataError, match=words):
        ParquetTable(path).count_values(0)
    if kind != "name":
        with pytest.raises(InvalidDataError, match="'x' holds text that is not UTF-8; write it as UTF-8"):
            ParquetTable(path).encode(Columns(1, ("x",), {0: ("b",)})).matrix()
