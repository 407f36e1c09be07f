"""The paper's observations as comparisons with a tolerance: each of them agrees or differs, and shows both sides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tables import markdown
from trainings import Training

SAME_TIME = 1.1  # times that differ by no more than this factor count as equal
SIMILAR = 2.0  # "at a similar speed"
ALIKE = 1.25  # bytes of two programs that send the same


@dataclass(frozen=True)
class Claim:
    """One observation: what the paper has, what was found here, and whether that is the same."""

    data: str  # LTR, CTR, ...
    says: str
    paper: str
    here: str
    agrees: bool
    reason: str = ""  # why it differs, where that is known
    rests_on: tuple[Training, ...] = ()
    is_close: bool = False  # whether noise may decide

    @property
    def verdict(self) -> str:
        return "agrees" if self.agrees else "**differs**"


def slower(
    data: str,
    says: str,
    paper: float | None,
    here: float,
    rests_on: Sequence[Training] = (),
    reason: str = "",
    limit: float | None = None,
) -> Claim:
    """Something takes ``paper`` (above 1) times as long as something else; None where the paper gives no number.

    It agrees if it takes longer here, too, beyond the tolerance; or, where the paper's own factor is hardly more than
    that, if both factors are equal within the tolerance. ``limit`` asks for another factor.
    """
    if limit is None:
        limit = SAME_TIME if paper is None else min(SAME_TIME, paper / SAME_TIME)
    shown = {0.0: "the faster does not get there", float("inf"): "the slower does not get there"}.get(here, times(here))
    if here == 0.0:
        reason = ""  # reasons are about time
    is_close = limit / SAME_TIME <= here <= limit * SAME_TIME
    return Claim(
        data, says, "yes" if paper is None else times(paper), shown, here >= limit, reason, tuple(rests_on), is_close
    )


def within(data: str, says: str, paper: str, here: float, factor: float, reason: str = "") -> Claim:
    """``here`` is 1 up to this factor."""
    return Claim(data, says, paper, times(here), 1.0 / factor <= here <= factor, reason)


def lower(
    data: str, says: str, paper: str, lost: float, tolerance: float, rests_on: Sequence[Training], reason: str = ""
) -> Claim:
    """A metric is lower than another one, by more than the tolerance."""
    is_close = abs(lost - tolerance) <= tolerance
    return Claim(data, says, paper, f"{-lost:+.4f}", lost > tolerance, reason, tuple(rests_on), is_close)


def no_lower(
    data: str, says: str, paper: str, lost: float, tolerance: float, rests_on: Sequence[Training], reason: str = ""
) -> Claim:
    """A metric is not lower than another one by more than the tolerance."""
    is_close = abs(lost - tolerance) <= tolerance
    return Claim(data, says, paper, f"{-lost:+.4f}", lost <= tolerance, reason, tuple(rests_on), is_close)


def times(factor: float) -> str:
    return f"{factor:.2f} times"


def close_calls(claims: Sequence[Claim]) -> list[Training]:
    """Trainings that more runs may tell more about, each once."""
    return list(dict.fromkeys(training for claim in claims if claim.is_close for training in claim.rests_on))


def verdicts(claims: Sequence[Claim]) -> str:
    """A table, and below it the reasons that are known, each once."""
    rows = [[claim.data, claim.says, claim.paper, claim.here, claim.verdict] for claim in claims]
    reasons: dict[str, list[str]] = {}
    for claim in claims:
        if claim.reason and not claim.agrees:
            reasons.setdefault(claim.reason, []).append(f"{claim.data}, {claim.says}")
    known = [f"- {reason} ({'; '.join(said)})." for reason, said in reasons.items()]
    table = markdown(["data", "observation", "paper", "here", "verdict"], rows)
    return "\n".join([table, "", "Why these differ, where it is known:", "", *known]) if known else table
