"""The pages Questions and Method."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import streamlit as st

from tests import dashboard_page, dashboard_tree
from tests.dashboard_page import said
from tests.dashboard_tree import CPU_MACHINE, FOREIGN, GPU_MACHINE

on_the_path = dashboard_page.on_the_path


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return dashboard_tree.write(tmp_path_factory.mktemp("results"))


def test_every_question_has_its_verdict_or_the_reason(
    monkeypatch: pytest.MonkeyPatch, tree: Path
) -> None:
    app = dashboard_page.opened(monkeypatch, "understand", tree, machine=GPU_MACHINE, state="yes")
    assert not app.exception
    table = app.dataframe[0].value
    assert set(table["state"]) == {"yes"} and "Does pinned memory pay?" in set(table["question"])
    assert all(len(shape) for shape in table["shape"])
    app = dashboard_page.opened(monkeypatch, "understand", tree, machine=CPU_MACHINE)
    assert any("not answered: " in one.label for one in app.expander)
    app = dashboard_page.opened(monkeypatch, "understand", tree, machine=FOREIGN)
    assert "none of hostbench's own workloads" in said(app)


@pytest.mark.parametrize("machine", [CPU_MACHINE, FOREIGN])
def test_a_tree_of_another_project_has_no_questions(
    monkeypatch: pytest.MonkeyPatch, tree: Path, tmp_path: Path, machine: str
) -> None:
    shutil.copy(tree / "benchmarks.json", tmp_path)
    shutil.copytree(tree / machine, tmp_path / machine)
    asked: list[Mapping[str, Sequence[Any]]] = []

    def navigation(pages: Mapping[str, Sequence[Any]]) -> Any:
        asked.append(pages)
        return shown(pages)

    shown = st.navigation
    monkeypatch.setattr(st, "navigation", navigation)
    assert not dashboard_page.opened(monkeypatch, "method", tmp_path).exception
    own = ["Questions", "Families"] if machine == CPU_MACHINE else []
    pages = [page.title for page in asked[0]["Understand"] if page.visibility == "visible"]
    assert pages == [*own, "Method"]


def test_the_method_is_the_documentation(monkeypatch: pytest.MonkeyPatch, tree: Path) -> None:
    app = dashboard_page.opened(monkeypatch, "method", tree, doc="judgement")
    assert not app.exception
    assert "](" not in said(app).replace("](http", "")
    from documents import names, title

    assert names()[0] == "method" and title("method") == "How hostbench measures"
    assert app.selectbox(key="doc").options[0] == "How hostbench measures"


def test_the_method_shows_one_section_or_the_whole_page(
    monkeypatch: pytest.MonkeyPatch, tree: Path
) -> None:
    app = dashboard_page.opened(monkeypatch, "method", tree)
    headings = app.selectbox(key="section").options
    assert headings[0] == "What is inside the timer" and "The delay probe" in headings
    assert "## The delay probe" not in said(app)
    for asked in ("The delay probe", headings[-1]):
        app.selectbox(key="section").set_value(asked).run()
        assert "## The delay probe" in said(app) and asked in app.query_params["section"]
    assert all(f"## {one}" in said(app) for one in headings[:-1])
    app.selectbox(key="doc").set_value("judgement").run()
    assert not any("`" in one for one in app.selectbox(key="section").options)
    app.selectbox(key="doc").set_value("glossary").run()
    assert "section" not in app.query_params and not app.warning
    assert not any(one.key == "section" for one in app.selectbox)
