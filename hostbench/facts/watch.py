"""Watching a run: NVML sampled while it goes on, and the CPU time that others took.

A thread opens NVML, reads a few cheap facts four times a second, and adds them up as the rows of
`spec` say. Without GPUs there is no thread.
"""

import math
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from hostbench.core.units import MIB
from hostbench.facts.gpu import gpu_reads
from hostbench.facts.host import cpu_shares, cpu_ticks
from hostbench.facts.nvml import STUCK, THROTTLE_WORDS, Nvml, NvmlUnavailable, is_stuck, open_nvml
from hostbench.facts.record import Facts, Group, gpu_groups, known, number_of, to_json, unknown
from hostbench.facts.spec import LINK_BYTES, Watched, rows_of

INTERVAL_S = 0.25
WATCHED = {row.name: row.watched for row in rows_of("gpu") if row.watched}
_BYTES = [row.name for row in LINK_BYTES]
READ = [*WATCHED, *_BYTES]
"""What is read of a GPU each time."""
LOAD_BYTES = MIB
"""So much through the link since the reading before is load: NVML's own traffic stays far below."""
LOW_SHARE = 0.10
REASON_SHARE = 0.02
"""Of the readings under load: see `LoadReadings`."""

Write = Callable[[str, Mapping[str, Any]], None]
"""Takes `during`, and the facts as JSON: `JournalWriter.facts`."""


class Watch:
    """Use as a context manager around the launches of a run; writes `during` at the end. What goes
    wrong here never ends a run."""

    def __init__(
        self,
        write: Write,
        device: str,
        before: Facts,
        library: Any = None,
        *,
        interval_s: float = INTERVAL_S,
        root: Path = Path("/"),
        pid: int | None = None,
    ) -> None:
        """`device` is the run's: only one on cuda uses GPUs, those of `before` that CUDA shows.
        `library` stands in for pynvml. The CPU time of `pid`, or of this process, and of all that
        descend from it is the run's own."""
        self._write, self._library, self._root = write, library, root
        self._pid, self._interval_s = pid, interval_s
        self._readings: dict[int, LoadReadings] = {}
        if device == "cuda":
            self._readings = {index: LoadReadings() for index in _used(before)}
        self._why: str | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="hostbench-watch", daemon=True)

    def __enter__(self) -> "Watch":
        self._began = cpu_ticks(self._root, self._pid)
        if self._readings:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._readings and is_stuck(self._thread):
            self._why = STUCK
        host = cpu_shares(self._began, cpu_ticks(self._root, self._pid))
        gpus = {f"gpu{at}": readings.facts(self._why) for at, readings in self._readings.items()}
        self._write("during", to_json({"host": host, **gpus}))

    def _run(self) -> None:
        try:
            nvml = open_nvml(self._library)
            try:
                while not self._stop.is_set():
                    self._read(nvml)
                    self._stop.wait(self._interval_s)
            finally:
                nvml.close()
        except NvmlUnavailable as error:
            self._why = str(error)
        except Exception as error:
            self._why = f"{type(error).__name__}: {error}"

    def _read(self, nvml: Nvml) -> None:
        handles = nvml.handles()
        for index, readings in self._readings.items():
            readings.add(gpu_reads(nvml, handles[index], READ))


class LoadReadings:
    """What the readings of one GPU add up to. What a run of hours keeps is how often each value was
    read, and a fact has few values: clocks come in steps.

    A clock or a reason for a low clock counts only from a reading under load that follows one: the
    first one sees the GPU wake up. Of the clocks it is the 10th percentile: a tenth of those
    readings was as low or lower. A launch of some seconds has pauses, and 1 in 20 of its four
    readings a second may fall into one, which the 5th would show. A reason counts where at least 1
    in 50 of the readings have it: below, it slowed less than a share of 2 % of the run.
    """

    def __init__(self) -> None:
        self._counts: dict[str, Counter[Any]] = {name: Counter() for name in WATCHED}
        self._refused: Group = {}
        self._bytes: int | None = None
        self._was_loaded = self._was_ever_loaded = False

    def add(self, reading: Group) -> None:
        """Take in one reading, of READ."""
        loaded = self._is_under_load(reading)
        for name, how in WATCHED.items():
            fact = reading[name]
            if fact.why is not None:
                self._refused[name] = fact
            elif how == "highest" or (loaded and self._was_loaded):
                self._counts[name][fact.value] += 1
        self._was_loaded, self._was_ever_loaded = loaded, loaded or self._was_ever_loaded

    def facts(self, failed: str | None) -> Group:
        """A fact that was never read keeps NVML's last reason, else why the watch failed, if it
        did, else says that there was no load."""
        why = "no load was seen while the GPU was watched"
        if self._was_ever_loaded:
            why = "no load lasted for two readings of the GPU"
        none = unknown(failed or why)
        return {
            name: known(_ADD_UP[how](counts)) if counts else self._refused.get(name, none)
            for name, how in WATCHED.items()
            for counts in [self._counts[name]]
        }

    def _is_under_load(self, reading: Group) -> bool:
        """Bytes went through the link, or NVML does not call the GPU idle; else it cannot be told.

        Where neither can be read every reading counts.
        """
        counts = [reading[name].value for name in _BYTES]
        before, self._bytes = self._bytes, None
        if all(isinstance(count, int) for count in counts):
            self._bytes = sum(int(count) for count in counts if count is not None)
        moved = None if before is None or self._bytes is None else self._bytes - before
        if moved is not None and not 0 <= moved < LOAD_BYTES:
            return True  # a counter that fell has wrapped: it moved
        reasons = reading["throttle_reasons"].value
        if isinstance(reasons, str):
            return "idle" not in reasons.split(",")
        return self._bytes is None


def _used(facts: Facts) -> list[int]:
    """NVML's numbers of the GPUs that CUDA shows to this process; all where nobody told."""
    groups = gpu_groups(facts)
    shown = [group for group in groups if number_of(facts, group, "cuda_index") is not None]
    return [int(group.removeprefix("gpu")) for group in shown or groups]


def _low(counts: Counter[Any]) -> float:
    """By nearest rank, so that of up to ten readings it is the lowest."""
    number: float = sorted(counts.elements())[math.ceil(LOW_SHARE * counts.total()) - 1]
    return number


def _reasons(counts: Counter[Any]) -> str:
    """The words that enough readings have, in NVML's order; "none" only where there is no other."""
    words: Counter[str] = Counter()
    for listed, times in counts.items():
        words.update(dict.fromkeys(str(listed).split(","), times))
    often = {word for word in words if words[word] >= REASON_SHARE * counts.total()} - {"none"}
    order = [*THROTTLE_WORDS.values()]
    known_ones = [word for word in order if word in often]
    return ",".join([*known_ones, *sorted(often - set(order))]) or "none"


_ADD_UP: dict[Watched, Callable[[Counter[Any]], str | float]] = {
    "highest": max,
    "low percentile under load": _low,
    "frequent under load": _reasons,
}
