"""The workloads of transfer on real memory."""

import pytest

from hostbench.core.units import MIB
from hostbench.device.cpu import CpuDevice
from hostbench.families import load
from hostbench.measure import evidence
from hostbench.measure.workload import prepare

WORKS = load(("transfer",))


@pytest.mark.parametrize("name", ["strided", "cast", "both_ways", "to_device", "to_host"])
def test_the_cpu_device_copies_what_it_says(name: str) -> None:
    device, work = CpuDevice(), WORKS[f"transfer.{name}"]
    wanted = {"device": "cpu", "nbytes": MIB}
    try:
        for case in work.cases():
            axes = case.values
            if not wanted.items() <= axes.items() or {"cold", "pinned"} & {*axes.values()}:
                continue
            prepared = prepare(work, device, case)
            seen = evidence.gather(device, prepared)
            assert prepared.verify is not None and prepared.verify() is None
            assert "failed" not in str(seen.proofs), (case, seen)
            assert "pageable" in str(seen.findings["copies"])
            device.reset()
    finally:
        device.close()
