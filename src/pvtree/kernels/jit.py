"""How every kernel is compiled, and the one line that tells a user why the first fit takes longer."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

import numba
from numba.core import event

from pvtree.kernels.compile_lock import alone


def njit(function: Callable[..., Any]) -> Any:
    """Compile without the GIL and cache on disk; no fastmath, so that every machine gives the same bits."""
    kernel: Any = numba.njit(cache=True, nogil=True, error_model="numpy")(function)
    compile_or_load, cache = kernel.compile, kernel._cache

    def compile_alone(signature: Any) -> Any:
        with alone(cache.cache_path, cache._impl.filename_base):
            return compile_or_load(signature)

    kernel.compile = compile_alone
    return kernel


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
                message = "pvtree: compiling its kernels for this machine, once (about 30 s, cached afterwards)."
                print(message, file=sys.stderr, flush=True)

    def on_end(self, event: Any) -> None:
        """Nothing to say when a kernel is ready."""


event.register("numba:compile", _CompileNotice())
