"""Kernels compile where neither the package's folder nor the home can be written to, and trust no planted folder."""

import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from pvtree.kernels import cache_folder

pytestmark = pytest.mark.skipif(os.name == "nt", reason="permissions of POSIX")

# Permissions do not bind root, but no folder can be made below a file.
PROGRAM = """
import sys
from pathlib import Path

import numpy as np
from pvtree.kernels import cache_folder
from pvtree.kernels.hashing import unit_interval as kernel

cache_folder._usual_places = lambda: [Path(__file__) / "below"]
if not sys.argv[1]:
    cache_folder.private_folder = lambda: None
print(kernel(np.uint64(2**63)) == 0.5, sum(kernel._cache_hits.values()))
"""


@pytest.fixture(autouse=True)
def forgotten():
    cache_folder.private_folder.cache_clear()
    yield
    cache_folder.private_folder.cache_clear()


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """Where temporary folders are made: sticky, as the system's is."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    folder.chmod(0o1777)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def run(tmp_path, temporary, allowed):
    (tmp_path / "program.py").write_text(PROGRAM)
    environment = os.environ | {"TMPDIR": str(temporary)}
    done = subprocess.run(
        [sys.executable, "program.py", str(allowed)],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.split(), done.stderr.splitlines()


def test_kernels_are_cached_in_a_private_folder(tmp_path, temporary):
    answer, said = run(tmp_path, temporary, temporary)
    (folder,) = temporary.iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert answer == ["True", "0"] and len(said) == 1
    assert f"keeping them in {folder}, because neither the package's folder nor the home folder is writable" in said[0]
    assert run(tmp_path, temporary, temporary) == (["True", "1"], [])


def test_without_any_folder_kernels_are_compiled_in_every_process(tmp_path, temporary):
    answer, (said,) = run(tmp_path, temporary, "")
    assert answer == ["True", "0"]
    assert "compiling kernels for this machine, in every process, because no folder is writable and private" in said


def test_the_folder_is_private_and_found_again(temporary):
    folder = cache_folder.private_folder()
    assert Path(folder).parent == temporary and stat.S_IMODE(os.lstat(folder).st_mode) == 0o700
    cache_folder.private_folder.cache_clear()
    assert cache_folder.private_folder() == folder


@pytest.mark.parametrize("planted", ["link", "file", "open to others", "of another user"])
def test_a_planted_folder_is_not_used(temporary, tmp_path, monkeypatch, planted):
    path = temporary / f"pvtree-kernels-{os.geteuid()}"
    if planted == "link":
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        path.symlink_to(tmp_path / "elsewhere")
    elif planted == "file":
        path.touch(0o700)
    elif planted == "open to others":
        path.mkdir()
        path.chmod(0o777)
    else:
        path.mkdir(mode=0o700)
        other, real = os.geteuid() + 1, os.lstat
        monkeypatch.setattr(os, "lstat", lambda name: os.stat_result([*real(name)[:4], other, *real(name)[5:10]]))
    assert cache_folder.private_folder() is None


@pytest.mark.parametrize(("mode", "is_safe"), [(0o1777, True), (0o700, True), (0o777, False), (0o770, False)])
def test_a_folder_whose_names_others_may_change_is_not_used(temporary, mode, is_safe):
    temporary.chmod(mode)
    assert (cache_folder.private_folder() is not None) == is_safe


def test_no_temporary_folder_at_all(temporary):
    temporary.rmdir()
    assert cache_folder.private_folder() is None


def test_folders_that_cannot_be_written_to_are_still_read(tmp_path, monkeypatch):
    below_file, writable, shipped = tmp_path / "file", tmp_path / "writable", tmp_path / "shipped"
    below_file.touch()
    monkeypatch.setattr(cache_folder, "_usual_places", lambda: [below_file, writable])
    monkeypatch.setattr(cache_folder, "SHIPPED", shipped)
    monkeypatch.setattr(cache_folder, "of_baselines", lambda: ["baseline"])
    new, to_read, why = cache_folder.folders.__wrapped__()
    name = cache_folder.of_this_machine()
    assert new == writable / name and not why
    assert to_read == [below_file / name, writable / name, shipped / "baseline"]


def test_folders_of_other_versions_are_removed_after_a_while(tmp_path):
    names = [f"{i:020x}" for i in range(cache_folder.N_KEPT + 3)]
    for age, name in enumerate(names):
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (1000 - age, 1000 - age))
    (tmp_path / "something else").mkdir()
    cache_folder._remove_old(tmp_path / names[-1])
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {*names[: cache_folder.N_KEPT], names[-1], "something else"}
