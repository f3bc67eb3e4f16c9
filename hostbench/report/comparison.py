"""A comparison as a table: terminal, Markdown or JSON, the largest changes first."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from hostbench.judge.compare import FALSE_DISCOVERY_RATE, Comparison
from hostbench.report.sides import Key

HEADINGS = ("verdict", "change", "99 % interval", "n", "series")
_ORDER: tuple[str, ...] = ("slower", "faster", "undecided", "same")
ASV_FACTOR = 1.1


def text(
    found: Mapping[Key, Comparison],
    names: tuple[str, str],
    notes: Sequence[str],
    *,
    markdown: bool = False,
    every: bool = False,
) -> str:
    """`every` shows the series that are the same or undecided, too."""
    shown = [
        (key, one) for key, one in _sorted(found) if every or one.verdict in ("slower", "faster")
    ]
    lines = [f"{names[0]} -> {names[1]}: {counts(found)}"]
    table = [_cells(key, one) for key, one in shown]
    if table:
        lines += ["", *(_markdown(table) if markdown else _aligned([HEADINGS, *table]))]
    lines += ["", *_notes(found), *notes]
    return "\n".join(lines)


def as_json(
    found: Mapping[Key, Comparison], names: tuple[str, str], notes: Sequence[str]
) -> dict[str, Any]:
    """The same as plain values."""
    return {
        "first": names[0],
        "second": names[1],
        "counts": Counter(one.verdict for one in found.values()),
        "notes": [*_notes(found), *notes],
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


def _notes(found: Mapping[Key, Comparison]) -> list[str]:
    """What has to be known to read the verdicts, and where asv's own rule says otherwise."""
    said = []
    if any(one.is_provisional and one.verdict != "undecided" for one in found.values()):
        said.append(
            "provisional: launches of few runs were compared, so what drifts from run to run "
            "counts as a change; 6 runs a side settle it"
        )
    small = sum(
        one.verdict in ("slower", "faster")
        and one.effect is not None
        and 1 / ASV_FACTOR <= 1 + one.effect <= ASV_FACTOR
        for one in found.values()
    )
    if small:
        said.append(
            f"asv compare does not mark {small} of them: they change by less than its factor of "
            f"{ASV_FACTOR}"
        )
    unsure = sum(
        one.verdict in ("same", "undecided")
        and one.effect is not None
        and not 1 / ASV_FACTOR <= 1 + one.effect <= ASV_FACTOR
        for one in found.values()
    )
    if unsure:
        said.append(
            f"asv compare may mark {unsure} more, beyond its factor of {ASV_FACTOR}: it judges "
            "each row alone at p < 0.002, here the false alarms of the whole table are held to "
            f"{FALSE_DISCOVERY_RATE:.0%}"
        )
    return said


def _cells(key: Key, one: Comparison) -> tuple[str, ...]:
    mark = "?" if one.is_provisional and one.verdict in ("slower", "faster", "same") else ""
    interval = "-" if one.low is None or one.high is None else f"{one.low:+.1%} to {one.high:+.1%}"
    return (
        one.verdict + mark,
        "-" if one.effect is None else f"{one.effect:+.1%}",
        interval,
        f"{one.num[0]}+{one.num[1]} {one.unit}{'es' if one.unit == 'launch' else 's'}",
        _name(key) + (f" ({one.why})" if one.why else ""),
    )


def _name(key: Key) -> str:
    """`case@machine`, or the case where machines are compared; other versions than 1 are told."""
    *machine, case, version = key
    name = case if version == "1" else f"{case} version {version}"
    return f"{name}@{machine[0]}" if machine else name


def _markdown(table: Sequence[Sequence[str]]) -> list[str]:
    head = ["| " + " | ".join(HEADINGS) + " |", "|---|--:|--:|--:|---|"]
    return head + [
        "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in table
    ]


def _aligned(table: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[place]) for row in table) for place in range(len(HEADINGS))]
    return [
        "  ".join(
            cell.ljust(width) if place in (0, len(HEADINGS) - 1) else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in table
    ]
