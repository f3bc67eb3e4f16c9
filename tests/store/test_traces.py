"""Traces that are kept: the newest of each case, and what is damaged or hostile is told."""

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from hostbench.core.errors import DataError
from hostbench.core.lanes import Lane, Span
from hostbench.store import traces
from hostbench.store.archive import packed
from hostbench.store.traces import StoredTrace, TraceAbout

ABOUT = TraceAbout(
    case="overlap.pipeline[device=cpu,schedule=serial]",
    machine="shelf",
    hardware="EPYC, cpu device, no GPU",
    device="cpu",
    started_at="2026-11-22T10:00:00.000Z",
    hostbench="0.1",
    num_steps=1,
    median_s=0.5,
)
LANES = (Lane(name="host", spans=(Span(name="copy", kind="call", start_s=0.0, end_s=1.0),)),)


def keep(results: Path, **more: Any) -> Path:
    about = replace(ABOUT, **more)
    path = traces.new_path(results, about)
    traces.write(path, StoredTrace(about=about, lanes=LANES))
    return path


def test_it_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = keep(tmp_path)
    assert path.parent == tmp_path / "shelf" / "traces"
    assert path.name.startswith("20261122T100000Z-overlap.pipeline-")
    assert traces.read(path) == StoredTrace(about=ABOUT, lanes=LANES)


def test_the_newest_of_each_case_comes_first(tmp_path: Path) -> None:
    keep(tmp_path, hardware="old")
    keep(tmp_path, hardware="new", started_at="2026-11-22T11:00:00.000Z")
    keep(tmp_path, case="overlap.ratio[device=cpu]", started_at="2026-11-22T12:00:00.000Z")
    keep(tmp_path, case="transfer.cast[device=cpu]")
    keep(tmp_path, machine="other")
    said: list[str] = []
    found = traces.of_family(tmp_path, "shelf", "overlap", said.append)
    assert [one.about.case for one in found] == ["overlap.ratio[device=cpu]", ABOUT.case]
    assert found[1].about.hardware == "new"
    assert not said
    assert traces.of_family(tmp_path, "nobody", "overlap", said.append) == []


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no gzip",
        packed({}),
        packed({"traceEvents": [], "otherData": {}}),
        packed({"traceEvents": [{}], "otherData": {"case": 3}}),
    ],
)
def test_a_damaged_one_is_a_warning_and_the_rest_is_shown(tmp_path: Path, content: bytes) -> None:
    good = keep(tmp_path)
    bad = good.with_name("20261123T100000Z-overlap.pipeline-0000.json.gz")
    bad.write_bytes(content)
    said: list[str] = []
    assert len(traces.of_family(tmp_path, "shelf", "overlap", said.append)) == 1
    assert len(said) == 1 and str(bad) in said[0]


def test_what_names_no_case_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="of no case"):
        traces.read(keep(tmp_path, case="overlap.pipeline[<script>"))


def test_a_link_out_of_the_results_is_not_followed(tmp_path: Path) -> None:
    results, elsewhere = tmp_path / "results", tmp_path / "elsewhere"
    real = keep(elsewhere)
    link = results / "shelf" / "traces" / real.name
    link.parent.mkdir(parents=True)
    link.symlink_to(real)
    with pytest.raises(DataError):
        traces.read(link)


def test_perfetto_needs_no_more(tmp_path: Path) -> None:
    """The file that lies there is a Chrome trace by itself."""
    document = json.loads(json.dumps(StoredTrace(about=ABOUT, lanes=LANES).document()))
    assert {event["ph"] for event in document["traceEvents"]} == {"M", "X"}
    assert document["otherData"]["case"] == ABOUT.case
