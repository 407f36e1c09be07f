"""Spark: executors are killed in the middle of trainings, each is named, and the fits that follow resume."""

from __future__ import annotations

import os
import re
import time

import pytest

pytest.importorskip("pyspark")

import pvtree
from accidents import Kill, executor, last_victim, partition
from pvtree import spark as pvtree_spark
from pvtree.errors import PeerFailedError
from pvtree.training.checkpoint_file import Checkpoint
from spark_rows import as_frame, make_rows

pytestmark = pytest.mark.spark
SMALL = {"num_leaves": 7, "min_child_samples": 5, "random_state": 3}
N_KILLS = int(os.environ.get("PVTREE_KILLS", 2))
ENDS_WITHIN = 10.0  # seconds, after an executor was lost


@pytest.mark.timeout(1200)
def test_a_killed_executor_is_named_and_the_training_resumes(spark_that_gives_up, tmp_path):
    X, signal = make_rows()
    trees = {"n_estimators": N_KILLS + 4}
    serial = pvtree.GBDTRegressor(**SMALL, **trees).fit(X, signal).model_.to_json()
    kill = Kill(tmp_path, list(range(2, 2 + N_KILLS)), executor, partition)
    estimator = pvtree_spark.GBDTRegressor(
        **SMALL, **trees, tree_learner="exact_voting", num_workers=3,
        checkpoint=str(tmp_path / "kept"), checkpoint_freq=1, callbacks=[kill],
    )  # fmt: skip
    frame = as_frame(spark_that_gives_up, X, 3, label=signal)
    for number in range(N_KILLS):
        with pytest.raises(PeerFailedError) as caught:
            estimator.fit(frame)
        victim = last_victim(tmp_path)
        assert time.time() - victim.stat().st_mtime < ENDS_WITHIN
        assert re.search(rf"worker {victim.name.split()[0]} of 3", str(caught.value)), caught.value
        assert Checkpoint(tmp_path / "kept").load().model.n_iterations >= 2 + number
    assert estimator.fit(frame).model_.to_json() == serial
