"""Machines that nobody here has: what a run, the link's verdict and the doctor tell of them."""

from functools import partial
from pathlib import Path

import pytest

from hostbench.core.units import MIB
from hostbench.facts import collect
from hostbench.facts.nvml import hash_uuid
from hostbench.facts.record import Facts, Unknown
from hostbench.facts.software import TorchState
from tests.fakes import fake_nvml
from tests.fakes.fake_nvml import MACHINES, FakeGpu, FakeNvml, watched

UUIDS = {"mig_slice": (fake_nvml.MIG_UUID,), "one_lost": ("GPU-1",), "needs_reset": ()}
"""Of the devices that CUDA shows there; elsewhere the one that there is."""
NOT_HERE = "not supported by this GPU or VM"
FORBIDDEN = "no permission: run as root, or ask the administrator"
LOST = "the GPU is lost: reset it or restart the machine, and look at `dmesg`"


class Machine:
    """One of MACHINES, its files, and torch's view of it."""

    def __init__(self, name: str, root: Path) -> None:
        self.root, self.nvml = root, fake_nvml.machine(name)
        if name == "library_missing":
            (root / "proc/driver/nvidia/gpus/0000:18:00.0").mkdir(parents=True)
        uuids = UUIDS.get(name, (FakeGpu().uuid,))
        hashes = tuple(map(hash_uuid, uuids))
        self.torch = TorchState(installed=True, importable=True, uuid_hashes=hashes)

    def facts(self) -> Facts:
        return collect(self.root, self.nvml, torch_state=self.torch)

    def during(self) -> Facts:
        """Of a run in which the first GPU copies all the time."""
        copy = partial(self.nvml.copy, into=MIB // 2, out_of=MIB // 2)
        return watched(self.nvml, self.facts(), lambda: None, copy, copy)


@pytest.mark.parametrize("name", MACHINES)
def test_every_fact_has_a_value_or_a_reason_in_words(name: str, tmp_path: Path) -> None:
    machine = Machine(name, tmp_path)
    healthy = collect(machine.root, FakeNvml())
    facts, during = machine.facts(), machine.during()
    assert {"nvml", "gpu0"} <= set(facts) and len(during) == 2
    for group in (*facts.values(), *during.values()):
        for fact in group.values():
            assert "NVML: error" not in str(fact) and "own argument" not in str(fact)
    assert list(facts["gpu0"]) == list(healthy["gpu0"])
    assert list(facts["nvml"]) == list(healthy["nvml"])


LOADED = ("sm_clock_mhz", "memory_clock_mhz", "throttle_reasons")
LINK = ("pcie_generation", "pcie_width")


@pytest.mark.parametrize(
    ("name", "facts", "why"),
    [
        ("library_missing", LINK + LOADED, "libnvidia-ml.so.1 is missing: install"),
        ("no_permission", LINK + LOADED, FORBIDDEN),
        ("vgpu", LINK, NOT_HERE),
        ("lost_midway", LOADED, LOST),
        ("needs_reset", LINK + LOADED, "the GPU needs a reset: `nvidia-smi --gpu-reset`"),
        ("one_lost", LINK, ""),
    ],
)
def test_what_a_run_tells_of_its_gpu(
    name: str, facts: tuple[str, ...], why: str, tmp_path: Path
) -> None:
    groups = Machine(name, tmp_path).during().values()
    (last,) = (group for group in groups if facts[0] in group)
    assert all(why in str(last[fact]) for fact in facts)


def test_a_gpu_that_is_lost_midway(tmp_path: Path) -> None:
    """What was read until then is kept; afterwards every fact says why there is none."""
    machine = Machine("lost_midway", tmp_path)
    before, during, after = machine.facts(), machine.during(), machine.facts()
    assert before["gpu0"]["name"] == "NVIDIA H200"
    assert during["gpu0"]["pcie_generation"] == 5
    assert after["gpu0"]["name"] == after["gpu0"]["sm_clock_mhz"] == Unknown(LOST)


def test_a_slice_has_the_facts_of_its_gpu(tmp_path: Path) -> None:
    gpu = Machine("mig_slice", tmp_path).facts()["gpu0"]
    assert gpu["cuda_index"] == 0
    assert gpu["memory_bytes"] == gpu["num_other_processes"] == Unknown(FORBIDDEN)
