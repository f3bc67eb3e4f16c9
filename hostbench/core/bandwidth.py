"""What an all-reduce's time says about the links. Pure functions of bytes and seconds.

Source: NVIDIA nccl-tests, doc/PERFORMANCE.md. There the algorithm bandwidth is S/t, and the bus
bandwidth S/t * 2(n-1)/n: each of n ranks must send and receive at least 2(n-1)/n of its S bytes, so
the figure can be held against the speed of a link, whatever n is.
"""

from collections.abc import Mapping


def bus_bytes_per_s(nbytes: int, seconds: float, num_ranks: int) -> float | None:
    """Bus bandwidth of an all-reduce of `nbytes`, one rank's buffer; None for one rank, which sends
    nothing. Raises ValueError for a time that is not positive."""
    if seconds <= 0:
        raise ValueError(f"a bandwidth needs a positive time, not {seconds!r} s")
    if num_ranks < 2:
        return None
    return nbytes / seconds * 2 * (num_ranks - 1) / num_ranks


def scaling_efficiency(bus: Mapping[int, float | None]) -> dict[int, float]:
    """Number of ranks -> its bus bandwidth over that of the fewest ranks measured, from 2 up.

    1 means that more ranks cost no bandwidth. Empty where nothing from 2 ranks up was measured.
    """
    known = {num: rate for num, rate in sorted(bus.items()) if num >= 2 and rate}
    fewest = next(iter(known.values()), None)
    return {} if fewest is None else {num: rate / fewest for num, rate in known.items()}
