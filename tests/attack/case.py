"""A case is a pure function of its kind and seed: it does something hostile and is accepted, refused or failed."""

from __future__ import annotations

import re
import traceback
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pvtree.errors import PvtreeError

MAX_SENTENCE = 2000  # characters; an error that quotes a hostile file must not quote all of it
UNTOUCHED = -1  # the seed of a case that changes nothing, which must be accepted


@dataclass
class Case:
    """What a kind's function gets: its randomness, a folder of its own, and a place for notes about what it does."""

    kind: str
    seed: int
    folder: Path
    rng: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng([zlib.crc32(self.kind.encode()), self.seed + 1])

    @property
    def is_untouched(self) -> bool:
        return self.seed == UNTOUCHED

    def note(self, what: object) -> None:
        """Written at once: a case that is killed must still tell what it did."""
        with open(self.folder / "notes.txt", "a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(f"{what}\n")

    def write(self, name: str, data: bytes) -> Path:
        path = self.folder / name
        path.write_bytes(data)
        return path

    def choose(self, options: Any) -> Any:
        """One of them as it is; numpy's own choice would turn them into an array."""
        options = list(options)
        return options[int(self.rng.integers(len(options)))]

    def happens(self, chance: float) -> bool:
        return not self.is_untouched and bool(self.rng.random() < chance)


class Broken(AssertionError):
    """A promise that does not hold, such as a learner whose model is not the serial one."""


def judge(run: Callable[[Case], None], case: Case) -> tuple[str, str]:
    """("accepted" or "refused" or "failed", what was raised).

    Only the package's own errors count as refusals. No standard exception does: no case calls with a wrong signature,
    so that even a TypeError must be an InvalidTypeError. A MemoryError is what a case's limit looks like from inside.
    """
    try:
        run(case)
    except PvtreeError as error:
        return check_sentence(error)
    except Exception:
        return "failed", traceback.format_exc()
    return "accepted", ""


def check_sentence(error: PvtreeError) -> tuple[str, str]:
    """One sentence on one line, without a traceback of others in it."""
    text = str(error)
    wrong = not text or len(text) > MAX_SENTENCE or not text.endswith((".", "?", ".)"))
    if wrong or re.search(r"[\x00-\x1f\x7f]|Traceback", text):
        shown = f"{text[:MAX_SENTENCE]!r} ({len(text)} characters)"
        return "failed", f"The error is not one sentence on one line: {shown}\n{traceback.format_exc()}"
    return "refused", text
