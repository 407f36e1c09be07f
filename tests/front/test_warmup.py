"""Kernels are compiled ahead by trainings in several processes, each of which is run once."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from click.testing import CliRunner

from pvtree.errors import PvtreeError
from pvtree.front import warmup
from pvtree.front.cli import cli
from pvtree.kernels import cache_folder
from pvtree.kernels.cache_folder import Folders
from pvtree.kernels.slow_kernels import SLOW


@pytest.fixture
def ran(tmp_path, monkeypatch):
    """Lists the trainings that were run; threads write their names down instead of training in processes."""
    names, lines = [], []

    def pretend(name):
        names.append(name)
        if name == "forest":
            raise ValueError("no forest")

    monkeypatch.setattr(warmup, "folders", lambda: Folders(tmp_path, [tmp_path]))
    monkeypatch.setattr(warmup, "train", pretend)
    monkeypatch.setattr(warmup, "compile_line", lines.append)
    monkeypatch.setattr(warmup, "_processes", ThreadPoolExecutor)
    yield lambda: sorted(names)
    assert set(lines) <= set(warmup.lines_of(SLOW)) and set(lines) >= set(SLOW["serial"])


@pytest.mark.parametrize("n_processes", [1, 3])
def test_each_training_is_run_until_it_has_succeeded(ran, n_processes):
    names = ["boosting", "forest", "voting", "data"]
    assert warmup.compile_ahead(names, n_processes) == ["forest"]
    assert ran() == sorted(names)
    assert warmup.compile_ahead(names, n_processes) == ["forest"]
    assert ran() == sorted([*names, "forest"])


def test_the_command_says_where_kernels_are_and_what_failed(ran, monkeypatch, tmp_path):
    monkeypatch.setattr(cache_folder, "folders", lambda: Folders(tmp_path, [tmp_path]))
    answer = CliRunner().invoke(cli, ["warmup", "--jobs", "2"])
    assert answer.exit_code == 0 and str(tmp_path) in answer.output
    assert ran() == sorted(warmup.USUAL)
    answer = CliRunner().invoke(cli, ["warmup", "--all", "--jobs", "2"])
    assert isinstance(answer.exception, PvtreeError) and "forest" in str(answer.exception)
    assert set(ran()) == set(warmup.TRAININGS)


@pytest.mark.parametrize("name", warmup.TRAININGS)
def test_every_training_runs(name):
    warmup.TRAININGS[name]()
