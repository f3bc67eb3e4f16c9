"""Progress on a terminal: a bar with what runs now and the time left; plain lines elsewhere."""

import shutil
import sys
import time
from typing import TextIO

from hostbench.core import units
from hostbench.core.case import Case
from hostbench.runner.journal import CaseRecord

_BAR = 24
_LINE_EVERY_S = 9.0  # asked about once a second: 10 s are never passed


class Bar:
    """Redraws one line on a terminal; elsewhere prints a flushed line at least every 10 s."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out or sys.stderr
        self._live = self._out.isatty()
        self._total = self._done = 0
        self._launch = self._what = ""
        self._began_s = self._said_s = time.monotonic()

    def begin(self, total: int) -> None:
        self._total = total
        self._began_s = time.monotonic()

    def launch(self, number: int, of: int, family: str) -> None:
        self._launch = self._what = f"launch {number + 1}/{of} {family}"
        self._say(always=not self._live)

    def observing(self, family: str) -> None:
        self._launch = self._what = f"observing {family}"
        self._say(always=not self._live)

    def started(self, case: Case) -> None:
        """A worker begins with this case."""
        axes = ",".join(str(value) for _, value in case.axes)
        self._what = f"{self._launch}.{case.workload.partition('.')[2]}[{axes}]"
        self._say()

    def case(self, record: CaseRecord) -> None:
        self._done += 1
        if record.status == "failed":
            self._line(units.one_line(f"failed: {record.case}: {record.reason}"))
        self._say()

    def dropped(self, count: int) -> None:
        self._done += count

    def tick(self) -> None:
        self._say()

    def end(self) -> None:
        if self._live:
            self._out.write("\r\033[K")
        self._out.flush()

    def _say(self, always: bool = False) -> None:
        now_s = time.monotonic()
        if self._live:
            width = shutil.get_terminal_size().columns - 1
            self._out.write("\r\033[K" + self._text(now_s)[:width])
        elif always or now_s - self._said_s >= _LINE_EVERY_S:
            self._out.write(self._text(now_s) + "\n")
        else:
            return
        self._said_s = now_s
        self._out.flush()

    def _line(self, text: str) -> None:
        self._out.write(("\r\033[K" if self._live else "") + text + "\n")
        self._out.flush()

    def _text(self, now_s: float) -> str:
        share = self._done / self._total if self._total else 1.0
        filled = round(_BAR * share)
        spent_s = now_s - self._began_s
        left = units.format_duration(spent_s / share - spent_s) if share > 0 else "?"
        bar = "#" * filled + "." * (_BAR - filled)
        return f"[{bar}] {self._done}/{self._total}  {left} left  {self._what}"
