"""A comparison of two sides: what was compared and what it comes to, as a page and as a comment on
a pull request. What failed comes first, then the largest changes."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

from hostbench.core import units
from hostbench.core.case import as_typed
from hostbench.core.errors import EXIT_FAILED, EXIT_NOTHING_MEASURED, EXIT_OK, EXIT_REGRESSION
from hostbench.core.records import Run
from hostbench.core.samples import median
from hostbench.families import declared
from hostbench.judge.changepoint.machine import MIN_SERIES
from hostbench.judge.grid import short_version
from hostbench.judge.two_sides import CHANGED, Comparison, compare
from hostbench.report.blocks import Block, Column, Page, Quoted, Table, Title
from hostbench.report.sides import Key, SideRuns, differing, of_runs, read
from hostbench.report.write import markdown, values
from hostbench.store.results import Results
from hostbench.vcs.repo import about

if TYPE_CHECKING:
    from hostbench.vcs.measure import Measured  # with all that measures, which no reader needs

Comparisons = Mapping[Key, Comparison]

ORDER = (
    *("failed", "slower", "faster", "undecided", "same", "skipped", "not measured"),
    *("other version", "not judged", "new"),
)
"""Of the verdicts on a page."""
_FEW, _MOST = 10, 50
"""Undecided series named where none has changed; series named at most, without --all."""
_LONGEST = 300
"""Characters of a line that may be anybody's text: a host refuses a long comment."""
MARKER = "<!-- hostbench: ab -->"
"""The first line of a comment, by which it is recognized, and put in the place of the older one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Two sides, judged."""

    names: tuple[str, str]
    """What a page calls them."""
    comparisons: Comparisons
    """In the order of a page."""
    notes: Sequence[str]
    """What has to be known to read the verdicts."""

    @property
    def exit_code(self) -> int:
        """4: a series fails that did not before; 1: one got slower; 3: nothing decided; else 0."""
        verdicts = {one.verdict for one in self.comparisons.values()}
        if any(one.verdict == "failed" and one.before for one in self.comparisons.values()):
            return EXIT_FAILED
        if "slower" in verdicts:
            return EXIT_REGRESSION
        return EXIT_OK if verdicts & {"faster", "same"} else EXIT_NOTHING_MEASURED


def compared(history: Results, first: SideRuns, second: SideRuns) -> Compared:
    """Two sides of what is stored."""
    series, lacking = read(first, second, history)
    judged, names = compare(series), [first.called, second.called]
    for key, sides in series.items():
        runs = (sides.first, sides.second)[sides.older]
        if runs and judged[key].unit == "run" and judged[key].num[sides.older] > len(runs):
            names[sides.older] += ", with the runs before it"
            break
    comparisons, notes = in_order({**judged, **lacking}), list[str]()
    if facts := dict.fromkeys(differing(first, second)):
        notes.append(
            f"the sides differ in more than what is compared ({'; '.join(facts)}), and all of it "
            "counts"
        )
    notes += _notes(comparisons)
    return Compared(names=(names[0], names[1]), comparisons=comparisons, notes=notes)


def between(history: Results, both: "Measured") -> Compared:
    """What was measured interleaved; the notes say what was left out, how it ended, where it is."""
    runs = history.sides()
    first, second = (of_runs(runs, run.header.machine, [run.run_id]) for run in both.runs)
    judged, notes = compared(history, first, second), list(both.notes)
    if both.end != "complete":
        notes.append(f"{both.end}: what was measured is stored, and judged if it is enough")
    notes.append(f"stored for `hostbench compare`: {_names_of(both.runs)}")
    names = both.sides[0].called, both.sides[1].called
    return replace(judged, names=names, notes=[*judged.notes, *notes])


def _names_of(runs: Sequence[Run]) -> str:
    return " ".join(f"run:{run.run_id}" for run in runs)


def in_order(comparisons: Comparisons) -> dict[Key, Comparison]:
    """By verdict, the largest effects first."""

    def rank(row: tuple[Key, Comparison]) -> tuple[int, float, Key]:
        key, comparison = row
        return ORDER.index(comparison.verdict), -abs(comparison.effect or 0.0), key

    return dict(sorted(comparisons.items(), key=rank))


def of_verdicts(comparisons: Comparisons, *verdicts: str) -> dict[Key, Comparison]:
    return {key: one for key, one in comparisons.items() if one.verdict in verdicts}


def counted(comparisons: Comparisons) -> str:
    """`1 slower, 3 undecided`."""
    num = Counter[str](one.verdict for one in comparisons.values())
    words = [f"{num[verdict]} {verdict}" for verdict in ORDER if num[verdict]]
    return ", ".join(words) or "no series has numbers on both sides"


def detectable(comparisons: Comparisons) -> float | None:
    """The change from which on half of the series would show it: the median over series of half
    their interval; None where no series has one."""
    widths = [
        one.high - one.low
        for one in comparisons.values()
        if one.low is not None and one.high is not None
    ]
    return median(widths) / 2 if widths else None


def _notes(comparisons: Comparisons) -> Iterator[str]:
    """What has to be known to read the verdicts."""
    workloads = {case.partition("[")[0] for _, case, _ in comparisons}
    is_ours = any(declared(workload) for workload in workloads)
    interleaved = "`hostbench ab`" if is_ours else "`asv continuous --interleave-rounds`"
    of_machine = defaultdict[str, Counter[str]](Counter)
    for (machine, _, _), one in comparisons.items():
        if machine and one.unit == "run" and one.effect is not None:
            of_machine[machine][one.verdict] += 1
    for (name, num), verdict in product(of_machine.items(), CHANGED):
        if num[verdict] >= max(MIN_SERIES, num.total() / 2):
            yield (
                f"{num[verdict]} of {num.total()} series of {name} are {verdict}: it may be "
                f"the machine (throttling, a driver); {interleaved} tells"
            )
    if undecided := of_verdicts(comparisons, "undecided").values():
        helps = "more launches (--launches 20) or a quieter machine"
        if any(one.unit == "run" for one in undecided):
            are_machines = any(not machine for machine, _, _ in comparisons)
            helps = f"{f'{interleaved} or ' * (not are_machines)}more runs (not scratch)"
        yield f"{len(undecided)} undecided: {helps} will help"
    least = detectable(comparisons)
    if least is not None:
        yield f"Half of the series would not show a change under {least:.1%}."


def bisection_step(word: str, runs: Sequence[Run], comparison: Comparison) -> str:
    """`bad   1a2b3c4d  +20.0% (+19.1% to +20.9%)  2026-11-21 the commit's first line`, and how to
    see it again."""
    change = f"{comparison.verdict}: {comparison.why}"
    if comparison.effect is not None:
        interval = units.format_interval(comparison.low, comparison.high)
        change = f"{units.format_change(comparison.effect)} ({interval})"
    commit = str(runs[1].header.commit)
    step = f"{word:4}  {commit[:8]}  {change}  {about(Path.cwd(), commit)}"
    return f"{step}\n      hostbench compare {_names_of(runs)}"


# ---- the page -----------------------------------------------------------------------------------


def page(both: Compared, *, every: bool = False) -> Page:
    """The series that failed or changed, or a few that are undecided where none did; the others are
    counted, and `every` lists them too."""
    title = Title(f"{' -> '.join(both.names)}: {counted(both.comparisons)}")
    return Page(
        blocks=lambda: [title, "", *_blocks(both, every)],
        table=lambda: table(both.comparisons),
        document=lambda: {
            "sides": both.names,
            "notes": both.notes,
            "series": values(table(both.comparisons)),
        },
    )


def _blocks(both: Compared, every: bool) -> list[Block]:
    listed = of_verdicts(both.comparisons, "failed", *CHANGED)
    listed = listed or dict([*of_verdicts(both.comparisons, "undecided").items()][:_FEW])
    listed = dict(both.comparisons if every else [*listed.items()][:_MOST])
    left = {key: one for key, one in both.comparisons.items() if key not in listed}
    rest = (
        [f"not listed: {counted(left)}; `hostbench compare` lists them with --all"] if left else []
    )
    return [*([table(listed)] if listed else []), *rest, "", *both.notes]


def comment_of(both: Compared, about: Sequence[str]) -> str:
    """The same as its page, for a pull request. `about`: what was compared."""
    first = next((one.verdict for one in both.comparisons.values()), "nothing measured")
    answer = f"{first.capitalize()}: {counted(both.comparisons)}"
    return comment(answer, [*_blocks(both, every=False), "", *about])


def comment(answer: str, blocks: Iterable[Block]) -> str:
    """For a pull request. Reasons, names and commit messages are anybody's text, and who reads it
    must not be sent anywhere by it: here all of it is code."""
    quoted = (
        block if isinstance(block, Table) or not block else Quoted(_short(str(block)))
        for block in blocks
    )
    return f"{MARKER}\n{markdown([Title(answer), *quoted])}\n"


def table(comparisons: Comparisons) -> Table:
    """A row for each series."""
    rows = [
        {
            **structs.asdict(one),
            "before_s": None if one.in_bytes else one.before,
            "after_s": None if one.in_bytes else one.after,
            "before_bytes": one.before if one.in_bytes else None,
            "after_bytes": one.after if one.in_bytes else None,
            "num_first": one.num[0],
            "num_second": one.num[1],
            "series": name_of(key),
        }
        for key, one in comparisons.items()
    ]
    return Table(_COLUMNS, rows, status="verdict")


def name_of(key: Key) -> str:
    """`case@machine`, or the case where machines are compared; other versions than 1 are named."""
    machine, case, version = key
    name = case if version == "1" else f"{case} version {short_version(version)}"
    return f"{name}@{machine}" if machine else name


def format_level(seconds: float | None, nbytes: float | None) -> str:
    if nbytes is not None:
        return units.format_bytes(nbytes)
    return "-" if seconds is None else units.format_seconds(seconds)


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."


_COLUMNS = (
    Column(("verdict",), "verdict"),
    Column(("before_s", "before_bytes"), "before", format_level, right=True),
    Column(("after_s", "after_bytes"), "after", format_level, right=True),
    Column(("effect",), "change", units.format_change, right=True),
    Column(("low", "high"), "99% interval", units.format_interval, right=True),
    Column(
        ("num_first", "num_second", "unit"),
        "n",
        lambda first, second, unit: (
            f"{first}+{second}{' runs' * (unit == 'run')}" if first and second else "-"
        ),
        right=True,
    ),
    Column(("why",), "why", _short, code=True),
    Column(("series",), "series", as_typed, code=True),
)
