"""Which facts count as a possible cause, and which make it another machine."""

from hostbench.facts.differences import over_time, possible, setup
from hostbench.facts.record import Facts, from_json

BEFORE: dict[str, dict[str, object]] = {
    "host": {"cpu_model": "A CPU", "kernel": "6.1", "load_average_1min": 0.5},
    "software": {"torch": "2.13", "asv": "0.6.6"},
    "nvml": {"driver": "580.1"},
    "gpu0": {"name": "NVIDIA H200", "cuda_index": 0, "temperature_c": 40, "energy_total_mj": 5},
}


def changed(**groups: dict[str, object]) -> list[tuple[str, str]]:
    """(group, name) of what counts when these facts are laid over BEFORE."""
    after = {group: {**BEFORE.get(group, {}), **groups.get(group, {})} for group in BEFORE | groups}
    causes = possible({"before": from_json(BEFORE)}, {"before": from_json(after)})
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
        return {"before": from_json({"gpu0": idle}), "during": from_json({"gpu0": load})}

    assert possible(run(5, "idle", 1980), run(5, "application-clocks", 1900)) == []
    causes = possible(run(5, "idle", 1980), run(4, "power-cap", 1500))
    assert [one.name for one in causes] == ["pcie_generation", "throttle_reasons", "sm_clock_mhz"]


def test_what_changed_over_time_skips_what_is_not_known() -> None:
    reason = {"value": None, "why": "the driver is too old"}
    told: list[dict[str, dict[str, object]]] = [
        {"gpu0": {"power_limit_w": 700, "temperature_c": 40}, "software": {"env_A": "Ring"}},
        {"gpu0": {"power_limit_w": reason, "temperature_c": 80}},
        {"gpu0": {"power_limit_w": 700}, "software": {"torch": "2.13"}},
        {"gpu0": {"power_limit_w": 500}, "gpu1": {"power_limit_w": 500}},
    ]
    runs = [(at, setup({"before": from_json(facts)})) for at, facts in enumerate(told)]
    causes = [(at, one.name, str(one.before), str(one.after)) for at, one in over_time(runs)]
    assert causes == [(2, "env_A", "Ring", "None"), (3, "power_limit_w", "700", "500")]


def test_the_link_is_set_up_as_it_was_under_load() -> None:
    def run(generation: int) -> Facts:
        idle, load = from_json({"gpu0": {"pcie_generation": 1}}), {"pcie_generation": generation}
        return setup({"before": idle, "during": from_json({"gpu0": load})})

    assert setup({"before": from_json({"gpu0": {"pcie_generation": 1}})}) == {}
    assert [one.name for _, one in over_time([(0, run(5)), (1, run(4))])] == ["pcie_generation"]


def test_what_has_no_row_is_no_cause() -> None:
    """Facts of older archives, and those that nothing reads."""
    assert changed(host={"hypervisor": "KVM"}, gpu0={"energy_total_mj": 99}) == []
