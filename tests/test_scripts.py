"""Each script that is kept starts, with its shortest arguments, and prints what it is for."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.commands import python

ROOT = Path(__file__).parent.parent
STORY = 'commits = 12\nseries = 4\n[[machine]]\nname = "one"\n'


def script(name: str, *args: str | Path) -> str:
    """What it prints."""
    done = python(str(ROOT / "scripts" / name), *map(str, args))
    assert done.code == 0, done.err
    return done.out


def test_lock_can_be_read() -> None:
    """It asks a package index."""
    subprocess.run(["bash", "-n", ROOT / "scripts" / "lock"], check=True)


def test_a_gpu_check_goes_on_after_a_failure_and_names_nobody(tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    check = Path(shutil.copy(ROOT / "scripts" / "gpu-check", tmp_path / "scripts"))
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\necho "$*, in $HOME/x on $(uname -n), GPU-8e2a1f0b-1111-2222"\n')
    python.write_text(python.read_text() + 'case "$*" in *test_run*) exit 1 ;; esac\n')
    python.chmod(0o755)
    env = {**os.environ, "HOME": "/home/zaphod"}
    done = subprocess.run([check, python], env=env, capture_output=True, text=True)
    said = (tmp_path / "out" / "gpu-check" / "report.md").read_text()
    assert done.returncode == 4 and said.count("ended with 1 within 380 s") == 1, done.stderr
    files = {path.stem for path in (ROOT / "tests" / "gpu").glob("test_*.py")}
    assert {*re.findall(r"tests/gpu/(\w+)\.py", said)} == files
    assert "about 7 minutes, 9 at most:" in said and said.count(" took ") == len(files)
    assert said.count("in ~/x on HOST, GPU-UUID") == len(files) + 1


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
    rows = [line.split("|")[1:-1] for line in said.splitlines() if "%," in line]
    assert [len(row) for row in rows] == [4] * 6 + [3] * 4
    false, found = rows[0][1].split(",")
    assert float(false.strip(" %")) < 2 and float(found.strip(" %")) > 50


@pytest.mark.parametrize("name", ["suite-cost", "dashboard-speed"])
def test_what_takes_long_starts(name: str) -> None:
    assert "usage:" in script(name, "--help")
