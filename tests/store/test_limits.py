"""What a stored row is held against, where its case is not one that is declared today."""

from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from hostbench.core.case import AxisValue, Case
from hostbench.measure.workload import REGISTRY
from hostbench.report.questions import answers, rows_of
from hostbench.store import archive
from hostbench.store.results import Results
from tests.fakes.builders import GPU_FACTS, copy_case, record, run

COPY = "transfer.host_to_device"
GPU = {**GPU_FACTS["gpu0"], "pcie_max_generation": 5, "pcie_max_width": 16}
TODAYS = copy_case("transfer.device_to_host", device="cuda", memory="pinned")


def rows(folder: Path, *cases: Case) -> dict[str, dict[Any, Any]]:
    facts = {**GPU_FACTS, "gpu0": GPU}
    records = [record(case, launch, 1e-3) for case in (TODAYS, *cases) for launch in range(3)]
    archive.write(folder, run(records, launches=3, device="cuda", facts=facts))
    history = Results(folder)
    (about,) = history.runs()
    rows = history.run_rows(about.machine, about.run_id)
    assert history.warnings == [] and [one.state for one in answers(rows_of(rows))]
    return {one["case"]: dict(one) for one in rows.to_dict("records")}


OTHERS: tuple[tuple[str, dict[str, AxisValue]], ...] = (
    (COPY, {"nbytes": 1 << 20, "memory": "pinned"}),  # an axis less
    (COPY, {"nbytes": 1 << 20, "memory": "pinned", "blocking": True, "numa": 1}),
    (COPY, {"size": 3}),
    ("transfer.no_such_workload", {"nbytes": 1 << 20}),
    ("collectives.all_reduce", {"num_ranks": 2}),  # without a size
    ("collectives.all_reduce", {"num_ranks": 0, "nbytes": 1 << 20}),
)


def test_a_case_of_other_axes_is_shown_without_a_limit(tmp_path: Path) -> None:
    cases = [Case(workload, {"device": "cuda", **axes}) for workload, axes in OTHERS]
    found = rows(tmp_path, *cases)
    for case in cases:
        row = found[str(case)]
        assert (row["status"], row["seconds"]) == ("ok", 1e-3)
        assert row["ceiling"] == f"{case.workload} is not held against a link"
        assert row["ceiling_gb_per_s"] != row["ceiling_gb_per_s"]  # NaN
    assert found[str(TODAYS)]["ceiling_gb_per_s"] == pytest.approx(57.6, abs=0.1)


def test_published_bus_bandwidths_are_told_as_rates_of_all_bytes(tmp_path: Path) -> None:
    """Over 8 ranks 1.75 times as many bytes cross the link as are counted."""
    case = Case("collectives.all_reduce", {"device": "cuda", "num_ranks": 8, "nbytes": 1 << 24})
    row = rows(tmp_path, case)[str(case)]
    assert "GB/s for H200" in row["published"]
    ends = row["published_low_gb_per_s"], row["published_high_gb_per_s"]
    assert ends == (pytest.approx(363 / 1.75), pytest.approx(482.3 / 1.75))


OWN = """
from hostbench import DEVICES, workload


@workload(axes={"device": DEVICES}, moves=lambda **_: 1, link="host_to_device", version="1")
def through_the_link(device):
    return lambda: None
"""


@mock.patch.dict(REGISTRY)
def test_a_row_is_held_against_what_the_workloads_of_today_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = Case("limits_of_ones_own.through_the_link", {"device": "cuda"})
    unheld = "limits_of_ones_own.through_the_link is not held against a link"
    assert rows(tmp_path / "before", case)[str(case)]["ceiling"] == unheld
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "limits_of_ones_own.py").write_text(OWN)
    monkeypatch.setenv("HOSTBENCH_WORKLOADS", str(tmp_path / "bench"))
    assert rows(tmp_path / "before", case)[str(case)]["ceiling"].startswith("PCIe Gen5 x16")
