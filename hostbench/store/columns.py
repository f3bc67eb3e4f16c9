"""The names of the tidy frame's columns, which hostbench.store.frame explains."""

from typing import Any

from hostbench.core.case import AxisValue, Case

COLUMNS = tuple(
    (
        "machine hardware device commit committed_at run_id started_at torch driver family "
        "workload metric case version status reason seconds ci_low_s ci_high_s q25_s q75_s "
        "call_s device_s asynchronous findings proofs peak_memory_bytes num_samples launches "
        "nbytes gb_per_s ceiling_gb_per_s encoded_gb_per_s ceiling link published_low_gb_per_s "
        "published_high_gb_per_s published published_kind value unit source scratch "
        "interleaved_with flags"
    ).split()
)
SIDES = ("machine", "commit", "run_id", "started_at", "torch", "driver", "scratch")
"""What can be said of a run as a whole, to choose what is compared."""
STATUSES = ("ok", "skipped", "failed", "not measured")
ABOUT = ("commit", "started_at", "hardware", "torch", "driver", "scratch", "source")
"""What is the same in all rows of a run on a machine."""
COUNTS = ("machine", "run_id", "family", "device", "own", *ABOUT, *STATUSES, "unexpected")
"""Of the rows of a run, family and device. `own`: measured by hostbench, else by the asv suite of
another project. A column for each status: how many rows. `unexpected`: rows with a finding that
their case does not declare."""
RUN_COUNTS = ("machine", "run_id", "device", *ABOUT, *STATUSES, "unexpected")
"""The same of a whole run. `device`: `simulated` where any row is, else missing."""
TIMES = ("committed_at", "started_at")
NUMBERS = tuple(c for c in COLUMNS if c.endswith("_s") or c in ("seconds", "value", "num_samples"))

FrameRow = dict[str, Any]


def axes_of(case: Case) -> dict[str, AxisValue]:
    """Axis columns; an axis of another project that is named like a column gets an underscore, but
    for a device and a size as ours are."""
    return {
        f"{name}_" if name in COLUMNS and not _is_ours(name, value) else name: value
        for name, value in case.axes
    }


def _is_ours(name: str, value: AxisValue) -> bool:
    if name == "nbytes":
        return type(value) is int and 0 <= value < 1 << 63
    return name == "device" and isinstance(value, str)
