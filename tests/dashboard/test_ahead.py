"""What the server reads before the first page is asked for."""

import gc
from pathlib import Path

import pytest

from hostbench.store import archive
from tests import dashboard_page, dashboard_tree

on_the_path = dashboard_page.on_the_path


@pytest.fixture
def frozen(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    calls: list[str] = []
    monkeypatch.setattr(gc, "freeze", lambda: calls.append("frozen"))
    return calls


def test_the_first_page_finds_what_it_needs_read_and_caused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, frozen: list[str]
) -> None:
    import ahead
    import judging

    archive.write(tmp_path, dashboard_tree.gpu_run(0))
    dashboard_page.judged(tmp_path)
    monkeypatch.setenv("HOSTBENCH_RESULTS", str(tmp_path))
    ahead.read()
    assert frozen == ["frozen"]

    def refuse(*_: object) -> None:
        raise AssertionError("made a second time")

    monkeypatch.setattr(judging, "with_causes", refuse)
    app = dashboard_page.opened(monkeypatch, "status", tmp_path)
    assert app.title[0].value == "Status" and not app.exception


@pytest.mark.parametrize("named", ["", "nowhere"])
def test_what_cannot_be_read_is_left_to_the_page_to_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, frozen: list[str], named: str
) -> None:
    import ahead

    monkeypatch.setenv("HOSTBENCH_RESULTS", str(tmp_path / named))
    ahead.read()
    assert frozen == ["frozen"]
