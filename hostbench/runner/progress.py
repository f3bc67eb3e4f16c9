"""Progress: one line with a bar, what runs now and the time left, redrawn on a terminal; elsewhere
printed again at least every 10 s."""

import math
import os
import shutil
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import TextIO

from hostbench.core import units
from hostbench.core.case import Case, as_typed
from hostbench.core.records import CaseRecord

_BAR = 24
_LINE_EVERY_S = 9.0  # asked about once a second: 10 s are never passed
_CLEAR = "\r\x1b[K"


class Bar:
    """As a context manager it leaves the terminal without the line, also after an error."""

    def __init__(self, out: TextIO | None = None, end_s: float = math.inf) -> None:
        """`end_s`, of time.monotonic: when it ends in any case, which alone is told then, for how
        much is left to measure shows only meanwhile."""
        self._out = out or sys.stderr
        self._is_live = self._out.isatty() and os.environ.get("TERM") != "dumb"
        self._total = self._done = self._min_for_eta = 0
        self._what = ""
        self._began_s = self._printed_s = time.monotonic()
        self._end_s = end_s

    def __enter__(self) -> "Bar":
        return self

    def __exit__(self, *_: object) -> None:
        self._write("")

    def begin(self, total: int, min_for_eta: int = 1) -> None:
        """`total`: cases times launches. `min_for_eta`: how many of them tell the time that the
        rest takes: a launch of every family, for cases of some take far longer."""
        self._total, self._min_for_eta, self._done = total, min_for_eta, 0

    def walk(self, what: str, cases: Iterable[Case]) -> None:
        """A worker is about to walk these cases."""
        self._what = f"{what}, {', '.join(dict.fromkeys(case.family for case in cases))}"
        self.tick(always=True)

    def case(self, record: CaseRecord) -> None:
        if record.status == "skipped":  # at once: it does not tell how long the others take
            self._total -= 1
            self._min_for_eta -= 1
        else:
            if not self._done:
                self._began_s = time.monotonic()  # the first worker's start is paid once
            self._done += 1
        if record.status == "failed":
            failure = f"failed: {as_typed(str(record.case))}: {record.reason}"
            self._write(units.one_line(failure) + "\n")
        self.tick()

    def dropped(self, count: int) -> None:
        """So many readings will not be taken: their case was skipped or failed."""
        self._total -= count

    def tick(self, always: bool = False) -> None:
        """What runs now, and the time left: about once a second, while a worker is busy."""
        now_s = time.monotonic()
        if not (self._is_live or always or now_s - self._printed_s >= _LINE_EVERY_S):
            return
        left = ""
        if math.isfinite(self._end_s):
            left = f", at most {units.format_duration(self._end_s - now_s)} left"
        elif self._done > 1 and self._done >= self._min_for_eta:
            a_case_s = (now_s - self._began_s) / (self._done - 1)
            left = f", {units.format_duration(a_case_s * (self._total - self._done))} left"
        filled = round(_BAR * self._done / self._total) if self._total else _BAR
        what = units.one_line(f"[{'#' * filled}{'.' * (_BAR - filled)}] {self._what}")
        width = shutil.get_terminal_size().columns - len(left) - 1
        self._write(what[:width] + left if self._is_live else f"{what}{left}\n")
        self._printed_s = now_s

    def _write(self, text: str) -> None:
        """In place of the line that was drawn last."""
        with suppress(OSError):  # nobody can read it: the measurement goes on
            self._out.write(f"{_CLEAR}{text}" if self._is_live else text)
            self._out.flush()
