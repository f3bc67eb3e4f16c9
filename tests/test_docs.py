"""README, CONTRIBUTING and docs/: every command that they show exists, every link resolves."""

import re
import shlex
from datetime import date
from pathlib import Path
from typing import Any

import click
import pytest

from hostbench.cli.commands import COMMANDS
from hostbench.store import archive
from hostbench.store.results import Results
from tests.fakes.builders import copy_case, record, run

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
_SYNOPSIS = re.compile(r"\[[-A-Z]|\.\.\.|\|")
"""`[--all]`, `[B]`, `text|md`: what may be given, where it is no command that one could type."""


def shown_commands(text: str) -> list[str]:
    """What stands behind `hostbench`, in blocks of code and in code within a line."""
    blocks = re.findall(r"^```\w*\n(.*?)^```", text, re.S | re.M)
    spans = re.findall(r"`([^`]+)`", re.sub(r"^```.*?^```", "", text, flags=re.S | re.M))
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    candidates = [*lines, *(" ".join(span.split()) for span in spans)]
    return [
        match[1]
        for line in candidates
        if (match := re.match(r"(?:\S*/|\w+=\S+ )*hostbench ([a-z-].*)", line))
    ]


def problem(shown: str) -> str | None:
    """What is wrong with a command. Its words are parsed, and no option's value is looked at."""
    typed = re.split(r"\s(?:#|&&|\|)\s", shown)[0]
    is_synopsis = bool(_SYNOPSIS.search(typed))
    words = shlex.split(re.sub(r"[\[\]]", " ", typed) if is_synopsis else typed)
    command: click.Command = COMMANDS
    while isinstance(command, click.Group) and words and words[0] in command.commands:
        command = command.commands[words.pop(0)]
    if command is COMMANDS and not words[0].startswith("-"):
        return f"there is no command {words[0]}"
    with click.Context(command) as context:
        parser = command.make_parser(context)
        if is_synopsis:
            known = {name for param in command.get_params(context) for name in param.opts}
            options = {word.partition("=")[0] for word in words if word.startswith("-")}
            return f"no option {options - known}" if options - known - {"--"} else None
        try:
            parser.parse_args(words)
        except click.UsageError as error:
            return error.format_message()
    return None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_exists_with_its_options(page: Path) -> None:
    shown = shown_commands(page.read_text())
    assert {one: why for one in shown if (why := problem(one))} == {}


def test_the_page_of_commands_has_each_one_with_its_options() -> None:
    rows = re.findall(r"^\| `([a-z].*?)` \|", (ROOT / "docs" / "commands.md").read_text(), re.M)
    assert {row.split()[0] for row in rows} == set(COMMANDS.commands)
    assert {row: why for row in rows if (why := problem(row))} == {}


def test_a_wrong_command_is_seen() -> None:
    assert problem("push") and problem("run --nothing") and problem("ab A [--nothing]")
    assert problem("triage SERIES SINCE accepted --note why") is None


def anchors(page: Path) -> set[str]:
    """Those of its headings, as the forge makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md"], ids=lambda page: page.stem)
def test_every_link_resolves(page: Path) -> None:
    links = re.findall(r"\]\((?!https?://)([^)\s]+)\)", page.read_text())
    for link in links:
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_every_page_is_linked_from_the_readme() -> None:
    linked = set(re.findall(r"\]\(docs/([a-z-]+\.md)", (ROOT / "README.md").read_text()))
    assert {path.name for path in (ROOT / "docs").glob("*.md")} == linked


def test_every_environment_variable_is_explained() -> None:
    page = (ROOT / "docs" / "commands.md").read_text()
    sources = [path for name in ("hostbench", "dashboard") for path in (ROOT / name).rglob("*.py")]
    read = {name for path in sources for name in re.findall(r"HOSTBENCH_[A-Z_]+", path.read_text())}
    explained = set(re.findall(r"HOSTBENCH_[A-Z_]+", page))
    assert read == explained


def test_duckdb_reads_the_table_as_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("duckdb", reason="an environment from before it was needed")
    case = copy_case(nbytes=1 << 24)
    archive.write(tmp_path / "results", run([record(case, launch, 1e-3) for launch in range(3)]))
    Results(tmp_path / "results")
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "table.md").read_text()
    (session,) = re.findall(r"```python\n(import duckdb.*?)```", page, re.S)
    names: dict[str, Any] = {}
    exec(session.replace("duckdb.sql(", "rows = duckdb.sql("), names)
    assert names["rows"].fetchall() == [(date(2026, 11, 21), "shelf", pytest.approx(16.8))]
