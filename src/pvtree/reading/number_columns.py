"""Arrays and columns of any dtype in memory -> floats; and integers that floats cannot tell apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pvtree.comm.user_warnings import warn_user
from pvtree.errors import InvalidDataError, InvalidTypeError
from pvtree.reading.arrow_columns import UNITS_PER_SECOND

EXACT = 2**53  # float64 holds every integer up to here
_HINT = "pass numbers, or fit with the column named in categorical_feature"


def as_floats(table: np.ndarray) -> np.ndarray:
    """float32 and float64 as they are, in any memory order; other numbers as float64."""
    if table.dtype in (np.float32, np.float64) and table.dtype.isnative:
        return table
    if table.dtype.kind in "biuf":
        return table.astype(np.float64, order="K")
    return parsed(table, "X")


def parsed(values: Any, what: str) -> np.ndarray:
    """Numbers out of dates, in seconds since 1970, and Python objects; text is refused with what to do about it."""
    if getattr(values.dtype, "kind", "O") == "M":
        return _seconds(values)
    if getattr(values.dtype, "kind", "O") != "O":
        raise InvalidDataError(f"{what} holds {values.dtype} values, which are not numbers; {_HINT}.")
    try:
        if hasattr(values, "iloc"):
            return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        kind = InvalidTypeError if isinstance(error, TypeError) else InvalidDataError
        raise kind(f"{what} cannot be read as numbers, because {_lowered(error)}; {_HINT}.") from None


def rounded(values: np.ndarray) -> np.ndarray | None:
    """Which of these integers float64 cannot hold, as a mask; None if it holds all of them."""
    if values.dtype.kind not in "iu" or values.dtype.itemsize < 8 or not values.size:
        return None
    if values.max() <= EXACT and values.min() >= -EXACT:
        return None
    floats = values.astype(np.float64)
    fits = floats < float(np.iinfo(values.dtype).max)  # else converting it back gives any number
    mask = ~fits | (np.where(fits, floats, 0).astype(values.dtype) != values)
    return mask if mask.any() else None


def warn_of_rounding(names: Sequence[Any]) -> None:
    """In one sentence for all columns, because training goes on: such ids often do no harm."""
    if names:
        where = f"column{'s' * (len(names) > 1)} {listing(names)}"
        warn_user(
            f"X holds integers beyond 2**53 in {where}, which float64 rounds, so that neighbours become one value; "
            "subtract an offset, or name such columns in categorical_feature."
        )


def listing(names: Sequence[Any], limit: int = 5) -> str:
    shown = ", ".join(repr(name) for name in names[:limit])
    return shown + (f" and {len(names) - limit} more" if len(names) > limit else "")


def _seconds(times: Any) -> np.ndarray:
    """Since 1970, as of times in files; NaN for missing ones."""
    if getattr(times.dtype, "tz", None) is not None:  # pandas' own: numpy knows no time zones
        times = times.dt.tz_convert(None)
    moments = np.asarray(times)
    unit, step = np.datetime_data(moments.dtype)
    if unit not in UNITS_PER_SECOND or step != 1:
        moments, unit = moments.astype("datetime64[s]"), "s"
    return np.where(np.isnat(moments), np.nan, moments.astype(np.int64) / UNITS_PER_SECOND[unit])


def _lowered(error: Exception) -> str:
    text = str(error).strip().rstrip(".").replace("\n", " ")
    return text[:1].lower() + text[1:]
