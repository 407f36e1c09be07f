"""Ray Train and Tune: workers are joined, forgetting it is an error, and reports reach Ray."""

from __future__ import annotations

import time

import numpy as np
import pytest

pytest.importorskip("ray.train")

import ray
from ray.train import FailureConfig, RunConfig, ScalingConfig

import pvtree
import pvtree.ray
from accidents import Kill, last_victim
from page_lines import ROOT, first_lines, run_program
from pvtree.errors import InvalidDataError, InvalidParameterError

pytestmark = pytest.mark.ray
SMALL = {"n_estimators": 4, "num_leaves": 7, "min_child_samples": 5, "random_state": 3}
TWO = ScalingConfig(num_workers=2)


def make_rows():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(300, 4))
    return X, X.sum(axis=1) + rng.normal(size=300)


def own_rows():
    """This worker's share of the training rows."""
    X, y = make_rows()
    context = ray.train.get_context()
    own = slice(*(len(y) * (context.get_world_rank() + add) // context.get_world_size() for add in (0, 1)))
    return X[own], y[own]


def loop(config):
    """A training that goes on where an earlier attempt ended, and may be killed."""
    X, y = own_rows()
    with pvtree.ray.checkpoint_folder() as folder:
        callbacks = [pvtree.ray.report(folder=folder), *config.pop("callbacks", ())]
        regressor = pvtree.GBDTRegressor(**SMALL | config).fit(
            X, y, eval_set=[(X[:50], y[:50])], comm=pvtree.ray.get_comm(), checkpoint=folder, checkpoint_freq=1,
            callbacks=callbacks,
        )  # fmt: skip
    pvtree.ray.report_model(regressor)


@pytest.mark.timeout(300)
def test_reports_and_models_reach_ray_and_a_killed_worker_costs_no_tree(cluster, tmp_path):
    run = RunConfig(storage_path=str(tmp_path / "runs"), failure_config=FailureConfig(max_failures=1))
    kill = Kill(tmp_path, [2])
    result = pvtree.ray.PvtreeTrainer(
        loop, train_loop_config={"callbacks": [kill]}, scaling_config=TWO, run_config=run
    ).fit()
    assert last_victim(tmp_path)
    X, y = make_rows()
    serial = pvtree.GBDTRegressor(**SMALL).fit(X, y)
    loaded = pvtree.ray.load(result.checkpoint)
    assert loaded.model_.to_json() == serial.model_.to_json()
    assert result.metrics["iteration"] == 4 and result.metrics["valid_0-l2"] > 0
    # All iterations were reported, and the killed one was not trained twice: its checkpoint was saved before.
    assert [each["iteration"] for each in result.metrics_dataframe.to_dict("records")][-3:] == [3, 4, 4]
    with pytest.raises(InvalidDataError, match="has no model"):
        pvtree.ray.load(ray.train.Checkpoint(str(tmp_path)))


@pytest.mark.timeout(300)
def test_a_loop_that_forgets_the_others_gets_an_error(cluster, tmp_path):
    def forgets():
        X, y = own_rows()
        pvtree.GBDTRegressor(**SMALL).fit(X, y)

    run = RunConfig(storage_path=str(tmp_path))
    with pytest.raises(ray.train.TrainingFailedError) as caught:
        pvtree.ray.PvtreeTrainer(forgets, scaling_config=TWO, run_config=run).fit()
    assert "runs on 2 workers, but the training got no comm" in str(caught.value)
    assert "comm=pvtree.ray.get_comm()" in str(caught.value)
    with pytest.raises(InvalidParameterError, match="where no workers are joined"):
        pvtree.ray.get_comm()


@pytest.mark.timeout(300)
def test_a_lost_worker_is_named_in_the_error_of_the_run(cluster, tmp_path):
    with pytest.raises(ray.train.TrainingFailedError) as caught:
        pvtree.ray.PvtreeTrainer(
            loop,
            train_loop_config={"callbacks": [Kill(tmp_path, [2])]},
            scaling_config=TWO,
            run_config=RunConfig(storage_path=str(tmp_path / "runs")),
        ).fit()
    victim = last_victim(tmp_path)
    assert time.time() - victim.stat().st_mtime < 20  # Ray Train polls its workers
    assert victim.name.split()[0] in str(caught.value)


@pytest.mark.timeout(300)
def test_the_example_and_the_first_lines_of_the_page_run(tmp_path):
    """The example gives Datasets to Ray Train, and lets Tune choose a learning rate by what its workers report."""
    environment = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ADDRESS": "local"}  # not the cluster of the other tests
    printed = run_program(ROOT / "examples" / "ray_training.py", tmp_path, **environment)
    assert "accuracy: 0.9" in printed and "best learning rate: 0.3" in printed
    run_program(first_lines("Ray"), tmp_path, **environment)
    assert pvtree.load(tmp_path / "model.json").n_features_in_ == 5
