"""Tables as nobody should pass them: of numpy, pandas, Arrow, polars and scipy."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import samples
import scipy.sparse
from case import Case
from mutations import REAL

ODD: list[Any] = [None, True, -1, 0, 2**63, -(2**31), 0.5, float("nan"), float("inf"), "", "x", [], {}, (), [None],
                  b"x", np.float32(3), np.array(3), np.array([1, 2]), object(), 1j, "\ud800"]  # fmt: skip


def made(make: Callable[[], Any], otherwise: Any) -> Any:
    """What ``make`` gives, or something good where numpy, pandas, Arrow or scipy refuse to make it."""
    try:
        with np.errstate(all="ignore"):
            return make()
    except BaseException as error:  # polars panics about types that it does not have
        if isinstance(error, Exception) or type(error).__name__ == "PanicException":
            return otherwise
        raise


def odd_array(case: Case, X: np.ndarray) -> Any:
    """Another type, shape, order in memory or container."""
    kinds = ["f2", "f4", ">f8", "f16", "i1", "i8", "u8", "?", "c16", "O", "U5", "S5", "M8[D]", "m8[s]", "V8"]
    ways: list[Callable[[], Any]] = [
        lambda: np.nan_to_num(X).astype(case.choose(kinds)),
        lambda: X[:: case.choose([1, 2, -1, -3])],
        lambda: np.asfortranarray(X)[:, ::-1],
        lambda: np.broadcast_to(X[:1], X.shape),
        lambda: X[:, :: case.choose([1, 2])].astype(np.float32)[1:],
        lambda: X.reshape(case.choose([(-1,), (1, -1), (-1, 1), (*X.shape, 1), (1, *X.shape)])),
        lambda: X[: case.choose([0, 1, 2, 3])],
        lambda: X[:, : case.choose([0, 1])],
        lambda: X.tolist(),
        lambda: [row[: 1 + i % 3] for i, row in enumerate(X.tolist())],
        lambda: np.ma.masked_invalid(X),
        lambda: np.where(X > 0.3, case.choose(REAL), X),
        lambda: np.where(X > 0.3, case.choose([np.nan, np.inf, -np.inf, 1e308]), X),
        lambda: X * case.choose([1e-320, 1e305, 0.0, 1e-30]),
        lambda: np.round(X * 1e3).astype(np.int64) + case.choose([0, 2**53, 2**62]),
        lambda: _with_object(X.astype(object), case.choose(ODD), case),
        lambda: memoryview(np.ascontiguousarray(X)),
        lambda: X.view(np.recarray),
    ]
    return case.choose(ways)()


def _with_object(X: np.ndarray, value: Any, case: Case) -> np.ndarray:
    X[case.choose(range(X.shape[0])), case.choose(range(X.shape[1]))] = value
    return X


def odd_frame(case: Case, X: np.ndarray) -> Any:
    """A DataFrame of pandas with odd columns."""
    frame, n = samples.frame().iloc[: len(X)].copy(), len(X)
    whole = np.arange(n)
    columns: list[Callable[[], Any]] = [
        lambda: pd.array(whole, "Int64"),
        lambda: pd.array([None if i % 3 else True for i in whole], "boolean"),
        lambda: pd.array([f"t{i % 3}" for i in whole], "string"),
        lambda: pd.Series([f"t{i % 3}" for i in whole], dtype=object).to_numpy(),
        lambda: pd.Categorical(whole % 3, categories=[2, 1, 0], ordered=True),
        lambda: pd.Categorical([None] * n, categories=["a"]),
        lambda: pd.Categorical([None] * n),
        lambda: pd.Categorical(pd.cut(whole, 3)),
        lambda: pd.Categorical([case.choose([1, "1", 1.5, True]) for _ in whole]),
        lambda: pd.Categorical(pd.to_datetime(whole % 4)),
        lambda: pd.date_range("2020", periods=n, tz="Europe/Berlin"),
        lambda: pd.period_range("2020", periods=n, freq="D"),
        lambda: pd.to_timedelta(whole, "s"),
        lambda: pd.arrays.SparseArray(whole % 2),
        lambda: pd.Series([[1], {}] * n)[:n].to_numpy(),
        lambda: pd.Series(pa.array(whole), dtype=pd.ArrowDtype(pa.int64())).array,
        lambda: pd.Series([f"t{i}" for i in whole], dtype=pd.ArrowDtype(pa.string())).array,
        lambda: whole + 1j,
        lambda: np.full(n, None, object),
        lambda: np.array([case.choose(ODD[:12]) for _ in whole], object),
    ]
    for _ in range(int(case.rng.integers(1, 3))):
        frame[case.choose([*"abcde", "new", "", "\ud800", "a\nb", 7])] = case.choose(columns)()
    shapes: list[Callable[[], Any]] = [
        lambda: frame,
        lambda: frame,
        lambda: frame.set_axis(list("aabcdefgh")[: frame.shape[1]], axis=1),
        lambda: frame.set_axis(range(frame.shape[1]), axis=1),
        lambda: frame.set_axis(pd.MultiIndex.from_product([[0], range(frame.shape[1])]), axis=1),
        lambda: frame.set_axis(np.zeros(n), axis=0),
        lambda: frame.iloc[::-1],
        lambda: frame.iloc[:0],
        lambda: frame[[]],
        lambda: frame["a"],
        lambda: frame.T,
    ]
    return case.choose(shapes)()


def odd_arrow(case: Case, X: np.ndarray) -> Any:
    """A table of pyarrow or polars with odd columns."""
    n = len(X)
    table = pa.table({name: X[:, j] for j, name in enumerate("abcde")})
    for _ in range(int(case.rng.integers(1, 3))):
        column, kind = odd_column(case, n)
        case.note(kind)
        table = table.set_column(case.choose(range(5)), case.choose(["a", "b", "x", ""]), column)
    cut = n // 3
    shapes: list[Callable[[], Any]] = [
        lambda: table,
        lambda: pa.concat_tables([table.slice(0, cut), table.slice(cut, 0), table.slice(cut)]),
        lambda: table.slice(0, 0),
        lambda: table.select([]),
        lambda: pa.chunked_array([X[:, 0]]),
        lambda: table.to_batches()[0],
        lambda: pa.Table.from_batches([], table.schema),
        lambda: pl.from_arrow(table),
        lambda: pl.from_arrow(table).lazy(),
        lambda: pl.from_arrow(table).with_columns(z=pl.Series(["a", "b", None] * n)[:n].cast(pl.Categorical)),
    ]
    return case.choose(shapes)()


def odd_sparse(case: Case, X: np.ndarray) -> Any:
    """A scipy matrix of any format whose indices may point outside."""
    X = np.nan_to_num(X)
    make = case.choose(["csr", "csc", "coo", "bsr", "lil", "dok", "dia"])
    case.note(make)
    kind = case.choose([scipy.sparse.csr_matrix, scipy.sparse.csr_array])
    matrix = kind(X.astype(case.choose(["f8", "f4", "i8", "?"]))).asformat(make)
    for _ in range(int(case.rng.integers(3))):
        names = [name for name in ("indices", "indptr", "data", "row", "col", "offsets") if hasattr(matrix, name)]
        if not names:
            break
        name = case.choose(names)
        array = getattr(matrix, name)
        case.note(name)
        if case.rng.random() < 0.15:
            cut = array[:: case.choose([2, -1])] if case.rng.random() < 0.5 else array.astype("f4")
            with contextlib.suppress(AttributeError, ValueError):  # scipy does not let all be set
                setattr(matrix, name, cut)
        elif array.size and array.dtype.kind in "iuf":
            limits = np.iinfo(array.dtype) if array.dtype.kind in "iu" else np.finfo(array.dtype)
            value = case.choose([-1, -3, 4, 5, 6, 1000, 10**6, 10**9, limits.max, limits.min])
            array.flat[case.choose(range(array.size))] = value
    return matrix


def odd_column(case: Case, n: int) -> tuple[Any, str]:
    """A column of Arrow of any type, good or not, and what it is."""
    whole = np.arange(n)
    ways: dict[str, Callable[[], Any]] = {
        "null": lambda: pa.nulls(n),
        "list": lambda: pa.array([[1.0]] * n),
        "struct": lambda: pa.array([{"a": 1}] * n),
        "map": lambda: pa.array([[("a", 1)]] * n, pa.map_(pa.string(), pa.int8())),
        "binary": lambda: pa.array([b"\xff\x00"] * n),
        "broken text": lambda: pa.array([b"\xff\xfe"] * n).view(pa.string()),
        "NUL text": lambda: pa.array(["a\0b", "a"] * (n // 2) + ["c"] * (n % 2)),
        "surrogate-like text": lambda: pa.array([f"\ue000{i}" for i in range(n)]),
        "big integers": lambda: pa.array(whole.astype(np.uint64) + np.uint64(2**64 - 1 - n)),
        "large decimals": lambda: pa.array([10**30 + i for i in range(n)], pa.decimal256(60, 3)),
        "half floats": lambda: pa.array(whole.astype(np.float16)),
        "dates": lambda: pa.array(whole.astype(np.int32)).cast(pa.date32()),
        "far dates": lambda: pa.array(np.full(n, 2**62)).view(pa.timestamp("s")),
        "times": lambda: pa.array(whole.astype(np.int32)).view(pa.time32("s")),
        "durations": lambda: pa.array(whole, pa.duration("ns")),
        "zoned": lambda: pa.array(whole, pa.timestamp("ns", "Europe/Berlin")),
        "infinities": lambda: pa.array(np.where(whole % 2, np.inf, -np.inf)),
        "huge": lambda: pa.array(np.where(whole % 2, 1.7e308, -1.7e308)),
        "many texts": lambda: pa.array([f"{i:05d}" for i in whole]),
        "dictionary of numbers": lambda: pa.DictionaryArray.from_arrays(
            pa.array(whole % 3), pa.array([1.5, 1.5, None])
        ),
        "dictionary of nulls": lambda: pa.DictionaryArray.from_arrays(pa.array(whole % 2), pa.array(["a", None])),
        "text views": lambda: pa.array([f"v{i % 5}" for i in whole], pa.string_view()),
        "run ends": lambda: pa.RunEndEncodedArray.from_arrays(pa.array([n], pa.int32()), pa.array([1.0])),
        "booleans": lambda: pa.array(whole % 2 == 0),
    }
    kind = case.choose(ways)
    return made(ways[kind], pa.nulls(n)), kind
