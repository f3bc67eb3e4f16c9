"""One row per fact: what is collected, the documentation and the rows say the same."""

import re
from pathlib import Path
from typing import get_args

from hostbench import facts as room
from hostbench.facts import spec
from hostbench.facts.differences import possible
from hostbench.facts.record import from_json
from tests.fakes.fake_nvml import FakeNvml

GROUPS = {group: [row.name for row in spec.rows_of(group)] for group in get_args(spec.FactGroup)}
DOCS = Path(__file__).parent.parent.parent / "docs" / "facts.md"


def test_the_documentation_lists_every_fact_in_the_order_of_the_rows() -> None:
    _, _, text = DOCS.read_text().partition("## The facts themselves")
    listed = re.findall(r"^- `(.+)`: \S", text, re.MULTILINE)
    assert listed == [name for rows in GROUPS.values() for name in rows]


def test_every_collected_fact_has_a_row_in_its_group_and_every_row_is_collected() -> None:
    facts = room.collect(nvml=FakeNvml(), environ={})
    found = {(group.rstrip("0123456789"), name) for group in facts for name in facts[group]}
    variables = {each for each in found if each[1].startswith("env_")}
    rows = {(group, name) for group, names in GROUPS.items() for name in names}
    of_a_watch = {("host", "foreign_cpu_share"), ("host", "steal_share")}
    assert found - variables | {("software", "env_*")} | of_a_watch == rows


def test_names_are_unique_and_what_is_watched_may_be_a_cause() -> None:
    assert all(len(names) == len(set(names)) for names in GROUPS.values())
    assert not [row.name for row in spec.ROWS if row.watched and not row.moved]


def test_what_only_older_archives_hold_comes_last_among_the_causes() -> None:
    rate = "memory_copy_all_cores_bytes_per_s"
    old = {"gpu0": {"pci_max_payload_bytes": 256, "ecc": "on", "aer_fatal_total": 1, rate: 5.0}}
    new = {"gpu0": {"pci_max_payload_bytes": 128, "ecc": "off", "aer_fatal_total": 9, rate: 6.0}}
    causes = possible({"before": from_json(old)}, {"before": from_json(new)})
    assert [cause.name for cause in causes] == ["ecc", "pci_max_payload_bytes"]
