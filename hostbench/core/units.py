"""Seconds and bytes inside; words for people only here.

Sizes are binary (1MiB = 2**20 bytes), rates are decimal (1 GB/s = 10**9 bytes per second).
"""

import math

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30
GB = 1e9

_TIME_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))
_CLOCK_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}
_SIZE_UNITS = ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB"))


def format_seconds(seconds: float) -> str:
    """Three significant digits with the unit that reads best: `4.82 ms`."""
    if not math.isfinite(seconds):
        return "n/a"
    fits = (pair for pair in _TIME_UNITS if abs(seconds) >= 0.9995 * pair[0])
    scale, unit = next(fits, _TIME_UNITS[-1])
    return f"{_three_digits(seconds / scale)} {unit}"


def format_bytes(nbytes: float) -> str:
    """Binary size to three digits: `64KiB`, `1.5MiB`, `12 B`."""
    scale, unit = next((pair for pair in _SIZE_UNITS if abs(nbytes) >= pair[0]), (1, " B"))
    return f"{_three_digits(nbytes / scale)}{unit}"


def typed_bytes(nbytes: int) -> str:
    """A size as a person types it: `16MiB`, or the bytes where that would not say them exactly."""
    short = format_bytes(nbytes)
    return short if nbytes >= KIB and parse_bytes(short) == nbytes else str(nbytes)


def format_rate(rate_gb_per_s: float) -> str:
    """Decimal rate: `55.4 GB/s`."""
    return f"{_three_digits(rate_gb_per_s)} GB/s"


def format_factor(factor: float) -> str:
    """A ratio, in the digits that anybody compares: `1.05x`, `2.9x`, `255x`."""
    return f"{factor:.{3 if factor < 2 else 2}g}x" if factor < 10 else f"{factor:.0f}x"


def format_change(effect: float | None) -> str:
    """A relative change: `+12.3%`; from 1000 % on the factor, `x75`; `-` for none."""
    if effect is None:
        return "-"
    return f"{round(effect, 3) + 0.0:+.1%}" if abs(effect) < 10 else f"x{1 + effect:,.0f}"


def format_interval(low: float | None, high: float | None) -> str:
    """Of a relative change: `+11.0% to +13.5%`; `-` where there is none."""
    if low is None or high is None:
        return "-"
    return f"{format_change(low)} to {format_change(high)}"


def format_levels(before_s: float | None, after_s: float | None) -> str:
    """Of a step: `1.05 ms -> 1.26 ms`; `-` where a side has no level."""
    if before_s is None or after_s is None:
        return "-"
    return f"{format_seconds(before_s)} -> {format_seconds(after_s)}"


def format_share(share: float | None) -> str:
    """`3.2%`; `-` for none."""
    return "-" if share is None else f"{share:.1%}"


def format_duration(seconds: float) -> str:
    """A waiting time on a clock face: `1:05`, `1:02:03`."""
    whole = max(0, round(seconds))
    hours, rest = divmod(whole, 3600)
    minutes, secs = divmod(rest, 60)
    return f"{hours}:{minutes:02d}:{secs:02d}" if hours else f"{minutes}:{secs:02d}"


def parse_bytes(text: str) -> int:
    """`65536`, `64KiB` or `1GiB` as bytes. Raises ValueError for anything else."""
    cleaned = text.strip()
    for scale, unit in _SIZE_UNITS:
        if cleaned.lower().endswith(unit.lower()):
            number = float(cleaned[: -len(unit)])
            if not math.isfinite(number):
                raise ValueError(f"{text!r} is not a size")
            return round(number * scale)
    return int(cleaned)


def parse_seconds(text: str) -> float:
    """`90`, `90s`, `9m` or `1.5h` as seconds. Raises ValueError for anything else."""
    number, scale = text.strip().lower(), 1.0
    if number[-1:] in _CLOCK_UNITS:
        number, scale = number[:-1], _CLOCK_UNITS[number[-1]]
    seconds = float(number) * scale
    if not math.isfinite(seconds):
        raise ValueError(f"{text!r} is not a time")
    return seconds


def number_of(num: int, one: str, many: str = "") -> str:
    """`1 case`, `1,024 cases`."""
    return f"{num:,} {one if num == 1 else many or f'{one}s'}"


def one_line(text: str) -> str:
    """Text from anywhere as one line without control characters, fit for a terminal."""
    return "".join(sign if sign.isprintable() else " " for sign in text)


def _three_digits(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"
