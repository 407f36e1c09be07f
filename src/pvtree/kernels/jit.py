"""How every kernel is compiled, or loaded where it has been compiled before."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numba
from numba.core import event, sigutils
from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import Dispatcher

from pvtree.kernels.cache_folder import folders
from pvtree.kernels.compile_lock import alone
from pvtree.kernels.kernel_files import file_name, key_of, read_kernel, write_kernel
from pvtree.kernels.libraries import ALL, Entry, LoadedLibrary, compile_kernel

_under_way: list[Any] = []  # kernels being compiled, each for the sake of the one before it


def njit(function: Callable[..., Any], **options: Any) -> Any:
    """Compile without the GIL and cache on disk; no fastmath, so that every machine gives the same bits."""
    kernel: Any = numba.njit(nogil=True, error_model="numpy", **options)(function)
    is_compiled = isinstance(kernel, Dispatcher)  # else numba is switched off
    if is_compiled:
        kernel.compile = lambda signature: _compile_or_load(kernel, signature)
        kernel.is_shared = False
        ALL.append(kernel)
    return kernel


def shared(function: Callable[..., Any]) -> Any:
    """The same for a kernel that takes long to compile and has several callers, which may be compiled days apart.

    Others are kept on disk only for Python to call, as parts of those that Python calls.
    """
    kernel = njit(function)
    kernel.is_shared = True
    return kernel


def _compile_or_load(kernel: Any, signature: Any) -> Any:
    """The entry point of a kernel for these types of arguments; takes the place of numba's Dispatcher.compile."""
    args, return_type = sigutils.normalize_signature(signature)
    with global_compiler_lock, _without_garbage_collection():
        is_inner = bool(_under_way)
        result = kernel.overloads.get(tuple(args))
        if result is None or (isinstance(result.library, LoadedLibrary) if is_inner else _is_inner(result)):
            key = key_of(kernel, args)
            is_kept = not is_inner or kernel.is_shared
            with alone(folders().new if is_kept else None, file_name(kernel, key, is_inner)):
                result = _load_or_compile(kernel, args, return_type, key, is_inner)
            if is_inner:
                kernel.overloads[tuple(args)] = result
            else:
                kernel.targetctx.insert_user_function(result.entry_point, result.fndesc, [result.library])
                kernel.add_overload(result)
        return result.entry_point


def _is_inner(result: Any) -> bool:
    return isinstance(result.entry_point, Entry)


def _load_or_compile(kernel: Any, args: Any, return_type: Any, key: str, is_inner: bool) -> Any:
    is_kept = not is_inner or kernel.is_shared
    result = read_kernel(kernel, args, key, is_inner) if is_kept else None
    if result is not None:
        kernel._cache_hits[args] += 1
        return result
    kernel._cache_misses[args] += 1
    _under_way.append(kernel)
    try:
        details = {"dispatcher": kernel, "args": args, "return_type": return_type}
        with event.trigger_event("numba:compile", data=details):
            result = compile_kernel(kernel, args, return_type, key, is_inner)
    finally:
        _under_way.pop()
    if is_kept:
        write_kernel(kernel, result, key, is_inner)
    return result


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """The compiler makes many objects and few cycles: searching for these takes a good part of its time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
