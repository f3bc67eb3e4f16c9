"""NVML that does not return: it is waited for once, and what was read before is kept."""

import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from hostbench.core.errors import Unavailable
from hostbench.device.link_counters import LinkCounters
from hostbench.facts import collect, nvml
from hostbench.facts.gpu import nvml_facts
from hostbench.facts.hardware import nvidia_hardware
from hostbench.facts.nvml import NvmlUnavailable, open_nvml
from hostbench.facts.record import known, unknown
from hostbench.facts.torch_probe import TorchState
from hostbench.report.doctor import findings
from tests.fakes.fake_nvml import FakeGpu, FakeNvml

WHY = "a call into NVML did not return within 0.05 s: look at `dmesg`"


@pytest.fixture
def waits(monkeypatch) -> list[threading.Thread]:
    """Threads that were waited for in vain."""
    monkeypatch.setattr(nvml, "PATIENCE_S", 0.05)
    waited: list[threading.Thread] = []
    why_hung = nvml.why_hung

    def counted(thread, library):
        why = why_hung(thread, library)
        if why:
            waited.append(thread)
        return why

    monkeypatch.setattr(nvml, "why_hung", counted)
    return waited


def hanging_in(function: str, **more) -> Iterator[FakeNvml]:
    library = FakeNvml(hangs=function, **more)
    with library.hanging():
        yield library


@pytest.fixture
def stuck_at_start() -> Iterator[FakeNvml]:
    yield from hanging_in("nvmlInit")


@pytest.fixture
def stuck_midway() -> Iterator[FakeNvml]:
    yield from hanging_in("nvmlDeviceGetTemperatureV", gpus=(FakeGpu(), FakeGpu(uuid="GPU-b")))


def test_a_start_that_hangs_is_waited_for_once(waits, stuck_at_start, tmp_path):
    facts = collect(root=tmp_path, nvml=stuck_at_start, environ={})
    assert facts["nvml"]["driver"] == unknown(WHY)
    assert not nvidia_hardware(tmp_path, stuck_at_start, {}).visible
    with pytest.raises(NvmlUnavailable, match="did not return"):
        open_nvml(stuck_at_start)
    assert len(waits) == 1
    assert open_nvml(FakeNvml()).count() == 1  # another library is not concerned


def test_the_doctor_says_it_once(waits, stuck_at_start, tmp_path):
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/nvidia0").touch()
    torch = TorchState(installed=True, importable=True, cuda_works=True, devices=("NVIDIA H200",))
    facts = collect(root=tmp_path, nvml=stuck_at_start, environ={})
    facts["software"]["asv"] = known("0.6.6")
    said = findings(facts, nvidia_hardware(tmp_path, stuck_at_start, {}), torch)
    (only,) = (each for each in said if each.level == "warn")
    assert (only.level, only.remedy) == ("warn", WHY)
    assert only.text == "no NVML: GPU facts, link ceilings and throttling are unknown"


def test_the_kernel_is_asked_where_nvml_hangs(waits, stuck_at_start, tmp_path):
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/nvidia0").touch()
    found = nvidia_hardware(tmp_path, stuck_at_start, {})
    assert (found.num_gpus, found.seen_by, found.why) == (1, "dev", WHY)
    facts = collect(root=tmp_path, nvml=stuck_at_start, environ={})
    assert facts["gpu0"]["throttle_reasons"] == unknown(WHY)


def test_what_was_read_before_is_kept(waits, stuck_midway):
    facts = nvml_facts(stuck_midway)
    assert facts["nvml"]["driver"] == known("580.95.05")
    assert facts["gpu0"]["name"] == known("NVIDIA H200")
    assert facts["gpu0"]["temperature_c"] == facts["gpu1"]["name"] == unknown(WHY)
    assert len(waits) == 1


def test_gpus_that_cannot_be_counted_are_not_none(waits, tmp_path):
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/nvidia0").touch()
    library = FakeNvml(hangs="nvmlDeviceGetCount")
    with library.hanging():
        assert nvidia_hardware(tmp_path, library, {}).num_gpus == 1
    refused = FakeNvml(errors={"nvmlDeviceGetCount": 4})
    assert nvidia_hardware(tmp_path, refused, {}).seen_by == "dev"


def test_link_counters_say_why(waits):
    library = FakeNvml(gpus=(FakeGpu(uuid="GPU-aaaa"),), hangs="nvmlDeviceGetFieldValues")
    with library.hanging():
        counters = LinkCounters("aaaa", library)
        for _ in range(2):
            with pytest.raises(Unavailable, match="did not return"):
                counters.read()
        with pytest.raises(Unavailable, match="did not return"):
            LinkCounters("aaaa", library).read()
    assert len(waits) == 1


def test_no_thread_is_left_for_a_fork():
    before = set(threading.enumerate())
    counters = LinkCounters("aaaa", FakeNvml(gpus=(FakeGpu(uuid="GPU-aaaa"),)))
    counters.read()
    assert set(threading.enumerate()) <= before


ENDS = """
from hostbench.facts import nvml
from hostbench.facts.gpu import nvml_facts
from tests.fakes.fake_nvml import FakeNvml
nvml.PATIENCE_S = 0.05
library = FakeNvml(hangs="nvmlDeviceGetName")
print(nvml_facts(library)["gpu0"]["name"].why)
"""


def test_a_call_that_hangs_does_not_keep_the_process():
    """Without `hanging` nothing releases it: the process ends all the same."""
    done = subprocess.run([sys.executable, "-c", ENDS], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, WHY, "")
