"""One table as text, Markdown, JSON and CSV, and on a terminal."""

import re

import pytest

from hostbench.core.units import format_change, format_interval
from hostbench.report.blocks import Column, Item, Table
from hostbench.report.write import markdown, text
from tests.commands import Terminal

NASTY = "[red]x[/] `y` | \x1b[31mz"
MARKUP = "<b> ~~x~~ *y* _z_ # [a](b) \\ &lt;\r\n\u202e"
CASE = "transfer.host_to_device[device=cpu,nbytes=65536,memory=pageable,blocking=True]@shelf"
COLUMNS = (
    Column(("verdict",), "verdict"),
    Column(("effect",), "change", format_change, right=True),
    Column(("low", "high"), "interval", format_interval, right=True),
    Column(("series",), "series"),
)
ROWS = (
    {"verdict": "slower", "effect": 0.05, "low": None, "high": None, "series": CASE},
    {"verdict": "faster", "effect": -0.15, "low": -0.2, "high": -0.1, "series": NASTY},
)
TABLE = Table(COLUMNS, ROWS, status="verdict")


@pytest.fixture(autouse=True)
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)


def bare(drawing: str) -> list[str]:
    return [line.rstrip() for line in re.sub(r"\x1b\[[0-9;]*m", "", drawing).splitlines()]


def test_markdown_takes_no_markup_from_files() -> None:
    """And each table, list and text has an empty line around it: GFM takes what follows a table for
    a row of it."""
    lines = markdown(["a *title*", Item("an item"), Item("another"), TABLE, "below"]).splitlines()
    assert lines[:7] == [
        "a \\*title\\*",
        "",
        "- an item",
        "- another",
        "",
        "| verdict | change | interval | series |",
        "|---|--:|--:|---|",
    ]
    assert lines[-2:] == ["", "below"]
    assert lines[-3].endswith("| \\[red\\]x\\[/\\] \\`y\\` \\|  \\[31mz |")
    assert markdown([MARKUP]) == (r"\<b\> \~\~x\~\~ \*y\* \_z\_ \# \[a\](b) \\ \&lt;" + " " * 3)


def test_what_a_person_types_is_code_in_markdown() -> None:
    line = f"`hostbench report --format csv` names *it*: {CASE}, and `rm *`"
    assert markdown([Item(line)]) == (
        f"- `hostbench report --format csv` names \\*it\\*: `{CASE}`, and \\`rm \\*\\`"
    )


def test_colour_is_for_terminals_that_want_it_and_files_have_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    coloured = text([NASTY, TABLE], Terminal())
    assert "\x1b[31mslower" in coloured
    assert bare(coloured)[0] == "[red]x[/] `y` |  [31mz"
    assert bare(coloured)[-1].endswith("[red]x[/] `y` |  [31mz")
    assert "\x1b" not in text([TABLE])
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[31m" not in text([TABLE], Terminal())
