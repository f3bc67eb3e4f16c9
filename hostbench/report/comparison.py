"""A comparison of two sides: what was compared and what it comes to, as a page and as a comment on
a pull request. The largest changes come first.

Names, reasons and commit messages are anybody's text, and who reads the comment must not be sent
anywhere by it: there all of it is code, where nothing is markup, a link or a mention.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hostbench.core.case import as_typed
from hostbench.core.samples import MIN_LAUNCHES, median
from hostbench.core.units import (
    format_bytes,
    format_change,
    format_interval,
    format_seconds,
    number_of,
)
from hostbench.judge.changepoint.machine import MIN_SERIES
from hostbench.judge.grid import short_version
from hostbench.judge.two_sides import CHANGED, Comparison, KeyT, Verdict, compare
from hostbench.report.blocks import Block, Column, Item, Page, Table, Title
from hostbench.report.sides import Key, Lacking, Resolve, chosen, read
from hostbench.report.write import code, markdown, values
from hostbench.store.results import Results

_FEW = 10
"""Series that are named where there may be many; --all names them all."""
VERDICTS: tuple[Verdict, ...] = ("slower", "faster", "undecided", "same")
"""As a page orders them."""
MARKER = "<!-- hostbench: ab -->"
"""The first line of a comment, by which it is recognized, and put in the place of the older one."""
_ROWS, _LINES, _WIDTH = 20, 10, 300
"""The most that a comment shows of series, of lines of one kind, and of one line: a host refuses
long ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Two sides, judged."""

    names: tuple[str, str]
    """What a page calls them."""
    typed: tuple[str, str]
    """What they were asked for by."""
    comparisons: Mapping[Key, Comparison]
    """Slower, faster, undecided, the same; the largest changes first."""
    lacking: Sequence[Lacking] = ()
    notes: Sequence[str] = ()
    """What has to be known to read the verdicts."""
    remarks: Sequence[str] = ()
    """What else has to be known of the sides."""

    @property
    def broke(self) -> bool:
        """Whether a series failed on the second side that has a number on the first."""
        return any(lack.side and lack.other and "failed" in lack.status for lack in self.lacking)

    @property
    def title(self) -> Title:
        return Title(f"{' -> '.join(self.names)}: {counted(self.comparisons)}")


def compared(
    history: Results,
    names: tuple[str, str],
    resolve: Resolve,
    machines: Sequence[str] | None = None,
    most_runs: int | None = None,
) -> Compared:
    """Two sides of what is stored, as `hostbench compare` names them (report.sides.chosen), of some
    machines only, and of their newest runs only where those are limited. Raises UsageError and
    NothingMeasured where they cannot be compared."""
    runs = history.sides()
    if machines is not None:
        runs = runs[runs["machine"].isin(machines)]
    first, second = chosen(runs, names, resolve)
    if most_runs is not None:
        first, second = (replace(s, rows=s.rows.tail(most_runs)) for s in (first, second))
    series, lacking, notes = read(first, second, history)
    judged = compare(series)
    return Compared(
        names=(first.called, second.called),
        typed=names,
        comparisons=in_order(judged),
        lacking=lacking,
        notes=[*notes, *_notes(judged)],
    )


def in_order(comparisons: Mapping[Key, Comparison]) -> dict[Key, Comparison]:
    def rank(item: tuple[Key, Comparison]) -> tuple[int, float, Key]:
        key, comparison = item
        return VERDICTS.index(comparison.verdict), -abs(comparison.effect or 0.0), key

    return dict(sorted(comparisons.items(), key=rank))


# ---- the page -----------------------------------------------------------------------------------


def page(both: Compared, again: str, *, every: bool = False) -> Page:
    """The series that changed, or a few that are undecided where none did; the others are counted,
    and `every` lists them too. `again`: the command that was typed."""
    return Page(
        blocks=lambda: _blocks(both, again, every),
        table=lambda: table(both.comparisons),
        document=lambda: _document(both),
    )


def _blocks(both: Compared, again: str, every: bool) -> list[Block]:
    of_verdict = {verdict: dict[Key, Comparison]() for verdict in VERDICTS}
    for key, comparison in both.comparisons.items():
        of_verdict[comparison.verdict][key] = comparison
    listed = both.comparisons if every else of_verdict["slower"] | of_verdict["faster"]
    listed = listed or dict([*of_verdict["undecided"].items()][:_FEW])
    left = {key: one for key, one in both.comparisons.items() if key not in listed}
    blocks: list[Block] = [both.title]
    if listed:
        blocks += ["", table(listed)]
    if left:
        blocks.append(f"not listed: {counted(left)}; `{again} --all` lists them")
    blocks += ["", *_lacking(both, every), *both.notes, *in_words(both.comparisons)]
    return [*blocks, *both.remarks]


def _lacking(both: Compared, every: bool) -> Iterator[str]:
    """Each kind with its number, and the series."""
    groups: dict[tuple[str, bool, bool], list[Lacking]] = {}
    for lack in both.lacking:
        groups.setdefault((lack.status, not lack.side, not lack.other), []).append(lack)
    for (status, is_first, is_alone), own in sorted(groups.items()):
        here, there = both.names if is_first else both.names[::-1]
        has = "" if is_alone else f", with a number at {there}"
        yield f"{status} at {here}{has}: {number_of(len(own), 'case')}"
        listed = own if every else own[: _FEW if "failed" in status else 3]
        for lack in listed:
            why = f": {lack.reason}" if lack.reason else ""
            yield Item(f"{as_typed(name_of(lack.key))}{why}")
        if len(own) > len(listed):
            yield Item(f"and {len(own) - len(listed)} more; --all names them")


def _document(both: Compared) -> dict[str, Any]:
    rows = values(table(both.comparisons))
    return {
        "first": both.typed[0],
        "second": both.typed[1],
        "counts": Counter(one.verdict for one in both.comparisons.values()),
        "notes": both.notes,
        "remarks": [remark.strip() for remark in both.remarks],
        "detectable_effect": detectable(both.comparisons),
        "without_number": [
            {
                "series": name_of(lack.key),
                "side": ("first", "second")[lack.side],
                "status": lack.status,
                "reason": lack.reason,
                "other_side_has_one": lack.other,
            }
            for lack in both.lacking
        ],
        "series": [
            {**row, "p_value": one.p_value, "detectable_effect": one.detectable}
            for row, one in zip(rows, both.comparisons.values(), strict=True)
        ],
    }


# ---- in words -----------------------------------------------------------------------------------


def counted(comparisons: Mapping[Key, Comparison]) -> str:
    """`1 slower, 3 undecided`."""
    num = Counter[str](comparison.verdict for comparison in comparisons.values())
    words = [f"{num[verdict]} {verdict}" for verdict in VERDICTS if num[verdict]]
    return ", ".join(words) or "no series has numbers on both sides"


def detectable(comparisons: Mapping[KeyT, Comparison]) -> float | None:
    """The change from which on half of the series would show it: the median over series of half
    their interval; None where no series has one."""
    halves = [half for one in comparisons.values() if (half := one.detectable) is not None]
    return median(halves) if halves else None


def in_words(comparisons: Mapping[Key, Comparison]) -> Iterator[str]:
    """What is undecided, why, and what helps; one line on how small a change shows."""
    undecided = [one for one in comparisons.values() if one.verdict == "undecided"]
    if few_runs := [one.lacks_runs for one in undecided if one.lacks_runs]:
        yield (
            f"{len(few_runs)} undecided: made one after the other; `hostbench ab` or "
            f"{number_of(max(few_runs), 'more run')} decide"
        )
    others = [one for one in undecided if not one.lacks_runs]
    spreads = [one.spread or 0.0 for one in others if not one.has_few]
    few = len(others) - len(spreads)
    why = f"fewer than {MIN_LAUNCHES} launches a side"
    by_run = any(one.unit == "run" for one in others)
    helps = "`hostbench ab`" if by_run else "more launches (measured with --launches 20)"
    if spreads:
        apart = f"{'runs' if by_run else 'launches'} differ by {median(spreads):.0%}"
        why = f"{few} have {why}; of the others {apart}" if few else apart
        helps += " or a quieter machine"
    if others:
        yield f"{len(others)} undecided: {why}; {helps} will help"
    least = detectable(comparisons)
    if least is not None:
        yield f"Half of the series would show a change of {least:.1%}."


def _notes(comparisons: Mapping[Key, Comparison]) -> Iterator[str]:
    if in_bytes := sum(one.in_bytes for one in comparisons.values()):
        series = number_of(in_bytes, "series", "series")
        yield f"memory in bytes ({series}): slower means more of it"
    decided = [one for one in comparisons.values() if one.verdict != "undecided"]
    if confounds := dict.fromkeys(what for one in decided for what in one.confounds):
        yield (
            f"provisional (?): the sides differ in more than what is compared "
            f"({'; '.join(confounds)}), and all of it counts"
        )
    of_machine: dict[str, Counter[str]] = {}
    for (*machine, _, _), one in comparisons.items():
        if machine and one.unit == "run":
            of_machine.setdefault(machine[0], Counter())[one.verdict] += 1
    for name, num in of_machine.items():
        for verdict in CHANGED:
            if num[verdict] >= max(MIN_SERIES, num.total() / 2):
                yield (
                    f"{num[verdict]} of {num.total()} series of {name} are {verdict}: it may be "
                    "the machine (throttling, a driver); `hostbench ab` tells"
                )


def name_of(key: Key) -> str:
    """`case@machine`, or the case where machines are compared; other versions than 1 are named."""
    *machine, case, version = key
    name = case if version == "1" else f"{case} version {short_version(version)}"
    return f"{name}@{machine[0]}" if machine else name


# ---- the table ----------------------------------------------------------------------------------


def table(comparisons: Mapping[Key, Comparison]) -> Table:
    """A row for each series."""
    return Table(_COLUMNS, [_row(key, one) for key, one in comparisons.items()])


def _row(key: Key, one: Comparison) -> dict[str, Any]:
    levels = {"before": one.before, "after": one.after}
    none = dict.fromkeys(levels)
    seconds, nbytes = (none, levels) if one.in_bytes else (levels, none)
    return {
        "verdict": one.verdict,
        "provisional": bool(one.confounds),
        **{f"{name}_s": level for name, level in seconds.items()},
        **{f"{name}_bytes": level for name, level in nbytes.items()},
        "effect": one.effect,
        "low": one.low,
        "high": one.high,
        "num_first": one.num[0],
        "num_second": one.num[1],
        "unit": one.unit,
        "why": one.why,
        "series": name_of(key),
    }


def _verdict(verdict: str, is_provisional: bool) -> str:
    return f"{verdict}?" if is_provisional and verdict != "undecided" else verdict


def format_level(seconds: float | None, nbytes: float | None) -> str:
    if nbytes is not None:
        return format_bytes(round(nbytes))
    return "-" if seconds is None else format_seconds(seconds)


def _num(first: int, second: int, unit: str) -> str:
    return f"{first}+{second}{' runs' * (unit == 'run')}"


_COLUMNS = (
    Column(("verdict", "provisional"), "verdict", _verdict),
    Column(("before_s", "before_bytes"), "before", format_level, right=True),
    Column(("after_s", "after_bytes"), "after", format_level, right=True),
    Column(("effect",), "change", format_change, right=True),
    Column(("low", "high"), "99 % interval", format_interval, right=True),
    Column(("num_first", "num_second", "unit"), "n", _num, right=True),
    Column(("why",), "why"),
    Column(("series",), "series", as_typed, code=True),
)


# ---- the comment on a pull request --------------------------------------------------------------


def comment(both: Compared, about: Sequence[str]) -> str:
    """The answer, a row for each case that is not the same, and what was not measured. `about`:
    what was compared."""
    shown = {key: one for key, one in both.comparisons.items() if one.verdict != "same"}
    failed = [lack for lack in both.lacking if "failed" in lack.status]
    answer = next((one.verdict.capitalize() for one in both.comparisons.values()), None)
    num_failed = len({lack.key for lack in failed})
    lines = [
        MARKER,
        f"**{'Failed' if both.broke else answer or 'Nothing measured'}:** "
        f"{counted(both.comparisons)}{f'; {num_failed} failed' * bool(failed)}",
        "",
    ]
    if shown:
        lines += [markdown([table(dict([*shown.items()][:_ROWS]))]), ""]
    if len(shown) > _ROWS:
        lines += [f"{len(shown) - _ROWS} more are not listed.", ""]
    reasons = [
        f"{lack.status} at {'AB'[lack.side]}: {as_typed(name_of(lack.key))}: {lack.reason}"
        for lack in failed
    ]
    known = [*reasons, *in_words(both.comparisons), *both.remarks]
    return "\n".join([*lines, *_items(known), *_what(about)])


def comment_of_nothing(answer: str, why: str, about: Sequence[str]) -> str:
    """Where there is nothing to judge."""
    return "\n".join([MARKER, f"**{answer}:** {_short(why, 1000)}", *_what(about)])


def _what(about: Sequence[str]) -> list[str]:
    return ["", "What was compared:", "", *_items(about), ""]


def _items(lines: Sequence[str]) -> Iterator[str]:
    yield from (f"- {_short(line)}" for line in lines[:_LINES])
    if len(lines) > _LINES:
        yield f"- and {len(lines) - _LINES} more, which the command prints"


def _short(text: str, most: int = _WIDTH) -> str:
    line = text.strip()
    return code(line if len(line) <= most else f"{line[:most]} ...")
