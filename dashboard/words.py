"""How things are called on the pages. Text from result files is escaped here."""

import re
import zlib
from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd

from hostbench.core.case import counts
from hostbench.families import declared
from hostbench.report.charts import PALETTE
from hostbench.report.kinds.question import axis_word
from hostbench.store.runs import launches_in_words

LEGEND = "Sizes are binary (1MiB = 2^20 bytes), rates decimal (1 GB/s = 10^9 bytes per second)."
DEVICES = {"cpu": "cpu device, no GPU"}

ONLY = "the only case"
_LINKS = re.compile(r"(://|\bwww\.|(?<=\w)@(?=[\w-]+\.))(?=\w)", re.IGNORECASE)
_LONGEST = 1000
"""Signs of one text from a file on a page; its table and its CSV have all of it."""
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_PAIRS = re.compile(r",(?=[^,=()\[\]{}]+=)")
"""Between two choices of a case: a value may hold commas."""
_JOINER = "\u2060"
_PUNCTUATION = re.compile(r"([!-/:-@\[-`{-~])")


def plain(text: object) -> str:
    """Text from a file for st.markdown: every sign that could be markup is escaped, and an address
    is no link, for a sign without width stands in it."""
    line = " ".join(str(text).split())
    line = line if len(line) <= _LONGEST else f"{line[:_LONGEST]}..."
    unlinked = _LINKS.sub(rf"\1{_JOINER}", line)
    return _PUNCTUATION.sub(r"\\\1", unlinked)


def no_formula(cell: Any) -> Any:
    """A cell of a CSV: as it is, or with an apostrophe where a spreadsheet would compute it."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell


def missing(value: Any) -> bool:
    """Whether a cell of the frame holds nothing: None, NaN or NaT."""
    return bool(pd.isna(value))


def known(value: Any, otherwise: str = "unknown") -> str:
    """A cell of the frame as text."""
    return otherwise if missing(value) or value == "" else str(value)


def only(rows: pd.DataFrame, column: str, otherwise: str = "unknown") -> str:
    """What the rows say in one column: the values that occur, joined."""
    return ", ".join(str(value) for value in rows[column].dropna().unique()) or otherwise


def device(name: Any) -> str:
    """`cuda`, or the cpu device under a name that nobody takes for a GPU."""
    return DEVICES.get(str(name), known(name, "no device axis"))


def hardware(rows: pd.DataFrame) -> str:
    """`NVIDIA H200, cuda` or `AMD EPYC, cpu device, no GPU`."""
    devices = [device(name) for name in rows["device"].dropna().unique()]
    return ", ".join([only(rows, "hardware", "unknown hardware"), *devices])


def when(at: Any) -> str:
    return "unknown time" if missing(at) else f"{at:%Y-%m-%d %H:%M} UTC"


def launches(about: Any) -> str:
    """Of a run of data.runs: `10 launches`, `1 of 10 launches, partial`."""
    measured = None if missing(about["measured"]) else int(about["measured"])
    is_whole = missing(about["complete"]) or bool(about["complete"])
    return launches_in_words(int(about["launches"]), measured, is_whole)


def commit8(commit: Any) -> str:
    return known(commit, "no commit")[: 9 if missing(commit) else 8]


def named(runs: pd.DataFrame) -> dict[str, str]:
    """run_id -> a run in a select box: `2026-11-21 12:26 UTC, 37775f52, scratch: quick`."""
    cells = runs.drop_duplicates("run_id")[["run_id", "started_at", "commit", "scratch"]]
    return {
        run_id: f"{when(at)}, {commit8(commit)}" + ("" if missing(why) else f", scratch: {why}")
        for run_id, at, commit, why in cells.itertuples(index=False)
    }


def group(name: str, every: Sequence[str]) -> str:
    """`i7, py3.9 numpy1.21.5` of machine/environment, among `every` other one."""
    machine, _, setting = name.partition("/")
    here = [one.partition("/")[2] for one in every if one.startswith(f"{machine}/")]
    return f"{machine}, {environment(setting, here)}" if setting else machine


def environment(name: str, every: Iterable[str]) -> str:
    """`py3.9 numpy1.21.5`: what the name of asv's environment has that not all of `every` have."""
    own = name.split("-")
    shared = set(own).intersection(*(one.split("-") for one in every))
    return " ".join(one for one in own if one not in shared) or name


def axes(case: str, workload: str) -> str:
    """`device=cpu,nbytes=65536` of a case in its text form."""
    return case.removeprefix(workload).removeprefix("[").removesuffix("]")


def case(text: str, workload: str, *, with_device: bool = True) -> str:
    """The choices of a case: `cpu device, no GPU, 16MiB, pinned, blocking=True`."""
    pairs = [pair.partition("=")[::2] for pair in _PAIRS.split(axes(text, workload)) if pair]
    pairs = [pair for pair in pairs if with_device or pair[0] != "device"]
    ours = declared(workload) is not None
    said = [_axis(*pair) if ours else "=".join(pair) for pair in pairs]
    return ", ".join(said) or ONLY


def _axis(name: str, value: str) -> str:
    if name == "device":
        return device(value)
    if value.isdigit() and counts(name):
        return axis_word(name, int(value))
    return value if value.isidentifier() and value not in ("True", "False") else f"{name}={value}"


def question(workload: str) -> str:
    """What a workload measures; empty of another project's."""
    found = declared(workload)
    return found.question if found else ""


def colors(names: Iterable[str]) -> dict[str, str]:
    """The same machine always in the same colour, whatever else is shown: by its name; one that
    another name has taken goes to the next."""
    found: dict[str, str] = {}
    for name in sorted(names):
        place = zlib.crc32(name.encode()) % len(PALETTE)
        free = [PALETTE[(place + one) % len(PALETTE)] for one in range(len(PALETTE))]
        found[name] = next((one for one in free if one not in found.values()), free[0])
    return found
