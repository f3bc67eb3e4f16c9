"""The way through PCI, from a sysfs that is made here."""

import pytest

from hostbench.facts import pci
from hostbench.facts.gpu import nvml_facts
from hostbench.facts.record import known, unknown
from tests.fakes.fake_nvml import FakeNvml

ROOT_PORT = "sys/devices/pci0000:17/0000:17:01.0"


@pytest.fixture
def device(tmp_path):
    """A GPU behind one root port."""
    real = tmp_path / ROOT_PORT / "0000:18:00.0"
    (real / "iommu_group").mkdir(parents=True)
    for path, text in {
        "numa_node": "1",
        "max_link_width": "16",
        "iommu_group/type": "DMA-FQ",
    }.items():
        (real / path).write_text(text + "\n")
    shown = tmp_path / "sys/bus/pci/devices"
    shown.mkdir(parents=True)
    (shown / "0000:18:00.0").symlink_to(real)
    return real


def test_the_slot(device, tmp_path):
    found = nvml_facts(FakeNvml(), root=tmp_path)["gpu0"]
    assert {name: found[name].value for name in pci.NAMES} == {
        "pci_device_max_width": 16,
        "pci_iommu": "DMA-FQ",
    }
    assert "18:00" not in str(found)
    silent = FakeNvml(errors={"nvmlDeviceGetMemoryAffinity": 3})
    assert nvml_facts(silent, root=tmp_path)["gpu0"]["numa_nodes"] == known("1")


def test_a_virtual_machine_hides_most(tmp_path):
    bare = tmp_path / "sys/bus/pci/devices/0000:00:05.0"
    bare.mkdir(parents=True)
    (bare / "numa_node").write_text("-1\n")
    found = pci.pci_facts(tmp_path, "0000:00:05.0")
    values = {name: fact.value for name, fact in found.items() if fact.value is not None}
    assert values == {"pci_iommu": "off"}
    assert pci.numa_node(bare) is None
    for address in ("0000:99:00.0", "../../etc"):
        assert {f.why for f in pci.pci_facts(tmp_path, address).values()} == {
            "sysfs does not show the GPU's PCI device"
        }


def test_addresses():
    assert pci.address_of("00000000:18:00.0") == "0000:18:00.0"
    assert pci.address_of("00010000:AB:00.0") == "10000:ab:00.0"
    odd = FakeNvml(errors={"nvmlDeviceGetPciInfo": 3})
    assert nvml_facts(odd)["gpu0"]["pci_iommu"] == unknown("not supported by this GPU or VM")
