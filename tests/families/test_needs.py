"""What a case needs of its device is declared, and what the doctor tells from it comes true; what
the cpu device can do is proven there."""

from collections.abc import Iterator
from typing import NoReturn

import pytest

from hostbench.core.case import Case
from hostbench.core.errors import Unavailable
from hostbench.core.units import KIB, MIB
from hostbench.device.base import Device, lacking
from hostbench.families import load
from hostbench.measure import evidence
from hostbench.measure.measure import Prepared, proofs_of
from hostbench.measure.workload import Workload, prepare

CpuDevice = pytest.importorskip("hostbench.device.cpu").CpuDevice


@pytest.fixture
def device() -> Iterator[Device]:
    opened = CpuDevice()
    yield opened
    opened.close()


def kinds(work: Workload) -> Iterator[Case]:
    """One case on the cpu device for each choice of words on its axes: numbers and whether a copy
    blocks play no part in what a device can do."""
    tried = set()
    for case in work.cases():
        kind = tuple(value for value in case.values.values() if isinstance(value, str))
        if case.values["device"] == "cpu" and kind not in tried:
            tried.add(kind)
            yield case


def refused(work: Workload, device: Device, case: Case) -> str | None:
    """What the device itself says when the case is built, with few bytes, and run without asking
    first. What it does not refuse passes its proofs, with few copies that one could observe."""
    axes = {name: value for name, value in case.axes if name != "device"}
    small = {"nbytes": 64 * KIB, "batch_bytes": 4 * MIB}
    axes |= {name: num for name, num in small.items() if name in axes}
    try:
        built = work.build(device, **axes)
        prepared = built if isinstance(built, Prepared) else Prepared(step=built)
        prepared.step()
        device.synchronize()
    except Unavailable as reason:
        return str(reason)
    seen = evidence.gather(device, prepared)
    assert "failed" not in f"{seen.proofs} {proofs_of(prepared)}", case
    return None


@pytest.mark.parametrize(
    "work", [work for work in load().values() if not work.has_ranks], ids=lambda work: work.name
)
def test_what_is_told_beforehand_is_what_the_device_does(work: Workload, device: Device) -> None:
    for case in kinds(work):
        told = work.refusal(case, 1)
        said = refused(work, device, case)
        device.reset()
        if str(said).endswith("none is that short"):
            continue  # which only calibrating tells
        assert (told is None) == (said is None), case
        assert said is None or said in map(device.lacks.get, work.options(case).needs)


def test_a_case_is_refused_before_it_is_built(device: Device) -> None:
    def build(device: Device) -> NoReturn:
        raise AssertionError("built")

    work = Workload(
        name="f.w",
        axes={"device": ("cpu",)},
        version="1",
        build=build,
        per_case={"needs": ("pinned memory",)},
    )
    case = next(work.cases())
    with pytest.raises(Unavailable) as refusal:
        prepare(work, device, case)
    assert str(refusal.value) == work.refusal(case, 1) == lacking("cpu", 1)["pinned memory"]
