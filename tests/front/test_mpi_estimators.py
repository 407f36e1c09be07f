"""Estimators under mpiexec: every rank gets the model of one process, and no script hangs after a failure."""

from __future__ import annotations

import json
import re
import sys
import warnings
from functools import cache
from pathlib import Path

import pytest

pytest.importorskip("mpi4py")
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "comm"))

from mpi_estimators import N_FAILING, OF_PARTITION, SIZES, make_cases, outcome, schedules
from mpi_jobs import outputs, run_to_end, started, wait_for_all_to_end, wait_until

pytestmark = pytest.mark.mpi


class Interrupted(Exception):
    pass


def interrupt(env):
    if env.iteration == 6:
        raise Interrupted


@cache
def cases():
    return make_cases()


@pytest.fixture(autouse=True, scope="module")
def kernels():
    """Compile the kernels once, so that the ranks find them in the cache."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in cases().values():
            case.fit(options={"n_workers": 2})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What five ranks made, of which the first one and two were on their own before."""
    folder = tmp_path_factory.mktemp("fits")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for size in SIZES:
            options = {"n_estimators": 8, "n_workers": 3}
            kept = folder / f"checkpoint of {size}"
            with pytest.raises(Interrupted):
                cases()["values"].fit(options=options, callbacks=[interrupt], checkpoint=kept, checkpoint_freq=3)
    code, printed = run_to_end(max(SIZES), "estimators", "fits", folder, timeout=270)
    assert code == 0, printed
    return folder


def expected(name, size):
    """The estimator fitted in this process, and how often its callback was called."""
    values, calls = cases()["values"], []
    if name in OF_PARTITION:
        return values.fit(learner=name, options={"n_workers": size}), 0
    if name == "restart":
        return values.fit(learner="serial", options={"n_estimators": 8}), 0
    counted = [lambda env: calls.append(env.iteration), *schedules(name)]
    return cases()[name].fit(learner="serial", callbacks=counted), len(calls)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", [*make_cases(), *OF_PARTITION, "restart"])
@pytest.mark.filterwarnings("ignore")
def test_every_rank_has_the_model_of_one_process(name, size, folder):
    """The model is that of one process, or of virtual workers with the same rows; only worker 0 calls the callback."""
    whole, n_calls = expected(name, size)
    for rank in range(size):
        made = json.loads((folder / f"{name} {size} {rank}.json").read_text())
        assert made == json.loads(json.dumps(outcome(whole, n_calls if rank == 0 else 0))), rank


def test_the_cases_are_worth_their_time():
    """Early stopping comes early, and models that depend on how rows are spread are not those of one process."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert 0 < expected("stopping", 1)[0].best_iteration_ < 28
        models = {expected(name, 5)[0].model_.to_json() for name in (*OF_PARTITION, "values")}
        assert len(models) == len(OF_PARTITION) + 1
        for name, its, without in (
            ("linear", "values", {}),
            ("forced", "values", {}),
            ("dart of zeros", "dart of zeros", {"boosting_type": "gbdt"}),
            ("dart of zeros", "dart of zeros", {"zero_as_missing": False}),
            ("positions", "ranking", {}),
        ):
            assert cases()[its].fit(options=without).model_.trees != cases()[name].fit().model_.trees


# What goes wrong in a script


def run_failing(how, folder, *, n_ranks=3):
    """The exit code, and what was printed by a job that ends soon after it has gone wrong."""
    with started(n_ranks, "estimators", "failing", folder, how) as process:
        wait_until(lambda: (folder / "now").exists() or process.poll() is not None, 150, "nothing goes wrong")
        code = wait_for_all_to_end(process, folder)
    return code, outputs(folder)


def test_an_exception_in_one_rank_ends_all(tmp_path):
    code, printed = run_failing("raises", tmp_path)
    assert code != 0
    assert "\nZeroDivisionError: on rank 1 only\n" in printed
    assert re.findall(r"Worker (\d) of 3, on \S+, has failed and ends all others \((\w+)", printed) == [
        ("1", "ZeroDivisionError")
    ]
    told = [(tmp_path / f"{rank}.sentence").read_text() for rank in range(3)]  # of what went before and was handled
    assert len(set(told)) == 1
    assert re.search(r"y contains NaN.*\(This is about the data of worker 1\.\)", told[0])


@pytest.mark.parametrize("how", ["stopped", "stopped, handled"])
def test_a_stopped_rank_is_named_and_ends_all(how, tmp_path):
    code, printed = run_failing(how, tmp_path)
    assert code != 0
    assert re.search(
        r"WorkerTimeoutError: Worker \d waited 2 s for worker 2 of 3 at .* \(process \d+ on \S+\)", printed
    )
    assert ("\nhandled" in "\n" + printed) == (how != "stopped")


def test_a_script_that_handles_a_late_rank_may_go_on(folder):
    """And ends with 0, which the fixture has seen."""
    assert outputs(folder).count("handled") == outputs(folder).count("all is well") == N_FAILING


def test_wrong_input_on_one_rank_ends_all(tmp_path):
    code, printed = run_failing("wrong", tmp_path, n_ranks=2)
    assert code != 0
    assert re.search(r"InvalidDataError: y contains NaN.*\(This is about the data of worker 1\.\)", printed)
