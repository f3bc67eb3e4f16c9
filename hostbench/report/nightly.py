"""A night as a page: the first line is the answer, then what moved and why, what fails, and what to
do next. For a terminal, a CI job's summary, a file."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hostbench.core import units
from hostbench.core.case import as_typed
from hostbench.core.errors import EXIT_FAILED, EXIT_OK, EXIT_REGRESSION, EXIT_USAGE
from hostbench.core.records import Run
from hostbench.core.samples import MIN_LAUNCHES
from hostbench.core.units import number_of, one_line
from hostbench.judge.events import Event
from hostbench.judge.night import CONFIRMED, Comparisons, launches_of
from hostbench.report.blocks import Block, Column, Heading, Item, Table, Title, listed
from hostbench.report.comparison import detectable
from hostbench.report.write import values
from hostbench.store.nights import Night, NightChange
from hostbench.store.runs import case_results, launches_in_words

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
_CALLED: Mapping[str, str] = {
    "disturbed": "disturbed, not judged",
    "unexplained": "moved without a known cause",
    "not measured again": "moved in one run, not measured again",
}
"""How the answer calls series that are not confirmed to be slower or faster."""
START_AGAIN = "nothing judged: what was measured is archived, start it again"
"""The answer of a night that was ended early."""
_EVIDENCE = {"code": "landed", "environment": "lasting", "disturbed": "passing"}


@dataclass(slots=True, kw_only=True)
class Tonight:
    """A night of a machine, as far as it has come."""

    machine: str = ""
    run: Run | None = None
    code: int = EXIT_OK
    """The exit code, as far as it does not follow from what is below."""
    ended: str = ""
    """Why nothing was concluded; empty where something was."""
    about: list[str] = field(default_factory=list)
    """What it rests on."""
    held: Comparisons = field(default_factory=dict)
    """The series that were held against runs before."""
    moved: Sequence[NightChange] = ()
    """The largest first."""
    new: Sequence[Event] = ()
    """Steps that history has confirmed, and this night is the first to name."""
    lists: dict[str, list[str]] = field(default_factory=lambda: {name: [] for name in _LISTS})

    @property
    def slower(self) -> list[NightChange]:
        """What is confirmed."""
        return [own for own in self.moved if own.cause in CONFIRMED and own.effect > 0]

    @property
    def exit_code(self) -> int:
        """2 usage, 4 something failed or was interrupted, 1 slower, 3 nothing to judge, else 0."""
        if self.code == EXIT_USAGE:
            return EXIT_USAGE
        if self.code == EXIT_FAILED or self.lists["failed"] or self.lists["broken"]:
            return EXIT_FAILED
        return EXIT_REGRESSION if self.slower or self.new else self.code


def event_in_words(event: Event) -> str:
    since = f"{event.first.commit[:8]} {event.first.committed_at:%Y-%m-%d}"
    return f"{as_typed(event.id)} {units.format_change(event.effect)} since {since} ({event.cause})"


def unjudged(run: Run) -> str:
    """Why nothing of a run can be judged; empty where something can."""
    few = f"no case has the {MIN_LAUNCHES} launches that it takes"
    return run.header.scratch or ("" if launches_of(run) else few)


def about(run: Run) -> str:
    """The run itself in a line, `4 of 10 launches` in it."""
    commit = f"commit {run.header.commit[:8]}" if run.header.commit else "no commit"
    launches = launches_in_words(run.header.launches, run.measured_launches, True)
    return f"run {run.run_id}: device {run.header.device}, {commit}, {launches}"


def concluded(night: Tonight, run: Run) -> Night:
    """What later nights need of it."""
    return Night(
        run_id=run.run_id,
        machine=night.machine,
        commit=run.header.commit,
        started_at=run.header.started_at,
        changes=tuple(night.moved),
        events=tuple(f"{event.id} {event.commit}" for event in night.new),
    )


def answer(night: Tonight) -> str:
    """The first line: what a person has to know, the worst first. Text from anywhere may be in
    it."""
    failed, skipped, still = (night.lists[name] for name in ("failed", "skipped", "still"))
    clauses = [night.ended] if night.ended else []
    clauses += [f"{number_of(len(failed), 'case')} failed"] if failed else []
    if night.new:
        clauses.append(f"slower by history: {number_of(len(night.new), 'step')} confirmed")
    clauses += _what_moved(night)
    if not clauses and night.run:
        clauses = [_quiet(night.run, night.held)]
    if skipped:
        clauses.append(f"{number_of(len(skipped), 'case')} skipped that had a number before")
    if still:
        clauses.append(f"known and still slower: {number_of(len(still), 'step')}, as {still[0]}")
    text = "; ".join([*clauses, *night.lists["broken"][:1]])
    where = f" [{night.machine}]" if night.machine else ""
    return one_line(f"{text[:1].upper()}{text[1:]}{where}")


def _quiet(run: Run, held: Comparisons) -> str:
    """Where nothing failed and nothing moved."""
    num = sum(result.status == "ok" for result in case_results(run))
    measured = f"{number_of(num, 'series', 'series')} measured"
    if why := unjudged(run):
        return f"not judged ({why}): {measured}"
    if not held:
        return f"first night on {run.header.device}: {measured}, nothing to compare with yet"
    smallest = detectable(held)
    if smallest is None:
        return f"no new change: {measured}, too few nights yet to judge more than the code"
    return f"no new change: {measured}, smallest detectable change {smallest:.1%} (median)"


def _what_moved(night: Tonight) -> Iterator[str]:
    """`slower: 3 series, most of all transfer.copy[...] +12.0% (code: 1a2b3c4d Wait twice)`."""
    groups: dict[str, list[NightChange]] = {
        name: [] for name in ("slower", "faster", *_CALLED.values())
    }
    for change in night.moved:
        groups[_CALLED.get(change.cause, change.direction)].append(change)
    for words, own in groups.items():
        if own:
            worst, most = own[0], ", most of all" if len(own) > 1 else ","
            why = night.lists.get(_EVIDENCE.get(worst.cause, ""), [])
            more = f" and {len(why) - 1} more" if len(why) > 1 else ""
            because = f"({': '.join((worst.cause, *why[:1]))}{more})"
            change_of = f"{as_typed(worst.case)} {units.format_change(worst.effect)}"
            yield f"{words}: {number_of(len(own), 'series', 'series')}{most} {change_of} {because}"


def next_steps(night: Tonight, program: str, where: str) -> Iterator[str]:
    """What to type next. `where`: the option that names the results, if one was given."""
    if night.run is None:
        return
    if night.lists["failed"]:
        shown = f"--run {night.run.run_id} --tracebacks{where}"
        yield f"why cases failed: `{program} report {shown}`"
    for change in night.slower[:1]:
        name, is_code = f"'{change.case}@{night.machine}'", change.cause == "code"
        if is_code and len(night.lists["landed"]) > 1:
            yield f"which commit it was: `{program} bisect {name}{where}`"
        since = str(night.run.header.commit)[:8] if is_code else night.run.run_id
        yield (
            "if it is intended, accept it, and no night names it any more: `"
            f"{program} triage set {name} {since} accepted{where}`"
        )


def blocks(night: Tonight) -> list[Block]:
    """The answer, what it rests on, and what to do next."""
    parts: list[Block] = [Title(answer(night)), *map(Item, night.about)]
    parts.append(Item(f"exit code {night.exit_code}"))
    if night.moved:
        parts += ["", Heading("What moved since the runs before"), table(night)]
    for name, lines in night.lists.items():
        if night.moved or name not in _EVIDENCE.values():
            parts += listed(_LISTS[name], lines)
    return parts


_COLUMNS = (
    Column(("verdict",), "verdict"),
    Column(("cause",), "cause"),
    Column(("effect",), "change", units.format_change, right=True),
    Column(("low", "high"), "99 % interval", units.format_interval, right=True),
    Column(("before_s", "after_s"), "before -> tonight", units.format_levels, right=True),
    Column(("series",), "series", as_typed, code=True),
)


def table(night: Tonight) -> Table:
    """A row for each series that moved, the furthest first."""
    names = ("cause", "effect", "low", "high", "before_s", "after_s")
    rows = [
        {"verdict": own.direction, "series": own.case, **{n: getattr(own, n) for n in names}}
        for own in night.moved
    ]
    return Table(_COLUMNS, rows)


def as_json(night: Tonight) -> dict[str, Any]:
    """The same as plain values."""
    return {
        "answer": answer(night),
        "exit_code": night.exit_code,
        "machine": night.machine,
        "run_id": night.run and night.run.run_id,
        "about": night.about,
        "moved": values(table(night)),
        **night.lists,
    }
