"""Kernels are compiled with those that they call, kept in files, and loaded only if they are the right ones."""

import numpy as np
import pytest
from numba.core import codegen

from pvtree.kernels import jit, kernel_files, stamp
from pvtree.kernels.cache_folder import Folders
from pvtree.kernels.jit import njit, shared


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The only folder for kernels."""
    for module in (jit, kernel_files):
        monkeypatch.setattr(module, "folders", lambda: Folders(tmp_path, [tmp_path]))
    return tmp_path


def make(factor=2, wrap=njit):
    """An outer kernel and the inner one that it calls, never compiled in this process."""

    @wrap
    def inner(x):
        return x * factor

    @njit
    def outer(x):
        return inner(x) + 1

    return outer, inner


def hits(kernel):
    return sum(kernel._cache_hits.values())


def names(folder, suffix):
    return sorted(path.name.split("-")[0] for path in folder.glob(f"*.{suffix}"))


def test_what_is_called_is_a_part_of_its_caller(folder):
    outer, inner = make()
    assert outer(3) == 7
    assert names(folder, "kernel") == ["outer"] and names(folder, "inner") == []
    assert inner(3) == 6 and inner(1.5) == 3.0  # Python may call it all the same
    assert names(folder, "kernel") == ["inner", "inner", "outer"]
    assert outer(3) == 7


def test_a_kernel_is_loaded_without_those_that_it_calls(folder):
    make()[0](3)
    outer, inner = make()
    assert outer(3) == 7 and hits(outer) == 1 and not inner.overloads

    @njit
    def outermost(x):
        return outer(x) * 10

    assert outermost(3) == 70  # a loaded kernel cannot be linked, so it is compiled again for its caller
    assert outer(3) == 7


def test_a_shared_kernel_is_kept_for_later_callers(folder):
    make(wrap=shared)[0](3)
    assert names(folder, "inner") == ["inner"]
    _, inner = make(wrap=shared)

    @njit
    def another(x):
        return inner(x) - 1

    assert another(3) == 5 and hits(inner) == 1


def test_kernels_of_equal_names_are_told_apart(folder):
    for _ in range(2):  # compiled, then loaded
        kernels = [make(factor, shared)[0] for factor in (2, 3, 5)]
        assert [outer(10) for outer in kernels] == [21, 31, 51]
    assert [hits(outer) for outer in kernels] == [1, 1, 1]


@pytest.mark.parametrize("damage", ["cut", "changed", "of another kernel", "empty"])
def test_a_file_that_is_not_right_is_not_loaded(folder, damage):
    make()[0](3)
    (path,) = folder.glob("outer*.kernel")
    content = path.read_bytes()
    if damage == "cut":
        path.write_bytes(content[:-100])
    elif damage == "changed":
        path.write_bytes(content[:-100] + bytes([content[-100] ^ 1]) + content[-99:])
    elif damage == "empty":
        path.write_bytes(b"")
    else:
        make(factor=5)[0](3)
        (other,) = set(folder.glob("outer*.kernel")) - {path}
        path.write_bytes(other.read_bytes())
    outer, _ = make()
    assert outer(3) == 7 and hits(outer) == 0
    outer, _ = make()
    assert outer(3) == 7 and hits(outer) == 1  # the file was written anew


def test_arrays_allocated_by_a_called_kernel_belong_to_the_caller():
    @njit
    def squares(n):
        result = np.empty(n)
        for i in range(n):
            result[i] = i * i
        return result

    @njit
    def total(n):
        return squares(n).sum() + squares(n)[n - 1]

    assert total(4) == 14 + 9


def test_exceptions_of_a_called_kernel_reach_python(folder):
    def failing():
        @njit
        def check(x):
            if x < 0:
                raise ValueError("negative", x)
            return x

        @njit
        def outer(x):
            return check(x)

        return outer

    for outer in (failing(), failing()):  # compiled, then loaded
        with pytest.raises(ValueError, match="negative"):
            outer(-1)
    assert hits(outer) == 1


def test_the_stamp_names_all_sources_and_the_processor(tmp_path, monkeypatch):
    (tmp_path / "below").mkdir()
    (tmp_path / "a.py").write_text("1")
    (tmp_path / "below" / "b.py").write_text("2")
    seen = {stamp.text_of(tmp_path)}
    (tmp_path / "below" / "b.py").write_text("3")
    seen.add(stamp.text_of(tmp_path))
    (tmp_path / "below" / "b.py").rename(tmp_path / "below" / "c.py")
    seen.add(stamp.text_of(tmp_path))
    assert len(seen) == 3 and stamp.text_of(tmp_path / "none") is None
    stamps = {stamp.stamp("cpu", "+a"), stamp.stamp("cpu", "+b"), stamp.stamp("other", "+a")}
    monkeypatch.setattr(stamp.numba, "__version__", "0")
    assert len(stamps | {stamp.stamp("cpu", "+a")}) == 4


def test_kernels_for_a_baseline_need_a_processor_that_has_it(monkeypatch):
    v4, v3 = (stamp.stamp(name, "") for name in ("x86-64-v4", "x86-64-v3"))
    for has, expected in ((stamp._V4, [v4, v3]), (stamp._V3, [v3]), (stamp._V3[1:], [])):
        monkeypatch.setattr(stamp.llvm, "get_host_cpu_features", lambda has=has: dict.fromkeys(has, True))
        assert stamp.of_baselines.__wrapped__() == expected
    monkeypatch.setattr(stamp.numba.config, "CPU_NAME", "generic")
    assert stamp.of_baselines.__wrapped__() == []


def test_numba_is_as_expected():
    """What libraries.py overrides exists in this version of numba."""
    for name in ("finalize", "add_llvm_module", "_finalize_final_module", "_get_module_for_linking"):
        assert callable(getattr(codegen.JITCodeLibrary, name))
