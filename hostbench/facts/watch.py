"""Watching a run: NVML sampled while it goes on, and the CPU time that others took.

A thread reads a few cheap facts four times a second through an NVML that stays open, and adds them
up as the rows of `spec` say. Without NVML there is no thread.
"""

import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from hostbench.core.units import MIB
from hostbench.facts.cpu_time import cpu_shares, cpu_ticks
from hostbench.facts.gpu import gpu_reads
from hostbench.facts.nvml import Nvml, open_nvml
from hostbench.facts.record import (
    Facts,
    Group,
    Value,
    gpu_groups,
    known,
    number_of,
    to_json,
    unknown,
)
from hostbench.facts.spec import GPU, LINK_BYTES, Watched
from hostbench.facts.words import THROTTLE_WORDS

INTERVAL_S = 0.25
PATIENCE_S = 10.0
"""A call into NVML that takes longer at the end of the run hangs: it is left behind."""
VARIABLE = "HOSTBENCH_WATCH"
"""`0` leaves the sampling out, to see that it changes nothing."""
WATCHED = {row.name: row.watched for row in GPU if row.watched}
_BYTES = [row.name for row in LINK_BYTES]
LOAD_BYTES = MIB
"""So much through the link since the reading before is load: NVML's own traffic stays far below."""

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
        patience_s: float = PATIENCE_S,
        root: Path = Path("/"),
    ) -> None:
        """`device` is the run's: only one on cuda uses GPUs, those of `before` that CUDA shows.
        `library` stands in for pynvml."""
        self._write, self._library, self._root = write, library, root
        self._interval_s, self._patience_s = interval_s, patience_s
        self._nvml: Nvml | None = None
        self._seen: dict[int, LoadReadings] = {}
        if device == "cuda" and os.environ.get(VARIABLE) != "0":
            self._seen = {index: LoadReadings() for index in _used(before)}
        self._why = "no load was seen while the GPU was watched"
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> "Watch":
        self._began = cpu_ticks(self._root)
        if self._seen:
            self._guarded(self._start)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join(self._patience_s)
        if self._thread is not None and self._thread.is_alive():
            self._why = f"a call into NVML did not return within {self._patience_s:g} s"
        elif self._nvml is not None:
            self._guarded(self._nvml.close)
        self._guarded(lambda: self._write("during", to_json(self._during())))

    def sample(self) -> None:
        """One reading of every GPU."""
        assert self._nvml is not None
        for index, seen in self._seen.items():
            seen.add(gpu_reads(self._nvml, index, [*WATCHED, *_BYTES]))

    def _start(self) -> None:
        self._nvml = open_nvml(self._library)
        self._thread = threading.Thread(target=self._run, name="hostbench-watch", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self._guarded(self._sample_until_stopped)

    def _sample_until_stopped(self) -> None:
        while not self._stop.is_set():
            self.sample()
            self._stop.wait(self._interval_s)

    def _guarded(self, do: Callable[[], object]) -> None:
        try:
            do()
        except Exception as error:
            self._why = f"{type(error).__name__}: {error}"

    def _during(self) -> Facts:
        host = cpu_shares(self._began, cpu_ticks(self._root))
        gpus = {f"gpu{index}": seen.facts(self._why) for index, seen in self._seen.items()}
        return {"host": host, **gpus}


class LoadReadings:
    """What the readings of one GPU add up to: highest, lowest under load, all reasons. Facts that
    were never read keep the last reason."""

    def __init__(self) -> None:
        self._group: Group = {}
        self._bytes: int | None = None

    def add(self, sample: Group) -> None:
        """Take in one reading of WATCHED and LINK_BYTES."""
        loaded = self._is_under_load(sample)
        for name, how in WATCHED.items():
            before, fact = self._group.get(name), sample[name]
            if not loaded and how != "highest":
                continue
            if before is None or before.value is None:
                self._group[name] = fact
            elif fact.value is not None:
                self._group[name] = known(_CHOOSE[how](before.value, fact.value) or before.value)

    def facts(self, why: str) -> Group:
        """`why` is the reason for what no reading told."""
        return {name: self._group.get(name, unknown(why)) for name in WATCHED}

    def _is_under_load(self, sample: Group) -> bool:
        """Bytes went through the link, or NVML does not call the GPU idle; else it cannot be told.

        Where neither can be read every reading counts.
        """
        counts = [sample[name].value for name in _BYTES]
        before, self._bytes = self._bytes, None
        if all(isinstance(count, int) for count in counts):
            self._bytes = sum(int(count) for count in counts if count is not None)
        moved = None if before is None or self._bytes is None else self._bytes - before
        if moved is not None and not 0 <= moved < LOAD_BYTES:
            return True  # a counter that fell has wrapped: it moved
        reasons = sample["throttle_reasons"].value
        if isinstance(reasons, str):
            return "idle" not in reasons.split(",")
        return self._bytes is None


def _used(facts: Facts) -> list[int]:
    """NVML's numbers of the GPUs that CUDA shows to this process; all where nobody told."""
    groups = gpu_groups(facts)
    shown = [each for each in groups if number_of(facts, each, "cuda_index") is not None]
    return [int(each.removeprefix("gpu")) for each in shown or groups]


def _highest(a: Value, b: Value) -> Value:
    return max(a, b) if isinstance(a, int | float) and isinstance(b, int | float) else b


def _lowest(a: Value, b: Value) -> Value:
    return min(a, b) if isinstance(a, int | float) and isinstance(b, int | float) else b


def _union(a: Value, b: Value) -> Value:
    """Both lists of words, in NVML's order; "none" only where there is no other."""
    found = {word for words in (a, b) for word in str(words).split(",")} - {"none"}
    order = [*THROTTLE_WORDS.values()]
    listed = [word for word in order if word in found]
    return ",".join([*listed, *sorted(found - set(order))]) or "none"


_CHOOSE: dict[Watched, Callable[[Value, Value], Value]] = {
    "highest": _highest,
    "lowest under load": _lowest,
    "union under load": _union,
}
