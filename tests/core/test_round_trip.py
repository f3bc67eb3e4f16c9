"""The round trip against one and two copy engines: exact on made-up launches."""

from functools import partial

import pytest

from hostbench.core.efficiency import by_launch, overlap
from hostbench.core.round_trip import ideal_round_trip_s

PART = dict.fromkeys(range(10), 8.0)
SERIAL = dict.fromkeys(range(10), 24.0)


@pytest.mark.parametrize(
    ("loop_s", "share_of_one", "share_of_two"),
    [(10.0, 1.75, 1.0), (16.0, 1.0, 4 / 7), (24.0, 0.0, 0.0)],
)
def test_both_bounds(loop_s: float, share_of_one: float, share_of_two: float) -> None:
    """8 s each way and of compute: one engine needs 16 s, two need 1 + 8 + 1."""
    formulas = (partial(ideal_round_trip_s, num_batches=8, num_copy_engines=num) for num in (1, 2))
    loop = dict.fromkeys(range(10), loop_s)
    one, two = (overlap(SERIAL, loop, by_launch(ideal, PART, PART, PART)) for ideal in formulas)
    assert (one.ideal_s, two.ideal_s) == (16.0, 10.0)
    assert one.share == pytest.approx(share_of_one)
    assert two.share == pytest.approx(share_of_two, abs=1e-4)
