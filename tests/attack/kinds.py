"""Every kind of case by its name."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable

import argument_attacks
import binary_attacks
import file_attacks
import hostile_files
import numpy as np
from case import Broken, Case

FUZZED = [*file_attacks.KINDS, *binary_attacks.KINDS, *argument_attacks.KINDS]
HOSTILE = [f"corpus/{name}" for name in hostile_files.NAMES]


def _corpus(name: str) -> Callable[[Case], None]:
    return lambda case: hostile_files.use(name, case)


def _allocate(case: Case) -> None:
    np.zeros(2**28)


def _work(case: Case) -> None:
    while True:
        pass


def _wrong_exception(case: Case) -> None:
    raise ValueError("not the package's own")


def _broken_promise(case: Case) -> None:
    raise Broken("the models differ")


def _die(case: Case) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def _die_later(case: Case) -> None:
    """As damaged memory does: the next case is the one that is killed, unless its child is fresh."""
    KINDS["self/accepted"] = _die


# What a case may do, to see that it is found.
SELF: dict[str, Callable[[Case], None]] = {
    "self/accepted": lambda case: case.note("all is well"),
    "self/allocates": _allocate,
    "self/waits": lambda case: threading.Event().wait() and None,
    "self/works": _work,
    "self/raises": _wrong_exception,
    "self/differs": _broken_promise,
    "self/dies": _die,
    "self/dies-later": _die_later,
}
KINDS: dict[str, Callable[[Case], None]] = {
    **file_attacks.KINDS,
    **binary_attacks.KINDS,
    **argument_attacks.KINDS,
    **{kind: _corpus(kind.removeprefix("corpus/")) for kind in HOSTILE},
    **SELF,
}
