"""How every kernel is compiled, and the one line that tells a user why the first fit takes longer."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

import numba
from numba.core import event

from pvtree.kernels.cache_folder import private_folder
from pvtree.kernels.compile_lock import alone

_numba_config: Any = numba.config


def njit(function: Callable[..., Any]) -> Any:
    """Compile without the GIL and cache on disk; no fastmath, so that every machine gives the same bits."""
    kernel: Any = numba.njit(nogil=True, error_model="numpy")(function)
    if not enable_cache(kernel):
        return kernel
    compile_or_load, cache = kernel.compile, kernel._cache

    def compile_alone(signature: Any) -> Any:
        with alone(cache.cache_path, cache._impl.filename_base):
            return compile_or_load(signature)

    kernel.compile = compile_alone
    return kernel


def enable_cache(kernel: Any) -> bool:
    """Where numba wants it, else in a private temporary folder; False if nothing can be written at all."""
    try:
        kernel.enable_caching()
        return True
    except RuntimeError:  # containers: neither this folder nor HOME is writable
        folder = private_folder()
    if folder is not None:
        chosen = _numba_config.CACHE_DIR  # the user's other functions stay where they are
        _numba_config.CACHE_DIR = folder
        try:
            kernel.enable_caching()
            _notice.how = (
                f"once (about 30 s, cached in {folder}, because neither the package's folder nor the home folder is "
                "writable; set NUMBA_CACHE_DIR to choose another)"
            )
            return True
        except RuntimeError:
            pass
        finally:
            _numba_config.CACHE_DIR = chosen
    _notice.how = (
        "in every process (about 30 s), because no folder is writable and private; set NUMBA_CACHE_DIR to one that is"
    )
    return False


class _CompileNotice(event.Listener):
    """Says once per process that kernels are being compiled: a cached kernel never fires the event."""

    def __init__(self) -> None:
        self.said = False
        self.how = "once (about 30 s, cached afterwards)"
        self.lock = threading.Lock()

    def on_start(self, event: Any) -> None:
        module = getattr(event.data["dispatcher"].py_func, "__module__", "")
        if self.said or not module.startswith("pvtree."):
            return
        with self.lock:
            if not self.said:
                self.said = True
                print(f"pvtree: compiling its kernels for this machine, {self.how}.", file=sys.stderr, flush=True)

    def on_end(self, event: Any) -> None:
        """Nothing to say when a kernel is ready."""


_notice = _CompileNotice()
event.register("numba:compile", _notice)
