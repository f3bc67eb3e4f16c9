"""A comparison as a table: terminal, Markdown or JSON, the largest changes first."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from hostbench.judge.asv_rule import Mark
from hostbench.judge.breaks import short_version
from hostbench.judge.compare import Comparison
from hostbench.report.places import Key
from hostbench.report.sides import Lacking, Sides
from hostbench.report.table import aligned, piped, shown

HEADINGS = ("verdict", "change", "99 % interval", "n", "series")
_CHANGED = ("slower", "faster")
_FEW = 10
"""Series that are named where there may be many; --all names them all."""
_ORDER: tuple[str, ...] = ("slower", "faster", "undecided", "same")


def text(
    found: Mapping[Key, Comparison],
    sides: Sides,
    names: tuple[str, str],
    *,
    markdown: bool = False,
    every: bool = False,
) -> str:
    """`every` shows the series that are the same or undecided, too. Where none changed, a few that
    are undecided are shown."""
    ordered = _sorted(found)
    told = [(key, one) for key, one in ordered if every or one.verdict in _CHANGED]
    told = told or [(key, one) for key, one in ordered if one.verdict == "undecided"][:_FEW]
    lines = [f"{shown(' -> '.join(names), markdown=False)}: {counts(found)}"]
    table = [_cells(key, one, sides.asv.get(key), markdown) for key, one in told]
    if table:
        lines += ["", *(piped(HEADINGS, table) if markdown else aligned([HEADINGS, *table]))]
    lines += [
        "",
        *_lacking(sides.lacking, names, markdown, every),
        *_notes(found, sides, partial(shown, markdown=markdown)),
    ]
    return "\n".join(lines)


def as_json(
    found: Mapping[Key, Comparison], sides: Sides, names: tuple[str, str]
) -> dict[str, Any]:
    """The same as plain values."""
    return {
        "first": names[0],
        "second": names[1],
        "counts": Counter(one.verdict for one in found.values()),
        "notes": _notes(found, sides, str),
        "without_number": [
            {
                "series": _name(one.key),
                "side": ("first", "second")[one.place],
                "status": one.status,
                "reason": one.reason,
                "other_side_has_one": one.other,
            }
            for one in sides.lacking
        ],
        "series": [
            {
                "series": _name(key),
                "verdict": one.verdict,
                "effect": one.effect,
                "low": one.low,
                "high": one.high,
                "p_value": one.p_value,
                "unit": one.unit,
                "num": list(one.num),
                "provisional": one.is_provisional,
                "why": one.why,
                "asv": asv.says if (asv := sides.asv.get(key)) else None,
                "asv_differs": _against_asv(one, asv),
            }
            for key, one in _sorted(found)
        ],
    }


def counts(found: Mapping[Key, Comparison]) -> str:
    counted = Counter[str](one.verdict for one in found.values())
    said = [f"{counted[word]} {word}" for word in _ORDER if counted[word]]
    return ", ".join(said) or "no series has numbers on both sides"


def _sorted(found: Mapping[Key, Comparison]) -> list[tuple[Key, Comparison]]:
    def place(item: tuple[Key, Comparison]) -> tuple[int, float, Key]:
        key, one = item
        return _ORDER.index(one.verdict), -abs(one.effect or 0.0), key

    return sorted(found.items(), key=place)


def _lacking(
    lacking: Sequence[Lacking], names: tuple[str, str], markdown: bool, every: bool
) -> Iterator[str]:
    """Each kind with its number, and the series."""
    groups: dict[tuple[str, int, bool], list[Lacking]] = {}
    for one in sorted(lacking, key=lambda one: (one.status, not one.place, not one.other)):
        groups.setdefault((one.status, one.place, one.other), []).append(one)
    for (status, place, other), own in groups.items():
        has = f", with a number at {names[1 - place]}" if other else ""
        num = "1 case" if len(own) == 1 else f"{len(own)} cases"
        yield shown(f"{status} at {names[place]}{has}: {num}", markdown)
        for one in own if every else own[:_FEW]:
            why = f": {one.reason}" if one.reason else ""
            yield ("- " if markdown else "  ") + shown(_name(one.key) + why, markdown)
        if len(own) > _FEW and not every:
            yield f"{'- ' if markdown else '  '}and {len(own) - _FEW} more; --all names them"


def _notes(found: Mapping[Key, Comparison], sides: Sides, clean: Callable[[str], str]) -> list[str]:
    """What has to be known to read the verdicts, and how often asv's own rule says otherwise."""
    said = list(map(clean, sides.remarks))
    provisional = {
        k for k, one in found.items() if one.is_provisional and one.verdict != "undecided"
    }
    why = dict.fromkeys(
        what for key in found if key in provisional for what in sides.confounded.get(key, ())
    )
    if why:
        named = clean("; ".join(why))
        said.append(
            f"provisional: the sides differ in more than what is compared ({named}), and all of it "
            "counts; runs that differ in nothing else settle it"
        )
    if provisional - sides.confounded.keys():
        said.append(
            "provisional: launches of few runs were compared, so what drifts from run to run "
            "counts as a change; 6 runs a side settle it, or `hostbench ab`"
        )
    differing = [one for key, one in found.items() if _against_asv(one, sides.asv.get(key))]
    ours = sum(one.verdict in _CHANGED for one in differing)
    if ours:
        said.append(f"asv compare says otherwise of {ours} of them; each line says why")
    if len(differing) > ours:
        said.append(
            f"asv compare marks {len(differing) - ours} that are the same or undecided here; "
            "--all shows them, and why"
        )
    return said


def _against_asv(one: Comparison, asv: Mark | None) -> str:
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


def _cells(key: Key, one: Comparison, asv: Mark | None, markdown: bool) -> tuple[str, ...]:
    mark = "?" if one.is_provisional and one.verdict in ("slower", "faster", "same") else ""
    interval = "-" if one.low is None or one.high is None else f"{one.low:+.1%} to {one.high:+.1%}"
    because = "; ".join(filter(None, (one.why, _against_asv(one, asv))))
    return (
        one.verdict + mark,
        "-" if one.effect is None else f"{one.effect:+.1%}",
        interval,
        f"{one.num[0]}+{one.num[1]} {one.unit}{'es' if one.unit == 'launch' else 's'}",
        shown(_name(key), markdown) + (f" ({because})" if because else ""),
    )


def _name(key: Key) -> str:
    """`case@machine`, or the case where machines are compared; other versions than 1 are told."""
    *machine, case, version = key
    name = case if version == "1" else f"{case} version {short_version(version)}"
    return f"{name}@{machine[0]}" if machine else name
