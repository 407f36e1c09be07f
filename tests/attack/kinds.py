"""Every kind of case by its name."""

from __future__ import annotations

from collections.abc import Callable

import argument_attacks
import binary_attacks
import file_attacks
import hostile_files
from case import Case
from self_cases import SELF

FUZZED = [*file_attacks.KINDS, *binary_attacks.KINDS, *argument_attacks.KINDS]
HOSTILE = [f"corpus/{name}" for name in hostile_files.NAMES]


def _corpus(name: str) -> Callable[[Case], None]:
    return lambda case: hostile_files.use(name, case)


KINDS: dict[str, Callable[[Case], None]] = {
    **file_attacks.KINDS,
    **binary_attacks.KINDS,
    **argument_attacks.KINDS,
    **{kind: _corpus(kind.removeprefix("corpus/")) for kind in HOSTILE},
    **SELF,
}
