"""`Is my link fine?`: the measured rate against both ceilings and what others published."""

from pathlib import Path
from typing import Any

import pytest

from hostbench.core.case import Case
from hostbench.core.records import CaseRecord
from hostbench.report.answer import answers
from hostbench.report.link import QUESTION
from hostbench.store import archive, frame
from hostbench.testing.builders import FACTS, copy_case, record, run, skipped

NBYTES = 1 << 28
GPU = {
    "name": "NVIDIA H200",
    "pcie_generation": 1,
    "pcie_width": 16,
    "pcie_max_generation": 5,
    "pcie_max_width": 16,
    "pcie_gpu_max_generation": 5,
}
BUSY = {"gpu0": {"pcie_generation": 5, "pcie_width": 16, "throttle_reasons": "none"}}


def copies(
    rates: dict[str, float], device: str = "cuda", memory: str = "pinned"
) -> list[CaseRecord]:
    """One blocking copy of 256 MiB for each workload, at so many GB/s."""
    return [
        record(made(name, device, memory), 0, NBYTES / (rate * 1e9)) for name, rate in rates.items()
    ]


def made(name: str, device: str, memory: str) -> Case:
    return copy_case(f"transfer.{name}", device=device, nbytes=NBYTES, memory=memory)


def told(
    folder: Path, records: list[CaseRecord], facts: dict[str, Any], during: Any = None, **more: Any
) -> str:
    part = run(records, launches=1, facts=facts, **more)
    if during:
        assert isinstance(part.facts, dict)
        part.facts["during"] = during
    archive.write(folder, part)
    texts = {one.question: one.text for one in answers(frame.read(folder).frame)}
    return texts[QUESTION]


def gpu_told(folder: Path, h2d: float, d2h: float, during: Any = BUSY, **changes: Any) -> str:
    records = copies({"host_to_device": h2d, "device_to_host": d2h})
    return told(folder, records, {**FACTS, "gpu0": {**GPU, **changes}}, during)


def test_a_healthy_h200(tmp_path: Path) -> None:
    source = "https://github.com/stas00/ml-engineering network/README.md"
    assert gpu_told(tmp_path, 55.4, 55.1) == (
        "yes: host to device 55.4 GB/s (256 MiB) is 96% of the 57.6 GB/s that the link can carry "
        "(PCIe Gen5 x16, 256-byte packets) and 88% of the encoded 63 GB/s, published: 55.43 GB/s "
        f"for H200 ({source}); device to host 55.1 GB/s (256 MiB) is 96% of the 57.6 GB/s that "
        "the link can carry (PCIe Gen5 x16, 256-byte packets) and 87% of the encoded 63 GB/s, "
        f"published: 55.06 GB/s for H200 ({source})"
    )


def test_one_slow_direction_is_a_no(tmp_path: Path) -> None:
    said = gpu_told(tmp_path, 55.4, 30)
    assert said.startswith("no: ")
    assert "device to host 30 GB/s (256 MiB) is 52% of the 57.6 GB/s" in said
    assert said.endswith("Nothing in the facts says why: look at NUMA placement and other traffic")


def test_a_narrow_link_is_a_no_though_it_gives_what_it_can(tmp_path: Path) -> None:
    busy = {"gpu0": {"pcie_generation": 5, "pcie_width": 8}}
    said = gpu_told(tmp_path, 27.7, 27.7, busy)
    assert said.startswith("no: host to device 27.7 GB/s (256 MiB) is 96% of the 28.8 GB/s that ")
    assert said.endswith("What looks wrong: gpu0: the PCIe link is x8 of x16")


def test_a_narrow_slot_is_a_no_though_nvml_calls_it_the_maximum(tmp_path: Path) -> None:
    busy = {"gpu0": {"pcie_generation": 5, "pcie_width": 8}}
    said = gpu_told(tmp_path / "a", 27.5, 27.5, busy, pcie_max_width=8)
    assert said.startswith("no: ") and "Nothing in the facts says why" in said
    said = gpu_told(tmp_path / "b", 27.5, 27.5, busy, pcie_max_width=8, pci_device_max_width=16)
    assert said.startswith("no: ")
    assert said.endswith("gpu0: the slot or a switch limits PCIe to x8 of x16")


@pytest.mark.parametrize(
    ("rate", "lead"), [(8.6, "no: "), (9.5, "no: "), (12.9, "no: "), (13.0, "yes: ")]
)
def test_a_floor_proves_no_health(tmp_path: Path, rate: float, lead: str) -> None:
    """A V100's is 9 to 10 GB/s, and its link carries 14.4."""
    records = copies({"host_to_device": rate, "device_to_host": 13.1})
    gpu = {**GPU, "name": "Tesla V100", "pcie_max_generation": 3, "pcie_gpu_max_generation": 3}
    said = told(tmp_path, records, {**FACTS, "gpu0": gpu})
    assert said.startswith(lead) and "published: a floor of 9 to 10 GB/s" in said


@pytest.mark.parametrize(("rate", "lead"), [(299, "no: "), (400, "cannot be judged: ")])
def test_a_floor_without_a_packet_model_only_refutes(
    tmp_path: Path, rate: float, lead: str
) -> None:
    tmp_path.joinpath("published.toml").write_text(
        '[[figure]]\nhardware = "X1"\nwords = ["x1"]\nlink = "C2C"\ndirection = "host_to_device"\n'
        'low_gb_per_s = 300\nhigh_gb_per_s = 300\nkind = "floor"\nsource = "our lab"\n'
    )
    c2c = {"c2c_enabled": True, "c2c_max_mb_per_s": 450_000, "name": "NVIDIA X1"}
    records = copies({"host_to_device": rate})
    assert told(tmp_path, records, {**FACTS, "gpu0": c2c}).startswith(lead)


def test_throttling_is_told_and_is_no_fault_of_the_link(tmp_path: Path) -> None:
    busy = {"gpu0": {**BUSY["gpu0"], "throttle_reasons": "power-cap"}}
    said = gpu_told(tmp_path, 55.4, 55.1, busy)
    assert said.startswith("yes: ")
    assert said.endswith("What looks wrong: gpu0: throttled while copies ran (power-cap)")


def test_nobody_looked_under_load(tmp_path: Path) -> None:
    said = gpu_told(tmp_path, 55.4, 55.1, None)
    assert "(PCIe Gen5 x16, 256-byte packets (its maximum: not read under load))" in said


def test_an_unknown_gpu_is_held_against_its_link_alone(tmp_path: Path) -> None:
    said = gpu_told(tmp_path, 55.4, 55.1, name="NVIDIA X1")
    assert said.startswith("yes: ") and "published" not in said


def test_c2c_is_judged_by_what_is_published_only(tmp_path: Path) -> None:
    c2c = {"c2c_enabled": True, "c2c_max_mb_per_s": 450_000}
    said = gpu_told(tmp_path / "a", 350, 297, name="NVIDIA GH200 480GB", **c2c)
    assert said.startswith("yes: host to device 350 GB/s (256 MiB) is 78% of the 450 GB/s that the")
    assert "(NVLink-C2C)" in said
    said = gpu_told(tmp_path / "b", 350, 200, name="NVIDIA GH200 480GB", **c2c)
    assert said.startswith("no: ")
    said = gpu_told(tmp_path / "c", 350, 297, name="NVIDIA X1", **c2c)
    assert said.startswith("cannot be judged: ")


def test_a_link_that_cannot_be_read(tmp_path: Path) -> None:
    hidden = {name: {"value": None, "why": "a vGPU does not tell"} for name in GPU}
    facts = {**FACTS, "gpu0": {**hidden, "name": "NVIDIA X1", "virtualization": "vgpu"}}
    said = told(tmp_path, copies({"host_to_device": 20}), facts)
    assert said == (
        "cannot be judged: host to device 20 GB/s (256 MiB), its ceiling is unknown (the link "
        "cannot be read: a vGPU does not tell); device to host: cannot be seen here: this run did "
        "not measure it"
    )


def test_the_cpu_device_has_no_link(tmp_path: Path) -> None:
    rates = {"memory_copy_bytes_per_s": 10e9, "memory_copy_all_cores_bytes_per_s": 16e9}
    records = copies({"host_to_device": 8, "device_to_host": 9}, "cpu", "pageable")
    records.append(skipped(made("host_to_device", "cpu", "pinned")))
    assert told(tmp_path / "a", records, {**FACTS, "host": rates}) == (
        "there is no link here; the limit is host memory copy, measured on 1 thread (all cores: "
        "16 GB/s): 10 GB/s. Copies of 256 MiB: host to device 8 GB/s, 80% of it; device to host "
        "9 GB/s, 90% of it [cpu device, no GPU]"
    )
    assert told(tmp_path / "b", records, FACTS) == (
        "there is no link here; the host's memory copy was not measured. Copies of 256 MiB: host "
        "to device 8 GB/s; device to host 9 GB/s [cpu device, no GPU]"
    )


def test_the_simulated_device_says_so(tmp_path: Path) -> None:
    records = copies({"host_to_device": 49, "device_to_host": 50}, "cpu")
    said = told(tmp_path, records, FACTS, device="simulated")
    assert said == (
        "yes: host to device 49 GB/s (256 MiB) is 98% of the 50 GB/s that the link can carry (the "
        "simulated link); device to host 50 GB/s (256 MiB) is 100% of the 50 GB/s that the link "
        "can carry (the simulated link) [simulated]"
    )


def test_nothing_pinned_was_measured(tmp_path: Path) -> None:
    records = [skipped(made("host_to_device", "cuda", "pinned"), "out of pages")]
    assert told(tmp_path, records, FACTS) == "cannot be seen here: out of pages"


@pytest.mark.parametrize(
    ("rate", "lead"), [(55.4, "only host to device could be judged, and is fine: "), (30, "no: ")]
)
def test_a_direction_that_failed_is_named(tmp_path: Path, rate: float, lead: str) -> None:
    lost = record(made("device_to_host", "cuda", "pinned"), 0, status="failed", reason="it broke")
    records = [*copies({"host_to_device": rate}), lost]
    said = told(tmp_path, records, {**FACTS, "gpu0": GPU}, BUSY)
    assert said.startswith(lead) and "; device to host: failed: it broke" in said


def test_the_users_own_figures_count(tmp_path: Path) -> None:
    tmp_path.joinpath("published.toml").write_text(
        '[[figure]]\nhardware = "X1"\nwords = ["x1"]\nlink = "C2C"\ndirection = "host_to_device"\n'
        'low_gb_per_s = 300\nhigh_gb_per_s = 320\nkind = "measured"\nsource = "our lab"\n'
    )
    c2c = {"c2c_enabled": True, "c2c_max_mb_per_s": 450_000, "name": "NVIDIA X1"}
    records = copies({"host_to_device": 310})
    said = told(tmp_path, records, {**FACTS, "gpu0": c2c})
    assert said.startswith("only host to device could be judged, and is fine: host to device 310 ")
    assert "published: 300 to 320 GB/s for X1 (our lab)" in said


def two_gpus(folder: Path, *indices: int | None) -> dict[str, Any]:
    """One row of a machine with a T400 in a small slot as gpu0 and an H200 as gpu1."""
    small = {**GPU, "name": "Quadro T400", "pcie_max_generation": 3, "pcie_gpu_max_generation": 4}
    gpus: list[dict[str, Any]] = [small, dict(GPU)]
    for gpu, index in zip(gpus, indices, strict=False):
        gpu["cuda_index"] = {"value": None, "why": "hidden"} if index is None else index
    facts = {**FACTS, "gpu0": gpus[0], "gpu1": gpus[1]}
    archive.write(folder, run(copies({"host_to_device": 55.4}), launches=1, facts=facts))
    (row,) = frame.read(folder).frame.to_dict("records")
    return {str(name): value for name, value in row.items() if value == value}  # without NaN


def test_the_gpu_that_ran_counts_and_not_the_first_of_nvml(tmp_path: Path) -> None:
    row = two_gpus(tmp_path / "a", None, 0)
    assert (row["hardware"], row["link"]) == ("NVIDIA H200", "fine")
    assert str(row["ceiling"]).startswith("PCIe Gen5 x16")
    assert row["published_low_gb_per_s"] == 55.43
    row = two_gpus(tmp_path / "b", 0, 1)
    assert (row["hardware"], row.get("published")) == ("Quadro T400", None)
    assert "generation 3 of 4" in row["link"]


def test_several_gpus_of_which_any_may_have_run(tmp_path: Path) -> None:
    for number, indices in enumerate(((), (None, None))):
        row = two_gpus(tmp_path / str(number), *indices)
        assert row["hardware"] == "NVIDIA H200 or Quadro T400"
        assert (row["ceiling"], row.get("link")) == ("cannot be told which GPU ran", None)
        assert row.get("published") is None


def test_the_frame_has_the_columns(tmp_path: Path) -> None:
    part = run(copies({"host_to_device": 55.4}), launches=1, facts={**FACTS, "gpu0": GPU})
    archive.write(tmp_path, part)
    (row,) = frame.read(tmp_path).frame.to_dict("records")
    assert row["ceiling_gb_per_s"] == pytest.approx(63.015384615384619 * 256 / 280)
    assert row["encoded_gb_per_s"] == pytest.approx(63.015384615384619)
    assert (row["published_low_gb_per_s"], row["published_high_gb_per_s"]) == (55.43, 55.43)
    assert row["link"] == "fine"


def test_odd_facts_hide_no_run(tmp_path: Path) -> None:
    part = run(copies({"host_to_device": 55.4}), launches=1)
    assert isinstance(part.facts, dict)
    part.facts["during"] = {"gpu0": {"pcie_width": {"value": [1]}}}
    archive.write(tmp_path, part)
    tree = frame.read(tmp_path)
    assert (len(tree.frame), tree.warnings) == (1, [])
