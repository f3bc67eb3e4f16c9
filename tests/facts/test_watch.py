"""Watching a run: the link under load, and a thread that never ends a run."""

import threading
import time
from functools import partial
from typing import Any
from unittest.mock import Mock

import pytest

from hostbench.core.units import MIB
from hostbench.facts import nvml, watch
from hostbench.facts.gpu import nvml_facts
from hostbench.facts.nvml import hash_uuid
from hostbench.facts.record import Fact, Facts, Unknown
from hostbench.facts.watch import watching
from tests.fakes.fake_nvml import FakeGpu, FakeNvml, watched

SLEEPY = FakeGpu(sleeping_link=(1, 16))
GPU0: Facts = {"gpu0": {"cuda_index": 0}}


def nothing() -> None: ...


def test_a_link_that_sleeps_is_read_under_load() -> None:
    library = FakeNvml(gpus=(SLEEPY,))
    rest = partial(setattr, library.loads[0], "busy", False)
    copy = partial(library.copy, 64 * MIB)
    during = watched(library, nvml_facts(library), nothing, copy, nothing, rest)["gpu0"]
    expected = {
        "pcie_generation": 5,
        "pcie_width": 16,
        "temperature_c": 44,
        "sm_clock_mhz": 1755,  # not the idle 345
        "throttle_reasons": "none",
    }
    assert during | expected == during
    assert library.opened == 1  # before the run, and kept open


def works(mhz: int = 1755, bits: int = 0) -> FakeGpu:
    return FakeGpu(throttle_bits=bits, clocks_mhz=(mhz, 3201))


IDLE, RAMP, SLOW = works(345, 0x1), works(900, 0x8), works(600, 0x40)
NONE = Unknown(watch.NO_LOAD)
ALL = "hardware-thermal,power-cap,software-thermal"


@pytest.mark.parametrize(
    ("readings", "clock", "reasons"),
    [
        pytest.param([IDLE, IDLE], NONE, NONE, id="idle"),
        pytest.param([IDLE, works(), IDLE, works(), IDLE], NONE, NONE, id="load never lasted"),
        pytest.param(
            [works(), works(1700, 0x4), works(300, 0x60), works(1500)],
            *(300, ALL),
            id="few give the lowest clock, and all reasons",
        ),
        pytest.param(
            [IDLE, RAMP, works(1755), works(1740), IDLE, RAMP],
            *(1740, "none"),
            id="the ramp up is no load",
        ),
        pytest.param([works()] * 51 + [SLOW], 1755, "none", id="one of many"),
        pytest.param([works()] * 51 + [SLOW] * 2, 1755, "hardware-thermal", id="1 in 50"),
        pytest.param([works()] * 46 + [SLOW] * 5, 600, "hardware-thermal", id="10th"),
    ],
)
def test_what_readings_add_up_to(readings: list[FakeGpu], clock: Fact, reasons: Fact) -> None:
    library = FakeNvml()
    steps = [partial(setattr, library, "gpus", (gpu,)) for gpu in readings]
    during = watched(library, nvml_facts(library), *steps)["gpu0"]
    assert (during["sm_clock_mhz"], during["throttle_reasons"]) == (clock, reasons)
    assert during["pcie_width"] == 16


def test_load_by_bytes_where_the_reasons_are_not_told() -> None:
    silent = {"nvmlDeviceGetCurrentClocksThrottleReasons": 3}
    library = FakeNvml(gpus=(FakeGpu(errors=silent, counter_bits=32),))
    library.copy((1 << 32) - 100)
    library.loads[0].busy = False
    before = nvml_facts(library)
    assert watched(library, before, nothing, nothing)["gpu0"]["sm_clock_mhz"] == NONE

    def moves(nbytes: int) -> None:
        library.loads[0].into += nbytes  # the first wraps: it moved

    first, second = partial(moves, MIB // 2), partial(moves, MIB)
    assert watched(library, before, nothing, first, second)["gpu0"]["sm_clock_mhz"] == 345


def test_the_thread_reads_and_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "INTERVAL_S", 0.001)
    library, written = FakeNvml(gpus=(SLEEPY,)), dict[str, Any]()
    with watching(written.__setitem__, GPU0, 1, library):
        library.copy(64 * MIB)
        num = library.asked["nvmlDeviceGetTemperature"]
        while library.asked["nvmlDeviceGetTemperature"] < num + 2:  # one at least under load
            time.sleep(0.001)
    assert not [each for each in threading.enumerate() if each.name == "hostbench-nvml"]
    assert written["during"]["gpu0"]["pcie_generation"] == 5


def test_what_goes_wrong_is_a_reason_and_ends_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = watched(FakeNvml(), GPU0, Mock(side_effect=ZeroDivisionError("odd")))
    assert wrong["gpu0"]["temperature_c"] == Unknown("odd")
    monkeypatch.setattr(nvml, "PATIENCE_S", 0.05)
    library, written = FakeNvml(hangs="nvmlDeviceGetTemperature"), dict[str, Any]()
    with watching(written.__setitem__, GPU0, 1, library):
        assert library.hung.wait(60)
    assert written["during"]["gpu0"]["pcie_width"] == Unknown(nvml.STUCK)
    library.released.set()


def test_an_interrupted_run_keeps_what_was_seen() -> None:
    written = dict[str, Any]()
    with pytest.raises(KeyboardInterrupt), watching(written.__setitem__, GPU0, 1, FakeNvml()):
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
    library = FakeNvml(gpus=tuple(FakeGpu(uuid=f"GPU-{name}") for name in "abc"))
    before = nvml_facts(library, uuid_hashes=[hash_uuid(name) for name in shown])
    assert list(watched(library, before, nothing, num_gpus=num_gpus)) == ["host", *groups]
