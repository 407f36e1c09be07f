"""`make paper`: its data, its readers, its shortcuts (bins made once), and sentences that follow from the figures."""

import gzip
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pvtree.parameters.params import Params
from pvtree.training.train import train

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
sys.path[:0] = [str(BENCHMARKS / "paper"), str(BENCHMARKS)]

import binned_task  # noqa: E402
import experiments  # noqa: E402
import made_tasks  # noqa: E402
import reading  # noqa: E402
import real_tasks  # noqa: E402
import sections  # noqa: E402
import trainings  # noqa: E402
from trainings import Curve, Training  # noqa: E402

SETTING = trainings.Setting({"LTR": 3, "CTR": 3}, 0.2, 7, "1gbit", 50e-6, 1.0)


# -- Data


@pytest.mark.parametrize("make", [made_tasks.Ranking, made_tasks.Clicks])
def test_rows_do_not_depend_on_how_many_are_made_at_once(make):
    task = make(60)
    both, second = task.rows(0, 2 * made_tasks.BLOCK_ROWS), task.rows(1, made_tasks.BLOCK_ROWS)
    assert np.array_equal(both.X[made_tasks.BLOCK_ROWS :], second.X)
    assert np.array_equal(both.y[made_tasks.BLOCK_ROWS :], second.y)
    assert not np.array_equal(both.X[: made_tasks.BLOCK_ROWS], second.X)
    assert np.array_equal(make(60).rows(1, 1).X, second.X)
    assert not np.array_equal(make(60, seed=1).rows(1, 1).X, second.X)


def test_rankings_have_whole_queries_and_most_documents_are_irrelevant():
    rows = made_tasks.Ranking(60).rows(0, 4 * made_tasks.BLOCK_ROWS)
    assert rows.group.sum() == len(rows.y) == len(rows.X)
    assert rows.group.min() >= 60 and rows.group.max() <= 200
    shares = np.bincount(rows.y.astype(int)) / len(rows.y)
    assert shares == pytest.approx(made_tasks.LABEL_SHARES, abs=0.05)


def test_one_in_twenty_clicks_and_most_attributes_have_few_values():
    rows = made_tasks.Clicks(100).rows(0, 4 * made_tasks.BLOCK_ROWS)
    assert rows.y.mean() == pytest.approx(0.05, abs=0.01)
    n_values = np.array([len(np.unique(column)) for column in rows.X.T])
    assert (n_values == 2).sum() == 70
    assert (n_values < 50).sum() == 85
    assert (n_values > 1000).sum() == 15


def line(label, values, qid=None):
    return f"{label}{'' if qid is None else f' qid:{qid}'} " + " ".join(f"{i + 1}:{v}" for i, v in enumerate(values))


def test_real_data_sets_are_found_and_read(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.integers(1, 9, (60, 3))
    letor, side, clicks, other = (tmp_path / name for name in ("letor", "side", "clicks", "other"))
    for folder in (letor, side, clicks, other):
        folder.mkdir()
    for part in range(3):  # parts of one set: the last is for testing
        lines = [f"{line(i % 3, X[i], i // 5)} # doc" for i in range(part * 20, part * 20 + 20)]
        with gzip.open(letor / f"S{part}.txt.gz", "wt") as file:
            file.write("\n".join(lines) + "\n")
    for name, first, stop in (("a.train", 0, 40), ("a.test", 40, 60)):  # LightGBM's way, indices out of order
        (side / name).write_text("\n".join(f"{i % 2} 3:{X[i, 2]} 1:{X[i, 0]}" for i in range(first, stop)))
        (side / f"{name}.query").write_text("\n".join(["10"] * ((stop - first) // 10)))
    rows = [",".join(map(str, [*X[i], i % 2])) for i in range(60)]
    (clicks / "all.csv").write_text("a,b,c,Click\n" + "\n".join(rows))
    (other / "notes.txt").write_text("nothing to see here\n")
    found = {task.name: task for task in real_tasks.find(tmp_path)}
    assert set(found) == {"letor", "side/a", "clicks"}
    assert {name: task.kind for name, task in found.items()} == {
        "letor": "ranking", "side/a": "ranking", "clicks": "binary",
    }  # fmt: skip
    assert np.array_equal(found["letor"].train.X, X[:40]) and np.array_equal(found["letor"].test.X, X[40:])
    assert found["letor"].train.group.tolist() == [5] * 8 and found["letor"].test.group.tolist() == [5] * 4
    assert np.array_equal(found["side/a"].test.X, X[40:, [0, 2]])
    assert found["side/a"].train.group.tolist() == [10] * 4
    assert np.array_equal(found["clicks"].train.X, X[:48]) and found["clicks"].test.y.tolist() == [0, 1] * 6


# -- Trainings


@pytest.mark.parametrize(
    ("make", "learner", "n_workers"),
    [(made_tasks.Ranking, "voting", 3), (made_tasks.Clicks, "attribute", 3), (made_tasks.Ranking, "quantized", 2)],
)
def test_bins_made_once_give_the_model_of_a_training_from_the_rows(tmp_path, make, learner, n_workers):
    maker = make(50)
    rows = maker.rows(0, made_tasks.BLOCK_ROWS)
    task = binned_task.write(tmp_path / "task", maker.name, maker.kind, rows, maker.rows(9, 1))
    params = SETTING.params(task, Training(task.name, learner, n_workers, 3), 3)
    _, whole, _ = binned_task.read(tmp_path / "task")
    result = trainings.train_binned(whole, params, SETTING.cluster())
    assert result.model.trees == train(rows.X, rows.y, params, group=rows.group).model.trees
    assert len(result.seconds) == 3 and np.all(np.diff([0.0, *result.seconds]) > 0)


def test_a_training_is_measured_after_every_tree(tmp_path):
    maker = made_tasks.Clicks(50)
    rows, test = maker.rows(0, 1), maker.rows(9, 1)
    task = binned_task.write(tmp_path / "task", "CTR", maker.kind, rows, test)
    curve = trainings.measure(tmp_path / "task", Training("CTR", "serial", 1), SETTING)
    alone = train(rows.X, rows.y, replace(Params(), **vars(SETTING.params(task, curve.training, 3)))).model
    scores = alone.predict_raw(test.X, n_iterations=2)[:, 0]
    assert curve.metric[1] == pytest.approx(auc_by_pairs(test.y, scores), abs=1e-12)
    assert curve.bytes_per_tree == 0


def test_finished_trainings_are_kept(tmp_path):
    curve = Curve(Training("LTR", "voting", 4, 5), [0.5, 1.25], [0.3, 0.4], 10.0, 2.5)
    trainings.Kept(tmp_path / "kept", [], SETTING).add(curve)
    assert trainings.Kept(tmp_path / "kept", [], SETTING).curves == {curve.training: curve}
    with pytest.raises(SystemExit, match="other data or settings"):
        trainings.Kept(tmp_path / "kept", [], replace(SETTING, num_leaves=8))
    trainings.Kept(None, [], SETTING).add(curve)


def auc_by_pairs(y, scores):
    difference = scores[y == 1][:, None] - scores[y == 0][None, :]
    return ((difference > 0).mean() + 0.5 * (difference == 0).mean()).item()


# -- What is read off the curves


def made_curves(**ends):
    """Curves that rise to a given end, a second a tree."""
    curves = {}
    for task in sections.MADE:
        for training in experiments.of_made_task(task):
            end = ends.get(training.learner, 0.8)
            curves[training] = Curve(training, [1.0, 2.0, 3.0], [0.5, end - 0.01, end], 1e6, 20.0)
    return curves


def test_time_to_a_target_and_convergence():
    curve = Curve(Training("CTR", "voting", 4), [1.0, 2.0, 3.0, 4.0], [0.5, 0.7995, 0.7992, 0.8], 0.0, 0.0)
    assert reading.convergence_seconds(curve) == 2.0
    assert curve.time_to(0.7996) == 4.0 and curve.time_to(0.81) is None
    assert reading.fastest_first({"a": 2.0, "b": None, "c": 1.0}) == ["c", "a", "b"]


def test_verdicts_follow_the_figures():
    worse = made_curves(svore=0.7, yu=0.7, quantized=0.7)
    assert sections.figure_4(worse).verdict.count("agrees") == 2
    assert sections.figure_4(made_curves(yu=0.9)).verdict.count("differs") == 2
    assert sections.figure_4(made_curves(yu=0.7)).verdict.count("agrees for Yu only") == 2
    assert "unlike" not in sections.figure_2(worse).verdict
    assert sections.figure_2(made_curves(voting=0.7)).verdict.count("unlike in the paper, where") == 2
    assert "not reached" in sections.table_2(made_curves(voting=0.7)).ours


def test_table_2_compares_the_order_with_the_papers():
    curves = made_curves()
    for task, seconds in experiments.PAPER_SECONDS.items():
        for training in experiments.comparison(task):
            if training.learner in seconds:
                pace = float(seconds[training.learner])
                curves[training] = replace(curves[training], seconds=[pace, 2 * pace, 3 * pace])
    same = sections.table_2(curves).verdict
    assert same.count("agrees") == 2 and "PV-Tree is 4.9 times" in same
    slow = Training("LTR", "voting", 8)
    curves[slow] = replace(curves[slow], seconds=[1e6, 2e6, 3e6])
    assert sections.table_2(curves).verdict.count("agrees") == 1


def test_every_training_of_the_sections_is_done_once_and_every_file_written(tmp_path):
    from importlib import import_module, util

    import_module("pictures")  # matplotlib
    spec = util.spec_from_file_location("paper_main", BENCHMARKS / "paper" / "__main__.py")
    main = util.module_from_spec(spec)
    spec.loader.exec_module(main)
    curves = made_curves()
    task = binned_task.Task("real", "binary", "AUC", 100, 50, 40, is_real=True)
    for training in experiments.of_real_task("real", 40):
        curves[training] = Curve(training, [1.0, 2.0], [0.5, 0.6], 10.0, 2.0)
    parts = [getattr(sections, name)(curves) for name in ("table_2", "figure_2", "table_4", "figure_3", "figure_4")]
    parts += [sections.table_3(8), sections.real_data(curves, [task])]
    main.write(tmp_path / "paper.md", parts, curves, "# Title")
    page = (tmp_path / "paper.md").read_text()
    for name in ("table2", "figure2", "table3", "table4", "figure3", "figure4", "real"):
        assert f"](paper/{name}.png)" in page and f"](paper/{name}.csv)" in page
        assert (tmp_path / "paper" / f"{name}.png").stat().st_size > 5_000
        assert len((tmp_path / "paper" / f"{name}.csv").read_text().splitlines()) > 5
