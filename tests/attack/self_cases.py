"""What a case may do, to see that it is found. Imports little, because most of these end their child."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable

import numpy as np
from case import Broken, Case


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
    SELF["self/accepted"] = _die


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
