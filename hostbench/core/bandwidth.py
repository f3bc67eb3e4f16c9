"""What an all-reduce's time says about the links. Pure functions of bytes and seconds.

Source: NVIDIA nccl-tests, doc/PERFORMANCE.md. There the algorithm bandwidth is S/t, and the bus
bandwidth S/t * 2(n-1)/n: each of n ranks must send and receive at least 2(n-1)/n of its S bytes, so
the figure can be held against the speed of a link, whatever n is.
"""


def bus_bytes_per_s(nbytes: int, seconds: float, num_ranks: int) -> float | None:
    """Bus bandwidth of an all-reduce of `nbytes`, one rank's buffer; None for one rank, which sends
    nothing. Raises ValueError for a time that is not positive."""
    if seconds <= 0:
        raise ValueError(f"a bandwidth needs a positive time, not {seconds!r} s")
    if num_ranks < 2:
        return None
    return nbytes / seconds * 2 * (num_ranks - 1) / num_ranks
