"""Progress on a terminal: a bar with what runs now and the time left; plain lines elsewhere."""

import math
import os
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TextIO

from hostbench.core import units
from hostbench.core.case import Case, typed_value
from hostbench.core.records import CaseRecord

if TYPE_CHECKING:
    from rich.progress import Progress

_BAR = 24
_LINE_EVERY_S = 9.0  # asked about once a second: 10 s are never passed


class Bar:
    """Redraws a bar on a terminal; elsewhere prints a flushed line at least every 10 s.

    As a context manager it leaves the terminal as it was, also after an error.
    """

    def __init__(self, out: TextIO | None = None, end_s: float = math.inf) -> None:
        """`end_s`, of time.monotonic: when it ends in any case, which alone is told then, for how
        much is left to measure shows only meanwhile."""
        self._out = out or sys.stderr
        live = self._out.isatty() and os.environ.get("TERM") != "dumb"
        self._drawn = _drawn(self._out) if live else None
        self._total = self._done = self._min_for_eta = 0
        self._launch = self._what = ""
        self._began_s = self._said_s = time.monotonic()
        self._end_s = end_s

    def __enter__(self) -> "Bar":
        return self

    def __exit__(self, *_: object) -> None:
        if self._drawn:
            self._drawn.stop()

    def begin(self, total: int, min_for_eta: int = 1) -> None:
        """`total`: cases times launches. `min_for_eta`: how many of them tell the time that the
        rest takes: a launch of every family, for cases of some take far longer."""
        self._total, self._min_for_eta, self._done = total, min_for_eta, 0
        self._began_s = time.monotonic()

    def walk(self, what: str, cases: Iterable[Case]) -> None:
        """A worker is about to walk these cases."""
        self._launch = what
        self._what = f"{what}, {', '.join(dict.fromkeys(case.family for case in cases))}"
        self.tick(always=True)

    def started(self, case: Case) -> None:
        """A worker begins with this case."""
        if not self._done:
            self._began_s = time.monotonic()  # the worker's start is paid once
        axes = ",".join(typed_value(name, value) for name, value in case.values.items())
        self._what = f"{self._launch}, {case.workload}[{axes}]"
        self.tick()

    def case(self, record: CaseRecord) -> None:
        self._done += 1
        if record.status == "failed":
            self._line(units.one_line(f"failed: {record.case}: {record.reason}"))
        self.tick()

    def dropped(self, count: int) -> None:
        """So many readings will not be taken: their case was skipped or failed."""
        self._done += count

    def tick(self, always: bool = False) -> None:
        """What runs now, and the time left: about once a second, while a worker is busy."""
        now_s = time.monotonic()
        share = self._done / self._total if self._total else 1.0
        left = ""
        if math.isfinite(self._end_s):
            left = f"at most {units.format_duration(self._end_s - now_s)} left"
        elif self._done and self._done >= self._min_for_eta:
            left = f"{units.format_duration((now_s - self._began_s) * (1 / share - 1))} left"
        if self._drawn:
            (task,) = self._drawn.task_ids
            self._drawn.update(task, completed=share, left=left, description=self._what)
            self._drawn.start()
            self._drawn.refresh()
        elif always or now_s - self._said_s >= _LINE_EVERY_S:
            filled = round(_BAR * share)
            bar = "#" * filled + "." * (_BAR - filled)
            self._line(", ".join(filter(None, (f"[{bar}] {self._what}", left))))
            self._said_s = now_s

    def _line(self, text: str) -> None:
        if self._drawn:
            self._drawn.console.print(text, soft_wrap=True)
            return
        with suppress(OSError):  # nobody can read it: the measurement goes on
            self._out.write(text + "\n")
            self._out.flush()


def _drawn(out: TextIO) -> "Progress":
    """rich's progress bar, of which nothing is markup; rich is imported only on a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn
    from rich.table import Column

    def text(field: str, **column: Any) -> TextColumn:
        return TextColumn(field, markup=False, table_column=Column(no_wrap=True, **column))

    progress = Progress(
        BarColumn(bar_width=_BAR),
        text("{task.fields[left]}"),
        text("{task.description}", overflow="ellipsis"),
        console=Console(file=out, highlight=False, markup=False, emoji=False),
        auto_refresh=False,  # no thread beside the measurement
        transient=True,
        redirect_stdout=out is sys.stdout,
        redirect_stderr=out is sys.stderr,
    )
    progress.add_task("", total=1.0, left="")
    return progress
