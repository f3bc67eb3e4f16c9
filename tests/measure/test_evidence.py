"""The observing pass: kinds and bytes of copies, overlap, and the link's own counters."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from hostbench.core.units import KIB, MIB
from hostbench.device.activity import copied
from hostbench.device.simulated import SimulatedDevice
from hostbench.device.simulated_file import Link, Simulation
from hostbench.measure import evidence
from hostbench.measure.measure import Prepared


class Counting(SimulatedDevice):
    """A simulated device whose link counters show some share, by reading, of what was copied."""

    def __init__(
        self, share: Callable[[int], float] = lambda reading: 1.0, wraps: bool = False
    ) -> None:
        super().__init__()
        self.share, self.wraps = share, wraps
        self.readings = 0

    def bytes_counted(self) -> tuple[int, int]:
        self.readings += 1
        moved = copied(self._seen)
        if self.wraps and self.readings > 1:
            return 0, 0
        base = 1 << 40
        return base + int(self.share(self.readings) * moved.get("H2D pinned", 0)), base


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence, "COUNTER_WAIT_S", 0.0)


def copy_case(device: SimulatedDevice, nbytes: int = 64 * MIB) -> Prepared:
    source, target = device.host_buffer(nbytes, pinned=True), device.buffer(nbytes)

    def step() -> None:
        device.copy(target, source, blocking=False)

    return Prepared(step=step, copies={"H2D pinned": nbytes})


@pytest.mark.parametrize(
    ("share", "wraps", "said"),
    [
        (1.0, False, "passed"),
        (0.5, False, "failed: the link's counters saw"),
        (0.0, False, "unavailable: the counters do not see this link"),
        (1.0, True, "unavailable: a counter wrapped"),
    ],
)
def test_the_link_counters_are_a_proof(
    patience: None, share: float, wraps: bool, said: str
) -> None:
    device = Counting(lambda _: share, wraps)
    assert evidence.gather(device, copy_case(device)).proofs["link_bytes"].startswith(said)


def test_counters_that_come_late_are_waited_for() -> None:
    device = Counting(lambda reading: float(reading > 2))  # one before, one too early
    assert evidence.gather(device, copy_case(device)).proofs["link_bytes"] == "passed"
    assert device.readings == 3


def test_a_counter_that_lags_fails_nothing(patience: None) -> None:
    device = Counting(lambda reading: 0.3 if reading <= 3 else 0.6)
    proof = evidence.gather(device, copy_case(device)).proofs["link_bytes"]
    assert proof.startswith("unavailable: the counters are late: they saw "), proof


def test_small_copies_are_not_held_against_a_coarse_counter(patience: None) -> None:
    device = Counting()
    said = evidence.gather(device, copy_case(device, 4 * KIB)).proofs["link_bytes"]
    assert said == "unavailable: 4KiB is too little for the link's counters"


def test_a_copy_of_another_kind_than_declared_is_a_failed_proof() -> None:
    """What the case calls pinned was pageable: never a fast number under a wrong name."""
    device = SimulatedDevice()
    source, target = device.host_buffer(MIB, pinned=False), device.buffer(MIB)
    prepared = Prepared(
        step=lambda: device.copy(target, source, blocking=False), copies={"H2D pinned": MIB}
    )
    proofs = evidence.gather(device, prepared).proofs
    assert proofs["copies"] == (
        f"failed: {MIB} bytes H2D pageable were copied, not {MIB} bytes H2D pinned"
    )
    assert proofs["link_bytes"].startswith("unavailable: the simulated device has no ")
    none = replace(prepared, step=lambda: None)
    assert "no bytes were copied" in evidence.gather(device, none).proofs["copies"]


def test_busy_is_what_the_device_works_in_a_step() -> None:
    device = SimulatedDevice(Simulation(link=Link(launch_s=0.0, wait_s=0.0)))
    compute = device.compute(0.001)

    def step() -> None:
        device.spend(0.003)
        compute()

    found = evidence.gather(device, Prepared(step=step, depth=4, warmup_steps=1)).findings
    assert found["busy_s"] == pytest.approx(0.001)
