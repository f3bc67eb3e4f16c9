"""README, CONTRIBUTING and docs/: the commands that they show run, and every link resolves."""

import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from hostbench.cli.commands import COMMANDS
from hostbench.core.errors import EXIT_NOTHING_MEASURED, EXIT_OK
from hostbench.facts.software import TorchState
from hostbench.vcs import measure
from tests.commands import hostbench
from tests.fakes import histories
from tests.fakes.builders import InProcess
from tests.own_project import forgotten

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
COMMANDS_PAGE = ROOT / "docs" / "commands.md"
PROGRAMS = r"hostbench|asv|make|git|\S*\bpip|sh|sed|docker|torchrun|srun|mpirun|scripts/\S+"
NOT_RUN = {
    "hostbench (ab|bisect|nightly)( .*)?|hostbench run steps": "minutes: tests/vcs, tests/cli, "
    "tests/families/test_own_asv.py",
    "hostbench (run --device cuda|compare)|docker .*": "a GPU, a container; a name alone",
    "hostbench idle -- .*": "torch and its profiler, in a script: tests/idle/test_recording.py",
    "hostbench dashboard.*": "ends when it is stopped: tests/browser",
    "(asv|git|sh|sed) .*": "tests/asv, tests/families/test_own_asv.py, tests/recipes",
    "(make|scripts/.*) .*": "minutes: .ci/run, tests/test_scripts.py",
    r"\S*\bpip .*": "a network",
    "(torchrun|srun|mpirun) .*": "several hosts: tests/ranks",
}
"""The shown commands that do not run here: what they need, or where they run."""
OPEN = {
    "FAMILY": "transfer",
    "COMMAND --help": "run --help",
    "COMMAND": "python train.py",
    "CASE|NAME": "'transfer.host_to_device[nbytes=1MiB,memory=pageable,blocking=True]'",
    "SERIES": "'allocation.part[device=cuda,nbytes=16MiB,part=host_memory]@simulated-gen5'",
    "SINCE STATE": "HEAD~20 accepted",
    "FILE": "out.json",
    "A B": "HEAD~1 HEAD",
    "run:A": "run:20260209T020000Z",
    "run:B": "run:20260210T020000Z",
    "s3://bucket/results|URL": "file://$HOME/bucket",
}
"""What is typed for a word that a page leaves open."""
TORCH = TorchState(installed=True, importable=True, version="2.13.0")
STORY = {"commits": 40, "series": 8, "machine": [{"name": "simulated-gen5"}]}


def shown_commands(page: Path) -> Iterator[str]:
    """Those in blocks of code, in code within a line, and in the table of commands: with all that
    may be left out, and with what is left open."""
    text = page.read_text().replace("\\\n", " ")
    blocks = "".join(re.findall(r"^```\w*\n(.*?)^```", text, re.S | re.M))
    spans = re.findall(r"`([^`]+)`", re.sub(r"^```.*?^```", "", text, flags=re.S | re.M))
    rows = re.findall(r"^\| `([a-z].*?)` \|", text, re.M) if page == COMMANDS_PAGE else []
    for shown in (*blocks.splitlines(), *spans, *(f"hostbench {row}" for row in rows)):
        line = " ".join(re.split(r"\s(?:#|&&)\s", shown)[0].split())
        if re.match(rf"(\w+=\S+ )*({PROGRAMS}) [^(]", line):
            if re.search(r"\[[-A-Z]|\.\.\.", line):
                line = re.sub(r"[\[\]]|\.\.\.", "", line)
            for word, text in OPEN.items():
                line = re.sub(rf"(?<![\w=-])({word})(?![\w.])", text, line)
            yield re.sub(r"^\w+=\S+ ", "", line)


def parse(words: list[str]) -> None:
    """Raises UsageError; no option's value is looked at."""
    command = COMMANDS.commands[words[0]]
    command.make_parser(click.Context(command)).parse_args(words[1:])


def execute(words: list[str]) -> None:
    if words[0] in ("run", "trace"):  # a second each
        words += ["--device=simulated"]
    if words[0] == "run":
        words += ["--launches=1", "--results=story"] + ["--quick"] * ("--case" not in words)
    ended = hostbench(*words, code=None)
    nothing = EXIT_NOTHING_MEASURED if words[0] == "run" else EXIT_OK
    assert ended.code in (EXIT_OK, nothing), (words, ended)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A repository with results, traces and the simulated machine of the page; a command starts no
    workers, and asks no torch."""
    histories.write(tmp_path, STORY, git=True)
    shutil.copytree(ROOT / "results/cpu-epyc-2c/runs", tmp_path / "results/cpu-epyc-2c/runs")
    for rank, trace in enumerate(("distributed-rank-0", "recommender-rank-3")):
        shutil.copy(ROOT / f"tests/data/traces/{trace}.json.gz", tmp_path / f"rank{rank}.json.gz")
    (machine,) = re.findall(r"```toml\n(.*?)```", COMMANDS_PAGE.read_text(), re.S)
    (tmp_path / "night.toml").write_text(machine)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(measure, "Launcher", InProcess)
    monkeypatch.setattr("hostbench.cli.doctor.probe_torch", lambda: TORCH)
    monkeypatch.setenv("HOSTBENCH_SIMULATION", "night.toml")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    with forgotten():  # `init` writes workloads
        yield tmp_path


def test_every_command_runs(folder: Path) -> None:
    lines = dict.fromkeys(line for page in PAGES for line in shown_commands(page))
    reasons = {line: [key for key in NOT_RUN if re.fullmatch(key, line)] for line in lines}
    assert {key for keys in reasons.values() for key in keys} == set(NOT_RUN)
    for line in sorted(lines, key="hostbench init".__eq__):
        program, *words = shlex.split(os.path.expandvars(line))
        if not reasons[line]:
            execute(words)
        elif program == "hostbench":
            parse(words)
    page, names = (ROOT / "docs" / "table.md").read_text(), dict[str, Any]()
    (session,) = re.findall(r"```python\n(import duckdb.*?)```", page, re.S)
    exec(session.replace("duckdb.sql(", "rows = duckdb.sql("), names)
    (row,) = str(names["rows"]).splitlines()[4:-1]
    assert f"```\n{row}\n```" in page


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


def test_the_page_of_commands_has_each_command_and_environment_variable() -> None:
    page = COMMANDS_PAGE.read_text()
    assert set(re.findall(r"^\| `([a-z]+)", page, re.M)) == set(COMMANDS.commands)
    sources = [path for name in ("hostbench", "dashboard") for path in (ROOT / name).rglob("*.py")]
    read = {name for path in sources for name in re.findall(r"HOSTBENCH_[A-Z_]+", path.read_text())}
    assert read == set(re.findall(r"HOSTBENCH_[A-Z_]+", page))
