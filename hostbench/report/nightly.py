"""A night as a page: the first line is the answer, then what moved and why, what fails, what looks
wrong. For a terminal, a CI job's summary, a file."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from hostbench.core.case import as_typed
from hostbench.core.errors import (
    EXIT_FAILED,
    EXIT_NOTHING_MEASURED,
    EXIT_OK,
    EXIT_REGRESSION,
    EXIT_USAGE,
)
from hostbench.core.samples import MIN_LAUNCHES
from hostbench.core.units import format_seconds, number_of, one_line
from hostbench.judge.compare import Comparison
from hostbench.judge.night import CONFIRMED, NightCause
from hostbench.report.judged import ExplainedEvent
from hostbench.report.table import Cell, Column, Heading, Part, Table

_COLUMNS = (
    Column(title="verdict", keys=("verdict",)),
    Column(title="cause", keys=("cause",)),
    Column(title="change", keys=("effect",), right=True),
    Column(title="99 % interval", keys=("low", "high"), right=True),
    Column(title="before -> tonight", keys=("before_s", "after_s"), right=True),
    Column(title="series", keys=("series",), code=True),
)
_CAUSES: Mapping[NightCause, str] = {
    "code": "interleaved with the code of the run before, it is there too",
    "environment": "not the code, and a fact that lasts has changed",
    "disturbed": "not the code, and a fact that passes has moved: this night says nothing",
    "recovered": "the runs before were disturbed: not the code, and passing facts have moved",
    "unexplained": "not the code, and no fact that counts has changed",
    "gone": "a second run of tonight does not show it",
    "undecided": "measured again, too close to call",
    "not measured again": "not measured again",
}
_FEW = 10
"""Lines of one kind that are listed; the others are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedSeries:
    """A series that moved against the runs before."""

    case: str
    version: str
    tonight: Comparison
    again: Comparison | None
    """As it was measured once more."""
    cause: NightCause
    before: str = ""
    """run_id of the run that it was compared with."""

    @property
    def shown(self) -> Comparison:
        """What counts of the two."""
        return self.again if self.again is not None and self.cause == "code" else self.tonight


@dataclass(frozen=True, slots=True, kw_only=True)
class NightReport:
    """One night of one machine. Where nothing was measured `error` says why."""

    machine: str = ""
    device: str = ""
    commit: str | None = None
    run_id: str | None = None
    began: str = ""
    """ISO 8601 in UTC."""
    took_s: float = 0.0
    ended: str = "complete"
    """`complete`, `interrupted`, `stopped` or `device lost`: of the measuring."""
    interrupted: str = ""
    """Where the night itself was ended early: in which step."""
    scratch: str | None = None
    launches: str = ""
    """`4 of 10 launches`."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """Status -> cases."""
    error: str = ""
    error_code: int = EXIT_OK
    enough: int = 0
    """Series with launches enough for a verdict."""
    is_first: bool = True
    """No earlier run of this machine and device may be judged."""
    other_devices: tuple[str, ...] = ()
    """Where it is the first: devices that this machine has measured before. A GPU may be lost."""
    held: int = 0
    """Series that an earlier run has, too, with launches enough on both sides."""
    before: tuple[str, ...] = ()
    """run_ids of the runs that it was held against, the newest first."""
    moved: tuple[MovedSeries, ...] = ()
    lasting: tuple[str, ...] = ()
    passing: tuple[str, ...] = ()
    """Facts that changed since the run before, in words."""
    landed: tuple[str, ...] = ()
    """Commits since then, the newest first."""
    failed: tuple[str, ...] = ()
    """`case: reason` of what failed tonight, what had a number before first."""
    num_broke: int = 0
    """How many of those had a number before."""
    skipped: tuple[str, ...] = ()
    """`case: reason` of what is skipped and had a number before."""
    events: tuple[ExplainedEvent, ...] = ()
    """Steps that `hostbench changes` has confirmed since the last night."""
    still: tuple[str, ...] = ()
    """What earlier nights confirmed as slower and nobody has undone."""
    silent: tuple[str, ...] = ()
    """Machines of which nothing came."""
    looks_wrong: tuple[str, ...] = ()
    detectable: float | None = None
    """The smallest change that tonight's launches tell, in half of the series."""
    bought: tuple[str, ...] = ()
    """What `--budget` was spent on."""
    again: tuple[str, ...] = ()
    """run_ids of what was measured once more."""
    remarks: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    """Steps of the night that failed (a push, asv, a notification), in words."""

    def of(self, *causes: NightCause, verdict: str = "") -> list[MovedSeries]:
        """The largest first."""
        found = [
            one
            for one in self.moved
            if one.cause in causes and verdict in ("", one.tonight.verdict)
        ]
        return sorted(found, key=lambda one: -abs(one.shown.effect or 0.0))

    @property
    def unjudged(self) -> str:
        """Why nothing of what was measured can be judged; empty where something can."""
        few = f"no case has the {MIN_LAUNCHES} launches that it takes"
        return self.scratch or ("" if self.enough else few)

    @property
    def is_disturbed(self) -> bool:
        return bool(self.of("disturbed"))


def exit_code(night: NightReport) -> int:
    """2 usage, 4 something failed or was interrupted, 1 slower, 3 nothing to judge, else 0."""
    if night.error_code == EXIT_USAGE:
        return EXIT_USAGE
    if _cut_off(night) or night.failed or night.broken or night.error_code == EXIT_FAILED:
        return EXIT_FAILED
    if night.of(*CONFIRMED, verdict="slower") or night.events:
        return EXIT_REGRESSION
    return EXIT_NOTHING_MEASURED if night.unjudged else EXIT_OK


def answer(night: NightReport) -> str:
    """The first line: what a person has to know. Text from anywhere may be in it."""
    where = f" [{night.machine}]" if night.machine else ""
    said = "; ".join(_clauses(night))
    return one_line(f"{said[:1].upper()}{said[1:]}{where}")


def _clauses(night: NightReport) -> Iterator[str]:
    """The worst first."""
    yield from _what_failed(night)
    yield from _what_moved(night)
    if not (night.error or night.failed or _cut_off(night)):
        yield from _quiet(night)
    if night.skipped:
        yield f"{number_of(len(night.skipped), 'case')} skipped that had a number before"
    yield from night.silent
    yield from night.broken


def _what_failed(night: NightReport) -> Iterator[str]:
    if night.error:
        is_broken = night.error_code == EXIT_FAILED
        yield f"{'broken off' if is_broken else 'nothing measured'}: {night.error}"
    if how := _cut_off(night):
        total = sum(night.counts.values())
        done = total - night.counts.get("not measured", 0)
        if night.ended == "complete" and total:
            yield f"{how} after all {total} cases were measured: started again, it judges them"
        elif total:
            yield (
                f"{how} after {done} of {number_of(total, 'case')}, {night.launches}: that is "
                "kept, and started again within 20 hours it does the rest"
            )
        else:
            yield f"{how} before anything was measured"
    if night.failed:
        new = f" ({night.num_broke} had a number before)" if night.num_broke else ""
        yield f"{number_of(len(night.failed), 'case')} failed{new}"


def _what_moved(night: NightReport) -> Iterator[str]:
    for verdict in ("slower", "faster"):
        for cause in CONFIRMED:
            if found := night.of(cause, verdict=verdict):
                yield f"{verdict}: {_summed(night, found)}"
    if night.events:
        yield f"slower by history: {number_of(len(night.events), 'step')} confirmed"
    if found := night.of("disturbed"):
        yield f"disturbed, not judged: {_summed(night, found)}"
    if found := night.of("recovered"):
        yield f"faster, for the runs before were disturbed: {_summed(night, found)}"
    if found := night.of("unexplained", "undecided", "not measured again"):
        calm = "" if night.of(*CONFIRMED) or night.events else "nothing confirmed: "
        yield f"{calm}moved without a known cause: {_summed(night, found)}"


def _cut_off(night: NightReport) -> str:
    return night.interrupted or night.ended * (night.ended in ("interrupted", "device lost"))


def _quiet(night: NightReport) -> Iterator[str]:
    num, left = night.counts.get("ok", 0), night.counts.get("not measured", 0)
    measured = f"{number_of(num, 'series', 'series')} measured"
    if not num:
        yield "nothing measured: no case has a number"
    elif night.unjudged:
        yield f"not judged ({night.unjudged}): {measured}"
    elif not night.held:
        others = " and ".join(night.other_devices)
        after = f" on {night.device}, after runs on {others}" if others else ""
        yield f"{f'first night{after}: ' * night.is_first}{measured}, nothing to compare with yet"
    elif not (night.events or len(night.of("gone")) < len(night.moved)):
        compared = f", {night.held} of them compared" * (night.held < num)
        later = f", {number_of(left, 'case')} not" * (left > 0)
        least = "" if night.detectable is None else f", changes from {night.detectable:.1%} on tell"
        yield f"no change: {measured}{compared}{later}{least}"


def _summed(night: NightReport, found: Sequence[MovedSeries]) -> str:
    """`3 series, most +12.0 % (code: 1a2b3c4d Wait twice)`."""
    worst = found[0]
    cause = worst.cause
    num = number_of(len(found), "series", "series")
    of_all = f"{num}, the most {as_typed(worst.case)} {worst.shown.effect or 0.0:+.1%}"
    why = evidence(night, cause)
    more = f" and {len(why) - 1} more" if len(why) > 1 else ""
    return f"{of_all} ({cause}{': ' * bool(why)}{''.join(why[:1])}{more})"


def evidence(night: NightReport, cause: NightCause) -> tuple[str, ...]:
    """What speaks for a cause: the commits, or the facts."""
    if cause == "code":
        return night.landed
    return {
        "environment": night.lasting,
        "disturbed": night.passing,
        "recovered": night.passing,
    }.get(cause, ())


def _of_history(told: ExplainedEvent) -> str:
    one = told.found
    since = f"{one.first.commit[:8]} {one.first.committed_at:%Y-%m-%d}"
    effect = f"{one.change.effect:+.1%}"
    return f"{as_typed(one.event.id)} {effect} since {since} ({told.cause.label})"


def page(night: NightReport) -> list[Part]:
    """The answer, what it rests on, and what to do next."""
    parts: list[Part] = [Heading(answer(night)), *_about(night)]
    if night.moved:
        parts += ["", Heading("What moved, against the runs before"), table(night), *_why(night)]
    parts += _listed("Failed", night.failed)
    parts += _listed("Skipped, with a number before", night.skipped)
    parts += _listed(
        "Steps that history confirms (`hostbench changes`)", list(map(_of_history, night.events))
    )
    parts += _listed("Still slower, known from earlier nights", night.still)
    parts += _listed("Looks wrong on this machine", night.looks_wrong)
    parts += _listed("Machines that are silent", night.silent)
    parts += _listed("What the budget bought", night.bought)
    if night.again:
        parts += ["", f"measured once more: {', '.join(f'run:{one}' for one in night.again)}"]
    parts += _listed("Failed beside the measuring", night.broken)
    return [*parts, *(["", *night.remarks] if night.remarks else [])]


def _about(night: NightReport) -> Iterator[str]:
    counts = ", ".join(f"{num} {status}" for status, num in night.counts.items() if num)
    commit = f"commit {night.commit[:8]}" if night.commit else "no commit"
    if night.run_id:
        yield (
            f"{night.machine}, device {night.device}, {commit}, {night.began[:16]}Z, "
            f"{format_seconds(night.took_s)}: {counts or 'no case'}, {night.launches}; "
            f"run {night.run_id}"
        )
    if night.before:
        yield f"held against {' and '.join(f'run {run_id}' for run_id in night.before)}"


def table(night: NightReport) -> Table:
    """A row for each series that moved."""
    rows = [one for cause in _CAUSES for one in night.of(cause)]
    return Table(columns=_COLUMNS, rows=tuple(map(_row, rows)))


def _row(one: MovedSeries) -> tuple[Cell | str, ...]:
    found = one.shown
    known = found.low is not None and found.high is not None
    times = (one.tonight.before, one.tonight.after)
    levels = " -> ".join("-" if value is None else format_seconds(value) for value in times)
    return (
        one.tonight.verdict,
        one.cause,
        Cell("-" if found.effect is None else f"{found.effect:+.1%}", (found.effect,)),
        Cell(f"{found.low:+.1%} to {found.high:+.1%}" if known else "-", (found.low, found.high)),
        Cell(levels, times),
        Cell(as_typed(one.case), (one.case,)),
    )


def _why(night: NightReport) -> Iterator[str]:
    """What each cause that occurs means, with its evidence."""
    for cause, words in _CAUSES.items():
        if night.of(cause):
            yield f"  {cause}: {words}"
    for name, found in (
        ("landed since the run before", night.landed),
        ("facts that changed since", night.lasting),
        ("facts that moved tonight", night.passing),
    ):
        if found:
            more = f"; and {len(found) - _FEW} more" if len(found) > _FEW else ""
            yield f"  {name}: {'; '.join(found[:_FEW])}{more}"


def _listed(title: str, lines: Sequence[str]) -> list[Part]:
    if not lines:
        return []
    more = [f"  and {len(lines) - _FEW} more"] if len(lines) > _FEW else []
    return ["", Heading(title), *(f"  {line}" for line in lines[:_FEW]), *more]


def as_json(night: NightReport) -> dict[str, Any]:
    """The same as plain values."""
    plain = asdict(replace(night, moved=(), events=()))
    return {
        "answer": answer(night),
        "exit_code": exit_code(night),
        **plain,
        "moved": [asdict(one) for one in night.moved],
        "events": list(map(_of_history, night.events)),
    }
