"""Wall-clock times as text: ISO 8601 in UTC, to the millisecond."""

import datetime
import time


def iso(seconds: float) -> str:
    """Seconds since the epoch as `2026-11-21T12:08:05.123Z`."""
    at = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def now() -> str:
    """The time now, as `iso` writes it."""
    return iso(time.time())


def epoch_s(text: str) -> float:
    """The inverse of `iso`. Raises ValueError for anything else."""
    at = datetime.datetime.fromisoformat(text)
    if at.tzinfo is None:
        raise ValueError(f"{text!r} names no time zone")
    return at.timestamp()


def is_storable(seconds: float) -> bool:
    """Whether a time since the epoch can be kept, as a column of pandas in nanoseconds."""
    return FIRST_S <= seconds < END_S


FIRST_S, END_S = epoch_s("1678-01-01T00:00:00Z"), epoch_s("2262-01-01T00:00:00Z")
