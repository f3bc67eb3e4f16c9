"""How things are called on the pages, and the one place where text from files is made safe."""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import pandas as pd

from hostbench import families
from hostbench.core.case import Case, read_case
from hostbench.core.units import format_change, number_of
from hostbench.report.changes import Cause
from hostbench.report.picture import picture_of

PICTURES = families.pictures()
_LINKS = re.compile(r"(://|\bwww\.|(?<=\w)@(?=[\w-]+\.))(?=\w)", re.IGNORECASE)
_PUNCTUATION = re.compile(r"([!-/:-@\[-`{-~])")
_PAIRS = re.compile(r",(?=[^,=()\[\]{}]+=)")
"""Between two choices of a case: a value may hold commas."""
_TICKS = re.compile("`+")
_JOINER = "\u2060"
_LONGEST = 1000
_MOST_BLOCKS, _BLOCKS = 15, "▁▂▃▄▅▆▇█"


def plain(text: object) -> str:
    """Text from a file for st.markdown: every sign that could be markup is escaped, and an address
    is no link, for a sign without width stands in it."""
    line = " ".join(str(text).split())
    line = line if len(line) <= _LONGEST else f"{line[:_LONGEST]}..."
    return _PUNCTUATION.sub(r"\\\1", _LINKS.sub(rf"\1{_JOINER}", line))


def code(text: str) -> str:
    """A command in a text, as it is: st.code loads 1.5 MB of a highlighter for it."""
    fence = "`" * (1 + max(map(len, _TICKS.findall(text)), default=0))
    return f"{fence} {text} {fence}"


@lru_cache(maxsize=10_000)
def read(text: str) -> Case:
    """A case; of another project's, whose values may hold commas and brackets, these as text."""
    if known := read_case(text):
        return known
    name, bracket, inside = text.partition("[")
    pairs = _PAIRS.split(inside.removesuffix("]")) if bracket else []
    return Case(name, dict(pair.partition("=")[::2] for pair in pairs if pair))


def case(text: str) -> str:
    """`H2D 16MiB pinned async`."""
    own = read(text)
    axes = {"workload": own.workload, **own.values}
    words = (picture_of(own.family).word(axis, axes[axis]) for axis in axes if axis != "device")
    return " ".join(filter(None, words))


def workload(name: str) -> str:
    """`H2D`; `pipeline`; `SortIntegerArray.time_argsort` of another project."""
    return picture_of(name.partition(".")[0]).word("workload", name)


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


def change(cause: Cause) -> str:
    """`up to +18.6%` of several changes; nothing of a baseline reset."""
    if cause.worst.is_reset:
        return ""
    return "up to " * (len(cause.events) > 1) + format_change(cause.worst.effect)


def spark(values: Sequence[float]) -> str:
    """A small trend as a line of blocks: of many values some, to the last."""
    values = values[:: -max(1, len(values) // _MOST_BLOCKS)][::-1]
    low, high = min(values, default=0.0), max(values, default=0.0)
    scale = (len(_BLOCKS) - 1) / (high - low) if high > low else 0.0
    return "".join(_BLOCKS[round(scale * (value - low))] for value in values)
