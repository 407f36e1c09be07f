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
import claims  # noqa: E402
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


def test_trainings_kept_before_there_were_seeds_are_those_of_seed_0(tmp_path):
    curve = Curve(Training("LTR", "voting", 4, 5), [0.5], [0.3], 10.0, 2.5)
    trainings.Kept(tmp_path / "kept", [], SETTING).add(curve)
    text = (tmp_path / "kept").read_text()
    assert ', "seed": 0' in text
    (tmp_path / "kept").write_text(text.replace(', "seed": 0', ""))
    assert trainings.Kept(tmp_path / "kept", [], SETTING).curves == {curve.training: curve}


def auc_by_pairs(y, scores):
    difference = scores[y == 1][:, None] - scores[y == 0][None, :]
    return ((difference > 0).mean() + 0.5 * (difference == 0).mean()).item()


# -- What is read off the curves

TASKS = {
    "LTR": binned_task.Task("LTR", "ranking", "NDCG@10", 561_152, 81_920, 1_200),
    "CTR": binned_task.Task("CTR", "binary", "AUC", 1_003_520, 81_920, 800),
}
PAPER_TASKS = {
    name: replace(TASKS[name], n_rows=n_rows, n_test=n_test, n_features=n_features)
    for name, (n_rows, n_test, n_features, _) in experiments.PAPER_DATA.items()
}
REAL = binned_task.Task("real", "binary", "AUC", 100, 500, 40, is_real=True)
PAPER_BEST = {"LTR": 0.7909, "CTR": 0.7538}


def curve_of(training, seconds, metric):
    """Converges after so many seconds, in the second of three trees."""
    return Curve(training, [seconds / 2, seconds, 2 * seconds], [0.0, metric, metric], 1e6, 20.0)


def paper_seconds(training):
    """What the paper prints; something in keeping with its words where it prints no number."""
    task, n_workers = training.task, training.n_workers
    by_k = experiments.PAPER_BY_SIZE.get((task, n_workers))
    if training.learner == "voting" and by_k:
        return by_k[experiments.VOTING_SIZES.index(training.top_k)][0]
    reported = experiments.PAPER_SECONDS[task]
    if training.learner == "voting" and n_workers < experiments.MACHINES[task]:
        return 4 * reported["voting"]  # "significantly accelerated" from here on
    return reported.get(
        training.learner, reported["data"] / 3 if training.learner == "quantized" else reported["voting"]
    )


def paper_metric(training, n_workers):
    by_k = experiments.PAPER_BY_SIZE.get((training.task, n_workers))
    if training.learner == "voting" and by_k:
        return by_k[experiments.VOTING_SIZES.index(training.top_k)][1]
    return PAPER_BEST[training.task] - 0.05 * (training.learner in ("quantized", "svore", "yu"))


def paper_results():
    """The paper's own numbers as if they were ours."""
    curves = {}
    for task in experiments.MADE:
        for training in experiments.of_made_task(task):
            metric = paper_metric(training, training.n_workers)
            curves[training] = curve_of(training, paper_seconds(training), metric)
    for training in experiments.of_real_task("real", 40):
        metric = 0.85 if training.learner in ("quantized", "svore", "yu") else 0.9
        curves[training] = curve_of(training, 1.0, metric)
    return reading.Results({**PAPER_TASKS, "real": REAL}, curves)


def turned_results():
    """The slow are fast, few machines are many, PV-Tree ends below and others above what they should."""
    curves = {}
    for training, curve in paper_results().curves.items():
        task, others = training.task, {"serial": 0.1, "attribute": 0.1, "data": 0.1, "quantized": 0.2}
        metric = max(curve.metric) + others.get(training.learner, 0.15)
        if training.learner == "voting" and task in experiments.MADE:
            few, many = experiments.FEW_AND_MANY[task]
            metric = paper_metric(training, {few: many, many: few}.get(training.n_workers, training.n_workers))
        elif training.learner == "voting":
            metric = 0.6
        seconds = 1e6 / curve.seconds[1] * (5 if training.learner in ("svore", "yu") else 1)
        curves[training] = curve_of(training, seconds, metric)
    narrow = {name: replace(task, n_features=200) for name, task in TASKS.items()}
    return reading.Results({**narrow, "real": REAL}, curves)


def paper_bytes(n_rows, n_features, n_machines):
    found = zip(("attribute", "data", "voting"), sections.PAPER_MB[n_rows, n_features], strict=True)
    return {learner: 1e6 * megabytes for learner, megabytes in found}


def turned_bytes(*sizes):
    attribute, data, voting = paper_bytes(*sizes).values()
    return {"attribute": data, "data": voting, "voting": attribute}


SECTIONS = ["table1", "table2", "figure1", "table3", "table4", "figure2", "figure3", "real"]


def claims_by_section(results, cost):
    parts = [part for part in sections.of(results) if part.name != "table3"]
    return {part.name: part.claims for part in [*parts, sections.table_3(8, cost)]}


def test_every_observation_agrees_with_the_papers_own_numbers():
    by_section = claims_by_section(paper_results(), paper_bytes)
    assert sorted(by_section) == sorted(SECTIONS)
    for name, found in by_section.items():
        assert found, name
        assert [claim for claim in found if claim.verdict != "agrees"] == [], name


def test_every_observation_differs_from_the_papers_numbers_turned_around():
    by_section = claims_by_section(turned_results(), turned_bytes)
    for name, found in by_section.items():
        assert [claim for claim in found if claim.verdict != "**differs**"] == [], name


def test_verdicts_need_more_than_the_tolerance_and_give_reasons():
    claim = claims.slower("LTR", "A is faster than B", 2.5, 11.0 / 10.7, [Training("LTR", "voting", 8)], "few rows")
    assert claim.verdict == "**differs**" and claim.is_close
    assert claims.verdicts([claim]).endswith("\n- few rows (LTR, A is faster than B).")
    assert "few rows" not in claims.verdicts([replace(claim, agrees=True)])
    assert (claim.paper, claim.here) == ("2.50 times", "1.03 times")
    assert claims.slower("LTR", "", 1.12, 1.05).agrees  # the paper's own ratio, within the tolerance
    assert not claims.slower("LTR", "", 1.12, 0.97).agrees
    assert claims.slower("LTR", "", None, 1.2).agrees and not claims.slower("LTR", "", None, 1.05).agrees
    assert claims.slower("LTR", "", 4.9, 3.3, limit=4.9 / 1.1).verdict == "**differs**"
    never = claims.slower("LTR", "A is faster than B", 2.5, 0.0, (), "few rows")
    assert never.here == "the faster does not get there" and not never.agrees and never.reason == ""
    assert claims.slower("LTR", "", 2.5, float("inf")).here == "the slower does not get there"
    assert claims.lower("LTR", "", "", 0.006, 0.005, ()).agrees
    assert not claims.lower("LTR", "", "", 0.004, 0.005, ()).agrees
    assert claims.no_lower("LTR", "", "", 0.004, 0.005, ()).agrees
    assert not claims.no_lower("LTR", "", "", 0.006, 0.005, ()).agrees
    assert claims.within("LTR", "", "", 0.6, 2.0).agrees and not claims.within("LTR", "", "", 0.4, 2.0).agrees


def test_only_what_is_close_is_run_again():
    voting, attribute = Training("LTR", "voting", 8), Training("LTR", "attribute", 8)
    near = claims.slower("LTR", "", 2.5, 1.03, [attribute, voting])
    far = claims.lower("LTR", "", "", 0.1, 0.005, [Training("LTR", "serial", 1), voting])
    assert claims.close_calls([far, near, near]) == [attribute, voting]
    metrics = claims.lower("LTR", "", "", 0.004, 0.005, [voting])
    assert claims.close_calls([metrics]) == [voting]


def test_several_runs_are_read_by_their_median():
    training = Training("CTR", "voting", 4)
    ends = ((5.0, 0.81), (1.0, 0.80), (3.0, 0.70))
    curves = {
        training.with_seed(seed): curve_of(training.with_seed(seed), seconds, metric)
        for seed, (seconds, metric) in enumerate(ends)
    }
    runs = reading.Results(TASKS, curves)[training]
    assert len(runs.curves) == 3 and runs.first.seconds[1] == 5.0
    assert runs.best == 0.80 and runs.convergence() == (3.0, 2)
    assert runs.tree_seconds == pytest.approx(2.0)
    assert runs.time_to(0.8) == 5.0 and runs.time_to(0.81) is None  # one of three gets there


def test_convergence_is_the_first_tree_within_the_tolerance():
    curve = Curve(Training("CTR", "voting", 4), [1.0, 2.0, 3.0, 4.0], [0.5, 0.7995, 0.7992, 0.8], 0.0, 0.0)
    assert curve.time_to(0.7996) == 4.0 and curve.time_to(0.81) is None
    assert reading.Results(TASKS, {curve.training: curve})[curve.training].convergence() == (2.0, 2)
    assert reading.tolerance("binary", 4 * reading.TEST_ROWS) == pytest.approx(0.0005)


def test_tables_have_the_papers_numbers_beside_ours():
    found = {part.name: part.ours for part in sections.of(turned_results())}
    assert "KDD Cup 2012, track 2" in found["table1"] and "235,000,000" in found["table1"]
    assert "561,152" in found["table1"]
    assert "not reached" in found["table2"]
    assert "11,256 / 0.7905" in found["table4"]
    assert "28.8" in {part.name: part.ours for part in sections.of(paper_results())}["table2"]


def test_a_seed_is_another_run_of_the_same_training():
    task, training = TASKS["LTR"], Training("LTR", "voting", 4, 5)
    first, second = (SETTING.params(task, each, 3) for each in (training, training.with_seed(7)))
    assert second == replace(first, seed=7) and first.seed == 0


@pytest.fixture(scope="module")
def main():
    from importlib import util

    spec = util.spec_from_file_location("paper_main", BENCHMARKS / "paper" / "__main__.py")
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_further_runs_are_asked_for_until_close_ones_have_every_seed(main):
    """The paper's sequential and data-parallel training differ by 12 % on LTR, which noise may turn."""
    results = paper_results()
    again = main.further_runs(results, 3)
    both = [Training("LTR", learner, n) for learner, n in (("serial", 1), ("data", 8))]
    assert {training.with_seed(seed) for training in both for seed in (1, 2)} <= set(again)
    assert Training("CTR", "attribute", 32, seed=1) not in again  # nothing is near
    more = {training: replace(results.curves[training.with_seed(0)], training=training) for training in again}
    assert main.further_runs(reading.Results(results.tasks, {**results.curves, **more}), 3) == []
    assert main.further_runs(results, 1) == []


def test_every_section_is_written_with_its_verdicts(main, tmp_path):
    results = turned_results()
    assert set(main.all_trainings(list(results.tasks.values()))) == set(results.curves)
    parts = sections.of(results)
    main.write(tmp_path / "paper.md", parts, results, main.introduction(results, parts, SETTING, 3, "in no time"))
    page = (tmp_path / "paper.md").read_text()
    n_claims = sum(len(part.claims) for part in parts)
    assert f" of {n_claims} observations agree." in page
    assert page.count("| **differs**") + page.count("| agrees") == n_claims
    for name in SECTIONS:
        assert f"](paper/{name}.csv)" in page
        assert len((tmp_path / "paper" / f"{name}.csv").read_text().splitlines()) > 4
        if name != "table1":
            assert f"](paper/{name}.png)" in page
            assert (tmp_path / "paper" / f"{name}.png").stat().st_size > 5_000
