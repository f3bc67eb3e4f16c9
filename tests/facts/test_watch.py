"""Watching a run: the link under load, and a thread that never ends a run."""

import threading
import time
from functools import partial
from typing import Any

import pytest

from hostbench.core.units import MIB
from hostbench.facts import nvml
from hostbench.facts.gpu import nvml_facts
from hostbench.facts.nvml import hash_uuid
from hostbench.facts.record import Facts, Group, from_json, known, unknown
from hostbench.facts.watch import Watch
from tests.fakes import fake_nvml
from tests.fakes.fake_nvml import FakeGpu, FakeNvml, watched

SLEEPY = FakeGpu(sleeping_link=(1, 16))
GPU0: Facts = {"gpu0": {"cuda_index": known(0)}}


def nothing() -> None: ...


def test_a_link_that_sleeps_is_read_under_load() -> None:
    library = FakeNvml(gpus=(SLEEPY,))
    rest = partial(setattr, library.loads[0], "busy", False)
    copy = partial(library.copy, 64 * MIB)
    read = watched(library, nvml_facts(library), nothing, copy, nothing, rest)["gpu0"]
    during = {name: fact.value for name, fact in read.items()}
    expected = {
        "pcie_generation": 5,
        "pcie_width": 16,
        "temperature_c": 44,
        "sm_clock_mhz": 1755,  # not the idle 345
        "throttle_reasons": "none",
    }
    assert during | expected == during
    assert not library.opened


def test_an_idle_gpu_has_no_clock_under_load() -> None:
    library = FakeNvml(gpus=(SLEEPY,))
    during = watched(library, nvml_facts(library), nothing)["gpu0"]
    assert during["pcie_generation"] == known(1)
    assert during["sm_clock_mhz"].why == "no load was seen while the GPU was watched"


def seen_of(*readings: FakeGpu) -> Group:
    """What readings of a GPU that works all the time add up to."""
    library = FakeNvml()
    steps = [partial(setattr, library, "gpus", (gpu,)) for gpu in readings]
    return watched(library, nvml_facts(library), *steps)["gpu0"]


def works(mhz: int = 1755, bits: int = 0) -> FakeGpu:
    return FakeGpu(throttle_bits=bits, clocks_mhz=(mhz, 3201))


def test_reasons_are_united_and_few_clocks_give_the_lowest():
    during = seen_of(works(), works(1700, 0x4), works(300, 0x60), works(1500))
    assert during["throttle_reasons"] == known("power-cap,software-thermal,hardware-thermal")
    assert during["sm_clock_mhz"] == known(300)


def test_the_ramp_up_is_no_clock_under_load():
    idle, ramp = works(345, 0x1), works(900, 0x8)
    during = seen_of(idle, ramp, works(1755), works(1740), idle, ramp)
    assert during["sm_clock_mhz"] == known(1740)
    assert during["throttle_reasons"] == known("none")


def test_one_slow_reading_of_many_is_neither_the_clock_nor_a_reason():
    one = seen_of(*[works()] * 51, works(600, 0x40))
    assert (one["sm_clock_mhz"], one["throttle_reasons"]) == (known(1755), known("none"))
    two = seen_of(*[works()] * 51, *[works(600, 0x40)] * 2)
    assert two["throttle_reasons"] == known("hardware-thermal")
    tenth = seen_of(*[works()] * 46, *[works(600)] * 5)
    assert tenth["sm_clock_mhz"] == known(600)


def test_load_that_never_lasted_is_the_reason():
    idle = works(345, 0x1)
    during = seen_of(idle, works(), idle, works(), idle)
    why = "no load lasted for two readings of the GPU"
    assert during["sm_clock_mhz"] == during["throttle_reasons"] == unknown(why)
    assert during["pcie_width"] == known(16)


def test_load_by_bytes_where_the_reasons_are_not_told() -> None:
    silent = {f"nvmlDeviceGetCurrentClocks{word}Reasons": 3 for word in ("Event", "Throttle")}
    library = FakeNvml(gpus=(FakeGpu(errors=silent, counter_bits=32),))
    library.copy((1 << 32) - 100)
    library.loads[0].busy = False
    before = nvml_facts(library)
    assert watched(library, before, nothing, nothing)["gpu0"]["sm_clock_mhz"].value is None

    def moves(nbytes: int) -> None:
        library.loads[0].into += nbytes  # the first wraps: it moved

    first, second = partial(moves, MIB // 2), partial(moves, MIB)
    assert watched(library, before, nothing, first, second)["gpu0"]["sm_clock_mhz"] == known(345)


def test_without_nvml_there_is_a_reason() -> None:
    during = watched(fake_nvml.machine("library_missing"), GPU0)
    assert "libnvidia-ml.so.1 is missing" in (during["gpu0"]["pcie_width"].why or "")


class Written(dict[str, Any]):
    """What a journal would have."""

    def gpu0(self, name: str) -> Any:
        return from_json(self["during"])["gpu0"][name]


def test_the_thread_reads_and_ends() -> None:
    library, written = FakeNvml(gpus=(SLEEPY,)), Written()
    with Watch(written.__setitem__, GPU0, 1, library, interval_s=0.001):
        library.copy(64 * MIB)
        num = library.asked["nvmlDeviceGetTemperatureV"]
        while library.asked["nvmlDeviceGetTemperatureV"] < num + 2:  # one at least under load
            time.sleep(0.001)
    assert not [each for each in threading.enumerate() if each.name == "hostbench-nvml"]
    assert written.gpu0("pcie_generation") == known(5)


def test_a_failing_thread_ends_no_run() -> None:
    def fail() -> None:
        raise ZeroDivisionError("odd")

    assert watched(FakeNvml(), GPU0, fail)["gpu0"]["temperature_c"].why == "ZeroDivisionError: odd"


def test_a_call_that_hangs_holds_no_run_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "PATIENCE_S", 0.05)
    library, written = FakeNvml(gpus=(SLEEPY,), hangs="nvmlDeviceGetTemperatureV"), Written()
    with Watch(written.__setitem__, GPU0, 1, library):
        assert library.hung.wait(60)
    assert written.gpu0("pcie_width") == unknown(nvml.STUCK)
    assert library.opened  # closing it would hang too
    library.released.set()


def test_an_interrupted_run_keeps_what_was_seen() -> None:
    written = Written()
    with pytest.raises(KeyboardInterrupt), Watch(written.__setitem__, GPU0, 1, FakeNvml()):
        raise KeyboardInterrupt
    assert list(written) == ["during"]


@pytest.mark.parametrize(
    ("shown", "num_gpus", "groups"),
    [
        ("b", 1, ["gpu1"]),  # all that CUDA shows
        ("bca", 1, ["gpu1"]),
        ("bca", 2, ["gpu1", "gpu2"]),
        ("bca", 8, ["gpu0", "gpu1", "gpu2"]),
        ("", 1, ["gpu0", "gpu1", "gpu2"]),  # nobody told which is which
        ("bca", 0, []),  # a run on the CPU
    ],
)
def test_only_gpus_in_use_are_watched(shown: str, num_gpus: int, groups: list[str]) -> None:
    """A GPU that nobody uses is never asked."""
    library = FakeNvml(gpus=tuple(FakeGpu(uuid=f"GPU-{name}") for name in "abc"))
    before = nvml_facts(library, uuid_hashes=[hash_uuid(name) for name in shown])
    assert list(watched(library, before, nothing, num_gpus=num_gpus)) == ["host", *groups]
