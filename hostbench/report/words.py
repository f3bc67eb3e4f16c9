"""How the answers of the family `transfer` name directions, lines and sizes."""

import math
from collections.abc import Sequence

import pandas as pd

from hostbench.core import units
from hostbench.core.latency import Crossover, Fit, fit
from hostbench.core.units import GB
from hostbench.report.rows import Row, times

DIRECTIONS = {
    "transfer.host_to_device": "host to device",
    "transfer.device_to_host": "device to host",
}


def direction_of(row: Row) -> str:
    return DIRECTIONS.get(str(row["workload"]), str(row["workload"]))


def fitted(rows: pd.DataFrame) -> str:
    """`latency 12 us, 55.2 GB/s, half of it from 645 KiB on (11 sizes, 2% off in all, ...)`."""
    return fit_in_words(fit(times(rows)))


def fit_in_words(found: Fit) -> str:
    if found.refused:
        return f"latency and bandwidth cannot be said, {found.refused}"
    rate = units.format_rate(found.bytes_per_s / GB)
    half = about_bytes(found.half_rate_bytes)
    quality = f"{found.error:.0%} off in all"
    if found.worst >= 0.01:
        quality += f", at most {found.worst:.0%} at {units.format_bytes(found.worst_at)}"
    latency = units.format_seconds(found.latency_s)
    return (
        f"latency {latency}, {rate}, half of it from {half} on "
        f"({len(found.sizes)} sizes, {quality})"
    )


def crossed(found: Crossover, name: str = "pinned") -> str:
    """From which size on `name` is faster, or up to which one."""
    if found.refused:
        return f"no size from which {name} is faster can be said: {found.refused}"
    if found.always is not None:
        return f"{name} is faster at {'every' if found.always else 'no'} size {span(found.sizes)}"
    if found.only_below:
        return f"{name} is faster only up to {about_bytes(found.nbytes)}"
    return f"{name} is faster from {about_bytes(found.nbytes)} on"


def about_bytes(nbytes: float) -> str:
    """A size that was computed, to two digits and more: `645 KiB`."""
    if not math.isfinite(nbytes) or nbytes < 1:
        return "the first byte"
    digits = max(0, math.floor(math.log10(nbytes)) - 2)
    binary = 1024 ** min(3, int(math.log2(nbytes) // 10))
    scaled = nbytes / binary
    places = max(0, 2 - math.floor(math.log10(scaled))) if digits else 0
    name = {1: "B", 1 << 10: "KiB", 1 << 20: "MiB", 1 << 30: "GiB"}[binary]
    return f"{round(scaled, places):g} {name}"


def span(sizes: Sequence[int]) -> str:
    """`from 1 KiB to 1 GiB`, or `at 1 GiB`."""
    first, last = units.format_bytes(min(sizes)), units.format_bytes(max(sizes))
    return f"at {first}" if first == last else f"from {first} to {last}"
