"""The family page shows one reading lane by lane, of traces that anybody may have written."""

import base64
from pathlib import Path
from xml.etree import ElementTree

import pytest
from msgspec.structs import replace
from streamlit.testing.v1 import AppTest

from hostbench.core.case import read_case
from hostbench.core.lanes import Lane, Span
from hostbench.store import archive, traces
from hostbench.store.history import History
from hostbench.store.traces import StoredTrace, TraceAbout
from tests import dashboard_page
from tests.dashboard_page import said
from tests.dashboard_tree import GPU_MACHINE
from tests.fakes.builders import copy_case, record, run

on_the_path = dashboard_page.on_the_path
HOSTILE = '</text><script>alert(1)</script>"&'
CASE = "overlap.pipeline[device=cuda,batch_bytes=33554432,memory=pinned,schedule={}]"
HEADING = "One reading, lane by lane"
ABOUT = TraceAbout(
    case=CASE.format("serial"),
    machine=GPU_MACHINE,
    hardware="Toy",
    device="cuda",
    started_at="2026-11-22T10:00:00.000Z",
    hostbench="0.1",
    num_steps=1,
)
SPAN = Span(name=HOSTILE, kind="compute", start_s=0.0, end_s=1.0)
LANES = (Lane(name=HOSTILE, place=HOSTILE, spans=(SPAN,)),)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a case of each of two families: this is about what lies beside the numbers."""
    results = tmp_path_factory.mktemp("results")
    loop = read_case(ABOUT.case)
    assert loop is not None
    archive.write(results, run([record(loop), record(copy_case())], machine=GPU_MACHINE))
    return results


def keep(tree: Path, about: TraceAbout = ABOUT) -> Path:
    path = traces.new_path(tree, about)
    traces.write(path, StoredTrace(about=about, lanes=LANES))
    return path


def opened(tree: Path, family: str = "overlap", **query: str) -> AppTest:
    with pytest.MonkeyPatch.context() as patch:
        asked = {"family": family, "machine": GPU_MACHINE, **query}
        app = dashboard_page.opened(patch, "family", tree, **asked)
    assert not app.exception
    return app


def pictures(app: AppTest) -> list[str]:
    urls = [image.url for one in app.get("image") for image in one.proto.imgs]
    assert all(url.startswith("data:image/svg+xml;base64,") for url in urls)
    return [base64.b64decode(url.partition(",")[2]).decode() for url in urls]


def test_what_is_stored_is_shown_for_its_family_and_device_alone(tree: Path) -> None:
    assert HEADING not in said(opened(tree))
    keep(tree)
    keep(tree, replace(ABOUT, case=CASE.format("copy_stream")))
    keep(tree, replace(ABOUT, case=CASE.format("streams_2"), device="cpu"))
    newest = replace(ABOUT, hardware="Newer toy", started_at="2026-11-22T11:00:00.000Z")
    keep(tree, newest)
    app = opened(tree)
    assert HEADING in said(app)
    (box,) = (one for one in app.selectbox if one.label == "Case")
    assert box.options == [
        "overlap.pipeline: 32 MiB, pinned, serial",
        "overlap.pipeline: 32 MiB, pinned, copy_stream",
    ]
    (picture,) = pictures(app)
    assert "Newer toy" in picture and "schedule=serial" in picture
    assert "<script" not in picture and ElementTree.fromstring(picture) is not None
    assert "alert(1)" not in said(app)
    (other,) = pictures(opened(tree, trace=CASE.format("copy_stream")))
    assert "schedule=copy_stream" in other
    assert HEADING not in said(opened(tree, "transfer"))


def test_a_damaged_trace_is_a_warning(tree: Path) -> None:
    keep(tree)
    bad = keep(tree, replace(ABOUT, started_at="2026-11-22T12:00:00.000Z"))
    bad.write_bytes(b"damaged")
    app = opened(tree)
    assert f"{bad} is no trace of a case" in said(app).replace("\u2060", "")
    assert len(pictures(app)) == 1


def test_a_run_has_the_pictures_of_its_cases(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(tree)
    (one,) = History(tree).runs()
    app = dashboard_page.opened(monkeypatch, "runs", tree, run=f"{one.run_id}@{GPU_MACHINE}")
    assert not app.exception
    assert len(pictures(app)) == 1 and "in no run" in said(app)
