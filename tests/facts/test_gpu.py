"""NVIDIA GPUs: their facts, whether any is there, and every way in which NVML, the kernel or sysfs
refuses, driven by the fake."""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hostbench.facts import collect, nvml
from hostbench.facts.gpu import NO_CUDA_INDEX, cuda_indices, nvidia_hardware, nvml_facts
from hostbench.facts.nvml import Nvml, NvmlUnavailable, hash_uuid, open_nvml
from hostbench.facts.record import NO_VALUE, Group, Unknown
from hostbench.facts.software import TorchState
from hostbench.report.doctor import findings
from tests.fakes import fake_nvml as fake
from tests.fakes.fake_nvml import GPU_IS_LOST, FakeGpu, FakeNvml
from tests.scratch import put

NOT_HERE = "not supported by this GPU or VM"


def gpu(one: FakeGpu | None = None) -> Group:
    return nvml_facts(FakeNvml(gpus=(one or FakeGpu(),)))["gpu0"]


def test_a_healthy_gpu() -> None:
    library = FakeNvml()
    facts = nvml_facts(library)
    assert facts["nvml"]["cuda_driver"] == "13.0"
    assert facts["nvml"]["confidential_computing"] == "off"
    values = facts["gpu0"]
    unread = {name for name, fact in values.items() if isinstance(fact, Unknown)}
    assert unread == {"c2c_max_mb_per_s", "pci_device_max_width"}
    expected = {
        "name": "NVIDIA H200",
        "memory_bytes": 150_754_820_096,
        "pcie_generation": 5,
        "pcie_max_width": 16,
        "power_limit_w": 700.0,
        "throttle_reasons": "idle",
        "ecc": "on",
        "mig": "off",
        "num_other_processes": 0,
        "vbios": "96.00.A5.00.01",
        "memory_bus_width_bits": 6144,
        "memory_clock_max_mhz": 3201,
        "ecc_uncorrected_lifetime_total": 0,
        "cuda_index": 0,
        "nvlink_links": 18,
        "nvlink_mb_per_s": 18 * 26_562,
    }
    assert values | expected == values


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (fake.LIBRARY_NOT_FOUND, "libnvidia-ml.so.1 is missing"),
        (fake.UNKNOWN, "in a container, start it again"),
        (777, "NVML: error 777"),
    ],
)
def test_nvml_that_does_not_start_says_why(code: int, text: str) -> None:
    facts = nvml_facts(FakeNvml(init_error=code))
    assert list(facts) == ["nvml"]
    assert text in str(facts["nvml"]["driver"])


def test_pynvml_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(NvmlUnavailable, match="pip install nvidia-ml-py"):
        open_nvml()


def test_the_fake_has_the_real_names() -> None:
    pynvml = pytest.importorskip("pynvml")
    names = [*fake.DRIVER, *fake.DEVICE, "nvmlInit"]
    assert [name for name in names if not hasattr(pynvml, name)] == []
    assert pynvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES == 197
    assert pynvml.NVML_FI_DEV_PCIE_COUNT_RX_BYTES == 198
    assert pynvml.NVML_FI_DEV_NVLINK_GET_SPEED == 164
    assert pynvml.NVML_FI_DEV_C2C_LINK_GET_MAX_BW == 172
    assert pynvml.c_nvmlValue_t._fields_ == list(fake.Union._fields_)


# facts of more than one call


def test_nvlinks_are_summed_one_way() -> None:
    assert gpu(FakeGpu(nvlinks_up=17))["nvlink_mb_per_s"] == 17 * 26_562
    assert gpu(FakeGpu(field_errors={164: 3}))["nvlink_mb_per_s"] == Unknown(NOT_HERE)
    assert gpu(FakeGpu(nvlinks=6, nvlinks_up=4))["nvlink_links"] == 4
    assert gpu(FakeGpu(nvlinks_up=0))["nvlink_links"] == 0
    assert gpu(FakeGpu(nvlinks_up=0))["nvlink_mb_per_s"] == NO_VALUE
    refused = FakeGpu(errors={"nvmlDeviceGetNvLinkState": 3})
    assert gpu(refused)["nvlink_links"] == Unknown(NOT_HERE)


def test_c2c_is_summed_over_its_links() -> None:
    grace = FakeGpu(c2c_links=10)
    assert gpu(grace)["c2c_enabled"] == "on"
    assert gpu(grace)["c2c_max_mb_per_s"] == 450_000
    down = replace(grace, field_values={171: 0})
    assert gpu(down)["c2c_max_mb_per_s"] == NO_VALUE
    assert gpu()["c2c_enabled"] == "off"


def test_other_processes_are_counted() -> None:
    """Some calls raise what is no NVMLError where the driver lacks their newest version."""
    mine = FakeGpu(pids=(os.getpid(), 10, 11))
    assert gpu(mine)["num_other_processes"] == 2
    older = {"nvmlDeviceGetComputeRunningProcesses": RuntimeError("no such version")}
    assert "do not fit: RuntimeError" in str(gpu(FakeGpu(errors=older))["num_other_processes"])


def test_the_slot_of_sysfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "PCI_DEVICES", tmp_path)
    device = tmp_path / "0000:18:00.0"
    device.mkdir()
    (device / "max_link_width").write_text("16\n")
    assert gpu()["pci_device_max_width"] == 16
    (device / "max_link_width").unlink()
    assert gpu()["pci_device_max_width"] == NO_VALUE
    mute = FakeGpu(errors={"nvmlDeviceGetPciInfo": 3})
    assert gpu(mute)["pci_device_max_width"] == Unknown(NOT_HERE)


def test_nothing_names_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.node", lambda: "lab-7")
    facts = str(collect(tmp_path, FakeNvml()))
    assert not [name for name in ("18:00.0", "1111-2222", "lab-7") if name in facts]


# whether any is there


def show(root: Path, slot: str, vendor: str = "0x10de", kind: str = "0x030200") -> None:
    put(root / f"sys/bus/pci/devices/{slot}/vendor", vendor)
    put(root / f"sys/bus/pci/devices/{slot}/class", kind)


def test_hardware_by_nvml(tmp_path: Path) -> None:
    lost = FakeGpu(broken=GPU_IS_LOST)
    seen = nvidia_hardware(tmp_path, FakeNvml(gpus=(FakeGpu(), lost)))
    assert (seen.num_gpus, seen.seen_by) == (1, "nvml")  # the other cannot be used
    assert seen.names == ("NVIDIA H200",)
    alone = nvidia_hardware(tmp_path, FakeNvml(gpus=(lost,)))
    assert (alone.num_gpus, alone.names) == (1, ("NVIDIA GPU",))  # no run goes on without a word
    show(tmp_path, "0000:18:00.0")
    none = nvidia_hardware(tmp_path, FakeNvml(gpus=()))
    assert (none.visible, none.why) == (False, "the NVIDIA driver shows no GPU")


def test_hardware_by_the_kernel(tmp_path: Path) -> None:
    missing = fake.machine("library_missing")
    assert not nvidia_hardware(tmp_path, missing).visible
    show(tmp_path, "0000:18:00.0")
    show(tmp_path, "0000:18:00.1", kind="0x040300")
    show(tmp_path, "0000:19:00.0", vendor="0x8086")
    show(tmp_path, "0000:1a:00.0")
    drivers = tmp_path / "sys/bus/pci/drivers/vfio-pci"
    drivers.mkdir(parents=True)
    (tmp_path / "sys/bus/pci/devices/0000:1a:00.0/driver").symlink_to(drivers)
    by_pci = nvidia_hardware(tmp_path, missing)
    assert (by_pci.num_gpus, by_pci.seen_by, by_pci.names) == (1, "pci", ())
    put(tmp_path / "proc/driver/nvidia/gpus/0000:18:00.0/information", "Model: NVIDIA H200\n")
    by_proc = nvidia_hardware(tmp_path, missing)
    assert (by_proc.seen_by, by_proc.names) == ("proc", ("NVIDIA H200",))
    assert "libnvidia-ml" in (by_proc.why or "")


@pytest.mark.parametrize("value", ["", "-1,0"])
def test_a_user_may_hide_the_gpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)
    hidden = nvidia_hardware(tmp_path, FakeNvml())
    assert not hidden.visible and "hides the GPUs" in (hidden.why or "")
    facts = collect(tmp_path, FakeNvml())
    assert "gpu0" not in facts and "hides the GPUs" in str(facts["nvml"]["driver"])


# which GPU is which CUDA device, by the torch probe

A, B = "GPU-aaaa1111-0000", "GPU-bbbb2222-0000"
M1, M2 = "MIG-cccc3333-0000", "MIG-dddd4444-0000"
PAIR = (FakeGpu(uuid=A), FakeGpu(uuid=B, mig=True, mig_uuids=(M1, M2)))


def pair(*gpus: FakeGpu) -> Nvml:
    return open_nvml(FakeNvml(gpus=gpus or PAIR))


def test_without_the_probe_only_one_gpu_has_a_number() -> None:
    assert cuda_indices(pair(PAIR[0]), ()) == [0]
    assert cuda_indices(pair(), ()) == [Unknown(NO_CUDA_INDEX)] * 2


def test_cuda_devices_are_matched_by_uuid(tmp_path: Path) -> None:
    lost = FakeGpu(broken=GPU_IS_LOST)
    opened = pair(PAIR[0], lost, PAIR[1])
    assert (opened.index_of("bbbb2222-0000"), opened.index_of(A)) == (2, 0)
    state = TorchState(installed=True, importable=True, uuid_hashes=(hash_uuid(B), hash_uuid(A)))
    facts = collect(tmp_path, FakeNvml(gpus=PAIR), torch_state=state)
    assert (facts["gpu0"]["cuda_index"], facts["gpu1"]["cuda_index"]) == (1, 0)
    assert "aaaa1111" not in str(facts)


# NVML that does not return: it is waited for, and the kernel is asked instead


@pytest.fixture(params=["nvmlInit", "nvmlDeviceGetCount", "nvmlDeviceGetTemperature"])
def stuck(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeNvml]:
    monkeypatch.setattr(nvml, "PATIENCE_S", 0.1)
    library = FakeNvml(hangs=request.param)
    yield library
    library.released.set()


def test_the_kernel_is_asked_where_nvml_hangs(stuck: FakeNvml, tmp_path: Path) -> None:
    put(tmp_path / "proc/driver/nvidia/gpus/0000:18:00.0/information", "Model: NVIDIA H200\n")
    torch = TorchState(installed=True, importable=True, cuda_works=True, devices=("NVIDIA H200",))
    facts = collect(tmp_path, stuck, torch_state=torch)
    assert facts["nvml"]["driver"] == Unknown(nvml.STUCK)
    said = findings(facts, nvidia_hardware(tmp_path, FakeNvml()), torch)
    assert [each.remedy for each in said if "no NVML" in each.text] == [nvml.STUCK]
    if stuck.hangs != "nvmlDeviceGetTemperature":
        hardware = nvidia_hardware(tmp_path, stuck)
        assert (hardware.num_gpus, hardware.seen_by, hardware.why) == (1, "proc", nvml.STUCK)


ENDS = """
from hostbench.facts import collect, nvml
from tests.fakes.fake_nvml import FakeNvml
nvml.PATIENCE_S = 0.1
print(collect(nvml=FakeNvml(hangs="nvmlDeviceGetName"))["nvml"]["driver"].why)
"""


def test_a_call_that_hangs_does_not_keep_the_process() -> None:
    """Nothing releases it: the process ends all the same."""
    done = subprocess.run([sys.executable, "-c", ENDS], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, nvml.STUCK, "")
