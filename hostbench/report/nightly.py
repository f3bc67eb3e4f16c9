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
from hostbench.report.night_history import StillSlower, key_of
from hostbench.report.table import MOST_LISTED, Cell, Column, Heading, Part, Table, listed
from hostbench.store.nights import NightChange, StoredNight

_COLUMNS = (
    Column(title="verdict", keys=("verdict",)),
    Column(title="cause", keys=("cause",)),
    Column(title="change", keys=("effect",), right=True),
    Column(title="99 % interval", keys=("low", "high"), right=True),
    Column(title="before -> tonight", keys=("before_s", "after_s"), right=True),
    Column(title="series", keys=("series",), code=True),
)
_CAUSES: Mapping[NightCause, str] = {
    "code": "the old and the new code were measured again, interleaved, and differ again",
    "environment": "{same}, but software, driver or settings are not, and are the likely cause",
    "disturbed": "{same}, but throttling, temperature or load are not: not judged tonight",
    "recovered": "{same}; the runs before were throttled or loaded, tonight's is not",
    "unexplained": "{same}, and no recorded fact that would explain it has changed",
    "gone": "a second run tonight does not show it",
    "undecided": "measured again, too close to call",
    "not measured again": "seen in one run alone, which proves nothing",
}
_CODES = {
    EXIT_OK: "nothing is slower",
    EXIT_REGRESSION: "slower",
    EXIT_USAGE: "a wrong option or name",
    EXIT_NOTHING_MEASURED: "nothing to judge",
    EXIT_FAILED: "something failed, or the night was cut off",
}


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
    passed_over: tuple[str, ...] = ()
    """run_ids of disturbed nights since the oldest of those."""
    moved: tuple[MovedSeries, ...] = ()
    same_commit: bool = False
    """As the run before that what moved was compared with."""
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
    still: tuple[StillSlower, ...] = ()
    """What earlier nights confirmed as slower and nobody has undone."""
    silent: tuple[str, ...] = ()
    """Machines of which nothing came."""
    looks_wrong: tuple[str, ...] = ()
    detectable: float | None = None
    """The smallest change that tonight's launches tell, in half of the series."""
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
    if night.still:
        yield f"known and still slower: since {' and '.join(one.since for one in night.still)}"
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
            yield f"{how} after all {total} cases were measured: start it again, and it judges them"
        elif total:
            yield (
                f"{how}, nothing judged: {done} of {number_of(total, 'case')}, {night.launches} "
                "measured and kept; start it again within 20 hours, and it does the rest"
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
    calm = "" if night.of(*CONFIRMED) or night.events else "nothing confirmed: "
    if found := night.of("unexplained", "undecided"):
        yield f"{calm}moved without a known cause: {_summed(night, found)}"
        calm = ""
    if found := night.of("not measured again"):
        yield f"{calm}moved in one run, not measured again: {_summed(night, found)}"


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
        least = f", smallest detectable change {night.detectable or 0.0:.1%} (median)"
        yield f"no new change: {measured}{compared}{later}{least * (night.detectable is not None)}"


def _summed(night: NightReport, found: Sequence[MovedSeries]) -> str:
    """`3 series, most of all transfer.copy[...] +12.0% (code: 1a2b3c4d Wait twice)`."""
    worst = found[0]
    cause = worst.cause
    num = number_of(len(found), "series", "series")
    most = ", most of all" if len(found) > 1 else ","
    of_all = f"{num}{most} {as_typed(worst.case)} {worst.shown.effect or 0.0:+.1%}"
    if cause == "not measured again":
        return of_all
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
        parts += ["", Heading("What moved since the runs before"), table(night), *_why(night)]
    parts += listed("Failed", night.failed)
    parts += listed("Skipped, with a number before", night.skipped)
    parts += listed(
        "Steps that history confirms (`hostbench changes`)", list(map(_of_history, night.events))
    )
    parts += listed("Open from earlier nights", list(map(str, night.still)))
    parts += listed("Looks wrong on this machine", night.looks_wrong)
    if night.again:
        parts += ["", f"  measured again: run {' and run '.join(night.again)}"]
    parts += listed("Failed beside the measuring", night.broken)
    remarks = [f"  {remark}" for remark in night.remarks]
    return [*parts, *([""] if remarks and not night.again else []), *remarks]


def _about(night: NightReport) -> Iterator[str]:
    counts = ", ".join(f"{num} {status}" for status, num in night.counts.items() if num)
    commit = f"commit {night.commit[:8]}" if night.commit else "no commit"
    if night.same_commit:
        commit += " (as the run before)"
    if night.run_id:
        yield (
            f"  run {night.run_id}: device {night.device}, {commit}, cases: {counts or 'none'}, "
            f"{night.launches}"
        )
    if night.before:
        yield f"  compared with {' and '.join(f'run {run_id}' for run_id in night.before)}"
    if night.passed_over:
        yield f"  passed over, disturbed: {' and '.join(f'run {one}' for one in night.passed_over)}"
    began = f"began {night.began[:16]}Z, " if night.began else ""
    code = exit_code(night)
    yield f"  {began}took {format_seconds(night.took_s)}, exit code {code} ({_CODES[code]})"


def table(night: NightReport) -> Table:
    """A row for each series that moved."""
    rows = [one for cause in _CAUSES for one in night.of(cause)]
    return Table(columns=_COLUMNS, rows=tuple(map(_row, rows)))


def _row(one: MovedSeries) -> tuple[Cell | str, ...]:
    found = one.shown
    known = found.low is not None and found.high is not None
    times = (found.before, found.after)
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
    same = (
        "the commit is the same" if night.same_commit else "the old code measures the same tonight"
    )
    for cause, words in _CAUSES.items():
        if night.of(cause):
            yield f"  {cause}: {words.format(same=same)}"
    for name, found in (
        ("commits since the run before", night.landed),
        ("software, driver and settings that changed since", night.lasting),
        ("throttling, temperature and load that differ", night.passing),
    ):
        if found:
            more = f"; and {len(found) - MOST_LISTED} more" if len(found) > MOST_LISTED else ""
            yield f"  {name}: {'; '.join(found[:MOST_LISTED])}{more}"


def to_store(night: NightReport) -> StoredNight:
    """What later nights need of it. It has a run."""
    assert night.run_id is not None
    return StoredNight(
        run_id=night.run_id,
        machine=night.machine,
        commit=night.commit,
        started_at=night.began,
        answer=answer(night),
        exit_code=exit_code(night),
        disturbed=night.is_disturbed,
        again=night.again,
        events=tuple(map(key_of, night.events)),
        changes=tuple(
            NightChange(
                case=one.case,
                version=one.version,
                verdict=one.tonight.verdict,
                effect=one.shown.effect or 0.0,
                low=one.shown.low,
                high=one.shown.high,
                cause=one.cause,
                why=evidence(night, one.cause),
                before=one.before,
            )
            for one in night.moved
        ),
    )


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
