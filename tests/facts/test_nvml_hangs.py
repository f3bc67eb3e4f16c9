"""NVML that does not return: it is waited for, and the kernel is asked instead."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostbench.facts import collect, nvml
from hostbench.facts.gpu import nvidia_hardware
from hostbench.facts.record import unknown
from hostbench.facts.torch_probe import TorchState
from hostbench.report.doctor import findings
from tests.fakes.fake_nvml import FakeNvml


@pytest.fixture(params=["nvmlInit", "nvmlDeviceGetTemperatureV"])
def stuck(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeNvml]:
    monkeypatch.setattr(nvml, "PATIENCE_S", 0.1)
    library = FakeNvml(hangs=request.param)
    yield library
    library.released.set()


def test_facts_say_why(stuck: FakeNvml, tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/nvidia0").touch()
    torch = TorchState(installed=True, importable=True, cuda_works=True, devices=("NVIDIA H200",))
    facts = collect(root=tmp_path, nvml=stuck, environ={}, torch_state=torch)
    assert facts["nvml"]["driver"] == unknown(nvml.STUCK)
    said = findings(facts, nvidia_hardware(tmp_path, FakeNvml(), {}), torch)
    assert [each.remedy for each in said if "no NVML" in each.text] == [nvml.STUCK]


def test_the_kernel_is_asked_where_nvml_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvml, "PATIENCE_S", 0.1)
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/nvidia0").touch()
    library = FakeNvml(hangs="nvmlDeviceGetCount")
    found = nvidia_hardware(tmp_path, library, {})
    library.released.set()
    assert (found.num_gpus, found.seen_by, found.why) == (1, "dev", nvml.STUCK)


ENDS = """
from hostbench.facts import collect, nvml
from tests.fakes.fake_nvml import FakeNvml
nvml.PATIENCE_S = 0.1
print(collect(nvml=FakeNvml(hangs="nvmlDeviceGetName"), environ={})["nvml"]["driver"].why)
"""


def test_a_call_that_hangs_does_not_keep_the_process() -> None:
    """Nothing releases it: the process ends all the same."""
    done = subprocess.run([sys.executable, "-c", ENDS], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, nvml.STUCK, "")
