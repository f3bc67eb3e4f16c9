"""The shortest loops that copy and compute, from their parts alone: the bounds of NVIDIA's
simpleMultiCopy sample, with the ends added. Pure functions of seconds."""


def ideal_s(copy_s: float, compute_s: float, num_batches: int) -> float:
    """With one copy engine: the first copy, then the longer of the two for each further batch, then
    the last compute.

    `copy_s` and `compute_s` are the whole loop's copies and computes alone.
    """
    one_copy, one_compute = copy_s / num_batches, compute_s / num_batches
    return one_copy + (num_batches - 1) * max(one_copy, one_compute) + one_compute


def ideal_round_trip_s(
    in_s: float, out_s: float, compute_s: float, num_batches: int, num_copy_engines: int
) -> float:
    """Copy in, compute, copy out: no engine can be done sooner than all of its work, after what has
    to come before the first piece and before what has to follow the last.

    The three are the whole loop's parts alone. One copy engine takes both directions in turn, two
    take one each.
    """
    one_in, one_out, one_compute = (part / num_batches for part in (in_s, out_s, compute_s))
    computing_s = one_in + compute_s + one_out
    if num_copy_engines == 1:
        return max(computing_s, in_s + out_s)
    return max(computing_s, in_s + one_compute + one_out, one_in + one_compute + out_s)
