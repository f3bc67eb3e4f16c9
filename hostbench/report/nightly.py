"""A night as a page: the first line is the answer, then what moved and why, what fails, and what to
do next. For a terminal, a CI job's summary, a file."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from hostbench.core import errors, units
from hostbench.core.case import as_typed
from hostbench.core.records import Run
from hostbench.core.samples import MIN_LAUNCHES, few_launches
from hostbench.core.units import number_of, one_line
from hostbench.facts import spec
from hostbench.facts.differences import possible
from hostbench.judge.two_sides import CHANGED, Comparison
from hostbench.report.blocks import Block, Heading, Item, Title
from hostbench.report.comparison import Comparisons, compared, detectable, of_verdicts, table
from hostbench.report.history import history_of
from hostbench.report.sides import level_before, of_runs
from hostbench.report.write import values
from hostbench.store.nights import CONFIRMED, Night, NightChange
from hostbench.store.points import case_rows
from hostbench.store.results import Results
from hostbench.store.runs import facts_by_when
from hostbench.vcs import repo

_LISTS = {
    "landed": "Commits since the run before",
    "lasting": "Software, driver and settings that changed since",
    "passing": "Throttling, temperature and load that differ",
    "events": "Steps that history confirms (`hostbench changes`)",
    "still": "Known and still slower (`hostbench changes`)",
    "broken": "Failed beside the measuring",
    "remarks": "Next, and what else to know",
}
"""What a night lists, and under which heading."""
_EVIDENCE = {"code": "landed", "environment": "lasting", "disturbed": "passing"}
"""Of what moved a series, the list that says more."""
_ORDER = ("failed", *CHANGED, "disturbed", "unexplained", "not measured again", "skipped")
"""Of what the first line says."""
_MOST_LISTED = 10
"""Lines of one heading; the others are counted."""
START_AGAIN = "nothing judged: what was measured is archived, start it again"
"""The answer of a night that was ended early."""


@dataclass(slots=True, kw_only=True)
class Tonight:
    """A night of a machine, as far as it has come."""

    machine: str = ""
    run: Run | None = None
    known: Sequence[Night] = ()
    """The nights before it, the oldest first."""
    code: int | None = None
    """The exit code of an error that ended it."""
    ended: str = ""
    """Why nothing was concluded; empty where something was."""
    about: list[str] = field(default_factory=list)
    """What it rests on."""
    again: Sequence[str] = ()
    """Runs in which it was measured again."""
    compared: Comparisons = field(default_factory=dict)
    """The run against the level of the runs before it."""
    moved: Comparisons = field(default_factory=dict)
    """The furthest first, with their cause (judge.night.moved)."""
    good: str = ""
    """The commit of the night before, where that is another one."""
    new: list[str] = field(default_factory=list)
    """Id and commit of each step that history has confirmed and no night before has named."""
    lists: dict[str, list[str]] = field(default_factory=lambda: {name: [] for name in _LISTS})

    @property
    def rows(self) -> Comparisons:
        """What failed, what moved, what was skipped and had a number before."""
        failed, skipped = (of_verdicts(self.compared, verdict) for verdict in ("failed", "skipped"))
        skipped = {key: one for key, one in skipped.items() if one.before is not None}
        return {**failed, **self.moved, **skipped}

    @property
    def slower(self) -> Comparisons:
        """What is confirmed."""
        slower = of_verdicts(self.moved, "slower").items()
        return {key: one for key, one in slower if one.cause in CONFIRMED}

    @property
    def exit_code(self) -> int:
        """2 usage, 4 something failed or was interrupted, 1 slower, 3 nothing to judge, else 0."""
        if self.code == errors.EXIT_USAGE:
            return errors.EXIT_USAGE
        has_failed = of_verdicts(self.compared, "failed") or self.lists["broken"]
        if self.code == errors.EXIT_FAILED or has_failed:
            return errors.EXIT_FAILED
        if self.slower or self.new:
            return errors.EXIT_REGRESSION
        is_judged = self.run is not None and not unjudged(self.run)
        return errors.EXIT_OK if is_judged else errors.EXIT_NOTHING_MEASURED


# ---- what it is held against --------------------------------------------------------------------


def against_level(night: Tonight, history: Results, run_ids: Sequence[str]) -> Comparisons:
    """Runs of tonight against the level of those before. Left out are runs since the first night
    that no night has concluded (by hand, cut off, measured once more): what moved in one of them
    would be hidden by it."""
    runs, known = history.sides(), night.known
    first = pd.Timestamp(known[0].started_at) if known else pd.Timestamp.max.tz_localize("UTC")
    concluded = [night_before.run_id for night_before in known if not night_before.is_open]
    is_left_out = (runs["started_at"] >= first) & ~runs["run_id"].isin(concluded)
    level = level_before(runs, runs.loc[is_left_out, "run_id"].tolist())
    return compared(history, level, of_runs(runs, night.machine, run_ids)).comparisons


def run_before(night: Tonight, history: Results, cases: Iterable[str]) -> Run | None:
    """The run of the newest night, neither disturbed nor open, that has numbers of all these cases,
    or the newest of all where none has: what moved them is since. None before the first night."""
    cases, newest = set(cases), None
    stored = {row.run_id: row for row in history.runs() if row.machine == night.machine}
    for known in reversed(night.known):
        if known.run_id in stored and not (known.disturbed_runs or known.is_open):
            run = history.run(stored[known.run_id])
            newest = newest or run
            if cases <= {row["case"] for row in case_rows(run) if row["status"] == "ok"}:
                return run
    return newest


def list_differences(night: Tonight, before: Run, run: Run, root: Path) -> None:
    """The commits that landed since the run before, and the facts that differ and may be causes,
    the likeliest first: those that last, those that pass."""
    night.about.append(f"the night before: run {before.run_id}")
    for difference in possible(facts_by_when(before.facts), facts_by_when(run.facts)):
        row = spec.row(difference.name)
        passes = row is not None and row.volatile
        night.lists["passing" if passes else "lasting"].append(str(difference))
    old, new = before.header.commit, run.header.commit
    if old and new and old != new:
        night.good = old
        commits = repo.landed(root, old, new) or [(old, f"-> {new[:8]}")]
        night.lists["landed"] = [f"{commit[:8]} {subject}" for commit, subject in commits]


def list_events(night: Tonight, history: Results) -> None:
    """The steps to slower on this machine that stayed, are recent and not in triage: those that
    `hostbench changes` confirms and no night before has named, and those that one has."""
    named = {name for known in night.known for name in known.named}
    for event in history_of(history).events:
        if event.machine != night.machine or not event.is_open:
            continue
        is_named = any(f"{event.id} {commit}" in named for commit in (event.commit, *event.near))
        since = f"{event.first.commit[:8]} {event.first.committed_at:%Y-%m-%d}"
        change = f"{as_typed(event.id)} {units.format_change(event.effect)}"
        line = f"{change} since {since} ({event.cause})"
        if is_named:
            night.lists["still"].append(line)
        elif event.fails:
            night.lists["events"].append(line)
            night.new.append(f"{event.id} {event.commit}")


def concluded(night: Tonight, run: Run) -> Night:
    """What later nights need of it."""
    changes = (
        NightChange(case=key[1], version=key[2], cause=one.cause, effect=one.effect or 0.0)
        for key, one in night.moved.items()
    )
    return Night(
        run_id=run.run_id,
        machine=night.machine,
        commit=run.header.commit,
        started_at=run.header.started_at,
        changes=tuple(changes),
        events=tuple(night.new),
        again=tuple(night.again),
    )


# ---- in words -----------------------------------------------------------------------------------


def answer(night: Tonight) -> str:
    """The first line, the worst first. Text from anywhere may be in it."""
    still, broken = night.lists["still"], night.lists["broken"]
    clauses = [night.ended] if night.ended else []
    if night.new:
        clauses.append(f"slower by history: {number_of(len(night.new), 'step')} confirmed")
    clauses += _rows_in_words(night)
    if not clauses and night.run:
        clauses = [_quiet(night.run, night.compared)]
    if still:
        clauses.append(f"known and still slower: {number_of(len(still), 'step')}, as {still[0]}")
    text = "; ".join([*clauses, *broken[:1]])
    where = f" [{night.machine}]" if night.machine else ""
    return one_line(f"{text[:1].upper()}{text[1:]}{where}")


def unjudged(run: Run) -> str:
    """Why nothing of a run can be judged; empty where something can."""
    num = run.measured_launches
    return run.header.scratch or (few_launches(num) if num < MIN_LAUNCHES else "")


def _quiet(run: Run, compared: Comparisons) -> str:
    """Where nothing failed and nothing moved."""
    num = sum(row["status"] == "ok" for row in case_rows(run))
    measured, least = f"{number_of(num, 'series', 'series')} measured", detectable(compared)
    if least is None or unjudged(run):
        return f"not judged ({unjudged(run) or 'too few runs before it'}): {measured}"
    return f"no new change: {measured}; half of them would not show one under {least:.1%}"


def _rows_in_words(night: Tonight) -> Iterator[str]:
    """`slower: 3 series, most of all transfer.copy[...] +12.0% (code: 1a2b3c4d Wait twice)`. What
    moved and is not confirmed goes by its cause."""
    groups = defaultdict[str, list[tuple[str, Comparison]]](list)
    for (_, case, _), one in night.rows.items():
        is_open = one.verdict in CHANGED and one.cause not in CONFIRMED
        groups[one.cause if is_open else one.verdict].append((case, one))
    for words in _ORDER:
        if rows := groups[words]:
            case, worst = rows[0]
            change = "" if worst.effect is None else f" {units.format_change(worst.effect)}"
            most = (" most of all" if change else " as") if len(rows) > 1 else ""
            evidence = night.lists.get(_EVIDENCE.get(worst.cause, ""), [])
            because = ": ".join([worst.why, *evidence[:1]])
            series = f"{number_of(len(rows), 'series', 'series')},{most} {as_typed(case)}{change}"
            yield f"{words}: {series} ({because:.200})"


def next_steps(night: Tonight, run: Run, program: str, where: str) -> Iterator[str]:
    """What to type next. `where`: the option that names the results, if one was given."""
    if of_verdicts(night.compared, "failed"):
        shown = f"--run {run.run_id} --tracebacks{where}"
        yield f"why cases failed: `{program} report {shown}`"
    for key, worst in [*night.slower.items()][:1]:
        name, commit = f"'{key[1]}@{night.machine}'", str(run.header.commit)[:8]
        if worst.cause == "code" and len(night.lists["landed"]) > 1:
            ends = f"--good {night.good[:8]} --bad {commit}"
            yield f"which commit it was: `{program} bisect {name} {ends}{where}`"
        since = commit if worst.cause == "code" else run.run_id
        yield (
            "if it is intended, accept it, and no night names it any more: `"
            f"{program} triage {name} {since} accepted{where}`"
        )


# ---- the page -----------------------------------------------------------------------------------


def blocks(night: Tonight) -> list[Block]:
    """The answer, what it rests on, and what to do next."""
    parts: list[Block] = [Title(answer(night)), *map(Item, night.about)]
    parts.append(Item(f"exit code {night.exit_code}"))
    if night.rows:
        parts += ["", Heading("What failed, moved or was skipped"), table(night.rows)]
    for name, lines in night.lists.items():
        if lines and (night.rows or name not in _EVIDENCE.values()):
            parts += ["", Heading(_LISTS[name]), *map(Item, lines[:_MOST_LISTED])]
            if len(lines) > _MOST_LISTED:
                parts.append(Item(f"and {len(lines) - _MOST_LISTED} more"))
    return parts


def as_json(night: Tonight) -> dict[str, Any]:
    """The same as plain values."""
    return {
        "answer": answer(night),
        "exit_code": night.exit_code,
        "machine": night.machine,
        "run_id": night.run and night.run.run_id,
        "about": night.about,
        "series": values(table(night.rows)),
        **night.lists,
    }
