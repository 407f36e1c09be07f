"""Parameters of several workers, what a fit tells about them afterwards, and how it ends when it is interrupted."""

from __future__ import annotations

import threading
import time
import warnings
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import pvtree
from estimator_samples import ALL, GBDTS, small
from pvtree.comm import Cluster, base
from pvtree.comm.traffic import PHASES
from pvtree.errors import InvalidParameterError, InvalidTypeError
from pvtree.growing.tree_memory import POOL_BYTES, TreeMemory
from pvtree.kernels.team import Team
from pvtree.parameters.params import Params, make_params
from pvtree.training import train as ensemble

pytestmark = pytest.mark.filterwarnings("ignore::pvtree.training.skew.SkewWarning")
LEARNERS = ["voting", "data", "quantized", "attribute"]
ROWS_APART = {"voting": {"ballots", "histograms"}, "data": {"histograms"}, "quantized": {"histograms"}}


def data(n_rows: int = 240, n_features: int = 6) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, n_features))
    return X, (X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * rng.normal(size=n_rows) > 0).astype(int)


def fit(estimator: Any, fit_arguments: dict[str, Any] | None = None, **params: Any) -> Any:
    X, y = data()
    more = {"group": [40] * 6} if estimator is pvtree.GBDTRanker else {}
    given = {"num_leaves": 7, "verbosity": 0, **params}
    return small(estimator, **given).fit(X, y, **more, **(fit_arguments or {}))


# What is accepted


@pytest.mark.parametrize("estimator", ALL)
def test_feature_is_another_word_for_attribute(estimator: Any) -> None:
    feature, attribute = (fit(estimator, tree_learner=name, n_workers=3) for name in ("feature", "attribute"))
    assert feature.tree_learner == "feature"  # what the user wrote stays
    assert feature.model_.to_json() == attribute.model_.to_json()
    assert feature.traffic_.by_phase["rows"].bytes == attribute.traffic_.by_phase["rows"].bytes > 0
    assert make_params({"tree_learner": "feature"}, 4).tree_learner == "attribute"


@pytest.mark.parametrize("name", ["Voting", "pv", "features", ""])
def test_other_words_are_refused(name: str) -> None:
    with pytest.raises(InvalidParameterError, match="'auto' or 'serial' or 'voting' or 'exact_voting' or 'data'"):
        fit(pvtree.GBDTClassifier, tree_learner=name)


@pytest.mark.parametrize("estimator", ALL)
@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("election_size", 0.99, InvalidParameterError),
        ("election_size", np.inf, InvalidParameterError),
        ("election_size", np.nan, InvalidParameterError),
        ("election_size", "2", InvalidTypeError),
        ("election_size", True, InvalidTypeError),
        ("quantized_bins", 0.0, InvalidParameterError),
        ("quantized_bins", 1.01, InvalidParameterError),
        ("quantized_bins", None, InvalidTypeError),
        ("top_k", 0, InvalidParameterError),
        ("top_k", 2.0, InvalidTypeError),
        ("n_workers", 0, InvalidParameterError),
        ("n_workers", 1025, InvalidParameterError),
        ("n_workers", "4", InvalidTypeError),
    ],
)
def test_values_out_of_range_are_refused_with_the_name(estimator: Any, name: str, value: Any, error: type) -> None:
    with pytest.raises(error, match=f"^{name} must be .*got .*"):
        fit(estimator, **{"tree_learner": "voting", "n_workers": 2, name: value})


@pytest.mark.parametrize(
    "params",
    [
        {"tree_learner": "voting", "election_size": 1},
        {"tree_learner": "voting", "election_size": 1e300, "top_k": 1},
        {"tree_learner": "voting", "election_size": 1.5, "top_k": 10**9},
        {"tree_learner": "quantized", "quantized_bins": 1},
        {"tree_learner": "quantized", "quantized_bins": 1e-9},
    ],
)
def test_the_ends_of_the_ranges_work(params: dict[str, Any]) -> None:
    assert fit(pvtree.GBDTClassifier, n_workers=3, **params).model_.trees[0].n_nodes > 1


def test_with_all_bins_quantized_is_data_parallel() -> None:
    quantized = fit(pvtree.GBDTClassifier, tree_learner="quantized", quantized_bins=1.0, n_workers=3)
    assert quantized.model_.to_json() == fit(pvtree.GBDTClassifier).model_.to_json()


@pytest.mark.parametrize("estimator", ALL)
def test_workers_that_do_nothing_are_told_once(estimator: Any) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = fit(estimator, tree_learner="serial", n_workers=3)
    (warning,) = caught
    assert warning.category is UserWarning
    assert str(warning.message).startswith("n_workers does nothing while tree_learner is 'serial'")
    assert warning.filename == __file__  # where fit was called
    assert model.traffic_.total_bytes == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(estimator, n_workers=1)
        fit(estimator, tree_learner="data", n_workers=3)


@pytest.mark.parametrize("estimator", ALL)
def test_workers_find_splits_by_exact_voting_unless_told_otherwise(estimator: Any) -> None:
    alone, shared = fit(estimator), fit(estimator, n_workers=3, top_k=1)
    assert alone.tree_learner == shared.tree_learner == "auto"
    assert alone.model_.to_json() == shared.model_.to_json()
    assert (alone.certificates_, len(shared.certificates_)) == (None, len(shared.model_.trees))
    assert shared.traffic_.total_bytes > 0 == alone.traffic_.total_bytes


# What a fit tells afterwards


def n_splits(tree: Any) -> int:
    return int((tree.feature >= 0).sum())


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("estimator", ALL)
def test_traffic_and_votes(estimator: Any, learner: str) -> None:
    """One feature is elected of at least two: there is a vote at every node of the trees."""
    fitted = fit(estimator, tree_learner=learner, n_workers=3, top_k=1, election_size=1.0)
    traffic, trees = fitted.traffic_, fitted.model_.trees
    assert tuple(traffic.by_phase) == PHASES
    assert traffic.total_bytes == sum(cost.bytes for cost in traffic.by_phase.values()) > 0
    assert 0 < traffic.bytes_per_tree * len(trees) * 3 < traffic.total_bytes
    used = {phase for phase, cost in traffic.by_phase.items() if cost.bytes}
    of_rows = {"rows"} if learner == "attribute" else ROWS_APART[learner]
    assert {"bins", "splits", *of_rows} <= used
    assert not ({"ballots", "histograms", "rows"} - of_rows) & used
    if learner != "voting":
        assert fitted.votes_ is None
        return
    assert len(fitted.votes_) == len(trees)
    for votes, tree in zip(fitted.votes_, trees, strict=True):
        assert votes.splits == n_splits(tree) > 0
        assert min(votes) >= 0
        assert 3 * votes.all + 2 * votes.half <= votes.named <= 3 * votes.all + 2 * votes.half + votes.fewer


@pytest.mark.parametrize("learner", ["serial", *LEARNERS])
@pytest.mark.parametrize("estimator", ALL)
def test_one_worker_sends_nothing(estimator: Any, learner: str) -> None:
    fitted = fit(estimator, tree_learner=learner, n_workers=1)
    assert (fitted.traffic_.total_bytes, fitted.traffic_.bytes_per_tree) == (0, 0)
    assert not fitted.votes_


def test_without_an_election_there_are_no_votes() -> None:
    """All six features fit into it, so nobody is asked."""
    fitted = fit(pvtree.GBDTClassifier, tree_learner="voting", n_workers=3, top_k=3)
    assert [sum(votes) for votes in fitted.votes_] == [0] * 5
    assert fitted.traffic_.by_phase["ballots"].bytes == 0
    assert fitted.model_.to_json() == fit(pvtree.GBDTClassifier).model_.to_json()


def test_votes_are_by_all_by_half_and_by_fewer() -> None:
    """Two workers see a strong feature, a third another one: three, two or one of three name the winner."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (300, 4)).astype(float)
    y = X[:, 1].copy()
    fitted = pvtree.DecisionTreeRegressor(tree_learner="voting", n_workers=3, top_k=1, election_size=1, num_leaves=2)
    assert fitted.fit(X, y).votes_ == [(1, 0, 0, 3)]
    y[200:] = X[200:, 2]
    assert fitted.fit(X, y).votes_ == [(0, 1, 0, 2)]
    y[100:200] = X[100:200, 3]
    assert fitted.fit(X, y).votes_ == [(0, 0, 1, 1)]


# Stopping early


@pytest.mark.parametrize("estimator", GBDTS)
def test_early_stopping_and_the_history_of_metrics_are_those_of_one_worker(estimator: Any) -> None:
    X, _ = data()
    noise = np.random.default_rng(1).integers(0, 2, len(X))  # nothing to learn: it stops soon
    evaluation: dict[str, Any] = {"eval_set": [(X, noise)], "eval_names": ["noise"]}
    if estimator is pvtree.GBDTRanker:
        evaluation["eval_group"] = [[40] * 6]
    params = {"n_estimators": 40, "early_stopping_rounds": 3}
    alone = fit(estimator, evaluation, **params)
    together = fit(estimator, evaluation, tree_learner="data", n_workers=3, **params)
    assert 0 < alone.best_iteration_ == together.best_iteration_ < 40
    assert len(together.model_.trees) == together.best_iteration_
    assert together.model_.to_json() == alone.model_.to_json()
    assert together.evals_result_ == alone.evals_result_ and together.best_score_ == alone.best_score_
    (history,) = together.evals_result_["noise"].values()
    assert len(history) >= together.best_iteration_ + 3


def test_callbacks_run_once_an_iteration_on_the_callers_thread() -> None:
    seen = []

    def note(env: Any) -> None:
        seen.append((env.iteration, threading.current_thread()))

    fit(pvtree.GBDTClassifier, {"callbacks": [note]}, tree_learner="data", n_workers=3)
    assert seen == [(i, threading.current_thread()) for i in range(5)]


# Ending otherwise


def pvtree_threads() -> list[str]:
    """Threads that are left over, once those that have only to end have ended."""
    deadline = time.monotonic() + 2.0
    while True:
        names = [thread.name for thread in threading.enumerate() if thread.name.startswith("pvtree")]
        if not names or time.monotonic() > deadline:
            return names
        time.sleep(0.01)


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_an_error_in_a_callback_ends_the_fit_and_all_threads(error: type[BaseException], learner: str) -> None:
    def stop(env: Any) -> None:
        if env.iteration == 2:
            raise error("enough")

    X, y = data()
    estimator = small(pvtree.GBDTClassifier, tree_learner=learner, n_workers=3, n_jobs=6, verbosity=0)
    with pytest.raises(error, match="enough"):
        estimator.fit(X, y, callbacks=[stop])
    assert pvtree_threads() == []
    assert not hasattr(estimator, "model_")
    assert len(estimator.fit(X, y).model_.trees) == 5  # and it can be used again
    assert pvtree_threads() == []


# Threads of each worker


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("name", ["GBDTClassifier", "RandomForestRegressor"])
def test_threads_are_shared_out_and_change_nothing(name: str, learner: str) -> None:
    X, y = data(600, 40)
    models = []
    for n_jobs, per_worker in [(1, 1), (3, 1), (7, 2)]:
        sizes = []

        def make_team(n_threads: int, sizes: list[int] = sizes) -> Team:
            sizes.append(n_threads)
            return Team(n_threads)

        estimator = small(
            getattr(pvtree, name), tree_learner=learner, n_workers=3, n_jobs=n_jobs, top_k=2, num_leaves=7, verbosity=0
        )
        with patch.object(base, "Team", make_team):
            models.append(estimator.fit(X, y).model_.to_json())
        assert sizes == [per_worker] * 3
    assert models[0] == models[1] == models[2]


def test_workers_of_one_machine_share_its_room_for_histograms(monkeypatch) -> None:
    asked = []
    make_pools = TreeMemory.make_pools
    monkeypatch.setattr(TreeMemory, "make_pools", lambda self, *room: asked.append(room[1]) or make_pools(self, *room))
    X, y = data(300, 10)
    params = Params(objective="regression", tree_learner="voting", top_k=2, n_workers=2, n_estimators=1, num_leaves=4)
    ensemble.train(X, y, params)
    ensemble.train(X, y, params, cluster=Cluster())
    assert asked == [POOL_BYTES // 2] * 2 + [POOL_BYTES] * 2


def test_predictions_need_no_workers() -> None:
    X, _ = data()
    fitted = fit(pvtree.GBDTClassifier, tree_learner="data", n_workers=3)
    assert_array_equal(fitted.predict_proba(X), fit(pvtree.GBDTClassifier).predict_proba(X))
    assert pvtree_threads() == []
