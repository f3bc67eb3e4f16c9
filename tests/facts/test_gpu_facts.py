"""Every fact of a GPU, and every way in which NVML or sysfs refuses one, driven by the fake."""

from dataclasses import replace

import pytest

from hostbench import facts as room
from hostbench.facts.gpu import nvml_facts
from hostbench.facts.nvml import bare
from hostbench.facts.record import Group, Value, known, unknown
from tests.fakes import fake_nvml as fake
from tests.fakes.fake_nvml import FakeGpu, FakeNvml

NOT_HERE = "not supported by this GPU or VM"


def gpu(one: FakeGpu | None = None, **asking) -> Group:
    return nvml_facts(FakeNvml(gpus=(one or FakeGpu(),)), **asking)["gpu0"]


def value(name: str, one: FakeGpu | None = None) -> Value:
    return gpu(one)[name].value


def test_what_a_gpu_is():
    found = {name: fact.value for name, fact in gpu().items()}
    expected = {
        "vbios": "96.00.A5.00.01",
        "memory_bus_width_bits": 6144,
        "memory_clock_max_mhz": 3201,
        "ecc_uncorrected_lifetime_total": 0,
        "cuda_index": 0,
    }
    assert found | expected == found


def test_nvlinks_are_summed_one_way():
    found = gpu()
    assert found["nvlink_links"] == known(18)
    assert found["nvlink_mb_per_s"] == known(18 * 26_562)
    assert value("nvlink_mb_per_s", FakeGpu(nvlinks_up=17)) == 17 * 26_562


def test_a_driver_that_does_not_tell_the_links_speed():
    assert gpu(FakeGpu(field_errors={164: 3}))["nvlink_mb_per_s"].why == NOT_HERE


def test_a_gpu_without_nvlink():
    assert value("nvlink_links", FakeGpu(nvlinks=6, nvlinks_up=4)) == 4
    assert value("nvlink_links", FakeGpu(nvlinks_up=0)) == 0
    assert gpu(FakeGpu(nvlinks_up=0))["nvlink_mb_per_s"] == unknown("no active NVLink")
    refused = FakeGpu(errors={"nvmlDeviceGetNvLinkState": 3})
    assert gpu(refused)["nvlink_links"] == unknown(NOT_HERE)


def test_c2c_is_summed_over_its_links():
    grace = FakeGpu(c2c_links=10)
    found = gpu(grace)
    assert found["c2c_enabled"] == known("on")
    assert found["c2c_max_mb_per_s"] == known(450_000)
    down = replace(grace, field_values={171: 0})
    assert gpu(down)["c2c_max_mb_per_s"] == unknown("no active C2C link")
    assert gpu()["c2c_max_mb_per_s"] == unknown("no active C2C link")
    assert value("c2c_enabled") == "off"


def test_an_older_call_answers_what_the_newer_one_refuses():
    older = FakeGpu(errors={"nvmlDeviceGetTemperatureV": fake.NOT_SUPPORTED})
    assert value("temperature_c", older) == 31
    calls = ("TemperatureV", "Temperature")
    denied = FakeGpu(errors={f"nvmlDeviceGet{call}": fake.NO_PERMISSION for call in calls})
    assert "no permission" in (gpu(denied)["temperature_c"].why or "")


def test_pynvmls_own_word_for_an_old_driver():
    """Some calls raise what is no NVMLError where the driver lacks their newest version."""
    too_new = fake.NVMLLibraryMismatchError()
    older = {"nvmlDeviceGetComputeRunningProcesses": too_new}
    assert value("num_other_processes", FakeGpu(errors=older, pids=(1, 2))) == 2
    oldest = {**older, "nvmlDeviceGetComputeRunningProcesses_v2": fake.FUNCTION_NOT_FOUND}
    assert "driver is too old" in (gpu(FakeGpu(errors=oldest))["num_other_processes"].why or "")


def test_the_slot_of_sysfs(tmp_path):
    device = tmp_path / "sys/bus/pci/devices/0000:18:00.0"
    device.mkdir(parents=True)
    (device / "numa_node").write_text("1\n")
    (device / "max_link_width").write_text("16\n")
    read = gpu(root=tmp_path)
    assert (read["numa_nodes"], read["pci_device_max_width"]) == (known("1"), known(16))
    (device / "numa_node").write_text("-1\n")
    assert gpu(root=tmp_path)["numa_nodes"].value is None
    assert gpu()["pci_device_max_width"] == unknown("sysfs does not show the GPU's PCI link")
    mute = FakeGpu(errors={"nvmlDeviceGetPciInfo": 3})
    assert gpu(mute)["pci_device_max_width"] == unknown(NOT_HERE)


def test_nothing_names_the_machine(tmp_path, monkeypatch):
    monkeypatch.setattr("platform.node", lambda: "lab-7")
    found = str(room.collect(root=tmp_path, nvml=FakeNvml(), environ={}))
    assert not [
        name for name in ("1654000000000", "18:00.0", "1111-2222", "lab-7") if name in found
    ]
    assert bare("MIG-AB") == "ab"


def test_constants_are_pynvmls():
    real = pytest.importorskip("pynvml")
    assert real.NVML_FI_DEV_NVLINK_GET_SPEED == 164
    assert real.NVML_FI_DEV_C2C_LINK_GET_MAX_BW == 172
    assert FakeNvml().nvmlMemory_v2 == real.nvmlMemory_v2
