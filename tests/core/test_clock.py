"""Times as text."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostbench.core import clock


def test_iso_is_utc_to_the_millisecond() -> None:
    assert clock.iso(0) == "1970-01-01T00:00:00.000Z"
    assert clock.iso(1_795_262_885.123456) == "2026-11-21T12:08:05.123Z"


@given(st.integers(0, 4_000_000_000_000))
def test_epoch_s_is_the_inverse(milliseconds: int) -> None:
    text = clock.iso(milliseconds / 1000)
    assert abs(round(clock.epoch_s(text) * 1000) - milliseconds) <= 1
    assert clock.iso(clock.epoch_s(text) + 1e-4) == text


def test_gits_dates_are_read() -> None:
    assert clock.epoch_s("2026-11-21T13:08:05+01:00") == clock.epoch_s("2026-11-21T12:08:05.000Z")


@pytest.mark.parametrize("text", ["", "yesterday", "2026-13-01T00:00:00Z", "1795262885"])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        clock.epoch_s(text)


def test_what_pandas_can_hold() -> None:
    for text, can in (
        ("1677-12-31T23:59:59Z", False),
        ("1678-01-01T00:00:00Z", True),
        ("2261-12-31T23:59:59Z", True),
        ("2262-01-01T00:00:00Z", False),
    ):
        assert clock.is_storable(clock.epoch_s(text)) is can
    assert not any(map(clock.is_storable, (math.nan, math.inf, -math.inf)))
