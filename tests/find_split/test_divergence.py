"""Workers that part company notice it, all of them and within a second; an error of one ends the others."""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import pvtree
from pvtree.binning.shard import split_by_columns
from pvtree.comm import Communicator, local
from pvtree.errors import CommunicationError, DivergedError
from pvtree.find_split import voting
from pvtree.find_split.exchange import Exchange
from pvtree.growing.frontier import Frontier
from pvtree.growing.frontier_records import Elected
from pvtree.reading.training_rows import TrainingRows
from pvtree.training.options import TrainOptions
from pvtree.training.train import TrainResult, train_worker
from small_data import categories_of
from strategy_cases import CASES, LEARNERS, Case, make_rows, split_at

pytestmark = pytest.mark.filterwarnings("ignore::pvtree.training.skew.SkewWarning")


@dataclass
class Outcome:
    errors: list[BaseException | None]  # by worker
    raised: BaseException | None
    seconds: float


class Here(threading.local):
    rank = -1


HERE = Here()  # which worker the present thread is


def run_all(case: Case, learner: str, n_workers: int) -> Outcome:
    rows = make_rows(case)
    params = replace(case.settled(), tree_learner=learner, n_workers=n_workers, top_k=1)
    parts = split_at(rows, [m * case.n_rows // n_workers for m in range(n_workers + 1)])
    if learner == "attribute":
        parts = split_by_columns(TrainingRows(rows.X, rows.y, rows.weight, rows.group), n_workers)
    options = TrainOptions(params, categories_of(case.kinds))
    errors: list[BaseException | None] = [None] * n_workers

    def work(comm: Communicator) -> TrainResult:
        HERE.rank = comm.rank
        try:
            return train_worker(parts[comm.rank], options, comm)
        except BaseException as error:
            errors[comm.rank] = error
            raise

    raised = None
    began = time.perf_counter()
    try:
        local.run(work, n_workers)
    except Exception as error:
        raised = error
    return Outcome(errors, raised, time.perf_counter() - began)


def assert_all_noticed(outcome: Outcome) -> None:
    assert isinstance(outcome.raised, DivergedError)
    for error in outcome.errors:
        # Who is told by another worker names its error as the cause.
        assert isinstance(error, CommunicationError)
        assert isinstance(error, DivergedError) or isinstance(error.__cause__, DivergedError)
    assert outcome.seconds < 1.0


# Nothing is exchanged after this one: only the check at the end is left.
ONE_SPLIT = Case("binary", {"n_estimators": 1, "max_depth": 1})


@pytest.mark.parametrize("case", [CASES["binary"], ONE_SPLIT], ids=["training", "single split"])
@pytest.mark.parametrize("broken", [0, 1, 3])
def test_a_wrong_election_is_noticed_by_all(case: Case, broken: int) -> None:
    assert run_all(case, "voting", 4).raised is None  # compiles what is needed, too
    elect = voting.elect

    def elect_wrongly(ballots: np.ndarray, n_elected: int, frontier: Frontier) -> Elected:
        elected = elect(ballots, n_elected, frontier)
        if HERE.rank == broken and len(elected.feature):
            others = np.setdiff1d(np.arange(frontier.n_features), elected.feature[: elected.start[1]])
            first = np.sort(np.append(elected.feature[1 : elected.start[1]], others[0]))
            elected.feature[: elected.start[1]] = first
        return elected

    with patch.object(voting, "elect", elect_wrongly):
        assert_all_noticed(run_all(case, "voting", 4))


@pytest.mark.parametrize("case", [CASES["binary"], ONE_SPLIT], ids=["training", "single split"])
@pytest.mark.parametrize("learner", LEARNERS)
def test_a_wrong_split_is_noticed_by_all(case: Case, learner: str) -> None:
    """One worker hears other gains than were said: even after the very last split somebody looks."""
    assert run_all(case, learner, 3).raised is None
    choose = Exchange.choose

    def hear_wrongly(self: Exchange, records: np.ndarray, *arguments: Any) -> np.ndarray:
        chosen = choose(self, records, *arguments)
        if HERE.rank == 1 and len(chosen):
            chosen["gain"][0] = -np.inf
        return chosen

    with patch.object(Exchange, "choose", hear_wrongly):
        assert_all_noticed(run_all(case, learner, 3))


@pytest.mark.parametrize("learner", ["data", "voting", "quantized"])
def test_an_error_in_an_objective_ends_the_fit_with_the_workers_rank(learner: str) -> None:
    def choosy(y: np.ndarray, score: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if y.max() == 7.0:
            raise ArithmeticError("seven is too much")
        return score - y, np.ones(len(y))

    X, y = np.arange(90.0)[:, None] % 13, np.arange(90) % 5
    y[70] = 7  # a row of the third worker
    estimator = pvtree.GBDTRegressor(objective=choosy, tree_learner=learner, n_workers=4, n_estimators=3, verbosity=0)
    with pytest.raises(ArithmeticError, match="seven is too much") as caught:
        estimator.fit(X, y)
    assert caught.value.rank == 3  # type: ignore[attr-defined]
    assert any("worker 3 of 4" in note for note in caught.value.__notes__)
    assert not hasattr(estimator, "model_")
    y[70] = 0
    estimator.fit(X, y)
    assert math.isfinite(estimator.predict(X).sum())
