"""How long each file of `make gpu-check` may take, and so all of it: under ten minutes.

Reckoned on a machine where everything starts slowly, so that a limit cuts off nothing that is
promised. Knows only Python's own modules: it is read before anything else is known to be there.
"""

CUDA_START_S = 8.0
"""One process starts CUDA, at worst: many GPUs, no persistence mode."""
IMPORT_S = 4.0
"""Importing torch from a disk that has not been read yet."""
SETTLE_S = 2.0
"""A device settles no longer (device/cuda.py)."""
START_S = IMPORT_S + CUDA_START_S + SETTLE_S
"""Before the first test of a file that works on the GPU itself, which those of runs do not."""
PROBE_S = IMPORT_S + CUDA_START_S
"""A process that asks torch whether CUDA works: of `check` itself, and of each `hostbench run`."""
BEFORE_S = PROBE_S + IMPORT_S + 1.0
"""Of a run, before its first worker: the probe, facts, the fork server."""

RUN_S = 221.0
"""How long the run of every case may measure and observe; it ends with the case in hand."""
DEADLINE_S = 25.0
"""Of one case there, which a start of CUDA or of ranks may be part of."""
LATE_S = DEADLINE_S + 5.0
"""A last case that hangs, and ending it."""
QUICK_S = 45.0
"""One launch of the quick cases, and observing them."""
NCCL_S = 40.0
"""Two cases over ranks, of which one GPU is refused one, and observing them."""

OWN_S = {"test_cuda_device": 30.0, "test_copies": 20.0, "test_delay_probe": 15.0,
         "test_facts": 10.0, "test_marks": 5.0}  # fmt: skip
"""What the tests of a file take themselves, once CUDA is there."""
STICKY_S = PROBE_S
"""One of test_cuda_device breaks CUDA in a process of its own."""

GRACE_S = 5.0
"""A file that is ended has so long to end by itself."""
BUDGETS = {
    "test_cuda_device": START_S + OWN_S["test_cuda_device"] + STICKY_S,
    "test_run": IMPORT_S + BEFORE_S + QUICK_S + BEFORE_S + RUN_S + LATE_S,
    "test_nccl": IMPORT_S + BEFORE_S + NCCL_S,
    "test_copies": START_S + OWN_S["test_copies"],
    "test_delay_probe": START_S + OWN_S["test_delay_probe"],
    "test_facts": START_S + OWN_S["test_facts"],
    "test_marks": START_S + OWN_S["test_marks"],
}
"""Seconds of a file, the ones of most worth first."""
OTHERS_S = 60.0
"""Of a file that is not named here."""
TOTAL_S = 590.0
"""All of it, with what `check` itself starts and the grace of every file."""


def run_s(elapsed_s: float) -> float:
    """How long the run of every case may measure and observe, so many seconds after its file was
    imported: where the quick cases took longer than QUICK_S, it ends earlier by as much, by itself,
    and not by the limit, which would keep nothing of it."""
    left_s = BUDGETS["test_run"] - IMPORT_S - elapsed_s - BEFORE_S - LATE_S
    return max(1.0, min(RUN_S, left_s))
