"""gpu-check on a machine without a GPU: isolation, time, the report, and questions to a fake."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hostbench.core.errors import Unavailable
from hostbench.core.units import KIB, MIB
from hostbench.device.simulated import SimulatedDevice
from hostbench.facts.nvml import open_nvml
from hostbench.gpu_check import load, nvml, programs, report
from hostbench.gpu_check.__main__ import exit_code
from hostbench.gpu_check.checks import CHECKS, MACHINE
from hostbench.gpu_check.probe import probe_all, table
from hostbench.gpu_check.record import Answer, Check, Result, answered
from hostbench.gpu_check.runner import in_child, in_process, run_all
from hostbench.store.runs import WholeRun
from hostbench.testing import builders
from hostbench.testing.fake_nvml import NOT_SUPPORTED, FakeGpu, FakeNvml

ROOT = Path(__file__).parent.parent.parent


def check(name: str, ask: Any, budget_s: float = 60) -> Check:
    return Check(name=name, question=f"{name}?", ask=ask, budget_s=budget_s)


def broken(folder: Path) -> Answer:
    raise ZeroDivisionError("no luck")


def refused(folder: Path) -> Answer:
    raise Unavailable("not on this machine")


def fine(folder: Path) -> Answer:
    return answered("42", figure=42)


THREE = (check("broken", broken), check("refused", refused), check("fine", fine))


def here(one: Check, folder: Path, limit_s: float) -> Answer:
    return in_process(one, folder)


def test_without_a_gpu_it_says_so_in_one_line_and_exits_3(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "hostbench.gpu_check", "-o", str(tmp_path / "report")],
        cwd=ROOT,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr, done.stdout.count("\n")) == (3, "", 1)
    assert "no NVIDIA GPU here" in done.stdout
    assert not (tmp_path / "report").exists()


def test_a_failing_check_stops_no_other(tmp_path: Path) -> None:
    results = list(run_all(THREE, tmp_path, 100, here, now=lambda: 0))
    assert [one.answer.status for one in results] == ["failed", "unavailable", "answered"]
    assert results[0].answer.text == "ZeroDivisionError: no luck"
    assert exit_code(results) == 4
    assert exit_code(results[1:]) == 0
    assert exit_code(results[1:2]) == 3


def test_after_the_deadline_checks_are_not_reached(tmp_path: Path) -> None:
    clock = iter([0, 50, 50, 98, 98, 98])
    results = list(run_all(THREE, tmp_path, 100, here, now=lambda: next(clock)))
    assert [one.seconds for one in results] == [50, 48, 0]
    assert results[2].answer.text == "not reached: the time was spent"


def test_a_check_gets_its_budget_or_what_is_left(tmp_path: Path) -> None:
    limits = []

    def note(one: Check, folder: Path, limit_s: float) -> Answer:
        limits.append(limit_s)
        return answered("")

    list(run_all(THREE[:1], tmp_path, 100, note, now=lambda: 0))
    list(run_all(THREE[:1], tmp_path, 10, note, now=lambda: 0))
    assert limits == [60, 10]


def test_a_child_that_dies_or_hangs_is_a_failed_check(tmp_path: Path) -> None:
    died = in_child(check("unknown_to_the_child", fine), tmp_path, 60)
    assert (died.status, "code 2" in died.text) == ("failed", True)
    hung = in_child(MACHINE, tmp_path, 0.0)
    assert (hung.status, hung.text) == ("failed", "ended after 0 s without an answer")


def test_the_report_names_machine_and_results(tmp_path: Path) -> None:
    first = Result(name="machine", question="?", answer=answered("gpu X", gpu="X"), seconds=1.0)
    others = list(run_all(THREE, tmp_path, 100, here, now=lambda: 0))
    report.write(tmp_path, "2026-01-01T00:00:00+00:00", [first, *others], complete=True)
    stored = json.loads((tmp_path / "report.json").read_text())
    assert stored["machine"] == {"gpu": "X"}
    assert stored["results"][3]["answer"]["data"] == {"figure": 42}
    text = (tmp_path / "report.md").read_text()
    assert "## refused: unavailable" in text
    assert "gpu X" in text


def test_names_are_unique_and_budgets_leave_the_run_its_time() -> None:
    names = [one.name for one in (MACHINE, *CHECKS)]
    assert len(names) == len(set(names))
    assert names[1:3] == ["tests", "run"]


def test_the_probe_tells_waiting_from_returning_early() -> None:
    cells = probe_all(SimulatedDevice(), sizes=(64 * KIB, MIB))
    assert len(cells) == 16
    early = {(cell.memory, cell.blocking) for cell in cells if cell.returns_early}
    assert early == {("pinned", False)}
    assert table(cells).count("\n") == 3
    assert "H2D pageable non_blocking" in table(cells)


def test_nvml_questions_on_a_fake() -> None:
    known = open_nvml(FakeNvml(gpus=(FakeGpu(field_values={197: 7, 198: 9}),)))
    text = nvml.ask_pcie_bytes(SimulatedDevice(), known, 0, settle_s=0).text
    assert "H2D of 1 GiB: tx 0.0000 at once" in text
    assert "sw_power_cap 0" in nvml.ask_throttle_times(known, 0).text
    assert "virtualization none" in nvml.ask_protection(known, 0).text
    answer = load.ask_link(SimulatedDevice(), known, 0, "gen 1 x16", load_s=0.1)
    assert "before_cuda gen 1 x16, idle gen 5 x16" in answer.text


def test_nvml_refusals_are_reasons() -> None:
    fields = {197: NOT_SUPPORTED}
    functions = {"nvmlDeviceGetCurrPcieLinkWidth": NOT_SUPPORTED}
    gpu = FakeGpu(field_errors=fields, errors=functions)
    refusing = open_nvml(FakeNvml(gpus=(gpu,)))
    with pytest.raises(Unavailable, match="not supported"):
        nvml.ask_pcie_bytes(SimulatedDevice(), refusing, 0, settle_s=0)
    assert load.read_link(refusing, 0).startswith("gen 5 xunknown (not supported")


def test_junit_counts_are_summed(tmp_path: Path) -> None:
    place = tmp_path / "tests.xml"
    place.write_text(
        '<testsuites><testsuite tests="3" failures="1" errors="0" skipped="2"/></testsuites>'
    )
    counts = programs.junit_counts(place)
    assert counts == {"tests": 3, "failures": 1, "errors": 0, "skipped": 2}


def test_a_run_is_told_with_its_failures_surprises_and_missing_proofs() -> None:
    cases = [builders.copy_case(nbytes=size) for size in (1024, 2048, 4096, 8192)]
    surprising = builders.record(
        cases[0],
        measurement={
            "findings": {"asynchronous": True},
            "proofs": {"data": "passed", "link_bytes": "unavailable: no NVML"},
        },
        expected={"asynchronous": False},
    )
    records = [surprising, builders.failed(cases[1]), builders.record(cases[2])]
    whole = WholeRun(parts=(builders.run(records, planned=tuple(map(str, cases))),))
    assert list(programs.told([whole])) == [
        "2 ok, 1 failed, 1 not reached",
        f"- surprise: {cases[0]}: asynchronous is True",
        f"- link_bytes unavailable: no NVML: {cases[0]}",
        f"- failed: {cases[1]}: it broke",
    ]
