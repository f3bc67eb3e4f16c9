"""A night as a page: the first line is the answer, then what moved and why, what fails, and what to
do next. For a terminal, a CI job's summary, a file."""

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
from hostbench.core.units import (
    format_change,
    format_interval,
    format_seconds,
    number_of,
    one_line,
)
from hostbench.judge.events import Event
from hostbench.judge.night import CONFIRMED, NightCause
from hostbench.judge.two_sides import Comparison, Verdict
from hostbench.report.blocks import Block, Column, Heading, Item, Table, Title, listed
from hostbench.report.night_history import key_of
from hostbench.store.nights import NightChange, StoredNight

_CAUSES: Mapping[NightCause, str] = {
    "code": "the old and the new code were measured again, interleaved, and differ again",
    "environment": "{same}, but software, driver or settings are not, and are the likely cause",
    "disturbed": "{same}, but throttling, temperature or load are not: not judged tonight",
    "unexplained": "{same}, and no recorded fact that would explain it has changed",
    "gone": "measured again it is not the code, and no more than runs differ by",
    "undecided": "measured again, too close to call",
    "not measured again": "seen in one run alone, which proves nothing",
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

    @property
    def shown(self) -> Comparison:
        """What counts of the two."""
        return self.again if self.again is not None and self.cause == "code" else self.tonight

    @property
    def direction(self) -> Verdict:
        return "slower" if (self.tonight.effect or 0.0) > 0 else "faster"


@dataclass(slots=True, kw_only=True)
class Night:
    """A night of a machine, as far as it has come; `error` says why nothing was measured."""

    machine: str = ""
    device: str = ""
    commit: str | None = None
    run_id: str | None = None
    began: str = ""
    """ISO 8601 in UTC."""
    took_s: float = 0.0
    cut_off: str = ""
    """`interrupted` or `device lost`, where it was ended early."""
    scratch: str | None = None
    launches: str = ""
    """`4 of 10 launches`."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """Status -> cases."""
    error: str = ""
    error_code: int = EXIT_OK
    enough: int = 0
    """Series with launches enough for a verdict."""
    before: tuple[str, ...] = ()
    """run_ids of the runs that it was compared with, the newest first; none in a first night."""
    compared: int = 0
    """Series that one of those has, too."""
    moved: tuple[MovedSeries, ...] = ()
    same_code: bool = False
    """As in the run before that what moved was compared with."""
    lasting: tuple[str, ...] = ()
    passing: tuple[str, ...] = ()
    """Facts that changed since that run, in words."""
    landed: tuple[str, ...] = ()
    """Commits since then, the newest first."""
    failed: tuple[str, ...] = ()
    """`case: reason` of what failed tonight."""
    broke: tuple[str, ...] = ()
    """Those of them that had a number before."""
    skipped: tuple[str, ...] = ()
    """`case: reason` of what is skipped and had a number before."""
    events: tuple[Event, ...] = ()
    """Steps that `hostbench changes` has confirmed since the last night."""
    still: tuple[str, ...] = ()
    """Series that earlier nights confirmed as slower and nobody has mended."""
    detectable: float | None = None
    """The smallest change that tonight's launches tell, in half of the series."""
    again: tuple[str, ...] = ()
    """run_ids of what was measured once more."""
    remarks: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    """What failed beside the measuring (asv, the page, a damaged file), in words."""

    def of(self, *causes: NightCause, verdict: str = "") -> list[MovedSeries]:
        """The largest first."""
        chosen = [
            series
            for series in self.moved
            if series.cause in causes and verdict in ("", series.direction)
        ]
        return sorted(chosen, key=lambda series: -abs(series.shown.effect or 0.0))

    @property
    def unjudged(self) -> str:
        """Why nothing of what was measured can be judged; empty where something can."""
        few = f"no case has the {MIN_LAUNCHES} launches that it takes"
        return self.scratch or ("" if self.enough else few)


def exit_code(night: Night) -> int:
    """2 usage, 4 something failed or was interrupted, 1 slower, 3 nothing to judge, else 0."""
    if night.error_code == EXIT_USAGE:
        return EXIT_USAGE
    if night.cut_off or night.failed or night.broken or night.error_code == EXIT_FAILED:
        return EXIT_FAILED
    if night.of(*CONFIRMED, verdict="slower") or night.events:
        return EXIT_REGRESSION
    return EXIT_NOTHING_MEASURED if night.unjudged else EXIT_OK


def answer(night: Night) -> str:
    """The first line: what a person has to know. Text from anywhere may be in it."""
    where = f" [{night.machine}]" if night.machine else ""
    text = "; ".join(_clauses(night))
    return one_line(f"{text[:1].upper()}{text[1:]}{where}")


def _clauses(night: Night) -> Iterator[str]:
    """The worst first."""
    yield from _what_failed(night)
    yield from _what_moved(night)
    if not (night.error or night.failed or night.cut_off):
        yield from _quiet(night)
    if night.skipped:
        yield f"{number_of(len(night.skipped), 'case')} skipped that had a number before"
    if night.still:
        num = number_of(len(night.still), "series", "series")
        yield f"known and still slower: {num}, as {night.still[0]}"
    yield from night.broken


def _what_failed(night: Night) -> Iterator[str]:
    if night.error:
        is_broken = night.error_code == EXIT_FAILED
        yield f"{'broken off' if is_broken else 'nothing measured'}: {night.error}"
    if night.cut_off:
        total = sum(night.counts.values())
        done = total - night.counts.get("not measured", 0)
        yield (
            f"{night.cut_off}, nothing judged: {done} of {number_of(total, 'case')}, "
            f"{night.launches} measured and kept; start it again"
            if total
            else f"{night.cut_off} before anything was measured"
        )
    if night.failed:
        new = f" ({len(night.broke)} had a number before)" if night.broke else ""
        yield f"{number_of(len(night.failed), 'case')} failed{new}"


_UNCONFIRMED: Mapping[str, tuple[NightCause, ...]] = {
    "moved without a known cause": ("unexplained", "undecided"),
    "moved in one run, not measured again": ("not measured again",),
}


def _what_moved(night: Night) -> Iterator[str]:
    for direction in ("slower", "faster"):
        for cause in CONFIRMED:
            if series := night.of(cause, verdict=direction):
                yield f"{direction}: {_summed(night, series)}"
    if night.events:
        yield f"slower by history: {number_of(len(night.events), 'step')} confirmed"
    if series := night.of("disturbed"):
        yield f"disturbed, not judged: {_summed(night, series)}"
    calm = "" if night.of(*CONFIRMED) or night.events else "nothing confirmed: "
    for words, causes in _UNCONFIRMED.items():
        if series := night.of(*causes):
            yield f"{calm}{words}: {_summed(night, series)}"


def _quiet(night: Night) -> Iterator[str]:
    num, left = night.counts.get("ok", 0), night.counts.get("not measured", 0)
    measured = f"{number_of(num, 'series', 'series')} measured"
    if not num:
        yield "nothing measured: no case has a number"
    elif night.unjudged:
        yield f"not judged ({night.unjudged}): {measured}"
    elif not night.compared:
        first = "" if night.before else f"first night on {night.device}: "
        yield f"{first}{measured}, nothing to compare with yet"
    elif not (night.events or len(night.of("gone")) < len(night.moved)):
        compared = f", {night.compared} of them compared" * (night.compared < num)
        later = f", {number_of(left, 'case')} not" * (left > 0)
        least = "too few nights yet to judge more than the code"
        if night.detectable is not None:
            least = f"smallest detectable change {night.detectable:.1%} (median)"
        yield f"no new change: {measured}{compared}{later}, {least}"


def _summed(night: Night, series: Sequence[MovedSeries]) -> str:
    """`3 series, most of all transfer.copy[...] +12.0% (code: 1a2b3c4d Wait twice)`."""
    worst = series[0]
    num = number_of(len(series), "series", "series")
    most = ", most of all" if len(series) > 1 else ","
    why = _evidence(night, worst.cause)
    more = f" and {len(why) - 1} more" if len(why) > 1 else ""
    because = f" ({': '.join((worst.cause, *why[:1]))}{more})"
    effect = format_change(worst.shown.effect or 0.0)
    return f"{num}{most} {as_typed(worst.case)} {effect}{because}"


def _evidence(night: Night, cause: NightCause) -> tuple[str, ...]:
    """What speaks for a cause: the commits, or the facts."""
    facts = {"code": night.landed, "environment": night.lasting, "disturbed": night.passing}
    return facts.get(cause, ())


def blocks(night: Night) -> list[Block]:
    """The answer, what it rests on, and what to do next."""
    parts: list[Block] = [Title(answer(night)), *map(Item, _about(night))]
    if night.moved:
        parts += ["", Heading("What moved since the runs before"), table(night)]
        same = "code is the same" if night.same_code else "old code measures the same tonight"
        for cause, words in _CAUSES.items():
            if night.of(cause):
                parts.append(Item(f"{cause}: {words.format(same=f'the {same}')}"))
    if night.moved:
        parts += listed("Commits since the run before", night.landed)
        parts += listed("Software, driver and settings that changed since", night.lasting)
        parts += listed("Throttling, temperature and load that differ", night.passing)
    parts += listed("Failed", sorted(night.failed, key=lambda text: text not in night.broke))
    parts += listed("Skipped, with a number before", night.skipped)
    events = list(map(_of_history, night.events))
    parts += listed("Steps that history confirms (`hostbench changes`)", events)
    parts += listed("Slower since an earlier night", night.still)
    parts += listed("Failed beside the measuring", night.broken)
    return parts + listed("Next, and what else to know", night.remarks)


def _of_history(event: Event) -> str:
    since = f"{event.first.commit[:8]} {event.first.committed_at:%Y-%m-%d}"
    effect = format_change(event.effect)
    return f"{as_typed(event.id)} {effect} since {since} ({event.cause})"


def _about(night: Night) -> Iterator[str]:
    counts = ", ".join(f"{num} {status}" for status, num in night.counts.items() if num)
    commit = f"commit {night.commit[:8]}" if night.commit else "no commit"
    if night.same_code:
        commit += " (the same code as the run before)"
    if night.run_id:
        yield (
            f"run {night.run_id}: device {night.device}, {commit}, cases: {counts or 'none'}, "
            f"{night.launches}"
        )
    for words, run_ids in (("compared with", night.before), ("measured again:", night.again)):
        if run_ids:
            yield f"{words} {' and '.join(f'run {run_id}' for run_id in run_ids)}"
    began = f"began {night.began[:16]}Z, " if night.began else ""
    yield f"{began}took {format_seconds(night.took_s)}, exit code {exit_code(night)}"


def table(night: Night) -> Table:
    """A row for each series that moved."""
    rows = [series for cause in _CAUSES for series in night.of(cause)]
    return Table(_COLUMNS, list(map(_row, rows)))


def _row(series: MovedSeries) -> dict[str, Any]:
    shown = series.shown
    return {
        "verdict": series.direction,
        "cause": series.cause,
        "effect": shown.effect,
        "low": shown.low,
        "high": shown.high,
        "before_s": shown.before,
        "after_s": shown.after,
        "series": series.case,
    }


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


def to_store(night: Night) -> StoredNight:
    """What later nights need of it. It has a run."""
    assert night.run_id is not None
    return StoredNight(
        run_id=night.run_id,
        machine=night.machine,
        commit=night.commit,
        started_at=night.began,
        disturbed=bool(night.of("disturbed", verdict="slower")),
        events=tuple(map(key_of, night.events)),
        changes=tuple(
            NightChange(
                case=series.case,
                version=series.version,
                effect=series.shown.effect or 0.0,
                cause=series.cause,
            )
            for series in night.moved
        ),
    )


def as_json(night: Night) -> dict[str, Any]:
    """The same as plain values."""
    return {
        "answer": answer(night),
        "exit_code": exit_code(night),
        **asdict(replace(night, moved=(), events=())),
        "moved": [asdict(series) for series in night.moved],
        "events": list(map(_of_history, night.events)),
    }
