"""The way through PCI, from a sysfs that is made here."""

import pytest

from hostbench.facts import pci
from hostbench.facts.gpu import Asking, nvml_facts
from hostbench.facts.record import unknown
from hostbench.testing.fake_nvml import FakeNvml

ROOT_PORT = "sys/devices/pci0000:17/0000:17:01.0"


def config(mps: int = 1, mrrs: int = 2, pointer: int = 0x60, status: int = 0x10) -> bytes:
    """256 bytes with a power management capability that points to a PCI Express one."""
    space = bytearray(256)
    space[0x06], space[0x34] = status, pointer
    space[0x60:0x62] = bytes([0x01, 0x78])
    space[0x78:0x7A] = bytes([0x10, 0x00])
    space[0x80:0x82] = ((mps << 5) | (mrrs << 12)).to_bytes(2, "little")
    return bytes(space)


@pytest.fixture
def device(tmp_path):
    """A GPU behind one root port that is slower and narrower than it."""
    real = tmp_path / ROOT_PORT / "0000:18:00.0"
    (real / "link").mkdir(parents=True)
    (real / "iommu_group").mkdir()
    for path, text in {
        "numa_node": "1",
        "max_link_speed": "32.0 GT/s PCIe",
        "max_link_width": "16",
        "link/l0s_aspm": "0",
        "link/l1_aspm": "1",
        "iommu_group/type": "DMA-FQ",
        "aer_dev_correctable": "RxErr 1\nBadTLP 2\nTOTAL_ERR_COR 3",
        "aer_dev_fatal": "Undefined 0\nTOTAL_ERR_FATAL 0",
        "../max_link_speed": "16.0 GT/s PCIe",
        "../max_link_width": "8",
    }.items():
        (real / path).write_text(text + "\n")
    (real / "config").write_bytes(config())
    shown = tmp_path / "sys/bus/pci/devices"
    shown.mkdir(parents=True)
    (shown / "0000:18:00.0").symlink_to(real)
    return real


def test_the_whole_path(device, tmp_path):
    found = nvml_facts(FakeNvml(), Asking(root=tmp_path, environ={}))["gpu0"]
    assert {name: found[name].value for name in pci.NAMES} == {
        "pci_numa_node": 1,
        "pci_num_bridges": 1,
        "pci_device_max_gt_per_s": 32.0,
        "pci_device_max_width": 16,
        "pci_path_max_gt_per_s": 16.0,
        "pci_path_max_width": 8,
        "pci_max_payload_bytes": 256,
        "pci_max_read_request_bytes": 512,
        "pci_aspm": "l1",
        "pci_iommu": "DMA-FQ",
        "aer_correctable_total": 3,
        "aer_nonfatal_total": None,
        "aer_fatal_total": 0,
    }
    assert "18:00" not in str(found)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (config()[:64], "only root reads it"),
        (config(status=0), "no PCI Express capability"),
        (config(pointer=0x90), "no PCI Express capability"),
        (b"", "only root reads it"),
        (config()[:0x80], "no PCI Express capability"),
    ],
)
def test_a_configuration_that_does_not_tell(device, tmp_path, content, why):
    (device / "config").write_bytes(content)
    assert pci.pci_facts(tmp_path, "0000:18:00.0")["pci_max_payload_bytes"] == unknown(why)


def test_a_capability_list_that_goes_in_circles(device, tmp_path):
    space = bytearray(config())
    space[0x61] = 0x60
    (device / "config").write_bytes(bytes(space))
    assert pci.pci_facts(tmp_path, "0000:18:00.0")["pci_max_payload_bytes"].value is None


def test_a_virtual_machine_hides_most(tmp_path):
    bare = tmp_path / "sys/bus/pci/devices/0000:00:05.0"
    bare.mkdir(parents=True)
    (bare / "numa_node").write_text("-1\n")
    found = pci.pci_facts(tmp_path, "0000:00:05.0")
    values = {name: fact.value for name, fact in found.items() if fact.value is not None}
    assert values == {"pci_num_bridges": 0, "pci_iommu": "off"}
    assert "virtual machine" in (found["pci_numa_node"].why or "")
    for address in ("0000:99:00.0", "../../etc"):
        assert {f.why for f in pci.pci_facts(tmp_path, address).values()} == {
            "sysfs does not show the GPU's PCI device"
        }


def test_addresses():
    assert pci.address_of("00000000:18:00.0") == "0000:18:00.0"
    assert pci.address_of("00010000:AB:00.0") == "10000:ab:00.0"
    odd = FakeNvml(errors={"nvmlDeviceGetPciInfo": 3})
    assert nvml_facts(odd)["gpu0"]["pci_iommu"] == unknown("not supported by this GPU or VM")
