"""NVML and hardware detection, every branch driven by the fake."""

import os
import sys

import pytest

from hostbench.facts.gpu import gpu_reads, nvidia_hardware, nvml_facts
from hostbench.facts.nvml import Nvml, NvmlUnavailable, open_nvml, throttle_words
from hostbench.facts.record import Fact, known, unknown
from hostbench.facts.spec import LINK_BYTES
from tests.fakes import fake_nvml
from tests.fakes import fake_nvml as fake
from tests.fakes.fake_nvml import GPU_IS_LOST, FakeGpu, FakeNvml


def why(fact: Fact) -> str:
    assert fact.value is None
    return fact.why or ""


def test_a_healthy_gpu():
    library = FakeNvml()
    facts = nvml_facts(library)
    assert facts["nvml"]["cuda_driver"] == known("13.0")
    assert facts["nvml"]["confidential_computing"] == known("off")
    gpu = {name: fact.value for name, fact in facts["gpu0"].items()}
    unread = {name for name, fact in facts["gpu0"].items() if fact.value is None}
    assert unread == {"c2c_max_mb_per_s", "pci_device_max_width", "numa_nodes"}
    expected = {
        "name": "NVIDIA H200",
        "memory_bytes": 150_754_820_096,
        "pcie_generation": 5,
        "pcie_max_width": 16,
        "power_limit_w": 700.0,
        "throttle_reasons": "idle",
        "virtualization": "none",
        "ecc": "on",
        "mig": "off",
        "num_other_processes": 0,
    }
    assert gpu | expected == gpu
    assert not library.opened


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (fake.LIBRARY_NOT_FOUND, "libnvidia-ml.so.1 is missing"),
        (fake.UNKNOWN, "in a container, start it again"),
        (777, "NVML error 777"),
    ],
)
def test_nvml_that_does_not_start_says_why(code, text):
    facts = nvml_facts(FakeNvml(init_error=code))
    assert list(facts) == ["nvml"]
    assert text in why(facts["nvml"]["driver"])
    with pytest.raises(NvmlUnavailable, match=text):
        open_nvml(FakeNvml(init_error=code))


def test_pynvml_that_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(NvmlUnavailable, match="pip install nvidia-ml-py"):
        open_nvml()


def link_bytes(nvml: Nvml) -> tuple[Fact, ...]:
    names = [row.name for row in LINK_BYTES]
    return tuple(gpu_reads(nvml, nvml.handles()[0], names).values())


def test_each_gpu_counts_its_own_bytes():
    library = FakeNvml(gpus=(FakeGpu(sleeping_link=(1, 16)), FakeGpu(sleeping_link=(1, 16))))
    library.copy(into=7, gpu=1)
    library.copy(out_of=5, gpu=1)
    nvml = open_nvml(library)
    names = [row.name for row in LINK_BYTES]
    found = [[f.value for f in gpu_reads(nvml, gpu, names).values()] for gpu in nvml.handles()]
    assert found == [[0, 0], [7, 5]]
    facts = nvml_facts(library)
    assert [facts[gpu]["pcie_generation"].value for gpu in ("gpu0", "gpu1")] == [1, 5]


def test_one_field_fails_alone():
    gpu = FakeGpu(field_errors={198: fake.NOT_SUPPORTED}, field_values={197: 5})
    refused = unknown("not supported by this GPU or VM")
    assert link_bytes(open_nvml(FakeNvml(gpus=(gpu,)))) == (refused, known(5))
    gpu = FakeGpu(field_errors={197: 777}, field_values={198: 1 << 40})
    odd = unknown("NVML error 777 (NVML return code 777)")
    assert link_bytes(open_nvml(FakeNvml(gpus=(gpu,)))) == (known(1 << 40), odd)


def test_other_processes_are_counted_without_ours():
    gpu = FakeGpu(pids=(os.getpid(), 10, 11))
    facts = nvml_facts(FakeNvml(gpus=(gpu,)))
    assert facts["gpu0"]["num_other_processes"] == known(2)


def test_throttle_bits_in_words():
    assert throttle_words(0) == "none"
    assert throttle_words(0x4 | 0x40) == "power-cap,hardware-thermal"
    assert throttle_words(0x1000) == "unknown-0x1000"


def test_cuda_devices_are_matched_by_uuid():
    gpus = (FakeGpu(uuid="GPU-a"), FakeGpu(broken=GPU_IS_LOST), FakeGpu(uuid="GPU-b"))
    nvml = open_nvml(FakeNvml(gpus=gpus))
    assert (nvml.index_of("b"), nvml.index_of("GPU-a")) == (2, 0)


def test_the_fake_has_the_real_names():
    pynvml = pytest.importorskip("pynvml")
    names = [*fake.DRIVER, *fake.DEVICE, "nvmlInit"]
    assert [name for name in names if not hasattr(pynvml, name)] == []
    assert pynvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES == 197
    assert pynvml.NVML_FI_DEV_PCIE_COUNT_RX_BYTES == 198
    assert pynvml.c_nvmlValue_t._fields_ == list(fake.Union._fields_)


def put(path, text=""):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def show(root, slot, vendor="0x10de", kind="0x030200"):
    put(root / f"sys/bus/pci/devices/{slot}/vendor", vendor)
    put(root / f"sys/bus/pci/devices/{slot}/class", kind)


def test_hardware_by_nvml(tmp_path):
    found = nvidia_hardware(tmp_path, FakeNvml(gpus=(FakeGpu(), FakeGpu(broken=GPU_IS_LOST))), {})
    assert (found.num_gpus, found.seen_by) == (1, "nvml")  # the other cannot be used
    assert found.names == ("NVIDIA H200",)
    lost = nvidia_hardware(tmp_path, FakeNvml(gpus=(FakeGpu(broken=GPU_IS_LOST),)), {})
    assert (lost.num_gpus, lost.names) == (1, ("NVIDIA GPU",))  # no run goes on without a word
    show(tmp_path, "0000:18:00.0")
    none = nvidia_hardware(tmp_path, FakeNvml(gpus=()), {})
    assert (none.visible, none.why) == (False, "the NVIDIA driver shows no GPU")


def test_hardware_by_the_kernel(tmp_path):
    missing = fake_nvml.machine("library_missing")
    assert not nvidia_hardware(tmp_path, missing, {}).visible
    show(tmp_path, "0000:18:00.0")
    show(tmp_path, "0000:18:00.1", kind="0x040300")
    show(tmp_path, "0000:19:00.0", vendor="0x8086")
    show(tmp_path, "0000:1a:00.0")
    drivers = tmp_path / "sys/bus/pci/drivers/vfio-pci"
    drivers.mkdir(parents=True)
    (tmp_path / "sys/bus/pci/devices/0000:1a:00.0/driver").symlink_to(drivers)
    by_pci = nvidia_hardware(tmp_path, missing, {})
    assert (by_pci.num_gpus, by_pci.seen_by, by_pci.names) == (1, "pci", ())
    put(tmp_path / "dev/nvidia0")
    put(tmp_path / "dev/nvidiactl")
    by_dev = nvidia_hardware(tmp_path, missing, {})
    assert (by_dev.num_gpus, by_dev.seen_by) == (1, "dev")
    put(tmp_path / "proc/driver/nvidia/gpus/0000:18:00.0/information", "Model: NVIDIA H200\n")
    by_proc = nvidia_hardware(tmp_path, missing, {})
    assert (by_proc.seen_by, by_proc.names) == ("proc", ("NVIDIA H200",))
    assert "libnvidia-ml" in (by_proc.why or "")


@pytest.mark.parametrize("value", ["", "-1,0"])
def test_a_user_may_hide_the_gpus(tmp_path, value):
    found = nvidia_hardware(tmp_path, FakeNvml(), {"CUDA_VISIBLE_DEVICES": value})
    assert not found.visible
    assert "hides the GPUs" in (found.why or "")
