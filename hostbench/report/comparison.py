"""A comparison as a page, a table or a document for JSON: the largest changes first."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
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
from hostbench.judge.two_sides import Comparison, KeyT
from hostbench.report.blocks import Block, Column, Item, Table, Title
from hostbench.report.side_runs import Key
from hostbench.report.sides import Lacking, Sides
from hostbench.report.write import values

_CHANGED = ("slower", "faster")
_FEW = 10
"""Series that are named where there may be many; --all names them all."""
_ORDER: tuple[str, ...] = ("slower", "faster", "undecided", "same")


def blocks(
    comparisons: Mapping[Key, Comparison],
    sides: Sides,
    names: tuple[str, str],
    again: str,
    *,
    every: bool = False,
    remarks: Sequence[str] = (),
) -> list[Block]:
    """The series that changed, or a few that are undecided where none did; the others are counted,
    and `every` lists them too. `again`: the command that was typed; `remarks`: what else has to be
    known of the sides."""
    ordered = in_order(comparisons)
    changed = {key: one for key, one in ordered if one.verdict in _CHANGED}
    undecided = {key: one for key, one in ordered if one.verdict == "undecided"}
    listed = dict(ordered) if every else changed or dict([*undecided.items()][:_FEW])
    parts: list[Block] = [Title(f"{' -> '.join(names)}: {counts(comparisons)}")]
    if listed:
        parts += ["", table(listed, sides)]
    if left := {key: one for key, one in comparisons.items() if key not in listed}:
        parts.append(f"not listed: {counts(left)}; `{again} --all` lists them")
    parts += ["", *_lacking(sides.lacking, names, every), *notes(comparisons, sides)]
    return [*parts, *in_words(comparisons, sides), *remarks]


def table(comparisons: Mapping[Key, Comparison], sides: Sides) -> Table:
    """A row for each series."""
    return Table(COLUMNS, [_row(key, one, sides) for key, one in in_order(comparisons)])


def as_json(
    comparisons: Mapping[Key, Comparison],
    sides: Sides,
    names: tuple[str, str],
    remarks: Sequence[str] = (),
) -> dict[str, Any]:
    """The same as plain values."""
    rows = values(table(comparisons, sides))
    return {
        "first": names[0],
        "second": names[1],
        "counts": Counter(one.verdict for one in comparisons.values()),
        "notes": notes(comparisons, sides),
        "remarks": [remark.strip() for remark in remarks],
        "detectable_effect": detectable(comparisons),
        "without_number": [
            {
                "series": name_of(lack.key),
                "side": ("first", "second")[lack.side],
                "status": lack.status,
                "reason": lack.reason,
                "other_side_has_one": lack.other,
            }
            for lack in sides.lacking
        ],
        "series": [
            {**row, "p_value": one.p_value, "detectable_effect": one.detectable}
            for row, (_, one) in zip(rows, in_order(comparisons), strict=True)
        ],
    }


def counts(comparisons: Mapping[Key, Comparison]) -> str:
    """`1 slower, 3 undecided`, the worst first."""
    counted = Counter[str](one.verdict for one in comparisons.values())
    words = [f"{counted[word]} {word}" for word in _ORDER if counted[word]]
    return ", ".join(words) or "no series has numbers on both sides"


def detectable(comparisons: Mapping[KeyT, Comparison]) -> float | None:
    """The change from which on half of the series would show it: the median over series of half
    their interval; None where no series has one."""
    halves = [one.detectable for one in comparisons.values() if one.detectable is not None]
    return median(halves) if halves else None


def in_words(comparisons: Mapping[Key, Comparison], sides: Sides) -> Iterator[str]:
    """What is undecided, why, and what helps; one line on how small a change shows."""
    undecided = [one for one in comparisons.values() if one.verdict == "undecided"]
    few_runs = [one.lacks_runs for one in undecided if one.lacks_runs]
    if few_runs:
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
        helps += f" or a quieter machine{f' ({sides.busy})' if sides.busy else ''}"
    if others:
        yield f"{len(others)} undecided: {why}; {helps} will help"
    least = detectable(comparisons)
    if least is not None:
        yield f"Half of the series would show a change of {least:.1%}."


def in_order(comparisons: Mapping[Key, Comparison]) -> list[tuple[Key, Comparison]]:
    """Slower, faster, undecided, the same; the largest changes first."""

    def rank(item: tuple[Key, Comparison]) -> tuple[int, float, Key]:
        key, one = item
        return _ORDER.index(one.verdict), -abs(one.effect or 0.0), key

    return sorted(comparisons.items(), key=rank)


def _lacking(lacking: Sequence[Lacking], names: tuple[str, str], every: bool) -> Iterator[str]:
    """Each kind with its number, and the series."""
    groups: dict[tuple[str, int, bool], list[Lacking]] = {}
    for lack in sorted(lacking, key=lambda lack: (lack.status, not lack.side, not lack.other)):
        groups.setdefault((lack.status, lack.side, lack.other), []).append(lack)
    for (status, side, other), own in groups.items():
        has = f", with a number at {names[1 - side]}" if other else ""
        yield f"{status} at {names[side]}{has}: {number_of(len(own), 'case')}"
        listed = own if every else own[: _FEW if "failed" in status else 3]
        for lack in listed:
            why = f": {lack.reason}" if lack.reason else ""
            yield Item(f"{as_typed(name_of(lack.key))}{why}")
        if len(own) > len(listed):
            yield Item(f"and {len(own) - len(listed)} more; --all names them")


def notes(comparisons: Mapping[Key, Comparison], sides: Sides) -> list[str]:
    """What has to be known to read the verdicts."""
    lines = list(sides.remarks)
    if in_bytes := sum(sides.series[key].in_bytes for key in comparisons):
        lines.append(f"{in_bytes} series are memory in bytes: there, slower means more of it")
    provisional = {
        key for key, one in comparisons.items() if one.is_provisional and one.verdict != "undecided"
    }
    differs = dict.fromkeys(
        what for key in comparisons if key in provisional for what in sides.confounded.get(key, ())
    )
    if differs:
        lines.append(
            f"provisional (?): the sides differ in more than what is compared "
            f"({'; '.join(differs)}), and all of it counts"
        )
    return [*lines, *_moved_together(comparisons)]


def _moved_together(comparisons: Mapping[Key, Comparison]) -> Iterator[str]:
    """Of runs made one after the other: machines of which most series moved the same way."""
    verdicts: dict[str, Counter[str]] = {}
    for (*machine, _, _), one in comparisons.items():
        if machine and one.unit == "run":
            verdicts.setdefault(machine[0], Counter())[one.verdict] += 1
    for machine_name, counted in verdicts.items():
        for verdict in _CHANGED:
            if counted[verdict] >= max(MIN_SERIES, counted.total() / 2):
                yield (
                    f"{counted[verdict]} of {counted.total()} series of {machine_name} are "
                    f"{verdict}: it may be the machine (throttling, a driver); `hostbench ab` tells"
                )


def _why(one: Comparison, sides: Sides) -> str:
    """Why it is undecided: of launches that lie far apart with what disturbed them, where that is
    known."""
    disturbed = one.verdict == "undecided" and not one.has_few and sides.busy
    return f"{one.why}: busy machine, {sides.busy}" if disturbed else one.why


def _as_measured(key: Key, one: Comparison, sides: Sides) -> dict[str, float | None]:
    """Both sides' numbers, in seconds or in bytes."""
    numbers = {"before": one.before, "after": one.after}
    own = "bytes" if sides.series[key].in_bytes else "s"
    return {
        f"{name}_{unit}": number if unit == own else None
        for unit in ("s", "bytes")
        for name, number in numbers.items()
    }


def _row(key: Key, one: Comparison, sides: Sides) -> dict[str, Any]:
    return {
        "verdict": one.verdict,
        "provisional": one.is_provisional,
        **_as_measured(key, one, sides),
        "effect": one.effect,
        "low": one.low,
        "high": one.high,
        "num_first": one.num[0],
        "num_second": one.num[1],
        "unit": one.unit,
        "why": _why(one, sides),
        "series": name_of(key),
    }


def _verdict(verdict: str, is_provisional: bool) -> str:
    return f"{verdict}?" if is_provisional and verdict != "undecided" else verdict


def _level(seconds: float | None, nbytes: float | None) -> str:
    if nbytes is not None:
        return format_bytes(round(nbytes))
    return "-" if seconds is None else format_seconds(seconds)


def _num(first: int, second: int, unit: str) -> str:
    return f"{first}+{second}{' runs' * (unit == 'run')}"


COLUMNS = (
    Column(("verdict", "provisional"), "verdict", _verdict),
    Column(("before_s", "before_bytes"), "before", _level, right=True),
    Column(("after_s", "after_bytes"), "after", _level, right=True),
    Column(("effect",), "change", format_change, right=True),
    Column(("low", "high"), "99 % interval", format_interval, right=True),
    Column(("num_first", "num_second", "unit"), "n", _num, right=True),
    Column(("why",), "why"),
    Column(("series",), "series", as_typed, code=True),
)


def name_of(key: Key) -> str:
    """`case@machine`, or the case where machines are compared; other versions than 1 are named."""
    *machine, case, version = key
    name = case if version == "1" else f"{case} version {short_version(version)}"
    return f"{name}@{machine[0]}" if machine else name
