"""The examples, the README's code and the demo run as a reader would run them, and learn something."""

import os
import re
import runpy
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from absent import without_pandas
from pvtree.front import demo
from thoroughness import IS_THOROUGH

ROOT = Path(__file__).resolve().parents[2]
ELSEWHERE = {"ray_training", "spark_training"}  # run by the tests of these engines
EXAMPLES = sorted(path for path in (ROOT / "examples").glob("*.py") if path.stem not in ELSEWHERE)
pytestmark = pytest.mark.docs

# What each example prints, and the least value of the figure in it.
LEAST = {
    "classification": (r"AUC ([\d.]+)", 0.97),
    "regression": (r"test R2 ([\d.]+)", 0.1),
    "ranking": (r"ndcg@10 .* ([\d.]+) after the last", 0.93),
    "workers": (r"AUC ([\d.]+)", 0.88),
    "dask_training": (r"AUC ([\d.]+)", 0.9),
    "mpi_training": (r"4 ranks, AUC ([\d.]+)", 0.9),
}
# How those are started that use several processes, which run the file as well.
MPIEXEC = shutil.which("mpiexec", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
STARTED = {"dask_training": [sys.executable], "mpi_training": [MPIEXEC, "-n", "4", sys.executable]}


ENGINES = {"dask_training": [pytest.mark.dask], "mpi_training": [pytest.mark.mpi]}


@pytest.mark.parametrize(
    "path", [pytest.param(path, marks=ENGINES.get(path.stem, []), id=path.stem) for path in EXAMPLES]
)
def test_example_learns(path, capsys):
    if path.stem in STARTED:
        command = [*STARTED[path.stem], str(path)]
        printed = subprocess.run(command, check=True, timeout=280, stdout=subprocess.PIPE, text=True).stdout
    else:
        runpy.run_path(str(path), run_name="__main__")
        printed = capsys.readouterr().out
    pattern, least = LEAST[path.stem]
    found = re.search(pattern, printed)
    assert found, printed
    assert float(found[1]) >= least
    if path.stem == "classification":
        assert "predicts the same as the estimator: True" in printed


@pytest.mark.mpi
def test_mpi_example_runs_without_mpiexec():
    command = [sys.executable, str(ROOT / "examples" / "mpi_training.py")]
    printed = subprocess.run(command, check=True, timeout=120, stdout=subprocess.PIPE, text=True).stdout
    assert re.search(r"1 ranks, AUC 0\.9", printed), printed


def test_every_example_has_its_figure():
    assert {path.stem for path in EXAMPLES} == set(LEAST)


def test_readme_code_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    without_pandas(monkeypatch)  # README's pip command does not install it
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, "README.md", "exec"), {})
    printed = capsys.readouterr().out
    assert float(re.search(r"accuracy ([\d.]+)", printed)[1]) > 0.9
    assert "\nTrue\n" in printed


def test_demo_prints_a_line_for_every_model(capsys, monkeypatch):
    if not IS_THOROUGH:
        few = partial(demo.compare_strategies, n_rows=2_000, n_features=60, n_trees=4, top_k=5)
        monkeypatch.setattr(demo, "compare_strategies", few)
    wine = next(data for data in demo.DATA_SETS if data.name == "wine")
    demo.main([wine])
    printed = capsys.readouterr().out
    scores = re.findall(r"^wine +(\w+) +accuracy +([\d.]+) +([\d.]+)", printed, re.MULTILINE)
    assert [model for model, _, _ in scores] == ["GBDT", "forest", "tree"]
    for _, own, other in scores:
        assert abs(float(own) - float(other)) < 0.08
    same = re.findall(r"^(\w+) +[14] +0\.\d{4} .* (yes|no)$", printed, re.MULTILINE)
    assert [name for name, _ in same] == list(demo.STRATEGIES)
    assert {name for name, is_same in same if is_same == "yes"} >= {"serial", "attribute", "data", "exact_voting"}
    assert "Try next" in printed


def test_demo_names_files_that_exist(capsys):
    for name in re.findall(r"examples/\w+\.py", demo.NEXT):
        assert (ROOT / name).exists()
