"""The benchmark measures what it says: its data, its ruler, its ratios and a whole small run of pvtree."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

import made_data  # noqa: E402
import measure  # noqa: E402
import tables  # noqa: E402

TINY = {name: replace(made_data.TASKS[name], n_rows=3_000, n_test=2_000, n_trees=3) for name in ("c", "d")}


@pytest.fixture(params=TINY)
def folder(request, tmp_path):
    made_data.write(TINY[request.param], tmp_path, seed=1)
    return tmp_path, TINY[request.param]


def test_parts_hold_the_rows_of_the_task_and_whole_queries(folder):
    path, task = folder
    for name, n_rows in (("warm", made_data.N_WARM_ROWS), ("train", task.n_rows), ("test", task.n_test)):
        part = made_data.Part.load(path / name)
        assert part.X.shape == (n_rows, task.n_features)
        assert part.X.dtype == np.float32
        assert (part.group is None) == (task.kind == "binary")
        if part.group is not None:
            assert part.group.sum() == n_rows
            assert set(np.unique(part.y)) <= set(range(5))


def test_the_same_seed_makes_the_same_data():
    for make in (made_data.make_binary, made_data.make_ranking):
        first, second, other = (make(400, 40, seed) for seed in (3, 3, 4))
        assert np.array_equal(first[0], second[0])
        assert np.array_equal(first[1], second[1])
        assert not np.array_equal(first[0], other[0])


def test_ndcg_of_a_ranking_by_hand():
    part = SimpleNamespace(y=np.array([2.0, 0.0, 1.0, 0.0, 0.0]), group=np.array([3, 2]))
    scores = np.array([1.0, 3.0, 2.0, 0.0, 1.0])  # ranks the labels 0, 1, 2; a query without relevance counts 1
    best = 3.0 + 1.0 / np.log2(3.0)
    found = 1.0 / np.log2(3.0) + 3.0 / 2.0
    assert measure.mean_ndcg(part, scores, 10) == pytest.approx((found / best + 1.0) / 2.0)


def test_advantage_is_over_the_best_peer():
    runs = {
        "pvtree": [{"tree_seconds": 1.0, "rows_per_second": 30.0}],
        "lightgbm": [{"tree_seconds": 5.0, "rows_per_second": 10.0}],
        "xgboost": [{"tree_seconds": s, "rows_per_second": 20.0} for s in (4.0, 3.0, 90.0)],
        "sklearn": [],
    }
    assert tables.best_peer(runs, tables.TREE) == "xgboost"
    assert tables.advantage(runs, "pvtree", tables.TREE) == 4.0
    assert tables.advantage(runs, "pvtree", tables.PREDICTION) == 1.5
    assert tables.advantage(runs, "lightgbm", tables.TREE) == 0.8


def test_tables_go_between_the_marks_only(tmp_path):
    path = tmp_path / "page.md"
    path.write_text(f"before\n{tables.START}\nold\n{tables.END}\nafter\n")
    for text in ("new", "newer"):
        tables.write_between_marks(path, text)
    assert path.read_text() == f"before\n{tables.START}\n\nnewer\n\n{tables.END}\nafter\n"
    path.write_text("no marks")
    with pytest.raises(SystemExit, match="has no lines"):
        tables.write_between_marks(path, "new")


def test_a_measurement_of_pvtree_is_complete(folder):
    path, task = folder
    command = [
        sys.executable,
        BENCHMARKS / "measure.py",
        "pvtree",
        "--folder",
        path,
        "--kind",
        task.kind,
        "--trees",
        "3",
    ]
    done = subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True)
    figures = json.loads(done.stdout)
    for column in tables.COLUMNS:
        # Memory that warming up has left behind may be enough for so little data.
        assert figures[column.field] > 0 or column is tables.MEMORY, column
    assert figures["fit_seconds"] > figures["binning_seconds"] + 3 * figures["tree_seconds"] * 0.99
    assert (0.7 if task.kind == "binary" else 0.2) < figures["metric"] < 1.0
