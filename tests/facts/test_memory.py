"""The host's memory copy: real figures of the right order, and every way not to have them."""

import threading

import pytest

from hostbench.facts import memory
from hostbench.facts.memory import NAMES, memory_copy_facts, with_memory_copy
from hostbench.facts.record import Facts, known, unknown


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_SECONDS", 0.0)
    monkeypatch.setattr(memory, "_TOTAL_BYTES", 1 << 20)
    monkeypatch.setattr(memory, "_EACH_BYTES", 1 << 18)


@pytest.mark.parametrize("cores", [1, 3])
def test_it_is_measured(cores: int) -> None:
    found = memory_copy_facts(cores)
    one, together = (found[name].value for name in NAMES)
    assert isinstance(one, float) and isinstance(together, float)
    assert 1e6 < one <= together < 1e13
    assert threading.active_count() == 1


def test_no_memory_and_no_thread_are_reasons(monkeypatch: pytest.MonkeyPatch) -> None:
    none = memory_copy_facts(1, memory_bytes=1.0)
    assert all("no memory to copy" in str(none[name].why) for name in NAMES)

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    found = memory_copy_facts(2)
    assert {fact.why for fact in found.values()} == {"cannot be measured: can't start new thread"}


def test_it_joins_the_hosts_facts_or_says_why_not() -> None:
    facts: Facts = {"host": {"num_usable_cores": known(1)}, "nvml": {}}
    measured = with_memory_copy(facts, {})
    assert measured["host"].keys() == {"num_usable_cores", *NAMES}
    assert NAMES[0] not in facts["host"]
    left_out = with_memory_copy(facts, {memory.VARIABLE: "0"})["host"][NAMES[0]]
    assert left_out == unknown("not measured, as HOSTBENCH_MEMORY_COPY=0 asks")
