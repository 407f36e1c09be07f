"""Kernels are compiled by fewer steps than numba takes, into the same code."""

import re

import numba
import numpy as np
import pytest
from llvmlite import ir
from numba.core import compiler, postproc, types

from pvtree.kernels import jit, kernel_files, plain_compiler
from pvtree.kernels.cache_folder import Folders
from pvtree.kernels.jit import njit

RECORD = np.zeros(1, [("size", np.int64), ("weight", np.float64)])[0]


@pytest.fixture(autouse=True)
def no_folder(monkeypatch):
    for module in (jit, kernel_files):
        monkeypatch.setattr(module, "folders", lambda: Folders(None, []))


def make():
    """Kernels that need each of the steps which others do without, with arguments."""
    inlined = numba.njit(inline="always")(lambda x, default: x if default is None else default)
    twice = njit(lambda x: 2.0 * x)

    @njit
    def plain(values, record):
        total = 0.0
        for i in range(min(len(values), record["size"])):
            total += twice(values[i]) * record["weight"]
        return total

    @njit
    def may_be_none(values, default):
        if default is None:
            return values.sum()
        return default[0]

    @njit
    def inlines(values, record):
        return inlined(values[0], None) + inlined(values[1], record["weight"])

    @njit
    def of_arrays(values, record):
        squares = values * values + record["weight"]
        return squares[1:].sum()

    @njit
    def of_lists(values, record):
        factor = record["weight"]
        return np.array([factor * values[i] for i in range(3)]).sum() + np.array([1.0, 2.0])[0]

    @njit
    def raises(values, record):
        if record["size"] > 100:
            raise ValueError("too many")
        return values[-1]

    values = np.arange(5.0)
    record = RECORD.copy()
    record["size"], record["weight"] = 4, 0.5
    kernels = plain, inlines, of_arrays, of_lists, raises
    return [*((kernel, (values, record)) for kernel in kernels), (may_be_none, (values, None))]


def code_of(kernel):
    """LLVM's code, without comments and the numbers that count a process's functions."""
    (result,) = kernel.overloads.values()
    text = re.sub(r" *;.*", "", str(result.library._final_module))
    return re.sub(r"\d+[vV]?\d*(?=[B_E$]|\b)|[0-9a-f]{6,}", "#", text)


def test_the_code_is_that_of_all_of_numbas_steps(monkeypatch):
    own = make()
    results = [kernel(*arguments) for kernel, arguments in own]
    assert results == [6.0, 0.5, 32.0, 2.5, 4.0, 10.0]
    monkeypatch.setattr(plain_compiler, "is_known", lambda: False)
    assert plain_compiler.pipeline() is compiler.Compiler
    for (kernel, arguments), (other, _), result in zip(own, make(), results, strict=True):
        assert other(*arguments) == result
        assert code_of(kernel) == code_of(other), kernel.__name__


def test_numba_has_all_that_is_replaced():
    assert plain_compiler.is_known() and plain_compiler.pipeline() is plain_compiler.PlainCompiler


def test_numba_is_changed_only_while_kernels_are_compiled():
    places = (postproc.PostProcessor, "run"), (types.BaseFunction, "get_call_type"), (ir.Type, "get_abi_size")
    before = [getattr(*place) for place in places]
    during = []

    @numba.extending.overload(seen := lambda x: x)
    def of_seen(x):
        during.extend(getattr(*place) for place in places)
        return lambda x: x

    @njit
    def fails(x):
        return seen(x) + "a"

    with pytest.raises(numba.TypingError):
        fails(1)
    assert len(during) >= 3 and not set(during[:3]) & set(before)
    assert [getattr(*place) for place in places] == before
