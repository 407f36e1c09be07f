"""Spark with several executors, each in a process of its own, on this machine."""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

SUPPORT = Path(__file__).resolve().parents[1] / "support"


@contextmanager
def open_spark(folder, executors="2,2,1024", **config):
    """A session on a cluster of executors: how many, the cores and the MB of each."""
    import pyspark
    from pyspark.sql import SparkSession

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        home = Path(pyspark.__file__).parent
        patch.setenv("SPARK_HOME", str(home))
        settings = {
            "spark.ui.enabled": "false",
            "spark.local.dir": str(folder),
            "spark.sql.shuffle.partitions": "2",
            "spark.default.parallelism": "2",
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            # A killed executor comes back in a moment; do not wait longer before tasks are counted again.
            "spark.scheduler.barrier.maxConcurrentTasksCheck.interval": "1s",
            # What tests send to executors is imported there.
            "spark.executorEnv.PYTHONPATH": os.pathsep.join(filter(None, [str(SUPPORT), os.environ.get("PYTHONPATH")])),
            **config,
        }
        session = SparkSession.builder.master(f"local-cluster[{executors}]").config(map=settings).getOrCreate()
        session.sparkContext.setLogLevel("ERROR")
        logs = home / "work" / session.sparkContext.applicationId
        yield session
        session.stop()
        shutil.rmtree(logs, ignore_errors=True)
        with suppress(OSError):  # others may use it
            logs.parent.rmdir()


def need_java():
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java, which is not installed.")


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    need_java()
    with open_spark(tmp_path_factory.mktemp("spark")) as session:
        yield session


@pytest.fixture(scope="module")
def spark_that_gives_up(tmp_path_factory):
    """A session that tries a stage once, so that the loss of an executor is an error at the driver."""
    need_java()
    tries = {"spark.stage.maxConsecutiveAttempts": "1", "spark.deploy.maxExecutorRetries": "-1"}
    with open_spark(tmp_path_factory.mktemp("spark"), "3,1,1024", **tries) as session:
        yield session
