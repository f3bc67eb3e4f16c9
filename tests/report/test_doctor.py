"""The doctor: what looks wrong, what runs, and the exit code. No hardware is asked."""

import json
import sys

import pytest
from msgspec.structs import replace

from hostbench.cli import doctor as command
from hostbench.facts.gpu import Hardware, nvml_facts
from hostbench.facts.record import Facts, known, unknown
from hostbench.facts.torch_probe import TorchState
from hostbench.families import load
from hostbench.report.doctor import blocks as made
from hostbench.report.doctor import coverage, findings
from hostbench.report.write import text as in_text
from tests.fakes import fake_nvml
from tests.fakes.fake_nvml import GPU_IS_LOST, FakeGpu, FakeNvml

NO_GPU = Hardware(num_gpus=0, why="no NVIDIA GPU on the PCI bus, and no NVIDIA driver")
H200 = Hardware(num_gpus=1, seen_by="nvml", names=("NVIDIA H200",))
CPU_TORCH = TorchState(
    installed=True, importable=True, version="2.13.0+cpu", error="not compiled with CUDA enabled"
)
CUDA_TORCH = TorchState(
    installed=True,
    importable=True,
    version="2.13.0",
    cuda_runtime="13.0",
    nccl="2.29.7",
    cuda_works=True,
)


def facts_of(library: FakeNvml | None = None, **host: str | float | bool) -> Facts:
    base: dict[str, str | float | bool] = {
        "cpu_model": "AMD EPYC",
        "num_usable_cores": 2,
        "num_logical_cores": 2,
        "load_average_1min": 0.1,
        "memory_bytes": 1 << 34,
        "cpu_governor": "performance",
    }
    facts: Facts = {
        "host": {name: known(value) for name, value in {**base, **host}.items()},
        "software": {"asv": known("0.6.6")},
    }
    return facts | nvml_facts(library or fake_nvml.machine("library_missing"))


def diagnose(gpu: FakeGpu | None = None, torch: TorchState = CUDA_TORCH, **host):
    library = FakeNvml(gpus=(gpu,)) if gpu else None
    return findings(facts_of(library, **host), H200 if gpu else NO_GPU, torch)


def levels(found, text: str) -> list[str]:
    return [each.level for each in found if text in each.text]


def test_a_machine_without_a_gpu_is_fine():
    found = diagnose(torch=CPU_TORCH)
    assert [each.level for each in found] == ["note", "ok"]
    assert all(each.level != "broken" for each in found)


def test_a_healthy_gpu_is_fine():
    found = diagnose(FakeGpu())
    assert [(each.level, each.text) for each in found] == [
        ("ok", "gpu0: link negotiated in full: PCIe Gen5 x16, at most 57.6 GB/s each way"),
        ("ok", "nothing looks wrong"),
    ]


@pytest.mark.parametrize(
    ("gpu", "level", "text"),
    [
        (FakeGpu(link=(5, 8)), "warn", "link is x8 of x16"),
        (FakeGpu(link=(4, 16), max_link=(4, 16)), "warn", "limits PCIe to generation 4 of 5"),
        (FakeGpu(throttle_bits=0x41), "warn", "throttled now (hardware-thermal)"),
        (FakeGpu(mig=True), "note", "MIG is on"),
        (FakeGpu(broken=GPU_IS_LOST), "broken", "gpu0 does not answer"),
        (fake_nvml.machine("vgpu").gpus[0], "note", "a virtual GPU; link and counters"),
    ],
)
def test_gpu_findings(gpu, level, text):
    assert levels(diagnose(gpu), text) == [level]


def test_a_gpu_that_works_and_does_not_answer_nvml_is_a_warning():
    silent = fake_nvml.machine("no_permission").gpus[0]
    found = diagnose(silent, replace(CUDA_TORCH, devices=("NVIDIA H200",)))
    assert levels(found, "gpu0 does not answer NVML, though CUDA works") == ["warn"]


@pytest.mark.parametrize(
    ("host", "level", "text"),
    [
        ({"cpu_governor": "performance,powersave"}, "warn", "governor"),
        ({"virtualized": True}, "note", "a virtual machine"),
    ],
)
def test_host_findings(host, level, text):
    found = diagnose(**host)
    assert levels(found, text) == [level]
    assert all(each.level != "broken" for each in found)


def test_driver_findings():
    confidential = findings(facts_of(FakeNvml(confidential=True)), H200, CUDA_TORCH)
    assert levels(confidential, "confidential computing is on") == ["warn"]
    old = findings(facts_of(fake_nvml.machine("old_driver")), H200, CUDA_TORCH)
    assert levels(old, "the driver supports CUDA 11.4, torch was built for 13.0") == ["warn"]
    silent = findings(facts_of(), H200, CUDA_TORCH)
    assert levels(silent, "no NVML") == ["warn"]
    assert "libnvidia-ml" in silent[0].remedy


@pytest.mark.parametrize(
    ("torch", "hardware", "level", "text"),
    [
        (TorchState(installed=False, importable=False), NO_GPU, "broken", "not installed"),
        (
            TorchState(installed=True, importable=False, error="undefined symbol"),
            NO_GPU,
            "broken",
            "torch fails: undefined symbol",
        ),
        (
            TorchState(installed=True, importable=True, version="2.5.1+cpu"),
            NO_GPU,
            "warn",
            "torch 2.5.1+cpu is older than 2.6",
        ),
        (CPU_TORCH, H200, "broken", "torch.cuda does not work: not compiled"),
    ],
)
def test_torch_findings(torch, hardware, level, text):
    assert levels(findings(facts_of(), hardware, torch), text) == [level]


def test_the_remedy_fits_the_cause():
    def remedy(hardware: Hardware, torch: TorchState) -> str:
        return findings(facts_of(), hardware, torch)[0].remedy

    failing = TorchState(installed=True, importable=True, cuda_runtime="13.0", error="no driver")
    assert "CUDA build" in remedy(H200, CPU_TORCH)
    assert "--gpus all" in remedy(Hardware(num_gpus=1, seen_by="pci"), failing)
    assert "supports CUDA 13.0" in remedy(H200, failing)
    assert "CUDA_VISIBLE_DEVICES=''" in remedy(H200, failing)


def test_tool_findings():
    facts = facts_of()
    facts["software"]["asv"] = known("0.7.0")
    assert levels(findings(facts, NO_GPU, CPU_TORCH), "asv is 0.7.0") == ["warn"]
    facts["software"]["asv"] = unknown("not installed")
    found = findings(facts, NO_GPU, CPU_TORCH, has_git=False)
    assert levels(found, "asv is not installed") == levels(found, "git is missing") == ["warn"]


def test_coverage_counts_every_case_once():
    works = load().values()
    total = sum(len(list(work.cases())) for work in works)
    reasons = {
        (NO_GPU, CPU_TORCH): {
            "needs an NVIDIA GPU, none is visible",
            "the cpu device has no pinned memory; it needs a GPU",
            "the cpu device has no peer; it needs 2 GPUs",
            "the cpu device's allocators have no caches: cold and warm are one case",
            "the cpu device has no memory of its own: it works in host memory",
            "the cpu device's memory is the C library's: torch packs no segments there",
            "the cpu device launches no kernels: it has no graphs of them",
            "each wait of the cpu device lets the host sleep: there is no other",
            "torch has no streams on cpu: nothing is gathered ahead; it needs a GPU",
            "torch has symmetric memory on GPUs alone; it needs a GPU",
        },
        (H200, CUDA_TORCH): {
            "measured only with --device cpu, as there is a GPU",
            "needs 2 GPUs, this machine has 1",
            "needs 4 GPUs, this machine has 1",
            "needs 8 GPUs, this machine has 1",
        },
        (H200, replace(CUDA_TORCH, nccl=None)): {
            "measured only with --device cpu, as there is a GPU",
            "needs 2 GPUs, this machine has 1",
            "this torch is built without nccl",
        },
        (H200, CPU_TORCH): {
            "torch.cuda does not work",
            "measured only with --device cpu, as there is a GPU",
        },
        (NO_GPU, TorchState(installed=False, importable=False)): {
            "needs torch, which cannot be imported"
        },
    }
    for (hardware, torch), expected in reasons.items():
        runs, skipped = coverage(works, hardware, torch)
        assert set(skipped) == expected
        assert runs.total() + skipped.total() == total


def render(*about) -> str:
    return in_text(made(*about))


def test_the_page_says_it_in_words():
    facts = facts_of(FakeNvml(gpus=(FakeGpu(link=(5, 8)),)))
    found = findings(facts, H200, CUDA_TORCH)
    page = render(
        "1x-nvidia-h200", facts, CUDA_TORCH, found, *coverage(load().values(), H200, CUDA_TORCH)
    )
    for text in (
        "machine  1x-nvidia-h200",
        "AMD EPYC, 2 usable cores, 16GiB memory",
        "GPU0     NVIDIA H200, 140.4GiB, PCIe 5 x16",
        "2.13.0, built for CUDA 13.0",
        "transfer.host_to_device",
        "Skipped:",
        "warn   gpu0: the PCIe link is x8 of x16",
        "    reseat the card",
    ):
        assert text in page


def test_the_page_of_a_machine_that_tells_nothing():
    torch = TorchState(installed=False, importable=False, error="No module named 'torch'")
    facts: Facts = {}
    page = render("x", facts, torch, findings(facts, NO_GPU, torch), *coverage([], NO_GPU, torch))
    assert "unknown CPU, cores unknown, memory unknown" in page
    assert "Will run: 0 cases" in page
    assert "\nbroken " in page


@pytest.fixture
def stage(monkeypatch):
    def set_up(torch: TorchState, hardware: Hardware, facts: Facts) -> None:
        monkeypatch.setattr(command, "probe_torch", lambda: torch)
        monkeypatch.setattr(command, "collect", lambda torch_state: facts)
        monkeypatch.setattr(command, "nvidia_hardware", lambda: hardware)
        monkeypatch.delenv("HOSTBENCH_MACHINE", raising=False)

    return set_up


def test_the_command_exits_0_without_a_gpu(stage, capsys):
    stage(CPU_TORCH, NO_GPU, facts_of())
    assert command.execute() == 0
    assert "machine  cpu-epyc-2c" in capsys.readouterr().out


def test_the_command_exits_4_when_something_is_broken(stage, capsys):
    stage(CPU_TORCH, H200, facts_of(FakeNvml()))
    assert command.execute(format="json") == 4
    page = json.loads(capsys.readouterr().out)
    assert page["findings"][0]["level"] == "broken"
    assert [(link["group"], link["kind"]) for link in page["links"]] == [("gpu0", "fine")]
    assert page["facts"]["gpu0"]["name"] == "NVIDIA H200"


def test_what_reads_results_and_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "deltalake", None)
    assert levels(diagnose(), "deltalake is missing: what is stored cannot be read") == ["broken"]
