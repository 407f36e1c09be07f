"""How every kernel is compiled, and the one line that tells a user why the first fit takes longer."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import process_time
from typing import Any

import numba
from numba.core import event, sigutils
from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import Dispatcher

from pvtree.kernels.cache_folder import folders
from pvtree.kernels.compile_lock import alone
from pvtree.kernels.kernel_files import file_name, key_of, read_kernel, write_kernel
from pvtree.kernels.libraries import Entry, LoadedLibrary, compile_kernel

LEAST_KEPT = 0.2  # seconds: a kernel that others call is kept for later callers if compiling it took longer

_under_way: list[Any] = []  # kernels being compiled, each for the sake of the one before it


def njit(function: Callable[..., Any], **options: Any) -> Any:
    """Compile without the GIL and cache on disk; no fastmath, so that every machine gives the same bits."""
    kernel: Any = numba.njit(nogil=True, error_model="numpy", **options)(function)
    if isinstance(kernel, Dispatcher):  # else numba is switched off
        kernel.compile = lambda signature: _compile_or_load(kernel, signature)
    return kernel


def _compile_or_load(kernel: Any, signature: Any) -> Any:
    """The entry point of a kernel for these types of arguments; takes the place of numba's Dispatcher.compile."""
    args, return_type = sigutils.normalize_signature(signature)
    with global_compiler_lock, _without_garbage_collection():
        is_inner = bool(_under_way)
        result = kernel.overloads.get(tuple(args))
        if result is None or (isinstance(result.library, LoadedLibrary) if is_inner else _is_inner(result)):
            key = key_of(kernel, args)
            with alone(folders().new, file_name(kernel, key, is_inner)):
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
    result = read_kernel(kernel, args, key, is_inner)
    if result is not None:
        kernel._cache_hits[args] += 1
        return result
    kernel._cache_misses[args] += 1
    start = process_time()
    _under_way.append(kernel)
    try:
        details = {"dispatcher": kernel, "args": args, "return_type": return_type}
        with event.trigger_event("numba:compile", data=details):
            result = compile_kernel(kernel, args, return_type, key, is_inner)
    finally:
        _under_way.pop()
    if not is_inner or process_time() - start >= LEAST_KEPT:
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


class _CompileNotice(event.Listener):
    """Says once per process that kernels are being compiled: a cached kernel never fires the event."""

    def __init__(self) -> None:
        self.said = False
        self.lock = threading.Lock()

    def on_start(self, event: Any) -> None:
        module = getattr(event.data["dispatcher"].py_func, "__module__", "")
        if self.said or not module.startswith("pvtree."):
            return
        with self.lock:
            if not self.said:
                self.said = True
                print(f"pvtree: compiling its kernels for this machine, {self._how()}.", file=sys.stderr, flush=True)

    def _how(self) -> str:
        new, _, why = folders()
        if new is None:
            return f"in every process (about 30 s), because {why}; set NUMBA_CACHE_DIR to one that is"
        if why:
            return f"once (about 30 s, cached in {new.parent}, because {why}; set NUMBA_CACHE_DIR to choose another)"
        return "once (about 30 s, cached afterwards)"

    def on_end(self, event: Any) -> None:
        """Nothing to say when a kernel is ready."""


_notice = _CompileNotice()
event.register("numba:compile", _notice)
