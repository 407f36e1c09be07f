"""Spark Connect: the client has no Spark of its own, only a connection to a server."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("grpc")

import pvtree
from page_lines import run_program
from spark_rows import make_rows

pytestmark = pytest.mark.spark
PROGRAM = Path(__file__).with_name("connect_program.py")


@pytest.mark.timeout(300)
def test_fit_and_transform_over_spark_connect(tmp_path):
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java, which is not installed.")
    support = PROGRAM.parents[1] / "support"
    paths = os.pathsep.join(filter(None, [str(support), os.environ.get("PYTHONPATH")]))
    environment = {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": paths}
    told = json.loads(run_program(PROGRAM, tmp_path, **environment).splitlines()[-1])
    X, signal = make_rows()
    serial = pvtree.GBDTRegressor(**told["params"]).fit(X, signal)
    assert told["is_remote"]
    assert told["prediction"] == pytest.approx(serial.predict(X).tolist())
    assert told["error"].startswith("InvalidDataError: y ")
