"""A comparison as a page, a table or a document for JSON: the largest changes first."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hostbench.core.case import as_typed
from hostbench.core.samples import median
from hostbench.core.units import format_bytes, format_seconds, number_of
from hostbench.judge.asv_rule import AsvMark
from hostbench.judge.compare import Comparison, KeyT
from hostbench.judge.grid import short_version
from hostbench.judge.sequential import half_width
from hostbench.report.places import Key
from hostbench.report.sides import Lacking, Sides
from hostbench.report.table import Cell, Column, Heading, Part, Table

COLUMNS = (
    Column(title="verdict", keys=("verdict", "provisional")),
    Column(title="before", keys=("before_s", "before_bytes"), right=True),
    Column(title="after", keys=("after_s", "after_bytes"), right=True),
    Column(title="change", keys=("effect",), right=True),
    Column(title="99 % interval", keys=("low", "high"), right=True),
    Column(title="detectable", keys=("detectable_effect",), right=True),
    Column(title="n", keys=("num_first", "num_second", "unit"), right=True),
    Column(title="series", keys=("series",), code=True),
    Column(title="note", keys=("why", "asv_differs"), below=True),
)
_CHANGED = ("slower", "faster")
_FEW = 10
"""Series that are named where there may be many; --all names them all."""
_ORDER: tuple[str, ...] = ("slower", "faster", "undecided", "same")


def page(
    found: Mapping[Key, Comparison],
    sides: Sides,
    names: tuple[str, str],
    again: str,
    *,
    every: bool = False,
    remarks: Sequence[str] = (),
) -> list[Part]:
    """`every` shows the series that are the same or undecided, too. Else they are counted, and
    where none changed a few that are undecided are shown. `again`: the command that
    was typed; `remarks`: what else has to be known of the sides."""
    listed = {key: one for key, one in found.items() if every or one.verdict in _CHANGED}
    if not listed:
        undecided = [(key, one) for key, one in in_order(found) if one.verdict == "undecided"]
        listed = dict(undecided[:_FEW])
    parts: list[Part] = [Heading(f"{' -> '.join(names)}: {counts(found)}")]
    parts += ["", table(listed, sides)] if listed else []
    left = {key: one for key, one in found.items() if key not in listed}
    parts += [f"not listed: {counts(left)}; `{again} --all` lists them"] * bool(left)
    parts += ["", *_lacking(sides.lacking, names, every), *notes(found, sides, every)]
    return [*parts, *_detectable_in_words(found), *remarks]


def table(found: Mapping[Key, Comparison], sides: Sides) -> Table:
    """A row for each series."""
    rows = tuple(_cells(key, one, sides) for key, one in in_order(found))
    return Table(columns=COLUMNS, rows=rows)


def as_json(
    found: Mapping[Key, Comparison],
    sides: Sides,
    names: tuple[str, str],
    remarks: Sequence[str] = (),
) -> dict[str, Any]:
    """The same as plain values."""
    return {
        "first": names[0],
        "second": names[1],
        "counts": Counter(one.verdict for one in found.values()),
        "notes": notes(found, sides, every=True),
        "remarks": [remark.strip() for remark in remarks],
        "detectable_effect": detectable(found),
        "without_number": [
            {
                "series": name_of(one.key),
                "side": ("first", "second")[one.place],
                "status": one.status,
                "reason": one.reason,
                "other_side_has_one": one.other,
            }
            for one in sides.lacking
        ],
        "series": [
            {
                "series": name_of(key),
                "verdict": one.verdict,
                "effect": one.effect,
                "low": one.low,
                "high": one.high,
                "detectable_effect": half_width(one),
                "p_value": one.p_value,
                "unit": one.unit,
                "num": list(one.num),
                **_as_measured(key, one, sides),
                "provisional": one.is_provisional,
                "why": one.why,
                "asv": asv.says if (asv := sides.asv.get(key)) else None,
                "asv_differs": against_asv(one, asv),
            }
            for key, one in in_order(found)
        ],
    }


def counts(found: Mapping[Key, Comparison]) -> str:
    counted = Counter[str](one.verdict for one in found.values())
    said = [f"{counted[word]} {word}" for word in _ORDER if counted[word]]
    return ", ".join(said) or "no series has numbers on both sides"


def detectable(found: Mapping[KeyT, Comparison]) -> float | None:
    """The change from which on half of the series would tell it: the median over series of half
    their interval; None where no series has one."""
    halves = [half for one in found.values() if (half := half_width(one)) is not None]
    return median(halves) if halves else None


def _detectable_in_words(found: Mapping[Key, Comparison]) -> Iterator[str]:
    least = detectable(found)
    if least is not None:
        yield (
            f"Smallest change that these launches tell: about {least:.1%} in half of the series "
            "(half of the 99 % interval); more launches tell smaller ones."
        )


def in_order(found: Mapping[Key, Comparison]) -> list[tuple[Key, Comparison]]:
    """Slower, faster, undecided, the same; the largest changes first."""

    def place(item: tuple[Key, Comparison]) -> tuple[int, float, Key]:
        key, one = item
        return _ORDER.index(one.verdict), -abs(one.effect or 0.0), key

    return sorted(found.items(), key=place)


def _lacking(lacking: Sequence[Lacking], names: tuple[str, str], every: bool) -> Iterator[str]:
    """Each kind with its number, and the series."""
    groups: dict[tuple[str, int, bool], list[Lacking]] = {}
    for one in sorted(lacking, key=lambda one: (one.status, not one.place, not one.other)):
        groups.setdefault((one.status, one.place, one.other), []).append(one)
    for (status, place, other), own in groups.items():
        has = f", with a number at {names[1 - place]}" if other else ""
        yield f"{status} at {names[place]}{has}: {number_of(len(own), 'case')}"
        for one in own if every else own[:_FEW]:
            why = f": {one.reason}" if one.reason else ""
            yield f"  {as_typed(name_of(one.key))}{why}"
        if len(own) > _FEW and not every:
            yield f"  and {len(own) - _FEW} more; --all names them"


def notes(found: Mapping[Key, Comparison], sides: Sides, every: bool = True) -> list[str]:
    """What has to be known to read the verdicts, and how often asv's own rule says otherwise."""
    said = list(sides.remarks)
    if sides.shares.keys() & found.keys():
        said.append(
            "cases were measured until they were decided: the intervals are wider, and p-values "
            "larger, than of as many launches that are looked at once"
        )
    in_bytes = sum(key in sides.in_bytes for key in found)
    if in_bytes:
        said.append(f"{in_bytes} series are memory in bytes: there, slower means more of it")
    provisional = {
        k for k, one in found.items() if one.is_provisional and one.verdict != "undecided"
    }
    why = dict.fromkeys(
        what for key in found if key in provisional for what in sides.confounded.get(key, ())
    )
    if why:
        named = "; ".join(why)
        said.append(
            f"provisional: the sides differ in more than what is compared ({named}), and all of it "
            "counts; runs that differ in nothing else settle it"
        )
    if provisional - sides.confounded.keys():
        said.append(
            "provisional: launches of few runs were compared, so what drifts from run to run "
            "counts as a change; 6 runs a side settle it, or `hostbench ab`"
        )
    differing = [one for key, one in found.items() if against_asv(one, sides.asv.get(key))]
    ours = sum(one.verdict in _CHANGED for one in differing)
    if ours:
        said.append(f"asv compare says otherwise of {ours} of them; each line says why")
    if len(differing) > ours:
        said.append(
            f"asv compare marks {len(differing) - ours} that are the same or undecided here; "
            + ("each line says why" if every else "--all shows them, and why")
        )
    return said


def against_asv(one: Comparison, asv: AsvMark | None) -> str:
    """Why asv compare says otherwise of the same files; empty where it does not."""
    if asv is None or asv.says == (one.verdict if one.verdict in _CHANGED else "unmarked"):
        return ""
    if one.verdict in _CHANGED:
        marks = "does not mark it" if asv.says == "unmarked" else f"calls it {asv.says}"
        return f"asv compare {marks}: {asv.why}"
    if one.unit == "run":
        here = "it sees each side's newest run alone"
    elif one.why:
        here = asv.why
    else:
        rate = f"{100 * one.false_discovery_rate:g}%"
        here = f"{asv.why}; here false alarms are held to {rate} of the table"
    return f"asv compare calls it {asv.says}: {here}"


def _as_measured(key: Key, one: Comparison, sides: Sides) -> dict[str, float | None]:
    """Both sides' numbers, in seconds or in bytes."""
    numbers = {"before": one.before, "after": one.after}
    own = "bytes" if key in sides.in_bytes else "s"
    return {
        f"{name}_{unit}": number if unit == own else None
        for unit in ("s", "bytes")
        for name, number in numbers.items()
    }


def _in_words(seconds: float | None, nbytes: float | None) -> str:
    if nbytes is not None:
        return format_bytes(round(nbytes))
    return "-" if seconds is None else format_seconds(seconds)


def _cells(key: Key, one: Comparison, sides: Sides) -> tuple[Cell, ...]:
    mark = "?" if one.is_provisional and one.verdict in ("slower", "faster", "same") else ""
    interval = "-" if one.low is None or one.high is None else f"{one.low:+.1%} to {one.high:+.1%}"
    change = "-" if one.effect is None else f"{one.effect:+.1%}"
    half = half_width(one)
    num = f"{one.num[0]}+{one.num[1]} {one.unit}{'es' if one.unit == 'launch' else 's'}"
    differs = against_asv(one, sides.asv.get(key))
    measured = _as_measured(key, one, sides)
    pairs = [(measured[f"{name}_s"], measured[f"{name}_bytes"]) for name in ("before", "after")]
    why = one.why if one.low is None else ""  # else the interval says it
    because = "; ".join(filter(None, (why, differs)))
    return (
        Cell(one.verdict + mark, (one.verdict, one.is_provisional)),
        *(Cell(_in_words(*pair), pair) for pair in pairs),
        Cell(change, (one.effect,)),
        Cell(interval, (one.low, one.high)),
        Cell("-" if half is None else f"{half:.1%}", (half,)),
        Cell(num, (*one.num, one.unit)),
        Cell(as_typed(name_of(key)), (name_of(key),)),
        Cell(because, (one.why, differs)),
    )


def name_of(key: Key) -> str:
    """`case@machine`, or the case where machines are compared; other versions than 1 are told."""
    *machine, case, version = key
    name = case if version == "1" else f"{case} version {short_version(version)}"
    return f"{name}@{machine[0]}" if machine else name
