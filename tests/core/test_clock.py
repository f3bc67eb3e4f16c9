"""Times as text."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostbench.core.clock import epoch_s, is_storable, iso


def test_iso_is_utc_to_the_millisecond() -> None:
    assert iso(0) == "1970-01-01T00:00:00.000Z"
    assert iso(1_795_262_885.123456) == "2026-11-21T12:08:05.123Z"


@given(st.integers(0, 4_000_000_000_000))
def test_epoch_s_is_the_inverse(milliseconds: int) -> None:
    text = iso(milliseconds / 1000)
    assert abs(round(epoch_s(text) * 1000) - milliseconds) <= 1
    assert iso(epoch_s(text) + 1e-4) == text


def test_gits_dates_are_read_and_other_text_is_refused() -> None:
    assert epoch_s("2026-11-21T13:08:05+01:00") == epoch_s("2026-11-21T12:08:05.000Z")
    for text in ("", "yesterday", "2026-13-01T00:00:00Z", "1795262885"):
        with pytest.raises(ValueError):
            epoch_s(text)


def test_what_pandas_can_hold() -> None:
    times = ["1677-12-31T23:59:59Z", "1678-01-01T00:00:00Z"]
    times += ["2261-12-31T23:59:59Z", "2262-01-01T00:00:00Z"]
    assert [is_storable(epoch_s(text)) for text in times] == [False, True, True, False]
    assert not any(map(is_storable, (math.nan, math.inf, -math.inf)))
