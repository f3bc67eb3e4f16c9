"""Watching a run: the link under load, and the counters of each family."""

import threading
from typing import Any

import pytest
from msgspec import convert

from hostbench.core.records import FactGroups
from hostbench.core.units import MIB
from hostbench.facts.record import Facts, Value, from_json, known, unknown
from hostbench.facts.watch import Watch, unwatched
from hostbench.testing import fake_nvml as fake
from hostbench.testing.fake_nvml import FakeGpu, FakeNvml

SLEEPY = FakeGpu(sleeping_link=(1, 16))


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
    return ByHand(kept.write, library, root=tmp_path, **{"environ": {}, **options})


def test_a_link_that_sleeps_is_read_under_load(kept, tmp_path):
    library = FakeNvml(gpus=(SLEEPY,))
    with watching(kept, library, tmp_path) as watch:
        watch.sample()
        library.copy(64 * MIB)
        watch.sample()
        library.rest()
        watch.sample()
    during = {name: fact.value for name, fact in kept.sets["during"]["gpu0"].items()}
    expected = {
        "pcie_generation": 5,
        "pcie_width": 16,
        "temperature_c": 44,
        "sm_clock_mhz": 1755,  # not the idle 345
        "throttle_reasons": "none",
        "num_watch_samples_under_load": 1,
    }
    assert during | expected == during
    assert not library.is_open


def test_an_idle_gpu_has_no_clock_under_load(kept, tmp_path):
    with watching(kept, FakeNvml(gpus=(SLEEPY,)), tmp_path) as watch:
        watch.sample()
    during = kept.sets["during"]["gpu0"]
    assert during["pcie_generation"] == known(1)
    assert during["sm_clock_mhz"].why == "no load was seen while the GPU was watched"


def test_reasons_are_united_and_clocks_are_the_lowest(kept, tmp_path):
    library = FakeNvml(gpus=(FakeGpu(throttle_bits=0x4),))
    with watching(kept, library, tmp_path) as watch:
        watch.sample()
        library.gpus = (FakeGpu(throttle_bits=0x60, clocks_mhz=(300, 3201)),)
        watch.sample()
        library.gpus = (FakeGpu(lost=True),)
        watch.sample()
    during = kept.sets["during"]["gpu0"]
    assert during["throttle_reasons"] == known("power-cap,software-thermal,hardware-thermal")
    assert during["sm_clock_mhz"] == known(300)
    assert during["temperature_c"] == known(31)  # what was read before it was lost


def test_what_cannot_be_read_says_why(kept, tmp_path):
    with watching(kept, fake.vgpu(), tmp_path) as watch:
        watch.sample()
    during = kept.sets["during"]["gpu0"]
    assert during["pcie_generation"] == unknown("not supported by this GPU or VM")
    assert during["temperature_c"] == known(31)


def test_load_by_bytes_where_the_reasons_are_not_told(kept, tmp_path):
    silent = {f"nvmlDeviceGetCurrentClocks{word}Reasons": 3 for word in ("Event", "Throttle")}
    library = FakeNvml(gpus=(FakeGpu(errors=silent, counter_bits=32),))
    library.copied_bytes = (1 << 32) - 100
    with watching(kept, library, tmp_path) as watch:
        watch.sample()
        library.copied_bytes += MIB // 2  # wraps: it moved
        watch.sample()
        watch.sample()
    during = kept.sets["during"]["gpu0"]
    assert during["num_watch_samples_under_load"] == known(1)
    assert during["sm_clock_mhz"] == known(345)


def test_counters_are_summed_per_family(kept, tmp_path):
    library = FakeNvml(gpus=(SLEEPY, FakeGpu(uuid="GPU-b")))
    with watching(kept, library, tmp_path) as watch:
        for _ in range(2):
            watch.family("transfer")
            library.copy(100)
            watch.family("overlap")
            library.copy(7)
    assert kept.order == ["after transfer", "after overlap"] * 2 + ["during"]
    assert kept.value("after transfer", "gpu0_deltas", "pcie_rx_total_bytes") == 200
    assert kept.value("after overlap", "gpu1_deltas", "pcie_rx_total_bytes") == 14
    assert kept.value("after overlap", "gpu0_deltas", "energy_total_mj") == 0
    assert kept.value("after transfer", "host", "num_watched_launches") == 2
    assert kept.value("after transfer", "gpu0", "pcie_generation") == 5  # state of now


def test_a_wrapped_counter_is_unknown_for_its_family_only(kept, tmp_path):
    library = FakeNvml(gpus=(FakeGpu(counter_bits=8),))
    with watching(kept, library, tmp_path) as watch:
        for nbytes in (200, 100, 10):  # the second passes 256
            watch.family("transfer")
            library.copy(nbytes)
        watch.family("overlap")
        library.copy(5)
    wrapped = kept.sets["after transfer"]["gpu0_deltas"]["pcie_rx_total_bytes"]
    assert "wrapped" in (wrapped.why or "")
    assert kept.value("after overlap", "gpu0_deltas", "pcie_rx_total_bytes") == 5


@pytest.mark.parametrize(
    ("library", "options", "why"),
    [
        (fake.library_missing(), {}, "libnvidia-ml.so.1 is missing"),
        (FakeNvml(init_error=fake.LIB_RM_VERSION_MISMATCH), {}, "restart the machine"),
        (FakeNvml(), {"off": unwatched("cpu")}, "a run on cpu uses no GPU"),
        (FakeNvml(), {"environ": {"HOSTBENCH_WATCH": "0"}}, "HOSTBENCH_WATCH=0"),
        (FakeNvml(), {"environ": {"CUDA_VISIBLE_DEVICES": "-1"}}, "hides the GPUs"),
    ],
)
def test_without_nvml_there_is_no_thread_but_a_reason(kept, tmp_path, library, options, why):
    num_threads = threading.active_count()
    with Watch(kept.write, library, root=tmp_path, **{"environ": {}, **options}) as watch:
        assert threading.active_count() == num_threads
        watch.family("transfer")
        watch.sample()
    for when in ("after transfer", "during"):
        assert why in (kept.sets[when]["nvml"]["num_watch_samples"].why or "")
    assert list(kept.sets["during"]) == ["host", "nvml"]
    assert unwatched("cuda") is None


def test_the_thread_reads_and_ends(kept, tmp_path):
    library, seen = FakeNvml(gpus=(SLEEPY,)), threading.Event()

    class Counting(Watch):
        def sample(self) -> None:
            was_busy = library.busy  # before the reading: the copy may begin during it
            super().sample()
            if was_busy:
                seen.set()

    watch = Counting(kept.write, library, interval_s=0.001, root=tmp_path, environ={})
    with watch:
        library.copy(64 * MIB)
        assert seen.wait(60)
    assert not [each for each in threading.enumerate() if each.name == "hostbench-watch"]
    assert kept.value("during", "gpu0", "pcie_generation") == 5
    assert kept.sets["during"]["nvml"]["watch_interval_s"] == known(0.001)


def test_a_failing_thread_ends_no_run(kept, tmp_path):
    class Broken(Watch):
        def sample(self) -> None:
            raise ZeroDivisionError("odd")

    with Broken(kept.write, FakeNvml(), root=tmp_path, environ={}):
        pass
    nvml = kept.sets["during"]["nvml"]
    assert nvml["watch_failure"] == known("ZeroDivisionError: odd")
    assert nvml["watch_sample_s"].value is None


@pytest.mark.parametrize("after_stop", [False, True])
def test_a_call_that_hangs_holds_no_run_up(kept, tmp_path, after_stop):
    """Found between two launches, or at the end."""
    release, asked = threading.Event(), threading.Event()

    class Stuck(Watch):
        def sample(self) -> None:
            asked.set()
            release.wait(60)

    library = FakeNvml(gpus=(SLEEPY,))
    watch = Stuck(kept.write, library, patience_s=0.05, root=tmp_path, environ={})
    with watch:
        assert asked.wait(10)
        if not after_stop:
            threading.Event().wait(0.1)
            watch.family("transfer")
            watch.family("overlap")
    try:
        told = kept.sets["during"]["nvml"]["watch_failure"]
        assert told == known("a call into NVML did not return within 0.05 s")
        assert library.is_open  # closing it would hang too
        assert after_stop or "gpu0" not in kept.sets["after transfer"]  # not asked again
    finally:
        release.set()


def test_a_failure_of_counters_or_of_writing_ends_no_run(kept, tmp_path):
    class Broken(ByHand):
        def _counters(self) -> Facts:
            raise ZeroDivisionError("odd")

    with Broken(kept.write, FakeNvml(), root=tmp_path, environ={}) as watch:
        watch.family("transfer")
        watch.family("overlap")
    assert kept.sets["during"]["nvml"]["watch_failure"] == known("ZeroDivisionError: odd")

    def refuse(when: str, found: Any) -> None:
        raise OSError("no space")

    library = FakeNvml()
    with ByHand(refuse, library, root=tmp_path, environ={}) as watch:
        watch.family("transfer")
        watch.family("overlap")
    assert not library.is_open


def test_an_interrupted_run_keeps_what_was_seen(kept, tmp_path):
    with pytest.raises(KeyboardInterrupt), watching(kept, FakeNvml(), tmp_path) as watch:
        watch.family("transfer")
        raise KeyboardInterrupt
    assert kept.order == ["after transfer", "during"]


def test_only_gpus_that_cuda_shows_are_watched(kept, tmp_path):
    gpus = (FakeGpu(uuid="GPU-a"), FakeGpu(uuid="GPU-b"))
    with watching(kept, FakeNvml(gpus=gpus), tmp_path, environ={"CUDA_VISIBLE_DEVICES": "GPU-b"}):
        pass
    assert list(kept.sets["during"]) == ["host", "nvml", "gpu1"]
