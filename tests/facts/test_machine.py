"""The machine's name and its entry in asv's list; the real home is never touched."""

import json

import pytest

from hostbench.core.errors import UsageError
from hostbench.facts.machine import asv_machine_entry, machine_name, register_with_asv
from hostbench.facts.record import Facts, Unknown


def machine(*gpus: str | None, cpu: str = "AMD EPYC", cores: int | None = 2) -> Facts:
    facts: Facts = {
        "host": {
            "os": "Linux",
            "arch": "x86_64",
            "kernel": "6.8.0",
            "cpu_model": cpu if cpu else Unknown("no model"),
            "num_usable_cores": cores if cores else Unknown("no affinity"),
            "num_logical_cores": 16,
            "memory_bytes": 25_276_510_208,
        }
    }
    for index, name in enumerate(gpus):
        facts[f"gpu{index}"] = {"name": name if name else Unknown("lost")}
    return facts


@pytest.mark.parametrize(
    ("facts", "name"),
    [
        (machine("NVIDIA H200"), "1x-nvidia-h200"),
        (machine(*["NVIDIA H100 80GB HBM3"] * 8), "8x-nvidia-h100-80gb-hbm3"),
        (machine("Tesla T4", "NVIDIA A100-SXM4-40GB"), "1x-nvidia-a100-sxm4-40gb-1x-tesla-t4"),
        (machine(None), "1x-nvidia-gpu"),
        (machine(), "cpu-epyc-2c"),
        (machine(cpu="AMD EPYC 9654 96-Core Processor"), "cpu-epyc-9654-2c"),
        (machine(cpu="Intel(R) Xeon(R) Platinum 8488C", cores=96), "cpu-xeon-platinum-8488c-96c"),
        (machine(cpu="", cores=None), "cpu-unknown"),
        (machine(cpu="z" * 200), f"cpu-{'z' * 57}-2c"),
        ({}, "cpu-unknown"),
    ],
)
def test_names_are_built_from_hardware(facts, name):
    assert machine_name(None, facts) == name
    assert len(name) <= 64


def test_a_chosen_name_wins(monkeypatch):
    monkeypatch.setenv("HOSTBENCH_MACHINE", "ci-1")
    assert machine_name("desk.2", machine()) == "desk.2"
    assert machine_name(None, machine()) == "ci-1"
    monkeypatch.setenv("HOSTBENCH_MACHINE", "")
    assert machine_name(None, machine()) == "cpu-epyc-2c"


@pytest.mark.parametrize("name", ["", "a/b", "..", "x" * 65, "a\n"])
def test_a_bad_name_is_refused_with_the_remedy(name, monkeypatch):
    with pytest.raises(UsageError, match=r"--machine .*letters, digits.*1x-nvidia-h200"):
        machine_name(name, machine())
    if name:
        monkeypatch.setenv("HOSTBENCH_MACHINE", name)
        with pytest.raises(UsageError, match="HOSTBENCH_MACHINE"):
            machine_name(None, machine())


def test_the_entry_holds_text_that_never_changes():
    assert asv_machine_entry("box", machine()) == {
        "machine": "box",
        "os": "Linux",
        "arch": "x86_64",
        "cpu": "AMD EPYC",
        "num_cpu": "16",
        "ram": "24 GiB",
    }
    entry = asv_machine_entry("box", machine("NVIDIA H200", "NVIDIA H200"))
    assert (entry["gpu"], entry["num_gpu"]) == ("NVIDIA H200", "2")
    assert set(asv_machine_entry("box", {}).values()) == {"box", "unknown"}


def test_registering_keeps_the_others(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    path = tmp_path / ".asv-machine.json"
    entry = asv_machine_entry("box", machine())
    register_with_asv(entry)
    assert json.loads(path.read_text()) == {"version": 1, "box": entry}
    theirs = {"machine": "theirs", "os": "Linux 4", "odd": 1}
    path.write_text(json.dumps({"version": 1, "theirs": theirs, "box": {"machine": "box"}}))
    register_with_asv(entry)
    assert json.loads(path.read_text()) == {"version": 1, "theirs": theirs, "box": entry}
    assert [each.name for each in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("text", ["", '{"theirs": {}}', "\xff"])
def test_a_damaged_file_is_named_and_kept(tmp_path, monkeypatch, text):
    monkeypatch.setenv("HOME", str(tmp_path))
    path = tmp_path / ".asv-machine.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(UsageError, match=r"asv-machine\.json cannot be read .*: correct it"):
        register_with_asv(asv_machine_entry("box", machine()))
    assert path.read_bytes() == text.encode("latin-1")
