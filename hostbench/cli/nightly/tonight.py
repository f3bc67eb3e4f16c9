"""What all steps of a night share: what was asked, what is known so far, what is said of it."""

import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hostbench.cli.run_setup import Measuring, Setup
from hostbench.core.errors import HostbenchError
from hostbench.judge.night import LaunchesOf
from hostbench.report.nightly import NightReport
from hostbench.store.runs import WholeRun


@dataclass(frozen=True, slots=True, kw_only=True)
class NightlyOptions(Measuring):
    no_asv: bool = False
    summary: Path | None = None
    page: Path | None = None
    format: str = "text"


@dataclass(slots=True, kw_only=True)
class Tonight:
    """The night as far as it has come: an interrupt ends it anywhere, and its summary is due all
    the same."""

    options: NightlyOptions
    report: NightReport = field(default_factory=NightReport)
    setup: Setup | None = None
    run: WholeRun | None = None
    launches: LaunchesOf = field(default_factory=dict)
    """Of the run: the series that have enough for a verdict."""
    began_s: float = field(default_factory=time.monotonic)
    is_underway: bool = False
    """Options and names are right: what goes wrong from here on is none of theirs (a full disk)."""
    is_ours: bool = True
    """No other nightly measures here, whose files these would be."""

    def note(self, **known: Any) -> None:
        """Fields of the report that are known now."""
        self.report = replace(self.report, **known)

    def remark(self, *texts: str) -> None:
        self.note(remarks=(*self.report.remarks, *texts))

    @contextmanager
    def beside(self, what: str) -> Iterator[None]:
        """A step beside the measuring: where it fails the night goes on, and says so."""
        try:
            yield
        except Exception as error:
            self.note(broken=(*self.report.broken, f"{what}: {in_words(error)}"))

    def within(self, setup: Setup, share: float) -> Setup:
        """The same, to stop when so much of the budget is used up, where there is one."""
        budget = self.options.budget
        if budget is None:
            return setup
        left_s = share * budget - (time.monotonic() - self.began_s)
        return replace(setup, budget_s=min(setup.budget_s, max(left_s, 0.0)))


def in_words(error: Exception) -> str:
    """A fault of hostbench's own with its traceback on stderr: the summary is due all the same."""
    if isinstance(error, HostbenchError):
        return str(error)
    traceback.print_exception(error)
    return f"{type(error).__name__}: {error}"


def say(text: str) -> None:
    print(f"hostbench: {text}", file=sys.stderr, flush=True)
