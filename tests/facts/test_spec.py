"""One row per fact: what is collected, the documentation and the rows say the same."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from hostbench import facts as room
from hostbench.facts import spec
from hostbench.facts.causes import differences, possible
from hostbench.facts.record import from_json, is_counter
from tests.fakes.fake_nvml import FakeNvml

GROUPS = {
    group: [row.name for row in rows]
    for group, rows in (
        ("host", spec.HOST),
        ("software", spec.SOFTWARE),
        ("nvml", spec.NVML),
        ("gpu", spec.GPU),
    )
}
DOCS = Path(__file__).parent.parent.parent / "docs" / "facts.md"


def test_the_documentation_lists_every_fact_in_the_order_of_the_rows() -> None:
    _, _, text = DOCS.read_text().partition("## The facts themselves")
    listed = re.findall(r"^- `(.+)`: \S", text, re.MULTILINE)
    assert listed == [name for rows in GROUPS.values() for name in rows]


def test_every_collected_fact_has_a_row_in_its_group_and_every_row_is_collected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOSTBENCH_MEMORY_COPY", "0")
    facts = room.with_memory_copy(room.collect(nvml=FakeNvml(), environ={}))
    found = {(group.rstrip("0123456789"), name) for group in facts for name in facts[group]}
    variables = {each for each in found if each[1].startswith("env_")}
    rows = {(group, name) for group, names in GROUPS.items() for name in names}
    of_a_watch = {("host", "foreign_cpu_share"), ("host", "steal_share")}
    assert found - variables | {("software", "env_*")} | of_a_watch == rows


def of_one_place(rows: Sequence[spec.Spec]) -> dict[int, list[str]]:
    """Place among the causes -> the facts that share it."""
    found: dict[int, list[str]] = {}
    for row in rows:
        if row.cause not in (spec.NEVER, spec.LAST):
            found.setdefault(row.cause, []).append(row.name)
    return {place: names for place, names in found.items() if len(names) > 1}


def test_names_and_places_among_the_causes_are_unique() -> None:
    assert all(len(names) == len(set(names)) for names in GROUPS.values())
    assert not of_one_place(spec.ROWS), "these facts have one place: give the new one another"
    assert not [row.name for row in spec.ROWS if row.watched and not row.moved]
    assert not spec.RETIRED & {row.name for row in spec.ROWS}


def test_what_only_older_archives_hold_and_always_moved_is_no_cause() -> None:
    before, after = (from_json({"gpu0": dict.fromkeys(spec.RETIRED, n)}) for n in (1, 200))
    assert possible({"before": before}, {"before": after}) == differences(before, after) == []


def test_what_only_older_archives_hold_comes_last_among_the_causes() -> None:
    old = {"gpu0": {"pci_max_payload_bytes": 256, "ecc": "on", "aer_fatal_total": 1}}
    new = {"gpu0": {"pci_max_payload_bytes": 128, "ecc": "off", "aer_fatal_total": 9}}
    found = possible({"before": from_json(old)}, {"before": from_json(new)})
    assert [each.name for each in found] == ["ecc", "pci_max_payload_bytes"]
    assert spec.cause("pci_max_payload_bytes") == spec.LAST
    assert is_counter("aer_fatal_total") and spec.cause("aer_fatal_total") == spec.NEVER
