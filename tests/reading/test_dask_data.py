"""Dask collections: who holds which rows, without moving them; predictions that wait until they are asked for."""

from __future__ import annotations

import subprocess
import sys
from itertools import chain

import cloudpickle
import numpy as np
import pandas as pd
import pytest

from pvtree.errors import InvalidDataError, InvalidTypeError, MissingDependencyError
from pvtree.reading import dask_data

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("distributed")

pytestmark = pytest.mark.dask
ROWS = np.arange(200.0).reshape(100, 2)
FRAME = pd.DataFrame(ROWS, columns=["a", "b"])


@pytest.fixture(scope="module")
def client():
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=50
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def whole(placed, position, name):
    """All rows of a column, put together in their order."""
    parts = sorted(chain.from_iterable(sets[position] for sets in placed.values()), key=lambda part: part[0])
    assert [index for index, _ in parts] == list(range(len(parts)))
    return np.concatenate([np.asarray(columns[name].result()) for _, columns in parts])


def n_received(dask_worker=None):
    return sum(len(entry["keys"]) for entry in dask_worker.transfer_incoming_log)


# Which collections


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (da.from_array(ROWS), True),
        (dd.from_pandas(FRAME, npartitions=2), True),
        (ROWS, False),
        (FRAME, False),
        (None, False),
        (da.Array, False),
    ],
    ids=["array", "frame", "numpy", "pandas", "none", "class"],
)
def test_is_collection(made, expected):
    assert dask_data.is_collection(made) is expected


# Placing


def test_arrays_are_cut_like_X(client):
    """X is cut between its columns too, and y in other places."""
    X, y = da.from_array(ROWS, chunks=(13, 1)), da.from_array(ROWS[:, 0], chunks=40)
    weight = da.from_array(ROWS[:, 1:], chunks=(100, 1))
    placed = dask_data.place(client, {"X": X, "y": y, "sample_weight": weight, "qid": None})
    assert set(placed) <= set(client.nthreads())
    np.testing.assert_array_equal(whole(placed, 0, "X"), ROWS)
    np.testing.assert_array_equal(whole(placed, 0, "y"), ROWS[:, 0])
    for (parts,) in placed.values():
        dask_data.check_rows(
            [(index, {n: future.result() for n, future in columns.items()}) for index, columns in parts]
        )
        assert all(set(columns) == {"X", "y", "sample_weight"} for _, columns in parts)
        assert [index for index, _ in parts] == sorted(index for index, _ in parts)
    firsts = [sets[0][0][0] for sets in placed.values()]
    assert firsts == sorted(firsts)
    assert firsts[0] == 0


def test_frames_and_evaluation_sets(client):
    """An evaluation set has partitions of its own; one of them is empty."""
    frame = dd.from_pandas(FRAME, npartitions=5)
    other = dd.from_map(lambda n: FRAME.iloc[:n], [3, 0, 4])
    placed = dask_data.place(client, {"X": frame[["b"]], "y": frame["a"]}, {"X": other[["b"]], "y": other["a"]})
    np.testing.assert_array_equal(whole(placed, 0, "X"), ROWS[:, 1:])
    np.testing.assert_array_equal(whole(placed, 0, "y"), ROWS[:, 0])
    np.testing.assert_array_equal(whole(placed, 1, "y"), np.concatenate([ROWS[:3, 0], ROWS[:4, 0]]))
    assert all(len(sets) == 2 for sets in placed.values())


def test_an_array_goes_with_a_frame(client):
    frame = dd.from_pandas(FRAME, npartitions=4)
    placed = dask_data.place(client, {"X": frame, "y": frame["a"].values})  # of unknown lengths
    np.testing.assert_array_equal(whole(placed, 0, "y"), ROWS[:, 0])


def test_a_group_has_its_own_length(client):
    X = da.from_array(ROWS, chunks=(50, 2))
    group = da.from_array(np.array([20, 30, 50]), chunks=((2, 1),))
    found = dask_data.place(client, {"X": X, "group": group})
    np.testing.assert_array_equal(whole(found, 0, "group"), [20, 30, 50])
    dask_data.check_rows([(0, {"X": ROWS[:50], "group": np.array([20, 30])})])


@pytest.mark.parametrize("kind", ["array", "frame", "part of a frame"])
def test_persisted_data_does_not_move(client, kind):
    """All of it lies on one worker, where Dask itself would not put it."""
    X = da.from_array(ROWS, chunks=(10, 2)) if kind == "array" else dd.from_pandas(FRAME, npartitions=10)
    address = sorted(client.nthreads())[1]
    X = client.persist(X, workers=[address])
    distributed.wait(X)
    if kind == "part of a frame":
        X = X.partitions[2:]
    before = client.run(n_received)
    n_keys = sum(map(len, client.has_what().values()))
    placed = dask_data.place(client, {"X": X})
    assert list(placed) == [address]
    assert client.run(n_received) == before
    assert sum(map(len, client.has_what().values())) == n_keys  # no copy under another name either
    np.testing.assert_array_equal(whole(placed, 0, "X"), ROWS if kind != "part of a frame" else ROWS[20:])


def test_copies_are_used_evenly(client):
    X = client.persist(da.from_array(ROWS, chunks=(10, 2)))
    client.replicate(X)
    placed = dask_data.place(client, {"X": X})
    assert [len(parts) for (parts,) in placed.values()] == [5, 5]


def test_what_X_and_y_have_in_common_is_computed_once(client, tmp_path):
    def load(index):
        (tmp_path / f"{index}").open("a").write("x")
        return FRAME.iloc[10 * index : 10 * index + 10]

    frame = dd.from_map(load, range(3), meta=FRAME.iloc[:0])
    placed = dask_data.place(client, {"X": frame[["b"]], "y": frame["a"]})
    np.testing.assert_array_equal(whole(placed, 0, "X"), ROWS[:30, 1:])
    assert [path.read_text() for path in tmp_path.iterdir()] == ["x"] * 3


def test_an_error_while_computing_is_the_users_own(client):
    def broken(block):
        raise ZeroDivisionError("in the user's own code")

    with pytest.raises(ZeroDivisionError, match="own code"):
        dask_data.place(client, {"X": da.from_array(ROWS, chunks=(50, 2)).map_blocks(broken, dtype=float)})


@pytest.mark.parametrize(
    ("columns", "error", "message"),
    [
        ({"X": da.ones((9, 2)), "y": da.ones(8)}, InvalidDataError, "X has 9 rows and y has 8"),
        ({"X": da.ones((9, 2)), "y": np.ones(9)}, InvalidTypeError, "y is a ndarray; together with Dask"),
        ({"X": dask.delayed(ROWS)}, InvalidTypeError, "X is a Delayed"),
        ({"X": da.ones(9)}, InvalidDataError, "X has 1 dimensions; give rows and columns"),
        ({"X": da.ones((9, 2)), "y": da.ones((9, 1, 1))}, InvalidDataError, "y has 3 dimensions"),
        (
            {"X": dd.from_pandas(FRAME, npartitions=3), "y": dd.from_pandas(FRAME["a"], npartitions=2)},
            InvalidDataError,
            "X has 3 partitions and y has 2.*not known",
        ),
        ({"X": da.ones((9, 2), chunks=(3, 2)), "group": da.ones(2)}, InvalidDataError, "3 partitions and group has 1"),
    ],
    ids=["rows", "numpy", "delayed", "flat", "cube", "partitions", "group"],
)
def test_columns_that_do_not_belong_together(columns, error, message):
    with pytest.raises(error, match=message):
        dask_data.align(columns)


def test_chunks_of_unknown_length_cut_between_columns():
    X = da.from_array(ROWS, chunks=(50, 1))
    with pytest.raises(InvalidDataError, match=r"call X\.compute_chunk_sizes\(\) first"):
        dask_data.align({"X": X[X[:, 0] > 3]})


def test_lengths_are_compared_where_the_rows_are():
    with pytest.raises(InvalidDataError, match="Partition 7 has 100 rows of X and 99 of y; give y with the same rows"):
        dask_data.check_rows([(7, {"X": FRAME, "y": FRAME["a"][:99]})])


# The client


def test_client_in_scope(client):
    assert dask_data.get_client(client) is client
    assert dask_data.get_client() is client
    with pytest.raises(InvalidTypeError, match=r"client is a str; give a distributed\.Client"):
        dask_data.get_client("tcp://127.0.0.1:8786")


def test_client_of_a_task(client):
    def ask():
        return dask_data.get_client().scheduler.address

    assert client.submit(ask, pure=False).result(20) == client.scheduler.address


def test_no_client():
    code = (
        "from pvtree import dask_data\n"
        "try: dask_data.get_client()\n"
        "except dask_data.InvalidDataError as error: assert 'or give client=' in str(error)\n"
        "else: raise AssertionError"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_missing_dask_is_answered_with_the_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'pvtree\[dask\]'"):
        dask_data.get_client()


# Lazy predictions


class Model:
    """Large, and counts how often it is used."""

    def __init__(self):
        self.weights = np.random.default_rng(0).normal(size=50_000)
        self.n_calls = 0

    def predict(self, X):
        self.n_calls += 1
        assert len(X) > 0
        return np.asarray(X).sum(axis=1)

    def predict_proba(self, X):
        return np.asarray(X)[:, [0, 1, 1]]


COLLECTIONS = {
    "array": da.from_array(ROWS, chunks=(13, 2)),
    "cut array": da.from_array(ROWS, chunks=(30, 1)),
    "unknown": da.from_array(ROWS, chunks=(30, 2))[da.from_array(ROWS[:, 0], chunks=30) >= 0],
    "frame": dd.from_pandas(FRAME, npartitions=5),
}


@pytest.mark.parametrize("kind", COLLECTIONS)
def test_predictions_are_lazy_arrays(kind):
    X, model = COLLECTIONS[kind], Model()
    values = dask_data.lazily(model.predict, X, np.float32)
    table = dask_data.lazily(model.predict_proba, X, np.float64, 3)
    assert model.n_calls == 0
    assert isinstance(values, da.Array)
    assert (values.ndim, values.dtype, table.ndim, table.shape[1]) == (1, np.float32, 2, 3)
    if "array" in kind:
        assert values.shape == (100,)
    with dask.config.set(scheduler="synchronous"):
        computed = values.compute()
        assert computed.dtype == np.float32
        np.testing.assert_allclose(computed, ROWS.sum(axis=1))
        np.testing.assert_array_equal(table.compute(), ROWS[:, [0, 1, 1]])


@pytest.mark.parametrize("width", [None, 3])
def test_empty_partitions_have_no_predictions(width):
    X = da.from_array(ROWS, chunks=((50, 0, 50), (2,)))
    method = Model().predict if width is None else Model().predict_proba
    with dask.config.set(scheduler="synchronous"):
        assert len(dask_data.lazily(method, X, float, width).compute()) == 100
        assert len(dask_data.lazily(method, X[:0], float, width).compute()) == 0


@pytest.mark.parametrize("kind", ["array", "frame"])
def test_the_model_is_in_the_graph_once(kind):
    model = Model()
    graph = dict(dask_data.lazily(model.predict, COLLECTIONS[kind], float).__dask_graph__())
    n_bytes = sum(len(cloudpickle.dumps(task)) for task in graph.values())  # each goes to its worker by itself
    assert model.weights.nbytes < n_bytes < 2 * model.weights.nbytes
