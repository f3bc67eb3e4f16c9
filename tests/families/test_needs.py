"""What a case needs of its device is declared, and what the doctor tells from it comes true; what
the cpu device can do is proven there."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from hostbench.core.case import Case
from hostbench.core.errors import Unavailable
from hostbench.core.units import KIB, MIB
from hostbench.device.base import Device
from hostbench.families import load
from hostbench.measure import evidence
from hostbench.measure.measure import Prepared, proofs_of
from hostbench.measure.workload import Workload, prepare


def kinds(work: Workload) -> Iterator[Case]:
    """One case on the cpu device for each choice of words on its axes: numbers, as 1:4 is two, and
    whether a copy blocks play no part in what a device can do."""
    tried = set()
    for case in work.cases():
        words = (value for value in case.values.values() if isinstance(value, str))
        kind = tuple(word for word in words if ":" not in word)
        if case.values["device"] == "cpu" and kind not in tried:
            tried.add(kind)
            yield case


def run(work: Workload, device: Device, case: Case) -> None:
    """Build it with few bytes, step, and pass its proofs, with copies that were observed."""
    axes = {name: value for name, value in case.values.items() if name != "device"}
    small = {"nbytes": 64 * KIB, "batch_bytes": 4 * MIB}
    axes |= {name: num for name, num in small.items() if name in axes}
    built = work.build(device, **axes)
    prepared = built if isinstance(built, Prepared) else Prepared(step=built)
    for _ in range(10 if "trap" in axes else 2):  # one may come after every tenth
        prepared.step()
    device.synchronize()
    seen = evidence.gather(device, prepared)
    assert "failed" not in f"{seen.proofs} {proofs_of(prepared)}", case


@pytest.mark.parametrize(
    "work", [work for work in load().values() if not work.has_ranks], ids=lambda work: work.name
)
def test_what_is_told_beforehand_is_what_the_device_does(work: Workload, cpu: Device) -> None:
    """A case is refused before it is built, or runs; that none of its computes is that short only
    calibrating tells."""
    for case in kinds(work):
        if reason := work.refusal(case, 1):
            never = replace(work, build=lambda device, **_: pytest.fail("built"))
            with pytest.raises(Unavailable) as refusal:
                prepare(never, cpu, case)
            assert str(refusal.value) == reason
            continue
        try:
            run(work, cpu, case)
        except Unavailable as refused:
            assert str(refused).endswith("none is that short")
        cpu.reset()
