"""The doctor: what looks wrong, what runs, and the exit code. No hardware is asked."""

import json
import sys
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from hostbench.cli import doctor as command
from hostbench.device.base import lacking
from hostbench.facts.gpu import Hardware, nvml_facts
from hostbench.facts.record import Fact, Facts, Unknown
from hostbench.facts.software import TorchState
from hostbench.families import load
from hostbench.report.doctor import Diagnosis, coverage, findings
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
        "host": {name: value for name, value in {**base, **host}.items()},
        "software": {"asv": "0.6.6"},
    }
    return facts | nvml_facts(library or fake_nvml.machine("library_missing"))


def diagnose(
    gpu: FakeGpu | None = None, torch: TorchState = CUDA_TORCH, **host: Any
) -> list[Diagnosis]:
    library = FakeNvml(gpus=(gpu,)) if gpu else None
    return findings(facts_of(library, **host), H200 if gpu else NO_GPU, torch)


def levels(diagnoses: list[Diagnosis], text: str) -> list[str]:
    return [own.level for own in diagnoses if text in own.text]


def tools(asv: Fact, **more: bool) -> list[Diagnosis]:
    return findings({**facts_of(), "software": {"asv": asv}}, NO_GPU, CPU_TORCH, **more)


def on(library: FakeNvml | None, torch: TorchState = CUDA_TORCH) -> list[Diagnosis]:
    return findings(facts_of(library), H200, torch)


def test_a_healthy_machine_is_fine_with_a_gpu_or_without() -> None:
    assert [own.level for own in diagnose(torch=CPU_TORCH)] == ["note", "ok"]
    assert [(own.level, own.text) for own in diagnose(FakeGpu())] == [
        ("ok", "gpu0: link negotiated in full: PCIe Gen5 x16, at most 57.6 GB/s each way"),
        ("ok", "the machine looks fine"),
    ]


LACKING = TorchState(installed=False, importable=False)
WRONG = TorchState(installed=True, importable=False, error="undefined symbol")
OLD = TorchState(installed=True, importable=True, version="2.5.1+cpu")
SILENT = fake_nvml.machine("no_permission").gpus[0]


@pytest.mark.parametrize(
    ("diagnoses", "level", "text"),
    [
        (diagnose(FakeGpu(throttle_bits=0x41)), "warn", "throttled now (hardware-thermal)"),
        (diagnose(FakeGpu(mig=True)), "note", "MIG is on"),
        (diagnose(FakeGpu(broken=GPU_IS_LOST)), "broken", "gpu0 does not answer"),
        (diagnose(fake_nvml.machine("vgpu").gpus[0]), "note", "the link's speed is not known"),
        (
            diagnose(SILENT, replace(CUDA_TORCH, devices=("NVIDIA H200",))),
            *("warn", "gpu0 does not answer NVML, though CUDA works"),
        ),
        (diagnose(cpu_governor="performance,powersave"), "warn", "governor"),
        (diagnose(virtualized=True), "note", "a virtual machine"),
        (on(FakeNvml(confidential=True)), "warn", "confidential computing is on"),
        (
            on(fake_nvml.machine("old_driver")),
            *("warn", "the driver supports CUDA 11.4, torch was built for 13.0"),
        ),
        (on(None), "warn", "no NVML"),
        (on(None, CPU_TORCH), "broken", "torch.cuda does not work: not compiled"),
        (diagnose(torch=LACKING), "broken", "not installed"),
        (diagnose(torch=WRONG), "broken", "torch fails: undefined symbol"),
        (diagnose(torch=OLD), "warn", "torch 2.5.1+cpu is older than 2.6"),
        (tools("0.7.0"), "warn", "asv is 0.7.0"),
        (tools(Unknown("not installed")), "warn", "asv is not installed"),
        (tools("0.6.6", has_git=False), "warn", "git is missing"),
    ],
)
def test_what_looks_wrong_is_named(diagnoses: list[Diagnosis], level: str, text: str) -> None:
    assert levels(diagnoses, text) == [level]


def test_the_remedy_fits_the_cause() -> None:
    def remedy(hardware: Hardware, torch: TorchState) -> str:
        return findings(facts_of(), hardware, torch)[0].remedy

    failing = TorchState(installed=True, importable=True, cuda_runtime="13.0", error="no driver")
    assert "CUDA build" in remedy(H200, CPU_TORCH)
    assert "--gpus all" in remedy(Hardware(num_gpus=1, seen_by="pci"), failing)
    assert "supports CUDA 13.0" in remedy(H200, failing)
    assert "CUDA_VISIBLE_DEVICES=''" in remedy(H200, failing)
    assert "libnvidia-ml" in on(None)[0].remedy


def test_coverage_counts_every_case_once() -> None:
    works = load().values()
    total = sum(len(list(work.cases())) for work in works)
    eight, one = Hardware(num_gpus=8), replace(CUDA_TORCH, devices=("H200",))  # others are hidden
    needed = {need for work in works for case in work.cases() for need in work.options(case).needs}
    reasons = {
        (NO_GPU, CPU_TORCH): {
            "needs an NVIDIA GPU, none is visible",
            *(reason for need, reason in lacking("cpu", 1).items() if need in needed),
        },
        (eight, one): {
            "measured only with --device cpu, as there is a GPU",
            *(f"needs {num} GPUs, this machine has 1" for num in (2, 4, 8)),
        },
        (H200, replace(one, nccl=None)): {
            "measured only with --device cpu, as there is a GPU",
            *(f"needs {num} GPUs, this machine has 1" for num in (2, 4, 8)),
            "this torch is built without nccl",
        },
        (H200, CPU_TORCH): {
            "torch.cuda does not work",
            "measured only with --device cpu, as there is a GPU",
        },
        (NO_GPU, LACKING): {"needs torch, which cannot be imported"},
    }
    for (hardware, torch), expected in reasons.items():
        runs, skipped = coverage(works, hardware, torch)
        assert set(skipped) == expected
        assert runs.total() + skipped.total() == total


Doctor = Callable[..., tuple[int, str]]


@pytest.fixture
def doctor(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Doctor:
    """Exit code and page of the command."""

    def run(
        torch: TorchState, hardware: Hardware, facts: Facts, form: str = "text"
    ) -> tuple[int, str]:
        monkeypatch.setattr(command, "probe_torch", lambda: torch)
        monkeypatch.setattr(command, "collect", lambda torch_state: facts)
        monkeypatch.setattr(command, "nvidia_hardware", lambda: hardware)
        monkeypatch.delenv("HOSTBENCH_MACHINE", raising=False)
        return command.execute(format=form), capsys.readouterr().out

    return run


def test_the_page_says_it_in_words(doctor: Doctor) -> None:
    narrow = FakeNvml(gpus=(FakeGpu(link=(5, 8)),))
    code, page = doctor(CUDA_TORCH, H200, facts_of(narrow))
    assert code == 0
    for text in (
        "machine  1x-nvidia-h200",
        "AMD EPYC, usable cores: 2, memory: 16GiB",
        "GPU0     NVIDIA H200, memory: 140GiB, PCIe: 5 x16",
        "2.13.0, built for CUDA 13.0",
        "; skipped: ",
        "warn   gpu0: the PCIe link is x8 of x16",
        "    reseat the card",
    ):
        assert text in page
    code, page = doctor(CPU_TORCH, NO_GPU, facts_of())
    assert code == 0 and "machine  cpu-epyc-2c" in page


def test_what_is_broken_has_exit_code_4_also_where_nothing_is_known(doctor: Doctor) -> None:
    code, page = doctor(LACKING, NO_GPU, {})
    assert code == 4 and "\nbroken " in page
    assert "CPU      unknown, usable cores: unknown, memory: unknown" in page
    assert "Will run: 0 cases" in page
    code, page = doctor(CPU_TORCH, H200, facts_of(FakeNvml()), "json")
    shown = json.loads(page)
    assert code == 4 and shown["findings"][0]["level"] == "broken"
    assert [(link["group"], link["kind"]) for link in shown["links"]] == [("gpu0", "fine")]
    assert shown["facts"]["gpu0"]["name"] == "NVIDIA H200"


def test_what_reads_results_and_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "deltalake", None)
    assert levels(diagnose(), "deltalake is missing: what is stored cannot be read") == ["broken"]
