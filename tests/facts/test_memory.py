"""The host's memory copy: a real figure of the right order, and every way not to have one."""

import pytest

from hostbench.facts import memory
from hostbench.facts.memory import NAME, memory_copy, with_memory_copy
from hostbench.facts.record import Facts, known, unknown


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_SECONDS", 0.0)
    monkeypatch.setattr(memory, "_TOTAL_BYTES", 1 << 20)


def test_it_is_measured() -> None:
    rate = memory_copy().value
    assert isinstance(rate, float) and 1e6 < rate < 1e13
    assert "no memory to copy" in str(memory_copy(memory_bytes=1.0).why)


def test_it_joins_the_hosts_facts_or_says_why_not() -> None:
    facts: Facts = {"host": {"num_usable_cores": known(1)}, "nvml": {}}
    measured = with_memory_copy(facts, {})
    assert measured["host"].keys() == {"num_usable_cores", NAME}
    assert NAME not in facts["host"]
    left_out = with_memory_copy(facts, {memory.VARIABLE: "0"})["host"][NAME]
    assert left_out == unknown("not measured, as HOSTBENCH_MEMORY_COPY=0 asks")
