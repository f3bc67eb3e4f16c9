"""Bandwidths of an all-reduce, exact."""

import pytest

from hostbench.core.bandwidth import bus_bytes_per_s


def test_a_bandwidth_needs_a_positive_time() -> None:
    for seconds in (0.0, -1.0):
        with pytest.raises(ValueError, match="positive"):
            bus_bytes_per_s(1000, seconds, 2)


@pytest.mark.parametrize(
    ("num_ranks", "factor"), [(2, 1.0), (3, 4 / 3), (4, 1.5), (8, 1.75), (1024, 2 * 1023 / 1024)]
)
def test_bus_bandwidth_has_the_factor_of_all_reduce(num_ranks: int, factor: float) -> None:
    assert bus_bytes_per_s(3 * 1024, 3.0, num_ranks) == pytest.approx(1024 * factor, rel=1e-15)


def test_one_rank_has_no_bus() -> None:
    assert bus_bytes_per_s(1000, 1.0, 1) is None
