"""Copy in, compute, copy out: the bounds for one and two copy engines."""


def ideal_round_trip_s(
    in_s: float, out_s: float, compute_s: float, num_batches: int, num_copy_engines: int
) -> float:
    """The shortest loop that copies in, computes and copies out: no engine can be done sooner than
    all of its work, after what has to come before the first piece and before what has to follow the
    last.

    The three are the whole loop's parts alone. One copy engine takes both directions in turn, two
    take one each: the bounds of NVIDIA's simpleMultiCopy sample, with the ends added.
    """
    one_in, one_out, one_compute = (part / num_batches for part in (in_s, out_s, compute_s))
    computing_s = one_in + compute_s + one_out
    if num_copy_engines == 1:
        return max(computing_s, in_s + out_s)
    return max(computing_s, in_s + one_compute + one_out, one_in + one_compute + out_s)
