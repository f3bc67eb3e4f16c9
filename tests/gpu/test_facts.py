"""What NVML and sysfs tell of this machine, and the profiler of a script's lines."""

import os
from collections import Counter
from pathlib import Path

import pytest
import torch

from hostbench.device import numa
from hostbench.device.cuda import CudaDevice, pci_address
from hostbench.facts.gpu import nvml_facts
from hostbench.facts.host import read_int
from hostbench.facts.nvml import NvmlUnavailable, open_nvml
from hostbench.facts.record import Unknown
from hostbench.idle.recording import Session
from tests.made_trace import answer

pytestmark = pytest.mark.gpu


@pytest.fixture
def index(cuda: CudaDevice) -> int:
    """NVML's index of torch's device 0: the two do not count devices alike."""
    try:
        return open_nvml().index_of(str(torch.cuda.get_device_properties(cuda.torch_device).uuid))
    except NvmlUnavailable as error:
        pytest.skip(str(error))


def test_every_fact_has_a_value_or_a_reason(index: int) -> None:
    facts = nvml_facts()[f"gpu{index}"]
    refused = Counter(fact.why for fact in facts.values() if isinstance(fact, Unknown))
    print(f"{refused.total()} of {len(facts)} facts are not known: {dict(refused)}")
    assert facts["name"] == torch.cuda.get_device_name(0)


def test_the_numa_node_has_cpus(cuda: CudaDevice) -> None:
    address = pci_address(cuda.torch_device)
    if address is None:
        pytest.skip(f"torch {torch.__version__} does not tell the PCI address")
    node = read_int(Path("/sys/bus/pci/devices") / address / "numa_node")
    near = numa.local_cpus(address)
    allowed = len(os.sched_getaffinity(0))
    print(f"node {node}, {len(near)} CPUs beside it, {allowed} CPUs allowed to this process")
    assert (node is None or node < 0) == (not near)


def test_a_wait_is_named_by_its_line(cuda: CudaDevice, tmp_path: Path) -> None:
    """torch warns of a wait when its operation is done, and the mark stands behind it."""
    left = torch.ones(1024, 1024, device="cuda")

    def log(loss: torch.Tensor) -> float:
        return loss.item()

    def branch(loss: torch.Tensor) -> int:
        return 1 if loss > 3 else 0

    def wait() -> None:
        torch.cuda.synchronize()

    session = Session()
    for _ in range(3):
        loss = torch.mm(left, left).sum()
        log(loss)
        branch(loss)
        torch.mm(left, left)
        wait()
        session.step()
    session.stop(tmp_path / "trace.json")
    report, _ = answer(tmp_path / "trace.json")
    if not report.devices:
        pytest.skip("the profiler saw no work of the GPU: CUPTI is missing or not permitted")
    found = {(each.function, each.call): each.count for each in report.waits}
    print(", ".join(f"{function} {call}: {num}" for (function, call), num in found.items()))
    counts = Counter({function: num for (function, _), num in found.items()})
    assert (counts["log"], counts["branch"], counts["wait"]) == (3, 3, 3)
