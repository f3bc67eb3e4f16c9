"""`hostbench trace`: what it writes, and how it ends. The launcher is replaced, but where ranks
have to be real processes."""

import gzip
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from hostbench.cli import trace as command
from hostbench.core.errors import EXIT_FAILED, EXIT_NOTHING_MEASURED, EXIT_USAGE
from hostbench.core.records import CaseRecord, Launch
from tests.commands import hostbench
from tests.fakes.builders import InProcess

CASE = "overlap.pipeline[batch_bytes=4MiB,memory=pinned,schedule=copy_stream]"
SIMULATED = ("trace", CASE, "--device", "simulated")


def events(path: Path) -> list[dict[str, Any]]:
    """Of a trace: each piece of work."""
    data = path.read_bytes()
    document = json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)
    return [event for event in document["traceEvents"] if event["ph"] == "X"]


@pytest.mark.parametrize("name", ["a.json", "a.json.gz"])
def test_the_trace_is_written(stage: Path, name: str) -> None:
    out = hostbench(*SIMULATED, "-o", name).out
    rows = [event["tid"] for event in events(stage / name)]
    assert Counter(rows) == {"host": 1, "stream 1": 8, "stream 2": 8}
    copies = [event for event in events(stage / name) if event["tid"] == "stream 1"]
    assert {event["args"]["bytes"] for event in copies} == {4 << 20}
    assert "on the simulated device of simulated-shelf" in out
    assert f"trace: {name} (open it in https://ui.perfetto.dev)" in out
    assert not (stage / "results").exists()


def test_one_sample_of_the_simulated_device_is_its_median(stage: Path) -> None:
    case = "synchronization.loop[step_us=1000,trap=item]"
    out = hostbench("trace", case, "--device", "simulated", "-o", "a.json").out
    assert "10 steps traced (median without a trace: 1.01 ms a step)" in out
    about = json.loads((stage / "a.json").read_text())["otherData"]
    (whole,) = [event for event in events(stage / "a.json") if event["tid"] == "host"]
    assert about["median_s"] * about["num_steps"] == pytest.approx(whole["dur"] / 1e6, rel=1e-3)
    assert about["case"].startswith("synchronization.loop[")


def test_the_cpu_device_shows_what_torch_did_in_each_thread(stage: Path) -> None:
    case = "overlap.pipeline[batch_bytes=512KiB,memory=pageable,schedule=copy_stream]"
    hostbench("trace", case, "--device", "cpu", "-o", "a.json")
    threads = {event["tid"] for event in events(stage / "a.json") if event["cat"] == "cpu_op"}
    assert len(threads) >= 2, "a stream's copies, and another one's computes"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ((CASE, "-o", "a.svg"), "the trace is JSON: -o a.svg.json"),
        (("overlap[schedule=copy_stram]",), "schedule is never 'copy_stram'; it is "),
        (("overlap",), "cases: name one, as 'overlap.pipeline["),
        (("overlap",), "`hostbench list overlap --cases` names them all"),
        (("overlap.pipeline[",), "cannot read"),
    ],
)
def test_a_mistake_is_one_line_with_the_remedy(
    stage: Path, args: tuple[str, ...], said: str
) -> None:
    done = hostbench("trace", "--device", "simulated", *args, code=EXIT_USAGE)
    (line,) = done.err.splitlines()
    assert said in line
    assert not list(stage.iterdir())


def test_a_case_that_cannot_run_says_why(stage: Path) -> None:
    words = ("trace", CASE, "--device", "cpu", "-o", "a.json")
    said = hostbench(*words, code=EXIT_NOTHING_MEASURED).err
    assert "cannot be traced here: the cpu device has no pinned memory" in said
    assert not list(stage.iterdir())


class Failing(InProcess):
    """Runs every case, and says that it failed; without a trace where it is told so."""

    has_trace = True

    def run(self, launch: Launch) -> Iterator[CaseRecord]:
        for record in super().run(launch):
            trace = record.measurement.trace if self.has_trace else ()
            measurement = replace(record.measurement, trace=trace)
            reason = "proof failed: torn"
            yield replace(record, status="failed", reason=reason, measurement=measurement)


@pytest.mark.parametrize("has_trace", [True, False])
def test_a_case_that_failed_shows_how_where_it_can(
    stage: Path, monkeypatch: pytest.MonkeyPatch, has_trace: bool
) -> None:
    monkeypatch.setattr(command, "Launcher", Failing)
    monkeypatch.setattr(Failing, "has_trace", has_trace)
    said = hostbench(*SIMULATED, "-o", "a.json", code=EXIT_FAILED).err
    assert "failed: proof failed: torn" in said
    assert (stage / "a.json").exists() == has_trace


def test_ranks_are_processes_of_one_trace(stage: Path) -> None:
    case = "collectives.all_reduce_queued[num_ranks=2,nbytes=4KiB]"
    hostbench("trace", case, "--device", "cpu", "-o", "a.json")
    sums = [event for event in events(stage / "a.json") if event["name"] == "c10d::allreduce_"]
    by_process = Counter(event["pid"] for event in sums)
    assert [*by_process.values()] == [21, 21], "20 queued, and one at which the ranks meet"
