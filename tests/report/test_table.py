"""One table as text, Markdown, JSON and CSV, and on a terminal."""

import io
import json
import re

import pytest

from hostbench.report.table import Cell, Column, Table, as_csv, markdown, plain, text

NASTY = "[red]x[/] `y` | \x1b[31mz"
CASE = "transfer.host_to_device[device=cpu,nbytes=65536,memory=pageable,blocking=True]@shelf"
COLUMNS = (
    Column(title="verdict", keys=("verdict",)),
    Column(title="change", keys=("effect",), right=True),
    Column(title="interval", keys=("low", "high"), right=True),
    Column(title="series", keys=("series",)),
)
ROWS = (
    ("slower", Cell("+5.0%", (0.05,)), Cell("-", (None, None)), CASE),
    ("faster", Cell("-15.0%", (-0.15,)), Cell("1 to 2", (1.0, 2.0)), NASTY),
)
TABLE = Table(columns=COLUMNS, rows=ROWS)
CAUSE = Column(title="cause", keys=("cause",), below=True)
NOTED = Table(columns=(*COLUMNS, CAUSE), rows=tuple((*row, "a driver") for row in ROWS))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)


def drawn(parts: list[str | Table], columns: int, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("COLUMNS", str(columns))
    return text(parts, Terminal())


def bare(drawing: str) -> list[str]:
    return [line.rstrip() for line in re.sub(r"\x1b\[[0-9;]*m", "", drawing).splitlines()]


def test_text_is_aligned_and_as_long_as_it_is() -> None:
    assert text(["first", "", TABLE]).splitlines() == [
        "first",
        "",
        "verdict  change  interval  series",
        f"slower    +5.0%         -  {CASE}",
        "faster   -15.0%    1 to 2  [red]x[/] `y` |  [31mz",
    ]


def test_what_stands_below_is_said_once() -> None:
    lines = text([NOTED]).splitlines()
    assert lines[0].endswith("series") and lines[-1] == "    the 2 above: a driver"
    assert [line.split(" | ")[-1] for line in markdown([NOTED]).splitlines()[2:]] == [
        "a driver |",
        "as above |",
    ]
    assert [row["cause"] for row in plain(NOTED)] == ["a driver", "a driver"]


def test_markdown_takes_no_markup_from_files() -> None:
    """And each table, list and text has an empty line around it: GFM takes what follows a table for
    a row of it."""
    lines = markdown(["a *title*", "  an item", "  another", TABLE, "below"]).splitlines()
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


def test_what_a_person_types_is_code_in_markdown() -> None:
    line = f"`hostbench report --format csv` names *it*: {CASE}, and `rm *`"
    assert markdown(["  " + line]) == (
        f"- `hostbench report --format csv` names \\*it\\*: `{CASE}`, and \\`rm \\*\\`"
    )


def test_plain_values_have_a_name_each() -> None:
    first, second = plain(TABLE)
    assert first == {"verdict": "slower", "effect": 0.05, "low": None, "high": None, "series": CASE}
    assert json.loads(json.dumps(second))["high"] == 2.0
    assert as_csv(TABLE).splitlines()[:2] == [
        "verdict,effect,low,high,series",
        f'slower,0.05,,,"{CASE}"',
    ]


@pytest.mark.parametrize("columns", [40, 60, 80, 200])
@pytest.mark.parametrize("table", [TABLE, NOTED])
def test_a_table_fits_the_terminal(
    columns: int, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = bare(drawn(["word " * 60, table], columns, monkeypatch))
    assert max(map(len, lines)) <= columns
    assert "".join("".join(lines).split()).count("blocking=True]@shelf") == 1
    assert ("the 2 above: a driver" in "\n".join(lines)) is (table is NOTED)


@pytest.mark.parametrize("columns", [1, 4])
def test_no_terminal_is_too_narrow(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = bare(drawn(["word " * 60, " " * 200, TABLE], columns, monkeypatch))
    assert "slower" in "".join("".join(lines).split())


def test_colour_is_for_terminals_that_want_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b[31mslower" in drawn([TABLE], 200, monkeypatch)
    assert "\x1b" not in text([TABLE])
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[31m" not in drawn([TABLE], 200, monkeypatch)


def test_text_from_files_is_never_markup(monkeypatch: pytest.MonkeyPatch) -> None:
    said = drawn([NASTY, TABLE], 200, monkeypatch)
    assert bare(said)[0] == "[red]x[/] `y` |  [31mz"
    assert bare(said)[-1].endswith("[red]x[/] `y` |  [31mz")
