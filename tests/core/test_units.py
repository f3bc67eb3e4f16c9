"""Units: three digits for people, exact bytes back."""

import math
from collections.abc import Callable
from typing import Any

import pytest

from hostbench.core import units
from hostbench.core.units import GIB, KIB, MIB

TEXTS: list[tuple[Callable[[Any], str], dict[float, str]]] = [
    (
        units.format_seconds,
        {0.00482: "4.82 ms", 1.0: "1 s", 123.4: "123 s", 1e-3: "1 ms", 0.000999: "999 us",
         2.5e-9: "2.5 ns", 2.5e-10: "0.25 ns", 0.0: "0 ns", -0.002: "-2 ms",
         math.nan: "n/a", math.inf: "n/a", -math.inf: "n/a"},
    ),
    (
        units.format_bytes,
        {0: "0 B", 12: "12 B", 1023: "1023 B", KIB: "1KiB", 64 * KIB: "64KiB",
         3 * MIB // 2: "1.5MiB", 1234567: "1.18MiB", 256 * MIB: "256MiB",
         GIB: "1GiB", -2 * MIB: "-2MiB"},
    ),
    (units.format_rate, {55.4321: "55.4 GB/s", 123.45: "123 GB/s"}),
    (units.format_factor, {2.9: "2.9x", 2.904: "2.9x", 0.5: "0.5x", 12.4: "12x", 100: "100x"}),
    (
        units.format_duration,
        {0: "0:00", -3: "0:00", 5: "0:05", 65: "1:05", 59.6: "1:00", 3723: "1:02:03"},
    ),
    (
        units.format_change,
        {0.123: "+12.3%", -0.5: "-50.0%", 9.99: "+999.0%", 74.0: "x75", 228158.8: "x228,160"},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("form", "texts"), TEXTS, ids=lambda one: getattr(one, "__name__", ""))
def test_a_number_in_words(form: Callable[[Any], str], texts: dict[float, str]) -> None:
    assert {number: form(number) for number in texts} == texts


def test_a_size_is_typed_with_a_unit_where_that_is_exact() -> None:
    sizes = (12, 1 << 10, 3 << 19, 1 << 24, 10**6, (1 << 30) + 1)
    typed = [units.typed_bytes(size) for size in sizes]
    assert typed == ["12", "1KiB", "1.5MiB", "16MiB", "1000000", "1073741825"]
    assert [units.parse_bytes(text) for text in typed] == list(sizes)


READ: list[tuple[Callable[[str], float], dict[str, float], tuple[str, ...]]] = [
    (
        units.parse_bytes,
        {"65536": 65536, " 64KiB ": 64 * KIB, "1GiB": GIB, "1.5mib": 3 * MIB // 2, "0": 0},
        ("", "KiB", "x", "1e3", "64kb", "nanKiB", "infKiB", "1,5MiB"),
    ),
    (
        units.parse_seconds,
        {"90": 90.0, "90s": 90.0, " 9m ": 540.0, "1.5h": 5400.0, "1.5H": 5400.0},
        ("", "s", "9 min", "1h30m", "inf", "nanm", "1d"),
    ),
]


@pytest.mark.parametrize(("read", "texts", "refused"), READ)
def test_a_quantity_is_read_or_refused(
    read: Callable[[str], float], texts: dict[str, float], refused: tuple[str, ...]
) -> None:
    assert {text: read(text) for text in texts} == texts
    for text in refused:
        with pytest.raises(ValueError):
            read(text)
