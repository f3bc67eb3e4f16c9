"""Which facts count as a possible cause, and which make it another machine."""

from msgspec import convert

from hostbench.facts.differences import possible
from hostbench.facts.record import Facts

BEFORE: dict[str, dict[str, object]] = {
    "host": {"cpu_model": "A CPU", "kernel": "6.1", "load_average_1min": 0.5},
    "software": {"torch": "2.13", "asv": "0.6.6"},
    "nvml": {"driver": "580.1"},
    "gpu0": {"name": "NVIDIA H200", "cuda_index": 0, "temperature_c": 40, "energy_total_mj": 5},
}


def changed(**groups: dict[str, object]) -> list[tuple[str, str]]:
    """(group, name) of what counts when these facts are laid over BEFORE."""
    after = {group: {**BEFORE.get(group, {}), **groups.get(group, {})} for group in BEFORE | groups}
    causes = possible({"before": convert(BEFORE, Facts)}, {"before": convert(after, Facts)})
    return [(one.group, one.name) for one in causes]


def test_the_likeliest_comes_first() -> None:
    assert changed() == []
    causes = changed(
        host={"kernel": "6.2", "virtualized": True},
        software={"torch": "2.14"},
        nvml={"driver": "590.2"},
        gpu0={"name": "NVIDIA H100"},
    )
    names = [name for _, name in causes]
    assert names == ["name", "driver", "torch", "kernel"]  # virtualized: one side did not say


def test_what_only_watches_or_always_moves_is_none() -> None:
    assert changed(software={"asv": "0.7"}) == []
    assert changed(host={"load_average_1min": 9.0}, gpu0={"energy_total_mj": 99}) == []
    assert changed(gpu0={"temperature_c": 48}) == []
    assert changed(gpu0={"temperature_c": 60}) == [("gpu0", "temperature_c")]


def test_what_one_side_does_not_know_is_none_but_a_variable() -> None:
    reason = {"value": None, "why": "torch was not imported to read it"}
    assert changed(software={"torch": reason}) == []
    assert changed(software={"env_NCCL_ALGO": "Ring"}) == [("software", "env_NCCL_ALGO")]
    assert changed(software={"env_NCCL_ALGO": {"value": None, "why": "not set"}}) == []
    private = {"value": None, "why": "set to a path: not stored"}
    assert changed(software={"env_LD_PRELOAD": private}) == [("software", "env_LD_PRELOAD")]


def test_under_load_counts_more_than_before() -> None:
    def run(generation: int, reasons: str, clock: float) -> dict[str, Facts]:
        idle = {"pcie_generation": 1, "throttle_reasons": "idle", "sm_clock_mhz": 345}
        load = {"pcie_generation": generation, "throttle_reasons": reasons, "sm_clock_mhz": clock}
        return {"before": convert({"gpu0": idle}, Facts), "during": convert({"gpu0": load}, Facts)}

    assert possible(run(5, "idle", 1980), run(5, "application-clocks", 1900)) == []
    causes = possible(run(5, "idle", 1980), run(4, "power-cap", 1500))
    assert [one.name for one in causes] == ["pcie_generation", "throttle_reasons", "sm_clock_mhz"]
