"""Watching a run: NVML sampled while it goes on, and the CPU time that others took.

A thread reads a few cheap facts of the GPUs in use four times a second, which are added up as the
rows of `spec` say. Without GPUs there is no thread.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from threading import Event
from typing import Any

from hostbench.core.units import MIB
from hostbench.facts.gpu import read_rows
from hostbench.facts.host import cpu_shares, cpu_ticks
from hostbench.facts.nvml import PCIE_IN, PCIE_OUT, Nvml, asking, field_value
from hostbench.facts.record import Facts, Group, Unknown, gpu_groups, number_of
from hostbench.facts.spec import rows_of

INTERVAL_S = 0.25
_WATCHED = [row for row in rows_of("gpu") if row.watched]
_MOVED = "bytes_moved"
"""In a reading the bytes that have crossed the link so far, where they are counted."""
LOAD_BYTES = MIB
"""So much through the link since the reading before is load: NVML's own traffic stays far below."""
LOW_SHARE = 0.10
REASON_SHARE = 0.02
"""Of the readings under load: see `add_up`."""
NO_LOAD = "no load lasted while the GPU was watched"

Write = Callable[[str, Mapping[str, Any]], None]
"""Takes `during`, and the facts: `JournalWriter.facts`."""


@contextmanager
def watching(
    write: Write, before: Facts, num_gpus: int, library: Any = None, *, pid: int | None = None
) -> Iterator[None]:
    """Around the launches of a run; writes `during` at the end. What goes wrong here never ends a
    run. Its readings take 10 MB an hour for each GPU.

    `num_gpus`: CUDA devices that the run uses, from the first on, as `before` numbers them.
    `library` stands in for pynvml. The CPU time of `pid`, or of this process, and of all that
    descend from it is the run's own."""
    groups = gpu_groups(before) if num_gpus else []
    numbers = {group: number_of(before, group, "cuda_index") for group in groups}
    if any(number is not None for number in numbers.values()):  # else all, where nobody told
        groups = [group for group, n in numbers.items() if n is not None and n < num_gpus]
    readings_of: dict[int, list[Group]] = {int(group[3:]): [] for group in groups}
    stop = Event()

    def sample(nvml: Nvml) -> None:
        while not stop.is_set():
            for index, readings in readings_of.items():
                handle = nvml.ask("nvmlDeviceGetHandleByIndex", index)
                readings.append(read_rows(nvml, _WATCHED, handle))
                counts = [nvml.ask(field_value, handle, field) for field in (PCIE_IN, PCIE_OUT)]
                if not any(isinstance(count, Unknown) for count in counts):
                    readings[-1][_MOVED] = sum(counts)
            stop.wait(INTERVAL_S)

    began, why = cpu_ticks(pid), None
    answer = asking(sample, library) if readings_of else lambda: None
    try:
        yield
    finally:
        stop.set()
        try:
            answer()
        except Exception as error:
            why = str(error)
        host = cpu_shares(began, cpu_ticks(pid))
        gpus = {f"gpu{at}": add_up([*readings], why) for at, readings in readings_of.items()}
        write("during", {"host": host, **gpus})


def add_up(readings: Sequence[Group], failed: str | None) -> Group:
    """What the readings of one GPU say of the run. A fact that was never read keeps NVML's last
    reason, else why the watch failed, if it did, else says that there was no load.

    A clock or a reason for a low clock counts only from a reading under load that follows one: the
    first one sees the GPU wake up. Of the clocks it is the 10th percentile: a tenth of those
    readings was as low or lower. A launch of some seconds has pauses, and 1 in 20 of its four
    readings a second may fall into one, which the 5th would show. A reason counts where at least 1
    in 50 of the readings have it: below, it slowed less than a share of 2 % of the run.
    """
    steady, was_loaded = list[Group](), False
    for before, reading in pairwise([{}, *readings]):
        is_loaded = _is_under_load(before, reading)
        steady += [reading] * (was_loaded and is_loaded)
        was_loaded = is_loaded
    facts: Group = {}
    for row in _WATCHED:
        refused = [own for reading in readings if isinstance(own := reading[row.name], Unknown)]
        chosen = readings if row.watched == "highest" else steady
        values: list[Any] = [
            own for reading in chosen if not isinstance(own := reading[row.name], Unknown)
        ]
        if not values:
            facts[row.name] = refused[-1] if refused else Unknown(failed or NO_LOAD)
        elif row.watched == "highest":
            facts[row.name] = max(values)
        elif row.watched == "low under load":  # by nearest rank: of up to ten it is the lowest
            facts[row.name] = sorted(values)[math.ceil(LOW_SHARE * len(values)) - 1]
        else:
            words = Counter(word for reasons in values for word in reasons.split(","))
            often = {word for word in words if words[word] >= REASON_SHARE * len(values)}
            facts[row.name] = ",".join(sorted(often - {"none"})) or "none"
    return facts


def _is_under_load(before: Group, reading: Group) -> bool:
    """Bytes went through the link since the reading before, or NVML does not call the GPU idle.
    Where neither can be told every reading counts."""
    then, now = before.get(_MOVED), reading.get(_MOVED)
    if isinstance(then, int) and isinstance(now, int) and not 0 <= now - then < LOAD_BYTES:
        return True  # a counter that fell has wrapped: it moved
    reasons = reading["throttle_reasons"]
    if isinstance(reasons, str):
        return "idle" not in reasons.split(",")
    return now is None
