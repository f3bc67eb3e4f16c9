"""What can be known of the cuda device on a machine without a GPU."""

import json
import os
from pathlib import Path

import pytest

from hostbench.core.errors import BrokenError, Unavailable
from hostbench.device import chrome, numa
from hostbench.device.errors import fatal_reason

torch = pytest.importorskip("torch")
cuda = pytest.importorskip("hostbench.device.cuda")


# ---- which errors end a worker ---------------------------------------------------------------


def chained(outer: BaseException, cause: BaseException) -> BaseException:
    outer.__cause__ = cause
    return outer


@pytest.mark.parametrize(
    ("error", "start"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate"), "out of memory"),
        (MemoryError(), "out of memory: MemoryError"),
        (RuntimeError("CUDA error: an illegal memory access\nmore"), "CUDA error"),
        (RuntimeError("CUDNN_STATUS_EXECUTION_FAILED"), "CUDA error"),
        (chained(ValueError("wrapped"), RuntimeError("CUDA error: assert")), "CUDA error"),
        (ValueError("CUDA error in a text that is not torch's"), "None"),
        (Unavailable("this machine has no pinned memory"), "None"),
        (RuntimeError("The size of tensor a (3) must match"), "None"),
    ],
)
def test_errors_that_end_a_worker_have_a_reason(error: BaseException, start: str) -> None:
    reason = str(fatal_reason(error))
    assert reason.startswith(start)
    assert "\n" not in reason


# ---- the device, as far as it goes without CUDA ----------------------------------------------


def test_a_cpu_build_is_refused_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "cuda", None)
    with pytest.raises(BrokenError, match="pip install torch --index-url"):
        cuda.CudaDevice()


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("The NVIDIA driver on your system is too old (found version 11040)", "update the NVIDIA"),
        ("Found no NVIDIA driver on your system. Please", "--gpus all"),
        ("No CUDA GPUs are available", "CUDA_VISIBLE_DEVICES"),
        ("CUDA call failed lazily at initialization\nmore", "initialization; check nvidia-smi"),
    ],
)
def test_a_cuda_that_does_not_start_names_the_remedy(
    monkeypatch: pytest.MonkeyPatch, text: str, remedy: str
) -> None:
    """A `DeferredCudaCallError` is no RuntimeError: a GPU that only NVML counts is one way."""
    lazily = "lazily" in text

    def fail() -> None:
        raise torch.cuda.DeferredCudaCallError(text) if lazily else RuntimeError(text)

    monkeypatch.setattr(torch.version, "cuda", "12.6")
    monkeypatch.setattr(torch.cuda, "init", fail)
    with pytest.raises(BrokenError, match=remedy) as caught:
        cuda.CudaDevice()
    assert "\n" not in str(caught.value)


def test_launches_that_wait_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "cuda", "12.6")
    monkeypatch.setattr(torch.cuda, "init", lambda: pytest.fail("CUDA was started"))
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    with pytest.raises(BrokenError, match=r"CUDA_LAUNCH_BLOCKING is set: .*; unset it"):
        cuda.CudaDevice()


def test_numa_node_and_cpus_are_read_from_sysfs(tmp_path: Path) -> None:
    slot = tmp_path / "0000:18:00.0"
    slot.mkdir()
    (slot / "numa_node").write_text("1\n")
    (slot / "local_cpulist").write_text("0-2,7\n")
    assert numa.local_cpus(slot.name, tmp_path) == {0, 1, 2, 7}
    (slot / "numa_node").write_text("-1\n")
    allowed = os.sched_getaffinity(0)
    assert numa.local_cpus(slot.name, tmp_path) == set()
    assert numa.bind_near(slot.name, tmp_path) == allowed == os.sched_getaffinity(0)


# ---- what the profiler's trace, NVML's counters and the peers say ------------------------------


def test_a_trace_becomes_activities() -> None:
    copy = {"ph": "X", "cat": "gpu_memcpy", "ts": 100.0, "dur": 50.0}
    trace = {
        "traceEvents": [
            {**copy, "name": "Memcpy HtoD (Pinned -> Device)", "args": {"bytes": 4096}},
            {**copy, "name": "Memcpy DtoH (Device -> Pageable)", "args": {"bytes": 16}},
            {**copy, "name": "Memcpy DtoD (Device -> Device)", "args": {"bytes": 1}},
            {**copy, "name": "Memcpy PtoP (Device -> Device)", "args": {"bytes": 2}},
            {"ph": "X", "cat": "kernel", "name": "ampere_sgemm", "ts": 90, "dur": 1.5},
            {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce", "ts": 95, "dur": 1},
            {"ph": "X", "cat": "cpu_op", "name": "aten::copy_", "ts": 1, "dur": 1},
            {"ph": "M", "name": "process_name"},
        ]
    }
    found = list(chrome.activities(chrome.decode(json.dumps(trace).encode()).events))
    assert [(one.what, one.nbytes) for one in found] == [
        ("H2D pinned", 4096),
        ("D2H pageable", 16),
        ("D2D", 1),
        ("P2P", 2),
        ("compute", 0),
        ("collective", 0),
    ]
    assert (found[0].start_s, found[0].end_s) == pytest.approx((1e-4, 1.5e-4))


@pytest.mark.filterwarnings("ignore:CUDA is not available")
def test_a_profiler_that_sees_no_gpu_is_a_reason() -> None:
    kineto = pytest.importorskip("hostbench.device.kineto")
    runs: list[str] = []
    profiler = kineto.Profiler(lambda seconds: None, lambda: None)
    for num_runs in (3, 3):
        with pytest.raises(Unavailable, match="CUPTI is missing or not permitted"):
            profiler.observe(lambda: runs.append("run"), lambda: runs.append("ready"))
        assert runs == ["ready", "run"] * num_runs, "it is remembered"


def test_link_counters_come_from_the_gpu_with_that_uuid() -> None:
    from hostbench.device.link_counters import LinkCounters
    from tests.fakes.fake_nvml import FakeGpu, FakeNvml

    first = FakeGpu(uuid="GPU-aaaa", field_values={197: 1, 198: 2})
    second = FakeGpu(uuid="GPU-bbbb", field_values={197: 30, 198: 40})
    library = FakeNvml(gpus=(first, second))
    assert LinkCounters("bbbb", library).read() == (40, 30)
    first.field_values[138] = 5
    assert LinkCounters("aaaa", library).sent() == 1 + 5 * 1024, "NVLink counts KiB"
    second.field_errors[138] = 3
    assert LinkCounters("bbbb", library).sent() == 30
    with pytest.raises(Unavailable, match="no GPU with this UUID"):
        LinkCounters("cccc", library).read()
    refused = FakeGpu(uuid="GPU-aaaa", field_errors={198: 3})
    with pytest.raises(Unavailable, match=r"fields 197 and 198: not supported"):
        LinkCounters("aaaa", FakeNvml(gpus=(refused,))).read()
