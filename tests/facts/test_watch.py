"""Watching a run: the link under load, and a thread that never ends a run."""

import threading
from typing import Any

import pytest
from msgspec import convert

from hostbench.core.records import FactGroups
from hostbench.core.units import MIB
from hostbench.facts import nvml
from hostbench.facts.gpu import hash_bare, nvml_facts
from hostbench.facts.record import Facts, Group, Value, from_json, known, unknown
from hostbench.facts.watch import Watch
from tests.fakes import fake_nvml
from tests.fakes.fake_nvml import FakeGpu, FakeNvml

SLEEPY = FakeGpu(sleeping_link=(1, 16))
GPU0: Facts = {"gpu0": {"cuda_index": known(0)}}


class Kept:
    """What a journal would have."""

    def __init__(self) -> None:
        self.sets: dict[str, Facts] = {}
        self.order: list[str] = []

    def write(self, when: str, found: Any) -> None:
        convert(found, FactGroups)
        self.order.append(when)
        self.sets[when] = from_json(found)

    def value(self, when: str, group: str, name: str) -> Value:
        return self.sets[when][group][name].value


@pytest.fixture
def kept() -> Kept:
    return Kept()


class ByHand(Watch):
    """Its thread ends at once: the test says when to read."""

    def _run(self) -> None:
        pass


def watching(kept: Kept, library: FakeNvml, tmp_path, **options: Any) -> Watch:
    before = nvml_facts(library)
    return ByHand(kept.write, "cuda", before, library, root=tmp_path, **options)


def test_a_link_that_sleeps_is_read_under_load(kept, tmp_path):
    library = FakeNvml(gpus=(SLEEPY,))
    with watching(kept, library, tmp_path) as watch:
        watch.sample()
        library.copy(64 * MIB)
        watch.sample()
        watch.sample()
        library.loads[0].busy = False
        watch.sample()
    during = {name: fact.value for name, fact in kept.sets["during"]["gpu0"].items()}
    expected = {
        "pcie_generation": 5,
        "pcie_width": 16,
        "temperature_c": 44,
        "sm_clock_mhz": 1755,  # not the idle 345
        "throttle_reasons": "none",
    }
    assert during | expected == during
    assert not library.opened


def test_an_idle_gpu_has_no_clock_under_load(kept, tmp_path):
    with watching(kept, FakeNvml(gpus=(SLEEPY,)), tmp_path) as watch:
        watch.sample()
    during = kept.sets["during"]["gpu0"]
    assert during["pcie_generation"] == known(1)
    assert during["sm_clock_mhz"].why == "no load was seen while the GPU was watched"


def seen_of(kept: Kept, tmp_path, *readings: FakeGpu) -> Group:
    """What readings of a GPU that works all the time add up to."""
    library = FakeNvml()
    with watching(kept, library, tmp_path) as watch:
        for gpu in readings:
            library.gpus = (gpu,)
            watch.sample()
    return kept.sets["during"]["gpu0"]


def works(mhz: int = 1755, bits: int = 0) -> FakeGpu:
    return FakeGpu(throttle_bits=bits, clocks_mhz=(mhz, 3201))


def test_reasons_are_united_and_few_clocks_give_the_lowest(kept, tmp_path):
    during = seen_of(kept, tmp_path, works(), works(1700, 0x4), works(300, 0x60), works(1500))
    assert during["throttle_reasons"] == known("power-cap,software-thermal,hardware-thermal")
    assert during["sm_clock_mhz"] == known(300)


def test_the_ramp_up_is_no_clock_under_load(kept, tmp_path):
    idle, ramp = works(345, 0x1), works(900, 0x8)
    during = seen_of(kept, tmp_path, idle, ramp, works(1755), works(1740), idle, ramp)
    assert during["sm_clock_mhz"] == known(1740)
    assert during["throttle_reasons"] == known("none")


def test_one_slow_reading_of_many_is_neither_the_clock_nor_a_reason(kept, tmp_path):
    one = seen_of(kept, tmp_path, *[works()] * 51, works(600, 0x40))
    assert (one["sm_clock_mhz"], one["throttle_reasons"]) == (known(1755), known("none"))
    two = seen_of(kept, tmp_path, *[works()] * 51, *[works(600, 0x40)] * 2)
    assert two["throttle_reasons"] == known("hardware-thermal")
    tenth = seen_of(kept, tmp_path, *[works()] * 46, *[works(600)] * 5)
    assert tenth["sm_clock_mhz"] == known(600)


def test_load_that_never_lasted_is_the_reason(kept, tmp_path):
    idle = works(345, 0x1)
    during = seen_of(kept, tmp_path, idle, works(), idle, works(), idle)
    why = "no load lasted for two readings of the GPU"
    assert during["sm_clock_mhz"] == during["throttle_reasons"] == unknown(why)
    assert during["pcie_width"] == known(16)


def test_load_by_bytes_where_the_reasons_are_not_told(kept, tmp_path):
    silent = {f"nvmlDeviceGetCurrentClocks{word}Reasons": 3 for word in ("Event", "Throttle")}
    library = FakeNvml(gpus=(FakeGpu(errors=silent, counter_bits=32),))
    library.copy((1 << 32) - 100)
    library.loads[0].busy = False
    with watching(kept, library, tmp_path) as watch:
        watch.sample()
        watch.sample()
    assert kept.sets["during"]["gpu0"]["sm_clock_mhz"].value is None
    with watching(kept, library, tmp_path) as watch:
        watch.sample()
        library.loads[0].into += MIB // 2  # wraps: it moved
        watch.sample()
        library.loads[0].into += MIB
        watch.sample()
    assert kept.sets["during"]["gpu0"]["sm_clock_mhz"] == known(345)


def test_without_nvml_there_is_no_thread_but_a_reason(kept, tmp_path):
    num_threads = threading.active_count()
    with Watch(kept.write, "cuda", GPU0, fake_nvml.machine("library_missing"), root=tmp_path):
        assert threading.active_count() == num_threads
    assert "libnvidia-ml.so.1 is missing" in (kept.sets["during"]["gpu0"]["pcie_width"].why or "")


def test_the_thread_reads_and_ends(kept, tmp_path):
    library, seen = FakeNvml(gpus=(SLEEPY,)), threading.Event()

    class Counting(Watch):
        def sample(self) -> None:
            was_busy = library.loads[0].busy  # before the reading: the copy may begin during it
            super().sample()
            if was_busy:
                seen.set()

    watch = Counting(
        kept.write, "cuda", nvml_facts(library), library, interval_s=0.001, root=tmp_path
    )
    with watch:
        library.copy(64 * MIB)
        assert seen.wait(60)
    assert not [each for each in threading.enumerate() if each.name == "hostbench-watch"]
    assert kept.value("during", "gpu0", "pcie_generation") == 5


def test_a_failing_thread_ends_no_run(kept, tmp_path):
    class Broken(Watch):
        def sample(self) -> None:
            raise ZeroDivisionError("odd")

    with Broken(kept.write, "cuda", GPU0, FakeNvml(), root=tmp_path):
        pass
    assert kept.sets["during"]["gpu0"]["temperature_c"].why == "ZeroDivisionError: odd"


def test_a_call_that_hangs_holds_no_run_up(kept, tmp_path, monkeypatch):
    monkeypatch.setattr(nvml, "PATIENCE_S", 0.05)
    library = FakeNvml(gpus=(SLEEPY,), hangs="nvmlDeviceGetTemperatureV")
    with Watch(kept.write, "cuda", GPU0, library, root=tmp_path):
        assert library.hung.wait(60)
    assert kept.sets["during"]["gpu0"]["pcie_width"] == unknown(nvml.STUCK)
    assert library.opened  # closing it would hang too
    library.released.set()


def test_an_interrupted_run_keeps_what_was_seen(kept, tmp_path):
    with pytest.raises(KeyboardInterrupt), watching(kept, FakeNvml(), tmp_path):
        raise KeyboardInterrupt
    assert kept.order == ["during"]


def test_only_gpus_that_cuda_shows_are_watched(kept, tmp_path):
    library = FakeNvml(gpus=(FakeGpu(uuid="GPU-a"), FakeGpu(uuid="GPU-b")))
    before = nvml_facts(library, uuid_hashes=[hash_bare("b")])
    with ByHand(kept.write, "cuda", before, library, root=tmp_path):
        pass
    assert list(kept.sets["during"]) == ["host", "gpu1"]
    with watching(kept, library, tmp_path):  # nobody told which
        pass
    assert list(kept.sets["during"]) == ["host", "gpu0", "gpu1"]
