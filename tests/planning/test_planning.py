"""Plans: the expected growth against trainings' ledgers, what grows with what, what is recommended, wrong input."""

from __future__ import annotations

import sys
import warnings
from dataclasses import astuple, replace
from pathlib import Path

import numpy as np
import pytest

import pvtree
from pvtree.errors import InvalidParameterError
from pvtree.growing.tree_memory import TreeMemory
from pvtree.parameters.params import Params
from pvtree.planning import calibration
from pvtree.planning.calibration import TYPICAL, Speeds, solve
from pvtree.planning.formulas import Wire, of_separate_trees
from pvtree.planning.plan import Plan, format_seconds, plan, votes_for
from pvtree.planning.workload import STRATEGIES, Setting, memory_of, sent_by, work_of
from pvtree.training.skew import SkewWarning
from pvtree.training.train import train

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from made_data import make_binary

GIGA = 10**9


def planned(rows: float = 1e9, attributes: float = 1200, machines: int = 8, **others) -> Plan:
    return plan(rows, attributes, machines, **{"speeds": TYPICAL} | others)


def of(plan: Plan, strategy: str):
    return next(option for option in plan.options if option.strategy == strategy)


def trained(setting: Setting, strategy: str, packs: bool):
    X, y, _ = make_binary(setting.n_rows, setting.n_features, seed=0)
    params = Params(
        objective="binary", n_classes=2, tree_learner=strategy, n_workers=setting.n_workers, top_k=setting.top_k,
        num_leaves=setting.n_leaves, n_estimators=3, packs_histograms=packs, n_threads=2,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SkewWarning)
        return train(X, y, params).traffic


@pytest.mark.parametrize(
    ("strategy", "packs"),
    [("voting", False), ("voting", True), ("data", False), ("data", True), ("quantized", True), ("attribute", True)],
)
@pytest.mark.parametrize("setting", [Setting(8_000, 200, 4, 31, 215, 10), Setting(30_000, 100, 3, 63, 215, 8)])
def test_expected_traffic_is_near_the_ledger_s(setting, strategy, packs) -> None:
    setting = replace(setting, packs=packs)
    found, expected = trained(setting, strategy, packs), sent_by(strategy, setting)
    assert expected.n_bytes == pytest.approx(found.bytes_per_tree, rel=0.25)
    assert expected.n_calls == pytest.approx(found.calls_per_tree, rel=0.2)


def test_trees_that_travel_whole_cost_what_the_formula_says() -> None:
    n_workers, n_iterations = 3, 2
    X, y, _ = make_binary(900, 12, seed=0)
    base = Params(objective="binary", n_classes=2, n_workers=n_workers, num_leaves=9, n_estimators=n_iterations)
    both = {name: train(X, y, replace(base, tree_learner=name)) for name in ("yu", "svore")}
    wire = Wire(n_workers, 12)
    leaves = np.array([tree.n_leaves for tree in both["yu"].model.trees]).reshape(n_iterations, n_workers)
    expected = sum(of_separate_trees(each, wire, keeps_best=False)["trees"].bytes for each in leaves.tolist())
    counting = 2 * (n_workers - 1) * 8  # once: how many workers have rows
    assert both["yu"].traffic.by_phase["trees"].bytes == expected + counting
    first = of_separate_trees(
        leaves[0].tolist(), wire, keeps_best=True
    )  # the first iteration's candidates are the same
    assert both["svore"].traffic.calls_per_tree == len(first) == 2
    assert both["svore"].traffic.bytes_per_tree * n_workers == pytest.approx(
        sum(each.bytes for each in first.values()), rel=0.1
    )
    assert both["svore"].model.trees[0].n_leaves in leaves[0]


def test_one_machine_sends_nothing() -> None:
    for strategy in STRATEGIES:
        assert sent_by(strategy, Setting(10**6, 50)).n_bytes == 0
        assert work_of(strategy, Setting(10**6, 50)) == work_of("serial", Setting(10**6, 50))


def test_voting_sends_the_same_whatever_the_attributes_and_about_so_whatever_the_rows() -> None:
    found = {
        (rows, d): sent_by("voting", Setting(rows, d, 8, top_k=15)).n_bytes
        for rows in (10**8, GIGA) for d in (1200, 5000, 60_000)
    }  # fmt: skip
    for rows in (10**8, GIGA):
        assert found[rows, 60_000] == pytest.approx(found[rows, 1200], rel=0.06)
    assert found[GIGA, 1200] == pytest.approx(found[10**8, 1200], rel=0.3)  # longer numbers, packed
    plain = [sent_by("voting", Setting(n, 1200, 8, top_k=15, packs=False)).n_bytes for n in (10**8, GIGA)]
    assert plain[0] == pytest.approx(plain[1], rel=0.01)
    data, attribute = (
        [sent_by(name, Setting(*size, 8)).n_bytes for size in ((GIGA, 1200), (GIGA, 2400), (GIGA // 2, 1200))]
        for name in ("data", "attribute")
    )
    assert data[1] == pytest.approx(2 * data[0], rel=0.01) and data[2] == pytest.approx(data[0], rel=0.05)
    assert attribute[1] == attribute[0] == pytest.approx(2 * attribute[2], rel=0.01)
    assert 50 * found[GIGA, 1200] < data[0]


def test_work_and_memory_grow_with_the_data_and_shrink_with_machines() -> None:
    base = Setting(10**7, 400, 8)
    for strategy in STRATEGIES[1:]:
        seconds = work_of(strategy, base).seconds(astuple(TYPICAL))
        memory = memory_of(strategy, base)
        for more in (replace(base, n_rows=10**8), replace(base, n_features=4000)):
            assert work_of(strategy, more).seconds(astuple(TYPICAL)) > 2 * seconds
            assert memory_of(strategy, more) > 2 * memory
        assert work_of(strategy, replace(base, n_workers=16)).seconds(astuple(TYPICAL)) < seconds
        assert memory_of(strategy, replace(base, n_workers=16)) < memory
        assert work_of(strategy, base).seconds(astuple(TYPICAL), n_cores=4) < 0.3 * seconds
    many = replace(base, n_rows=10**8)  # so that histograms are little beside all rows' scores
    assert memory_of("attribute", many) > memory_of("voting", many) + 50 * 10**8 * 7 / 8


def test_memory_is_about_what_a_training_holds(monkeypatch) -> None:
    held = []
    make_pools = TreeMemory.make_pools

    def noted(self, *args):
        make_pools(self, *args)
        a = self.arrays
        arrays = [a["bins"], a["narrow_pool"], a["wide_pool"], self.rows, self.words, a["side"]]
        held.append(sum(array.nbytes for array in arrays))

    monkeypatch.setattr(TreeMemory, "make_pools", noted)
    setting = Setting(40_000, 64, 2, 31, top_k=8)
    trained(setting, "voting", True)
    others = (60 - 25) * setting.n_rows // 2  # label, score, gradients
    assert memory_of("voting", setting) == pytest.approx(held[0] + others, rel=0.15)


def test_a_slow_network_and_wide_data_are_for_voting() -> None:
    found = planned(network="100mbit")
    assert found.best is not None and found.best.strategy == "voting" and found.best.top_k == 10
    assert of(found, "voting").network_seconds < 0.02 * of(found, "data").network_seconds
    assert "columns on machines" not in str(found)
    assert of(found, "data").seconds > of(found, "data").compute_seconds
    faster = planned(network="10gbit")
    assert of(faster, "data").network_seconds < 0.02 * of(found, "data").network_seconds


def test_few_rows_of_many_columns_are_for_attribute_once_they_are_spread() -> None:
    found = planned(1e5, 1200, 4, network="100mbit")
    assert found.best is not None and found.best.strategy == "attribute"
    assert found.best.setup_seconds == of(found, "attribute").setup_seconds > 5.0
    assert "to spread before the first tree" in str(found)
    few = planned(1e5, 1200, 4, network="100mbit", trees=5)  # not worth it
    assert few.best is not None and few.best.strategy == "voting"


def test_little_data_stays_on_one_machine() -> None:
    found = planned(2_000, 10, machines=4)
    assert found.recommended is not None
    assert (found.recommended.strategy, found.recommended.n_workers) == ("serial", 1)
    assert "one alone is the fastest" in str(found)


def test_fewest_machines_close_to_the_fastest() -> None:
    found = planned(1e6, 1000, machines=16)
    assert found.recommended is not None
    least = min(choice.of_trees(100) for choice in found.scaling)
    close = [choice for choice in found.scaling if choice.of_trees(100) <= 1.1 * least]
    assert found.recommended == close[0]
    assert [choice.n_workers for choice in found.scaling] == sorted({choice.n_workers for choice in found.scaling})
    assert max(choice.n_workers for choice in found.scaling) <= 64


def test_what_does_not_fit_is_not_recommended() -> None:
    need = {option.strategy: option.memory_bytes for option in planned().options}
    found = planned(memory_per_machine=need["voting"] + 1)
    assert not of(found, "serial").fits and not of(found, "attribute").fits and of(found, "voting").fits
    assert "does not fit" in str(found)
    nothing = planned(memory_per_machine=1e9)
    assert nothing.best is None and "Nothing fits" in str(nothing)


def test_k_follows_the_rows_of_a_leaf() -> None:
    assert [votes_for(rows, 50, 10, 1000) for rows in (10**8, 10**6, 10**4)] == [10, 20, 40]
    assert votes_for(100, 50, 10, 12) == 3 and votes_for(100, 50, 10, 3) == 1
    assert planned(top_k=33).setting.top_k == 33


def test_the_plan_in_words() -> None:
    text = str(planned())
    assert text.startswith(
        "1,000,000,000 rows x 1,200 attributes, 63 leaves, 255 bins, 8 machines of 1 core at 1 Gbit/s"
    )
    for strategy in STRATEGIES:
        assert f"\n{strategy} " in text
    assert "Recommended on 8 machines: voting with k = 10" in text
    assert [format_seconds(s) for s in (0.0008, 0.25, 5, 119, 600, 8000)] == [
        "0.8 ms", "250 ms", "5.0 s", "119.0 s", "10.0 min", "2.2 h",
    ]  # fmt: skip
    assert pvtree.plan is plan


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"rows": 0}, "rows must be a whole number of at least 1"),
        ({"rows": 10.5}, "rows must be"),
        ({"rows": float("inf")}, "rows must be"),
        ({"attributes": -1}, "attributes must be"),
        ({"machines": 0}, "machines must be"),
        ({"leaves": 1}, "leaves must be a whole number of at least 2"),
        ({"network": "fast"}, "network is 'fast'"),
        ({"bins": 300}, "bins must be"),
        ({"cores": 0}, "cores must be"),
        ({"trees": 0}, "trees must be"),
        ({"top_k": 0}, "top_k must be"),
        ({"election_size": 0.5}, "election_size must be"),
        ({"memory_per_machine": -5}, "memory_per_machine must be"),
    ],
)
def test_wrong_arguments_get_a_sentence(arguments, words) -> None:
    with pytest.raises(InvalidParameterError, match=words):
        planned(**arguments)


# Calibration


def test_speeds_are_found_from_what_trainings_took() -> None:
    true = Speeds(1e-9, 2e-9, 3e-9, 4e-9, 600e-9, 10e-9, 8e-9, 1e-3, 2e-3)
    work = [work_of(run.strategy, calibration._setting(run)) for run in calibration.RUNS]
    found = solve(work, [each.seconds(astuple(true)) for each in work])
    for each in work:
        assert each.seconds(astuple(found)) == pytest.approx(each.seconds(astuple(true)), rel=0.08)
    assert found.updates == pytest.approx(true.updates, rel=0.2)


def test_speeds_are_kept_and_measured_again_for_another_machine(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(calibration, "cache_file", lambda: tmp_path / "new" / "speeds.json")
    measured = [replace(TYPICAL, rows=1.0), replace(TYPICAL, rows=2.0), replace(TYPICAL, rows=3.0)]
    monkeypatch.setattr(calibration, "measure", lambda say: measured.pop(0))
    assert calibration.speeds().rows == 1.0
    assert calibration.speeds().rows == 1.0  # from the file
    assert calibration.speeds(recalibrate=True).rows == 2.0
    monkeypatch.setattr(calibration, "processor_name", lambda: "another")
    assert calibration.speeds().rows == 3.0
    for text in ("", "[]", '{"speeds": {}}', '{"speeds": null}', "\x00"):
        (tmp_path / "new" / "speeds.json").write_text(text)
        measured.append(TYPICAL)
        assert calibration.speeds() == TYPICAL
        assert not measured
    monkeypatch.setattr(calibration, "cache_file", lambda: tmp_path / "new" / "speeds.json" / "no folder")
    measured.append(TYPICAL)
    assert calibration.speeds() == TYPICAL  # cannot be kept


def test_one_training_is_timed(monkeypatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(calibration, "RUNS", (calibration.Run("voting", 600, 40, 2, 1, 7),))
    found = calibration.measure(said.append)
    assert said == ["measuring this machine: training 1 of 1 (voting)"]
    assert all(np.isfinite(each) and each >= 0 for each in astuple(found))
