"""The verdict on a GPU's link: one for each thing that can be wrong, with its remedy."""

from pathlib import Path

import pytest

from hostbench.facts import nvml
from hostbench.facts.gpu import nvml_facts
from hostbench.facts.record import Facts
from hostbench.limits.verdict import link_verdicts
from tests.fakes.fake_nvml import GPU_IS_LOST, FakeGpu, FakeNvml


def facts(*gpus: FakeGpu) -> Facts:
    return nvml_facts(FakeNvml(gpus=gpus))


def verdicts(gpu: FakeGpu, during: FakeGpu | None = None) -> dict[str, str]:
    loaded = facts(during) if during else None
    return {one.kind: one.text for one in link_verdicts(facts(gpu), loaded)}


@pytest.mark.parametrize(
    ("gpu", "during", "kinds"),
    [
        (FakeGpu(), None, ["fine"]),
        (FakeGpu(link=(1, 16)), None, ["fine"]),
        (FakeGpu(link=(1, 16)), FakeGpu(), ["fine"]),
        (FakeGpu(link=(1, 16)), FakeGpu(link=(3, 16)), ["slow"]),
        (FakeGpu(link=(5, 8)), None, ["narrow"]),
        (FakeGpu(link=(4, 16), max_link=(4, 16)), None, ["slot"]),
        (FakeGpu(link=(4, 8), max_link=(4, 16)), None, ["narrow", "slot"]),
        (FakeGpu(throttle_bits=0x40), None, ["throttled"]),
        (FakeGpu(throttle_bits=0x40), FakeGpu(), ["fine"]),
        (FakeGpu(broken=GPU_IS_LOST), None, []),
    ],
)
def test_kinds(gpu: FakeGpu, during: FakeGpu | None, kinds: list[str]) -> None:
    assert list(verdicts(gpu, during)) == kinds


@pytest.mark.parametrize(
    ("width", "kind", "text"),
    [
        ("16", "slot", "gpu0: the slot or a switch limits PCIe to x8 of x16"),
        ("8", "fine", "gpu0: link negotiated in full: PCIe Gen5 x8, at most 28.8 GB/s each way"),
        (
            *("", "fine"),
            "gpu0: link negotiated in full, as far as can be read: PCIe Gen5 x8, at most 28.8 GB/s "
            "each way",
        ),
    ],
)
def test_a_slot_that_is_narrower_than_the_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, width: str, kind: str, text: str
) -> None:
    """NVML's maximum is x8 then too: only sysfs tells what the GPU itself can do."""
    monkeypatch.setattr(nvml, "PCI_DEVICES", tmp_path)
    (tmp_path / "0000:18:00.0").mkdir()
    (tmp_path / "0000:18:00.0/max_link_width").write_text(f"{width}\n")
    (one,) = link_verdicts(facts(FakeGpu(link=(5, 8), max_link=(5, 8))))
    assert (one.kind, one.text) == (kind, text)


def test_c2c_and_a_link_that_nvml_refuses() -> None:
    about: Facts = {"gpu0": {"name": "NVIDIA GH200", "c2c_enabled": "on"}}
    assert [one.kind for one in link_verdicts(about)] == ["unknown"]
    about["gpu0"]["c2c_max_mb_per_s"] = 450_000
    (one,) = link_verdicts(about)
    text = "gpu0: link negotiated in full: NVLink-C2C, at most 450 GB/s each way"
    assert (one.kind, one.text) == ("fine", text)
    (silent,) = link_verdicts({"gpu0": {"name": "NVIDIA X"}})
    assert (silent.kind, silent.text) == ("unknown", "gpu0: the link's speed is not known")
    assert silent.remedy
    assert not link_verdicts({"gpu0": {"name": "Simulated GPU"}, "simulation": {}})
