"""Files appear at once, with the right permissions, and nothing that was planted beside them is followed."""

import os
import stat

import pytest

from pvtree.model import atomic_file
from pvtree.model.atomic_file import leftovers, replacing, write_at_once

pytestmark = pytest.mark.skipif(os.name == "nt", reason="permissions of POSIX")


@pytest.fixture(params=[0o022, 0o027, 0o077], ids=oct)
def umask(request):
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def mode_of(path):
    return stat.S_IMODE(os.stat(path).st_mode)


def test_a_new_file_follows_umask(tmp_path, umask):
    write_at_once(str(tmp_path / "new"), b"1")
    assert mode_of(tmp_path / "new") == 0o666 & ~umask


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444, 0o666], ids=oct)
def test_a_file_keeps_its_permissions(tmp_path, umask, mode):
    path = tmp_path / "old"
    path.write_bytes(b"old")
    path.chmod(mode)
    with replacing(path) as file:
        (temporary,) = leftovers(str(path), ".tmp")
        assert mode_of(temporary) == mode  # while it is written, too
        file.write(b"new")
    assert path.read_bytes() == b"new"
    assert mode_of(path) == mode
    assert os.listdir(tmp_path) == ["old"]


def test_a_private_file_is_private_from_its_first_moment(tmp_path, monkeypatch):
    """Whoever opens a file before its permissions are right could read all that is written to it later."""
    path = tmp_path / "old"
    path.write_bytes(b"")
    path.chmod(0o600)
    monkeypatch.setattr(os, "fchmod", lambda handle, mode: None)
    write_at_once(str(path), b"new")
    assert mode_of(path) == 0o600


def test_a_planted_link_is_not_followed(tmp_path, monkeypatch):
    victim, path = tmp_path / "victim", tmp_path / "file"
    victim.write_bytes(b"precious")
    monkeypatch.setattr(atomic_file.secrets, "token_hex", lambda n: "0" * 2 * n)
    os.symlink(victim, f"{path}.{'0' * 16}.tmp")
    with pytest.raises(FileExistsError):
        write_at_once(str(path), b"new")
    assert victim.read_bytes() == b"precious"
    assert not path.exists()


def test_leftovers_are_found_beside_what_a_link_points_to(tmp_path):
    (tmp_path / "real").mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "real" / "file")
    names = [f"file.{'a' * 16}.tmp", f"file.{'a' * 15}.tmp", f"file.{'a' * 16}.partial", f"other.{'a' * 16}.tmp"]
    for name in names:
        (tmp_path / "real" / name).touch()
    assert leftovers(str(link), ".tmp") == [str(tmp_path / "real" / names[0])]
