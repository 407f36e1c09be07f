"""Tells a user why a fit takes longer the first time, and how far it is. Kernels that are loaded are not mentioned."""

from __future__ import annotations

import sys
from time import monotonic
from typing import Any

from numba.core import event
from numba.core.dispatcher import Dispatcher

from pvtree.kernels.cache_folder import folders

BETWEEN_LINES = 5.0  # seconds
_REST = 1.3  # times as long as typing and lowering all kernels: what optimising them together takes is included


def called_by(kernel: Any) -> set[Any]:
    """All kernels that a kernel may call, directly or not."""
    found: set[Any] = set()
    waiting = [kernel]
    while waiting:
        function = waiting.pop().py_func
        cells = [cell.cell_contents for cell in function.__closure__ or ()]
        for value in [*cells, *(function.__globals__.get(name) for name in function.__code__.co_names)]:
            if isinstance(value, Dispatcher) and value not in found:
                found.add(value)
                waiting.append(value)
    return found


class CompileNotice(event.Listener):
    """Prints a line when the first kernel of this process is compiled, then one every few seconds.

    numba calls it under the lock of its compiler, so on one thread at a time.
    """

    def __init__(self) -> None:
        self.has_begun = False
        self.under_way: list[Any] = []
        self.needed: set[Any] = set()  # by the kernel that Python calls
        self.done: set[Any] = set()
        self.began = self.last_line = 0.0

    def on_start(self, event: Any) -> None:
        kernel = event.data["dispatcher"]
        if not kernel.py_func.__module__.startswith("pvtree."):
            return
        if not self.under_way:
            self.needed, self.done = {kernel, *called_by(kernel)}, set()
            self.began = self.last_line = monotonic()
        self.under_way.append(kernel)
        if not self.has_begun:
            self.has_begun = True
            _say(f"compiling kernels for this machine, {_how()}")

    def on_wait(self, name: str) -> None:
        """Another process has been compiling a kernel for a while; told where others were mentioned before."""
        if self.has_begun:
            _say(f"waiting for {name.split('-')[0]}, which another process compiles")

    def on_end(self, event: Any) -> None:
        kernel = event.data["dispatcher"]
        if not self.under_way or self.under_way[-1] is not kernel:
            return
        self.under_way.pop()
        self.done |= {kernel, *called_by(kernel)}  # of these it has compiled those that it really calls
        now = monotonic()
        if self.under_way and now - self.last_line >= BETWEEN_LINES:
            self.last_line = now
            n_done, n_needed = len(self.done & self.needed), len(self.needed)
            left = (now - self.began) * (_REST * n_needed / n_done - 1.0)
            how_long = f", about {left:.0f} s left" if 4 * n_done >= n_needed else ""  # the first few tell nothing
            _say(f"{n_done} of at most {n_needed} kernels are compiled{how_long}")


def _how() -> str:
    new, _, why = folders()
    if new is None:
        return f"in every process, because {why}; set NUMBA_CACHE_DIR to a folder that is"
    if why:
        return f"once, and keeping them in {new.parent}, because {why}; set NUMBA_CACHE_DIR to choose another"
    return "once; later processes load them"


def _say(sentence: str) -> None:
    print(f"pvtree: {sentence}.", file=sys.stderr, flush=True)


NOTICE = CompileNotice()
event.register("numba:compile", NOTICE)
