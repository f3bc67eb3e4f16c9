"""The page Runs: every run, and one of them."""

import json
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from tests import dashboard_page, dashboard_tree
from tests.dashboard_page import said
from tests.dashboard_tree import FOREIGN, GPU_MACHINE, HOSTILE

on_the_path = dashboard_page.on_the_path


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return dashboard_tree.write(tmp_path_factory.mktemp("results"))


@pytest.fixture
def open_page(monkeypatch: pytest.MonkeyPatch, tree: Path):
    def open_it(**query: str) -> AppTest:
        return dashboard_page.opened(monkeypatch, "runs", tree, **query)

    return open_it


def test_every_run_is_listed_the_newest_first(open_page) -> None:
    app = open_page()
    table = app.dataframe[0].value
    assert set(table["machine"]) == {GPU_MACHINE, dashboard_tree.CPU_MACHINE, FOREIGN}
    assert table["started"].is_monotonic_decreasing
    assert "standard, 8 launches, partial" in set(table["kind"])
    assert len(open_page(machine=GPU_MACHINE).dataframe[0].value) == 9


def test_one_run_says_what_differs_and_what_has_no_number(open_page, tree: Path) -> None:
    runs = open_page(machine=GPU_MACHINE).dataframe[0].value["run_id"]
    app = open_page(run=f"{runs[2]}@{GPU_MACHINE}")
    assert not app.exception
    assert "driver: 580.1 -> 590.7" in said(app) and runs[3] in said(app)
    app = open_page(run=f"{runs[0]}@{GPU_MACHINE}")
    gaps = next(one.value for one in app.dataframe if "reason" in one.value)
    assert gaps["reason"].str.contains(HOSTILE, regex=False).any()
    assert all(HOSTILE not in one.value for one in (*app.markdown, *app.caption))
    import data

    one = data.one_run(tree, GPU_MACHINE, runs[0])
    assert one is not None and json.loads(one.document)["run_id"] == runs[0]


def test_a_run_of_asv_alone_and_one_that_is_gone(open_page) -> None:
    run_id = open_page(machine=FOREIGN).dataframe[0].value["run_id"][0]
    assert "no facts, proofs or order are stored" in said(open_page(run=f"{run_id}@{FOREIGN}"))
    assert "which is not here" in open_page(run="../x").warning[0].value


def test_the_archive_is_saved_as_it_lies_and_nothing_outside_of_the_folder(
    open_page, tree: Path
) -> None:
    import data

    run_id = open_page(machine=GPU_MACHINE).dataframe[0].value["run_id"][0]
    app = open_page(run=f"{run_id}@{GPU_MACHINE}")
    labels = [one.proto.label for one in app.get("download_button")]
    assert labels[-2:] == ["JSON", "Archive"]
    one = data.one_run(tree, GPU_MACHINE, run_id)
    assert one is not None
    (path,) = one.archives
    assert path.name == f"{run_id}.json.gz"
    assert data.archive(tree, path) == path.read_bytes()
    with pytest.raises(OSError, match="out of"):
        data.archive(tree / FOREIGN, path)


def test_what_failed_comes_first(open_page) -> None:
    run_id = open_page(machine=GPU_MACHINE).dataframe[0].value["run_id"][0]
    app = open_page(run=f"{run_id}@{GPU_MACHINE}")
    assert "Without a valid number: 3 failed, 1 not measured, 12 skipped" in said(app)
    gaps = next(one.value for one in app.dataframe if "reason" in one.value)
    assert list(dict.fromkeys(gaps["status"])) == ["failed", "not measured", "skipped"]
