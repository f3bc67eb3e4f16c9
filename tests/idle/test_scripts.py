"""`scripts/idle-cost` and `scripts/idle-beside-hta`: what their figures are of."""

import gzip
import json
import runpy
import subprocess
import sys
from pathlib import Path

from hostbench.idle.trace import read_trace

ROOT = Path(__file__).parent.parent.parent
STEP = ROOT / "tests/data/traces/distributed-rank-0.json.gz"


def script(name: str, *args: str | Path) -> list[str]:
    """The lines that it prints."""
    words = [sys.executable, ROOT / "scripts" / name, *args]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_trace_is_the_step_over_and_over(tmp_path: Path) -> None:
    events = json.loads(gzip.decompress(STEP.read_bytes()))["traceEvents"]
    num = sum(event["ph"] == "X" for event in events)
    path = tmp_path / "trace.json"
    made = runpy.run_path(str(ROOT / "scripts/idle-cost"))["write"](path, events, 1_500_000)
    assert path.stat().st_size >= 1_500_000 and made == 2 * num
    once, twice = read_trace(STEP), read_trace(path)
    assert not twice.warnings
    for kind in ("work", "calls", "ops"):
        assert getattr(twice, kind).shape[1] == 2 * getattr(once, kind).shape[1]
    launched = twice.work[6]
    assert len({*launched}) == 2 * len({*once.work[6]})
    assert (launched > 0).all()


def test_the_cost_is_a_row_a_size() -> None:
    head, row, machine = script("idle-cost", "1")
    assert head.split() == ["MB", "events", "seconds", "CPU", "s", "peak", "MiB"]
    seconds, cpu_s, peak_mib = map(float, row.split()[2:])
    assert seconds > 0 and cpu_s > 0 and peak_mib > 10
    assert "load average" in machine


def test_beside_a_slow_union_and_without_hta(tmp_path: Path) -> None:
    plain = tmp_path / "plain.json"
    plain.write_bytes(gzip.decompress(STEP.read_bytes()))
    _, packed, unpacked, said = script("idle-beside-hta", STEP, plain)
    assert packed.split()[:3] == ["0", "1.196%", "1.192%"]  # of nanoseconds as float microseconds
    assert unpacked.split()[:3] == packed.split()[:3]
    assert said == "2 devices; hostbench and the union differ by at most 0.0041 points"


def test_the_union_counts_what_is_open() -> None:
    idle_percent = runpy.run_path(str(ROOT / "scripts/idle-beside-hta"))["idle_percent"]
    assert idle_percent([(0, 1), (4, -1), (2, 1), (3, -1), (6, 1), (10, -1)]) == 20
    assert idle_percent([(0, 1), (5, -1), (5, 1), (9, -1)]) == 0
