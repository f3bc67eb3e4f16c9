"""A night as a page: the first line is the answer, then what moved and why, what fails, and what to
do next. For a terminal, a CI job's summary, a file."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hostbench.core.case import as_typed
from hostbench.core.errors import EXIT_FAILED, EXIT_OK, EXIT_REGRESSION, EXIT_USAGE
from hostbench.core.samples import MIN_LAUNCHES
from hostbench.core.units import (
    format_change,
    format_interval,
    format_seconds,
    number_of,
    one_line,
)
from hostbench.judge.night import CONFIRMED, NightCause
from hostbench.judge.two_sides import Comparison, Verdict
from hostbench.report.blocks import Block, Column, Heading, Item, Table, Title, listed
from hostbench.report.comparison import detectable
from hostbench.report.night_history import launches_of
from hostbench.report.write import values
from hostbench.store.points import STATUSES
from hostbench.store.runs import WholeRun, launches_in_words

_LISTS = {
    "landed": "Commits since the run before",
    "lasting": "Software, driver and settings that changed since",
    "passing": "Throttling, temperature and load that differ",
    "failed": "Failed",
    "skipped": "Skipped, with a number before",
    "events": "Steps that history confirms (`hostbench changes`)",
    "still": "Known and still slower (`hostbench changes`)",
    "broken": "Failed beside the measuring",
    "remarks": "Next, and what else to know",
}
"""What a night lists, and under which heading."""
_CAUSES: Mapping[NightCause, tuple[str, str]] = {
    "code": ("", "the old and the new code were measured again, interleaved, and differ again"),
    "environment": (
        "",
        "{same}, but software, driver or settings are not, and are the likely cause",
    ),
    "disturbed": (
        "disturbed, not judged",
        "{same}, but throttling, temperature or load are not: not judged tonight",
    ),
    "unexplained": (
        "moved without a known cause",
        "{same}, and no recorded fact that would explain it has changed",
    ),
    "undecided": ("moved without a known cause", "measured again, too close to call"),
    "not measured again": (
        "moved in one run, not measured again",
        "seen in one run alone, which proves nothing",
    ),
    "gone": ("", "measured again it is not the code, and no more than runs differ by"),
}
"""(how the answer calls such series, but for what is confirmed; what the cause means)."""
_EVIDENCE = {"code": "landed", "environment": "lasting", "disturbed": "passing"}


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedSeries:
    """A series that moved against the runs before."""

    case: str
    version: str
    cause: NightCause
    shown: Comparison
    """Where it is the code's as it was measured again, else as tonight's run has it."""

    @property
    def effect(self) -> float:
        return self.shown.effect or 0.0

    @property
    def direction(self) -> Verdict:
        return "slower" if self.effect > 0 else "faster"


@dataclass(slots=True, kw_only=True)
class Night:
    """A night of a machine, as far as it has come."""

    machine: str = ""
    run: WholeRun | None = None
    code: int = EXIT_OK
    """The exit code, as far as it does not follow from what is below."""
    ended: str = ""
    """Why nothing was concluded; empty where something was."""
    quiet: str = ""
    """The answer where there is nothing else to say."""
    about: list[str] = field(default_factory=list)
    """What it rests on."""
    same_code: bool = False
    """As in the run before."""
    moved: Sequence[MovedSeries] = ()
    named: tuple[str, ...] = ()
    """The events that it is the first to name, as nights store them."""
    lists: dict[str, list[str]] = field(default_factory=lambda: {name: [] for name in _LISTS})

    def of(self, *causes: NightCause, verdict: str = "") -> list[MovedSeries]:
        """The largest first."""
        chosen = [
            series
            for series in self.moved
            if series.cause in causes and verdict in ("", series.direction)
        ]
        return sorted(chosen, key=lambda series: -abs(series.effect))


def exit_code(night: Night) -> int:
    """2 usage, 4 something failed or was interrupted, 1 slower, 3 nothing to judge, else 0."""
    if night.code == EXIT_USAGE:
        return EXIT_USAGE
    if night.code == EXIT_FAILED or night.lists["failed"] or night.lists["broken"]:
        return EXIT_FAILED
    if night.of(*CONFIRMED, verdict="slower") or night.lists["events"]:
        return EXIT_REGRESSION
    return night.code


def cut_off(why: str, run: WholeRun | None) -> str:
    """The answer of a night that was ended early."""
    if run is None:
        return f"{why} before anything was measured"
    done = len({record.case for record in run.run.records})
    return (
        f"{why}, nothing judged: {done} of {number_of(len(run.header.planned), 'case')}, "
        f"{_launches(run)} measured and kept; start it again"
    )


def unjudged(run: WholeRun) -> str:
    """Why nothing of a run can be judged; empty where something can."""
    few = f"no case has the {MIN_LAUNCHES} launches that it takes"
    return run.header.scratch or ("" if launches_of(run) else few)


def quiet(run: WholeRun, compared: Mapping[Any, Comparison] | None) -> str:
    """The answer where nothing failed and nothing moved. `compared`: the series that were held
    against runs before; None without any."""
    counts = Counter(result.status for result in run.results())
    if not (num := counts["ok"]):
        return "nothing measured: no case has a number"
    measured = f"{number_of(num, 'series', 'series')} measured"
    if why := unjudged(run):
        return f"not judged ({why}): {measured}"
    if not compared:
        first = f"first night on {run.header.device}: " if compared is None else ""
        return f"{first}{measured}, nothing to compare with yet"
    part = f", {len(compared)} of them compared" * (len(compared) < num)
    left = len(run.not_measured())
    part += f", {number_of(left, 'case')} not" * (left > 0)
    smallest = detectable(compared)
    if smallest is None:
        return f"no new change: {measured}{part}, too few nights yet to judge more than the code"
    return f"no new change: {measured}{part}, smallest detectable change {smallest:.1%} (median)"


def about(run: WholeRun) -> str:
    """The run itself in a line."""
    counted = Counter(result.status for result in run.results())
    counts = ", ".join(f"{counted[status]} {status}" for status in STATUSES if counted[status])
    commit = f"commit {run.header.commit[:8]}" if run.header.commit else "no commit"
    return (
        f"run {run.run_id}: device {run.header.device}, {commit}, cases: {counts}, {_launches(run)}"
    )


def _launches(run: WholeRun) -> str:
    """`4 of 10 launches`."""
    return launches_in_words(run.header.launches, run.measured_launches, True)


def answer(night: Night) -> str:
    """The first line: what a person has to know, the worst first. Text from anywhere may be in
    it."""
    failed, skipped, still = (night.lists[name] for name in ("failed", "skipped", "still"))
    clauses = [night.ended] if night.ended else []
    clauses += [f"{number_of(len(failed), 'case')} failed"] if failed else []
    clauses += _what_moved(night)
    clauses = clauses or [night.quiet]
    if skipped:
        clauses.append(f"{number_of(len(skipped), 'case')} skipped that had a number before")
    if still:
        clauses.append(f"known and still slower: {number_of(len(still), 'step')}, as {still[0]}")
    text = "; ".join([*clauses, *night.lists["broken"]])
    where = f" [{night.machine}]" if night.machine else ""
    return one_line(f"{text[:1].upper()}{text[1:]}{where}")


def _what_moved(night: Night) -> Iterator[str]:
    for direction in ("slower", "faster"):
        for cause in CONFIRMED:
            if series := night.of(cause, verdict=direction):
                yield f"{direction}: {_summed(night, series)}"
    if steps := night.lists["events"]:
        yield f"slower by history: {number_of(len(steps), 'step')} confirmed"
    calm = "" if night.of(*CONFIRMED) or steps else "nothing confirmed: "
    for words in dict.fromkeys(words for words, _ in _CAUSES.values() if words):
        if series := night.of(*(cause for cause in _CAUSES if _CAUSES[cause][0] == words)):
            is_disturbed = series[0].cause == "disturbed"
            yield f"{'' if is_disturbed else calm}{words}: {_summed(night, series)}"


def _summed(night: Night, series: Sequence[MovedSeries]) -> str:
    """`3 series, most of all transfer.copy[...] +12.0% (code: 1a2b3c4d Wait twice)`."""
    worst = series[0]
    num = number_of(len(series), "series", "series")
    most = ", most of all" if len(series) > 1 else ","
    why = night.lists.get(_EVIDENCE.get(worst.cause, ""), [])
    more = f" and {len(why) - 1} more" if len(why) > 1 else ""
    because = f" ({': '.join((worst.cause, *why[:1]))}{more})"
    return f"{num}{most} {as_typed(worst.case)} {format_change(worst.effect)}{because}"


def blocks(night: Night) -> list[Block]:
    """The answer, what it rests on, and what to do next."""
    parts: list[Block] = [Title(answer(night)), *map(Item, night.about)]
    parts.append(Item(f"exit code {exit_code(night)}"))
    if night.moved:
        parts += ["", Heading("What moved since the runs before"), table(night)]
        same = "code is the same" if night.same_code else "old code measures the same tonight"
        for cause, (_, meaning) in _CAUSES.items():
            if night.of(cause):
                parts.append(Item(f"{cause}: {meaning.format(same=f'the {same}')}"))
    for name, lines in night.lists.items():
        if night.moved or name not in _EVIDENCE.values():
            parts += listed(_LISTS[name], lines)
    return parts


def _levels(*seconds: float | None) -> str:
    return " -> ".join("-" if value is None else format_seconds(value) for value in seconds)


_COLUMNS = (
    Column(("verdict",), "verdict"),
    Column(("cause",), "cause"),
    Column(("effect",), "change", format_change, right=True),
    Column(("low", "high"), "99 % interval", format_interval, right=True),
    Column(("before_s", "after_s"), "before -> tonight", _levels, right=True),
    Column(("series",), "series", as_typed, code=True),
)


def table(night: Night) -> Table:
    """A row for each series that moved."""
    rows = [
        {
            "verdict": series.direction,
            "cause": series.cause,
            "effect": series.shown.effect,
            "low": series.shown.low,
            "high": series.shown.high,
            "before_s": series.shown.before,
            "after_s": series.shown.after,
            "series": series.case,
        }
        for cause in _CAUSES
        for series in night.of(cause)
    ]
    return Table(_COLUMNS, rows)


def as_json(night: Night) -> dict[str, Any]:
    """The same as plain values."""
    return {
        "answer": answer(night),
        "exit_code": exit_code(night),
        "machine": night.machine,
        "run_id": night.run and night.run.run_id,
        "about": night.about,
        "same_code": night.same_code,
        "moved": values(table(night)),
        **night.lists,
    }
