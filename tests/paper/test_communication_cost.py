"""The paper's claim about traffic, and every byte of it by formula: voting's depends on neither rows nor attributes."""

from __future__ import annotations

import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pvtree.comm import Communicator, PhaseTraffic
from pvtree.growing.sampling import n_node_features
from pvtree.kernels.wire import messages
from pvtree.parameters.params import Params
from pvtree.planning.formulas import Growth, Search, Wire, complete_tree, of_training, of_tree, paper_setting
from pvtree.training.skew import SkewWarning
from pvtree.training.train import TrainResult, train
from thoroughness import examples

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import traffic
from recorded_growth import Record, depth_of, recording
from tables import END, START

GBDT = {"binary": 2, "multiclass": 3, "regression": 1}
FOREST = {"entropy": 4, "variance": 1}
CATEGORICAL = {2: 5}
PAPER_MB = {  # (rows, attributes): attribute-parallel, data-parallel, PV-Tree
    (10**9, 1200): (750, 424, 10),
    (10**8, 1200): (75, 424, 10),
    (10**9, 200): (750, 70, 10),
    (10**8, 200): (75, 70, 10),
}


def made_rows(n_rows: int, n_features: int, n_classes: int = 2, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Continuous columns; five of them decide about the label together with noise, however many others there are."""
    rng = np.random.default_rng(seed)
    informative, noise = rng.standard_normal((n_rows, 5), np.float32), rng.standard_normal(n_rows)
    X = np.hstack([informative, rng.standard_normal((n_rows, n_features - 5), np.float32)])
    effect = informative @ np.array([1.0, 0.8, 0.6, 0.5, 0.4]) + noise
    if n_classes == 1:
        return X, effect
    return X, np.clip(np.floor(effect + n_classes / 2), 0, n_classes - 1)


def train_recorded(X: np.ndarray, y: np.ndarray, params: Params, **others) -> tuple[TrainResult, Record]:
    with recording() as record, warnings.catch_warnings():
        warnings.simplefilter("ignore", SkewWarning)  # of few rows
        return train(X, y, params, **others), record


def wire_of(params: Params, record: Record, n_features: int, has_weight: bool, has_categories: bool) -> Wire:
    n_allowed = n_node_features(params, n_features) or n_features
    votes = params.tree_learner == "voting" and n_allowed > int(params.election_size * params.top_k)
    counts_classes = params.criterion == "entropy"
    assert record.layout is not None
    return Wire(
        params.n_workers, n_features, top_k=params.top_k if votes else 0, by_columns=params.tree_learner == "attribute",
        n_planes=record.layout.n_planes, n_fields=record.layout.n_fields, has_categories=has_categories,
        n_scales=int(has_weight) if counts_classes else 2,
        has_exact_sums=not counts_classes and (has_weight or params.objective in ("binary", "multiclass")),
    )  # fmt: skip


def used(by_phase: dict[str, PhaseTraffic]) -> dict[str, PhaseTraffic]:
    return {phase: cost for phase, cost in by_phase.items() if cost.calls}


@st.composite
def trainings(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, Params, dict]:
    ensemble = draw(st.sampled_from(["gbdt", "forest"]))
    kind = draw(st.sampled_from(sorted(GBDT if ensemble == "gbdt" else FOREST)))
    n_classes = (GBDT if ensemble == "gbdt" else FOREST)[kind]
    # Beyond 8192 rows words cannot hold a node's sums, with real weights beyond 512.
    n_rows, n_features = draw(st.sampled_from([(2, 5), (60, 9), (700, 12), (700, 40), (9000, 12)]))
    X, y = made_rows(n_rows, n_features, n_classes, seed=draw(st.integers(0, 99)))
    others: dict = {}
    if draw(st.booleans()):
        X[:, 2] = np.random.default_rng(1).integers(0, 6, n_rows)
        others["categorical"] = CATEGORICAL
    if draw(st.booleans()):
        others["weight"] = np.random.default_rng(2).uniform(0.5, 2.0, n_rows)
    drawn = draw(st.booleans())
    sampled = {"bootstrap": drawn} if ensemble == "forest" else {"subsample": 0.6, "subsample_freq": int(drawn)}
    params = Params(
        ensemble=ensemble, n_classes=n_classes, objective=kind if ensemble == "gbdt" else "classification",
        criterion=kind if ensemble == "forest" else "gradient",
        tree_learner=draw(st.sampled_from(["voting", "voting", "data", "quantized", "attribute"])),
        n_workers=draw(st.sampled_from([2, 3, 5])), top_k=draw(st.sampled_from([1, 3, 8])),
        num_leaves=draw(st.sampled_from([0, 8, 15])), max_depth=draw(st.sampled_from([3, 5])),
        colsample_bynode=draw(st.sampled_from([1.0, 0.7])), max_bin=draw(st.sampled_from([12, 63])),
        n_estimators=2, packs_histograms=False, **sampled,
    )  # fmt: skip
    return X, y, params, others


@examples(25)
@given(trainings())
def test_bytes_and_calls_of_every_phase_are_the_formulas(training) -> None:
    X, y, params, others = training
    result, record = train_recorded(X, y, params, **others)
    wire = wire_of(params, record, X.shape[1], "weight" in others, "categorical" in others)
    n_draws = params.n_estimators if params.bootstrap or params.subsample_freq else 0
    expected = used(of_training(record.trees, wire, n_draws))
    assert record.by_phase() == expected
    n_trees = len(result.model.trees)
    assert [growth.n_nodes for growth in record.trees] == [len(tree.feature) for tree in result.model.trees]
    total = sum(cost.bytes for cost in expected.values())
    assert result.traffic.bytes_per_tree == pytest.approx(total / params.n_workers / n_trees)


def test_the_formulas_by_hand() -> None:
    # Two workers, two open nodes, one histogram of 3 + 1 bins in packed words and one of 1 + 1 bins in sums.
    growth = Growth([Search(2, narrow_bins=4, wide_bins=2)], n_nodes=5)
    wire = Wire(2, n_features=10, top_k=3)
    each = {name: cost.bytes // 2 for name, cost in of_tree(growth, wire).items()}  # what one of the two sends
    assert each == {
        "ballots": 8 + 2 * 3 * 2,
        "histograms": 8 + (4 * 1 + 2 * 3) * 8 // 2,
        "splits": 32 + 2 * (8 + 4 + 1 + 1 + 3 * 8),
        "scores": 2 * (2 + 3 + 5 * 2) * 8 // 2,
    }
    assert of_tree(growth, replace(wire, n_features=65_534))["ballots"].bytes == 2 * (8 + 2 * 3 * 2)
    assert of_tree(growth, replace(wire, n_features=65_535))["ballots"].bytes == 2 * (8 + 2 * 3 * 4)
    by_columns = of_tree(Growth([Search(1)], 3, [(17, 0, 8)]), Wire(3, 10, by_columns=True))
    assert by_columns["rows"] == PhaseTraffic(2 * (3 + 1) + 6 * 8, 1)
    assert set(by_columns) == {"splits", "rows"}


def test_indices_are_long_from_65535_features_on(monkeypatch) -> None:
    monkeypatch.setattr("pvtree.training.train.warn_if_skewed", lambda *_: None)  # takes longer than all the rest
    n_features = 65_535
    X = np.zeros((40, n_features), np.float32)
    X[:, ::6000] = np.random.default_rng(0).standard_normal((40, len(X[0, ::6000])))
    params = Params(
        objective="regression", tree_learner="voting", n_workers=2, top_k=3, max_depth=1, min_child_samples=2,
        n_estimators=1, max_bin=4, packs_histograms=False,
    )  # fmt: skip
    _, record = train_recorded(X, X[:, 6000].astype(float), params)
    assert record.by_phase() == of_training(record.trees, wire_of(params, record, n_features, False, False))
    assert record.by_phase()["ballots"].bytes == 2 * (8 + 3 * 4)


def complete(tree_learner: str, **changes) -> Params:
    """A training whose trees are complete on enough continuous rows."""
    params = Params(
        objective="binary", tree_learner=tree_learner, n_workers=4, top_k=10, num_leaves=0, max_depth=4, max_bin=31,
        n_estimators=1, packs_histograms=False, n_threads=2,
    )  # fmt: skip
    return replace(params, **changes)


@pytest.fixture
def message_sizes(monkeypatch) -> dict[int, list[list[int]]]:
    """By rank: bytes of the histograms sent to each worker, a row for each frontier; emptied by the reader."""
    alltoall = Communicator.alltoall
    sizes: dict[int, list[list[int]]] = {}

    def watched(self, buffers, phase, about=None):
        if phase == "histograms":
            sizes.setdefault(self.rank, []).append([buffer.nbytes for buffer in buffers])
        return alltoall(self, buffers, phase, about)

    monkeypatch.setattr(Communicator, "alltoall", watched)
    return sizes


def train_plain_and_packed(X: np.ndarray, y: np.ndarray, plain: Params, sizes: dict[int, list[list[int]]]):
    """Of each: messages (from, frontier, to) in bytes, costs by phase. The models must be the same."""
    sent, phases, models = [], [], []
    for params in (plain, replace(plain, packs_histograms=True)):
        result, record = train_recorded(X, y, params)
        sent.append(np.array([sizes.pop(rank) for rank in range(params.n_workers)]))
        phases.append(record.by_phase())
        models.append(result.model)
    for one, other in zip(models[0].trees, models[1].trees, strict=True):
        assert np.array_equal(one.feature, other.feature) and np.array_equal(one.value, other.value)
    return sent, phases


@pytest.mark.parametrize("tree_learner", ["voting", "data", "quantized"])
@pytest.mark.parametrize("n_rows", [50, 3_000, 20_000])
def test_packing_makes_no_message_longer(tree_learner, n_rows, message_sizes) -> None:
    X, y = made_rows(n_rows, 40)
    X[:, 1::3] = np.round(X[:, 1::3])  # few bins: little to gain
    params = complete(tree_learner, n_workers=3, top_k=4, num_leaves=15, max_depth=-1, min_child_samples=5)
    (plain, packed), phases = train_plain_and_packed(X, y, params, message_sizes)
    assert plain.shape == packed.shape
    assert (packed <= plain).all()
    if tree_learner != "quantized":  # its few bins are all in use, which leaves little to skip
        assert packed.sum() < 0.9 * plain.sum()
    for phase, cost in phases[0].items():
        assert phases[1][phase].bytes <= cost.bytes
        assert phases[1][phase] == cost or phase == "histograms"


def test_what_packing_would_lengthen_goes_plain(message_sizes, monkeypatch) -> None:
    # Bits are hardly ever more than words, so the packer is made to say that they were.
    write = messages.write_messages

    def write_at_length(first_row, last_row, form, at, start, owner, row_node, *others):
        write(first_row, last_row, form, at, start, owner, row_node, *others)
        if last_row == len(row_node) and form[1] != messages.PLAIN:
            at[1] += 2**40

    monkeypatch.setattr(messages, "write_messages", write_at_length)
    X, y = made_rows(2_000, 40)
    (plain, packed), _ = train_plain_and_packed(X, y, complete("voting", n_workers=3, top_k=4), message_sizes)
    assert (packed[:, :, 1] == plain[:, :, 1]).all()
    assert (packed[1:, 1:, 0] < plain[1:, 1:, 0]).all()  # to worker 0 from the others, while its features travel


# The paper's table. At M machines a worker sends (M-1)/M of what it would with very many; the paper names no M.


@pytest.mark.parametrize("n_workers", [8, 32])
def test_the_formula_gives_the_paper_s_table(n_workers) -> None:
    for (n_rows, n_features), (attribute, data, voting) in PAPER_MB.items():
        found = paper_setting(n_rows, n_features, n_workers)
        assert found["attribute"] / 1e6 == pytest.approx(attribute * (n_workers - 1) / n_workers, rel=2e-3)
        assert found["data"] / 1e6 == pytest.approx(data, rel=0.08)
        assert found["voting"] / 1e6 == pytest.approx(voting, rel=0.15)


def test_a_complete_tree_costs_what_the_table_s_formula_says() -> None:
    X, y = made_rows(8_000, 60)
    found = {}
    for tree_learner in ("attribute", "data", "voting"):
        result, record = train_recorded(X, y, complete(tree_learner))
        assert record.trees[0].n_nodes == 31
        closing = 4 * 3 * 8
        found[tree_learner] = result.traffic.bytes_per_tree - closing / 4
    whole, halves = (
        paper_setting(8_000, 60, 4, top_k=10, n_bins=31, depth=4, subtracts=subtracts) for subtracts in (False, True)
    )
    assert found["data"] == halves["data"]
    assert halves["voting"] <= found["voting"] <= whole["voting"]
    assert halves["attribute"] <= found["attribute"] <= halves["attribute"] + 4 * 4  # owners fill up their last bytes
    assert complete_tree(8_000, 4, 60, 31, subtracts=True).searches[3] == Search(8, 4 * 60 * 32, 0)
    assert complete_tree(80_000, 4, 60, 31).searches[3] == Search(8, 0, 8 * 60 * 32)


# Property 4 on small data, packed as it travels.


def bytes_per_tree(tree_learner: str, n_rows: int, n_features: int, **changes) -> float:
    X, y = made_rows(n_rows, n_features)
    return train(X, y, complete(tree_learner, packs_histograms=True, **changes)).traffic.bytes_per_tree


@pytest.fixture(scope="module")
def by_features() -> dict[str, list[float]]:
    """Bytes per tree and worker with 200, 1200 and 5000 attributes."""
    return {
        tree_learner: [bytes_per_tree(tree_learner, 2_000, n_features) for n_features in (200, 1200, 5000)]
        for tree_learner in ("voting", "data")
    }


def test_voting_is_flat_in_attributes(by_features) -> None:
    found = by_features["voting"]
    assert max(found) < 1.15 * min(found)
    ceilings = {paper_setting(2_000, d, 4, top_k=10, n_bins=31, depth=4)["voting"] for d in (200, 1200, 5000)}
    assert len(ceilings) == 1 and max(found) < ceilings.pop()


def test_data_is_linear_in_attributes(by_features) -> None:
    each = np.array(by_features["data"]) / (200, 1200, 5000)
    assert each.max() < 1.1 * each.min()


def test_voting_is_flat_in_rows() -> None:
    found = [bytes_per_tree("voting", n_rows, 60) for n_rows in (20_000, 200_000)]
    assert max(found) < 1.3 * min(found)
    assert max(found) < paper_setting(20_000, 60, 4, top_k=10, n_bins=31, depth=4)["voting"]


def test_attribute_is_linear_in_rows() -> None:
    few, many = (bytes_per_tree("attribute", n_rows, 20) for n_rows in (20_000, 200_000))
    # A bit for each row and level, sent by its owner to the 3 others: 3/4 of that for the average worker.
    assert many - few == pytest.approx(180_000 * 4 / 8 * 3 / 4, rel=1e-3)


@pytest.mark.parametrize("tree_learner", ["voting", "data", "attribute"])
@pytest.mark.parametrize(("num_leaves", "max_depth"), [(63, -1), (0, 6)])
def test_calls_follow_the_depth_not_the_nodes(tree_learner, num_leaves, max_depth) -> None:
    X, y = made_rows(6_000, 60)
    params = complete(tree_learner, num_leaves=num_leaves, max_depth=max_depth, n_estimators=4)
    result, record = train_recorded(X, y, params)
    wire = wire_of(params, record, 60, False, False)
    for growth, tree in zip(record.trees, result.model.trees, strict=True):
        assert len(tree.feature) > 80
        calls = sum(cost.calls for cost in of_tree(growth, wire).values())
        assert calls <= 3 * (depth_of(tree.left_child) + 2)


def test_the_benchmark_fills_its_tables(tmp_path, monkeypatch, capsys) -> None:
    page = tmp_path / "traffic.md"
    page.write_text(f"before\n{START}\n{END}\nafter\n")
    sizes = "--rows 1500 --features 240 --trees 2 --workers 2 --repeats 1"
    monkeypatch.setattr(sys, "argv", ["traffic.py", *sizes.split(), "--output", str(page)])
    with warnings.catch_warnings():
        traffic.main()
    text = page.read_text()
    assert text.startswith("before") and text.endswith("after\n")
    assert f"`python benchmarks/traffic.py {sizes}`" in text
    assert "In 12 of 12 trainings the plain bytes and calls of every phase equal the formula" in text
    assert text.count("2 of 2 trees stay within theirs") == 2
    for title in ("The paper's table by formula", "Measured: trees", "Leaf-wise: 1,500 x 240", "2 virtual machines on"):
        assert f"\n## {title}" in text
