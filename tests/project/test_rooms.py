"""The order of the rooms: the contract of ``make lint`` fails when one import is turned around, and names it."""

import importlib
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytest.importorskip("importlinter")


def lint(root: Path) -> subprocess.CompletedProcess:
    command = "import sys; sys.path.insert(0, 'src'); from importlinter.cli import lint_imports_command as lint; lint()"
    return subprocess.run([sys.executable, "-c", command, "--no-cache"], cwd=root, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("room", "above", "line"),
    [
        ("kernels/constants.py", "pvtree.comm", "from pvtree.comm import base"),
        ("growing/grower.py", "pvtree.find_split", "def late():\n    from pvtree.find_split import voting"),
    ],
)
def test_an_import_from_a_later_room_is_named(room, above, line, tmp_path):
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    module = tmp_path / "src" / "pvtree" / room
    module.write_text(f"{module.read_text()}\n\n{line}\n")
    linted = lint(tmp_path)
    below = "pvtree." + room.partition("/")[0]
    assert linted.returncode == 1
    assert f"{below} is not allowed to import {above}" in linted.stdout


def test_the_rooms_are_in_order():
    assert lint(ROOT).returncode == 0


def test_the_listing_stays_short():
    shown = [path.name for path in (ROOT / "src" / "pvtree").iterdir() if path.name != "__pycache__"]
    assert len(shown) <= 18, sorted(shown)


def test_public_paths_are_names_of_the_same_modules(monkeypatch):
    import pvtree.planning.theory
    import pvtree.theory
    from pvtree.theory import Estimate

    assert pvtree.theory is sys.modules["pvtree.theory"] is sys.modules["pvtree.planning.theory"]
    assert pvtree.theory.__spec__.name == "pvtree.planning.theory"
    assert Estimate is pvtree.planning.theory.Estimate
    assert pickle.loads(pickle.dumps(Estimate)) is Estimate
    # What lies below a public path is not loaded a second time either.
    monkeypatch.setitem(pvtree._PUBLIC_PATHS, "pvtree.thinking", "pvtree.planning")
    below = importlib.import_module("pvtree.thinking.formulas")
    assert below is importlib.import_module("pvtree.planning.formulas")
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("pvtree.thinking.nothing")
