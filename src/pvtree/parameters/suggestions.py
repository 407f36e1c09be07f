"""Guesses what a misspelt name stands for. A wrong guess is worse than none, so only small slips count."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

# One slip per three letters, and at most two: beyond that lie other words, such as random_state for warm_start.
_LETTERS_A_SLIP, _MOST_SLIPS = 3, 2


def closest(word: str, known: Iterable[str]) -> str | None:
    """The known name with the fewest slips, or None if none is near. Case does not count, nor does - for _."""
    given = _plain(word)
    most = min(_MOST_SLIPS, len(given) // _LETTERS_A_SLIP)
    # Each letter more or less is a slip, so words of other lengths need no look.
    near = [(_plain(name), name) for name in known if abs(len(name) - len(given)) <= most]
    slips, name = min(((n_slips(given, plain), name) for plain, name in near), default=(most + 1, ""))
    return name if slips <= most else None


def n_slips(word: str, meant: str) -> int:
    """Count wrong, missing and extra letters and swapped neighbours (optimal string alignment)."""
    # The last two rows of the table [letters of word, letters of meant].
    before, last = [0] * (len(meant) + 1), list(range(len(meant) + 1))
    for i, pair in enumerate(pairwise(" " + word), 1):
        row = [i]
        for j, other in enumerate(pairwise(" " + meant), 1):
            best = min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (pair[1] != other[1]))
            if i > 1 < j and pair == other[::-1]:
                best = min(best, before[j - 2] + 1)
            row.append(best)
        before, last = last, row
    return last[-1]


def _plain(word: str) -> str:
    return word.lower().replace("-", "_")
