"""A device that does not start while asv measures."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hostbench import asv_measure
from hostbench.core.errors import DeviceLost
from hostbench.core.records import CaseRecord
from hostbench.facts.gpu import Hardware
from hostbench.runner import session
from tests.fakes.builders import record


def test_cases_that_were_not_reached_are_failures_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """asv would take a case without an entry for one that this commit lacks: a skip."""
    why = "device cuda: No CUDA GPUs are available; check nvidia-smi"

    def records(plan: Any, *_: Any, **__: Any) -> Iterator[tuple[int, CaseRecord]]:
        yield 0, record(plan.cases[0])
        raise DeviceLost(why)

    monkeypatch.setenv("ASV_CONF_DIR", str(tmp_path))
    (tmp_path / "asv.conf.json").write_text('{"results_dir": "results"}')
    monkeypatch.setattr(session, "records", records)
    monkeypatch.setattr(asv_measure, "nvidia_hardware", lambda: Hardware(num_gpus=0, why="none"))
    monkeypatch.setattr(asv_measure, "die_with_parent", lambda: None)
    monkeypatch.setattr(asv_measure, "become_subreaper", lambda: None)
    entries = asv_measure.measure("allocation", tmp_path / "allocation.py")["records"]
    states = [entry["status"] for entry in entries.values()]
    assert states.count("ok") == 1 and states.count("failed") == len(states) - 1 > 1
    assert {entry["reason"] for entry in entries.values()} == {None, why}
