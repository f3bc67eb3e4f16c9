"""How things are called on the pages, and the one place where text from files is made safe."""

import re
from collections.abc import Sequence
from typing import Any

import pandas as pd

from hostbench.core.case import counts
from hostbench.core.units import format_change, number_of
from hostbench.families.collectives import questions as collectives
from hostbench.families.overlap import questions as overlap
from hostbench.families.question import axis_word
from hostbench.judge.events import Event

SHORT = {"host_to_device": "H2D", "device_to_host": "D2H"}
WORDS: dict[str, dict[str, str]] = {
    "blocking": {"True": "sync", "False": "async"},
    "operation": {str(name): text for name, text in collectives.WORDS["operation"].items()},
    "schedule": {str(name): text for name, text in overlap.WORDS["schedule"].items()},
}
_LINKS = re.compile(r"(://|\bwww\.|(?<=\w)@(?=[\w-]+\.))(?=\w)", re.IGNORECASE)
_PUNCTUATION = re.compile(r"([!-/:-@\[-`{-~])")
_PAIRS = re.compile(r",(?=[^,=()\[\]{}]+=)")
"""Between two choices of a case: a value may hold commas."""
_JOINER = "\u2060"
_LONGEST = 1000
_MOST_BLOCKS, _BLOCKS = 15, "▁▂▃▄▅▆▇█"


def plain(text: object) -> str:
    """Text from a file for st.markdown: every sign that could be markup is escaped, and an address
    is no link, for a sign without width stands in it."""
    line = " ".join(str(text).split())
    line = line if len(line) <= _LONGEST else f"{line[:_LONGEST]}..."
    return _PUNCTUATION.sub(r"\\\1", _LINKS.sub(rf"\1{_JOINER}", line))


def axes(case: str) -> dict[str, str]:
    """Axis -> value of a case in its text form."""
    _, bracket, inside = case.partition("[")
    pairs = _PAIRS.split(inside.removesuffix("]")) if bracket else []
    return dict(pair.partition("=")[::2] for pair in pairs if pair)


def value(axis: str, text: object) -> str:
    """A choice on an axis: `16MiB`, `4 ranks`, `async`, `pinned`."""
    said = str(text)
    if axis == "workload":
        return workload(said)
    if axis in WORDS and said in WORDS[axis]:
        return WORDS[axis][said]
    if said.isdigit() and counts(axis):
        return axis_word(axis, int(said))
    if said.isidentifier() and said not in ("True", "False"):
        return said.replace("_", " ")
    return f"{axis_name(axis)} {said}"


def axis_name(axis: str) -> str:
    return "size" if axis == "nbytes" else axis.removeprefix("num_").replace("_", " ")


def case(text: str) -> str:
    """`H2D 16MiB pinned async`."""
    name = workload(text.partition("[")[0])
    choices = [value(*pair) for pair in axes(text).items() if pair[0] != "device"]
    return " ".join([name, *choices])


def workload(name: str) -> str:
    """`H2D`; `pipeline`; `SortIntegerArray.time_argsort` of another project."""
    last = name.partition(".")[2] or name
    return last if "." in last else SHORT.get(last, last.replace("_", " "))


def commit8(commit: object) -> str:
    return commit[:8] if isinstance(commit, str) and commit else "no commit"


def when(at: Any) -> str:
    return "unknown time" if pd.isna(at) else f"{at:%Y-%m-%d %H:%M}"


def ago(at: Any) -> str:
    """`3 h ago`, `12 days ago`."""
    if pd.isna(at):
        return "at an unknown time"
    minutes = max(0, (pd.Timestamp.now("UTC") - at) // pd.Timedelta(minutes=1))
    days, hours = minutes // (24 * 60), minutes // 60
    return f"{number_of(days, 'day') if days else f'{hours} h' if hours else f'{minutes} min'} ago"


def change(event: Event) -> str:
    """`+18.6%`; nothing of a baseline reset."""
    return "" if event.is_reset else format_change(event.effect)


def spark(values: Sequence[float]) -> str:
    """A small trend as a line of blocks: of many values some, to the last."""
    values = values[:: -max(1, len(values) // _MOST_BLOCKS)][::-1]
    low, high = min(values, default=0.0), max(values, default=0.0)
    scale = (len(_BLOCKS) - 1) / (high - low) if high > low else 0.0
    return "".join(_BLOCKS[round(scale * (value - low))] for value in values)


def order(axis: str, text: str) -> list[tuple[float, str]]:
    """A key to sort by: what has a word as in WORDS, what others are held against first; 2 before
    16."""
    known = [*WORDS.get(axis, ())]
    parts = [str(known.index(text))] if text in known else re.split(r"(\d+)", text)
    return [(float(part), "") if part.isdigit() else (0.0, part) for part in parts]
