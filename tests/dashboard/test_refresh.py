"""The switch `Refresh by itself`, and what an open page keeps when it is drawn again."""

from pathlib import Path
from typing import Any

import pytest
import streamlit

from hostbench.core.errors import UsageError
from hostbench.store import archive
from tests import dashboard_page, dashboard_tree
from tests.dashboard_tree import GPU_MACHINE

on_the_path = dashboard_page.on_the_path


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for day in range(2):
        archive.write(tmp_path, dashboard_tree.gpu_run(day))
    return tmp_path


def test_a_page_is_outdated_when_files_have_changed_or_its_ages_have(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import data
    import stored

    def draw() -> None:
        stored.begin()
        data.runs(tree)

    def refuse(_: Any) -> int:
        raise UsageError("no table answers")

    monkeypatch.setattr(streamlit, "session_state", {})
    monkeypatch.setattr(stored, "get_script_run_ctx", lambda **_: "a page's")
    draw()
    assert not stored.is_outdated(tree)
    archive.write(tree, dashboard_tree.gpu_run(2))
    assert stored.is_outdated(tree)
    draw()
    assert not stored.is_outdated(tree)
    monkeypatch.setattr(stored, "_looked_at", refuse)
    assert not stored.is_outdated(tree)
    monkeypatch.setattr(stored, "OLD_AFTER_S", -1.0)
    assert stored.is_outdated(tree)


def test_many_files_are_not_looked_at_for_each_page(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import data
    import stored

    monkeypatch.setattr(streamlit, "session_state", {})
    monkeypatch.setattr(stored, "get_script_run_ctx", lambda **_: "a page's")
    monkeypatch.setattr(stored, "MANY", 0)
    monkeypatch.setattr(stored, "LOOK_S", 1e6)
    stored.begin()
    assert len(data.runs(tree)) == 2
    archive.write(tree, dashboard_tree.gpu_run(2))
    stored.begin()
    assert len(data.runs(tree)) == 2
    stored._looks.clear()  # as when they count no more
    stored.begin()
    assert len(data.runs(tree)) == 3


def test_it_is_off_and_what_is_chosen_stays_chosen(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not dashboard_page.opened(monkeypatch, "runs", tree).toggle[0].value
    run = dashboard_tree.gpu_run(0).header.run_id
    chosen = {"run": f"{run}@{GPU_MACHINE}", "refresh": "true"}
    app = dashboard_page.opened(monkeypatch, "runs", tree, **chosen)
    assert app.toggle[0].value
    assert app.session_state["run row"]["selection"]["rows"] == [1]
    archive.write(tree, dashboard_tree.gpu_run(2))
    app = app.run()
    assert app.session_state["run row"]["selection"]["rows"] == [2]
    assert run in app.subheader[0].value.replace("\\", "")
