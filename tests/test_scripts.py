"""Each script that is kept starts, with its shortest arguments, and prints what it is for."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
STORY = 'commits = 12\nseries = 4\n[[machine]]\nname = "one"\n'


def script(name: str, *args: str | Path) -> str:
    """What it prints."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / name), *map(str, args)],
        text=True,
        capture_output=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", ["lock", "make-env"])
def test_a_shell_script_can_be_read(name: str) -> None:
    """`make` starts make-env before any test; lock asks a package index."""
    subprocess.run(["bash", "-n", ROOT / "scripts" / name], check=True)


def test_simulate_history(tmp_path: Path) -> None:
    story = tmp_path / "story.toml"
    story.write_text(STORY)
    said = script("simulate-history", tmp_path / "tree", "--story", story)
    assert said.startswith("12 simulated runs")


def test_judge_detectors(tmp_path: Path) -> None:
    said = script("judge-detectors", "--per-cell", "1", "--only", "synthetic", "shared")
    (ours,) = (line for line in said.splitlines() if line.startswith("| hostbench |"))
    precision, recall = map(float, ours.split("|")[2:4])
    assert precision > 0.8 and recall > 0.6
    assert "as the machine's own: 2 of 2 suites" in said


def test_judge_two_sides() -> None:
    said = script("judge-two-sides", "--tables", "1")
    rows = [line.split("|")[1:-1] for line in said.splitlines()[2:]]
    assert len(rows) == 6 and [row[0].strip() for row in rows][-1] == "3%, heavy"
    false, found = rows[0][1].split(",")
    assert float(false.strip(" %")) < 2 and float(found.strip(" %")) > 50


@pytest.mark.parametrize("name", ["suite-cost", "dashboard-speed"])
def test_what_takes_long_starts(name: str) -> None:
    assert "usage:" in script(name, "--help")
