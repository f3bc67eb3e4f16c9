"""The page of a family: answers with charts, what has no number and why, other tools' points."""

import functools
import importlib
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from hostbench import families
from hostbench.report.answer import Answer
from hostbench.report.questions import answers
from hostbench.report.rows import rows_of
from tests import dashboard_page, dashboard_tree
from tests.dashboard_page import said
from tests.dashboard_tree import CPU_MACHINE, GPU_MACHINE, LOST, STRUCK, TREND

on_the_path = dashboard_page.on_the_path


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return dashboard_tree.write(tmp_path_factory.mktemp("results"))


@pytest.fixture(scope="module")
def toy(tree: Path) -> pd.DataFrame:
    """The newest run of the GPU machine."""
    data = importlib.import_module("data")
    runs = data.runs(tree)
    newest = runs[runs["machine"] == GPU_MACHINE].iloc[0]
    return data.rows_of(tree, GPU_MACHINE, newest["run_id"])


@pytest.fixture(scope="module")
def open_family(tree: Path):
    """A page as it was drawn, once for all tests: they only read."""

    @functools.cache
    def open_it(family: str, **query: Any) -> AppTest:
        with pytest.MonkeyPatch.context() as patch:
            asked = {"machine": GPU_MACHINE, **query}
            app = dashboard_page.opened(patch, "family", tree, family=family, **asked)
        assert not app.exception
        return app

    return open_it


@pytest.fixture(scope="module")
def told(toy: pd.DataFrame) -> list[Answer]:
    """What the newest run says, family by family."""
    return answers(rows_of(toy))


def of_family(told: list[Answer], family: str) -> list[Answer]:
    return [one for one in told if one.family == family]


def drawn(app: AppTest) -> int:
    return len(app.get("arrow_vega_lite_chart")) + len(app.get("vega_lite_chart"))


def table(app: AppTest, column: str) -> pd.DataFrame:
    return next(one.value for one in app.dataframe if column in one.value)


@pytest.mark.parametrize("family", families.names())
def test_each_answer_has_its_state_and_its_chart(
    open_family, told: list[Answer], family: str
) -> None:
    shown = [one for one in of_family(told, family) if one.state != "unavailable"]
    assert shown
    app = open_family(family)
    listed = table(app, "shape")
    told_here = [one for one in of_family(told, family) if one.is_told]
    assert listed["question"].tolist() == [one.question for one in told_here]
    assert listed["verdict"].tolist() == [one.verdict for one in told_here]
    with_chart = [one for one in shown if one.chart is not None]
    assert drawn(app) == min(2, len(with_chart)) > 0
    (*_, last) = with_chart
    assert not any("in words" in one.value for one in app.dataframe)
    figures = f"figures of {last.workload}-{last.question}"
    app = open_family(family, question=last.question, unfolded=(figures,))
    assert last.question in said(app) and last.verdict in said(app)
    words = importlib.import_module("answers").SAID
    assert f": {words.get(last.state, last.state)}]" in said(app)
    assert drawn(app) == 1 and len(table(app, "in words")) == len(last.figures)


def test_questions_that_begin_alike_are_shown_together(
    tree: Path, told: list[Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    questions = [one.question for one in of_family(told, "loading") if "prefetcher" in one.question]
    query: dict[str, Any] = {"family": "loading", "machine": GPU_MACHINE, "question": questions}
    app = dashboard_page.opened(monkeypatch, "family", tree, **query)
    assert not app.exception and len(questions) > 1 and drawn(app) == len(questions)


def test_the_figures_table_holds_the_records(told: list[Answer]) -> None:
    (pays,) = (one for one in of_family(told, "transfer") if one.question.startswith("Does pinned"))
    made = importlib.import_module("answers").table(pays)
    assert made["value"].tolist() == [one.value for one in pays.figures]
    assert made["low"].notna().all()  # of 8 launches there is an interval
    assert made["verdict"].dropna().tolist() == ["faster"]
    assert made["held against"].dropna().tolist() == ["pageable"]


def test_what_has_no_number_is_listed_with_its_reason(open_family) -> None:
    gaps = table(open_family("transfer"), "cases")
    assert "failed" in set(gaps["status"])
    assert gaps["reason"].str.contains("target differs from source").any()
    gaps = table(open_family("overlap"), "cases")
    assert {"failed", "not measured"} <= set(gaps["status"])
    gaps = table(open_family("collectives"), "cases")
    assert "needs 8 GPUs, this machine has 4" in set(gaps["reason"])


def test_unexpected_findings_are_listed(open_family) -> None:
    app = open_family("transfer")
    (odd,) = (one.value for one in app.dataframe if list(one.value.columns) == ["case", "flags"])
    assert odd["case"].tolist() == [TREND]
    assert odd["flags"].str.contains("asynchronous is False").all()


@pytest.mark.parametrize(("family", "case"), [("transfer", STRUCK), ("overlap", LOST)])
def test_every_case_is_in_the_table(open_family, toy: pd.DataFrame, family: str, case: str) -> None:
    cases = table(open_family(family), "asyncness")
    assert sorted(cases["case"]) == sorted(toy["case"][toy["family"] == family])
    assert cases["status"][cases["case"] == case].iloc[0] in ("failed", "not measured")


def test_questions_without_an_answer_are_folded_by_reason(open_family) -> None:
    app = open_family("transfer", machine=CPU_MACHINE)
    folded = [one.label for one in app.expander if "not answered" in one.label]
    assert folded and all("skipped" in one for one in folded)
    assert "Does pinned memory pay?" in said(app)


def test_a_run_without_the_family_says_what_to_run(open_family) -> None:
    """The older runs of the tree hold transfer and allocation alone."""
    app = open_family("overlap")
    runs = app.selectbox[2].options
    older = "20261102T030000Z-11111111-0001"
    app = open_family("overlap", run=older)
    assert len(runs) == 9
    assert app.code[0].value == "hostbench run overlap"
    assert drawn(app) == 0


def test_a_family_that_cannot_be_imported_says_why(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_here.py").write_text("import nonesuch")
    monkeypatch.setenv("HOSTBENCH_WORKLOADS", str(tmp_path))
    app = dashboard_page.opened(monkeypatch, "family", tree, family="broken_here")
    assert not app.exception
    assert "No module named 'nonesuch' (broken_here.py:1)" in said(app)
