"""The page Changes and the marks on Trend, held against a history whose changes are known."""

import json
import shlex
import shutil
import sys
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from hostbench.cli import main
from hostbench.core.errors import EXIT_OK
from hostbench.store import archive
from tests import dashboard_page, dashboard_tree, vega
from tests.dashboard_page import said
from tests.dashboard_tree import CHANGED_MACHINE as MACHINE
from tests.dashboard_tree import HOSTILE, MARKUP, SLOWER
from tests.fakes import histories

on_the_path = dashboard_page.on_the_path

NUM = dashboard_tree.NUM_SERIES


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return dashboard_tree.write_changes(tmp_path_factory.mktemp("history"))


@pytest.fixture
def open_page(monkeypatch: pytest.MonkeyPatch, tree: Path):
    def open_it(page: str = "changes", results: Path = tree, **query: str) -> AppTest:
        app = dashboard_page.opened(monkeypatch, page, results, **query)
        assert not app.exception
        return app

    return open_it


def rows(app: AppTest) -> pd.DataFrame:
    return app.dataframe[0].value


def numbers(app: AppTest) -> dict[str, int]:
    """What each state counts."""
    group: Any = app.get("button_group")[0]
    options = group.options
    return {one.split(" **")[0]: int(one.split("**")[1]) for one in options}


def key_of(results: Path, what: str) -> str:
    """The name of a cause in the address."""
    import judging

    from hostbench.report.causes import with_causes

    dashboard_page.judged(results)
    events = with_causes(judging.judged_table(results, "commit").events())
    return str(events["key"][events["what"].str.startswith(what)].iloc[0])


def test_a_cause_is_a_row_and_what_fails_comes_first(open_page) -> None:
    app = open_page()
    table = rows(app)
    assert table["state"].tolist() == ["fails now", "old", "faster", "baseline reset"]
    assert table["cause"].tolist()[:3] == ["code", "environment", "code"]
    assert table["what"].tolist()[1::2] == ["driver: 580.1 -> 590.7", "version 1 -> 2"]
    assert numbers(app)["fails now"] == 1 and numbers(app)["all"] == 4
    for key, value, num in (
        ("state", "faster", 1),
        ("cause", "code", 2),
        ("family", "transfer", 2),
    ):
        assert len(rows(open_page(**{key: value}))) >= num
        assert set(open_page(**{key: value}).query_params) == {key}


def test_the_page_counts_what_the_command_lists(open_page, tree: Path, capsys) -> None:
    main(["changes", "--results", str(tree), "--format", "json"])
    events = json.loads(capsys.readouterr().out)["events"]
    app = open_page(change=key_of(tree, "commit f054cbad"))
    listed = app.dataframe[-1].value
    fails = [one for one in events if one["fails"]]
    assert sorted(listed["id"]) == sorted(one["id"] for one in fails)
    assert set(listed["first_run"]) == {one["first_bad"]["run_id"] for one in fails}


def test_a_chosen_cause_shows_evidence_picture_and_commands(open_page, tree: Path) -> None:
    app = open_page(change=key_of(tree, "commit f054cbad"))
    assert "no fact that counts differs" in said(app)
    assert app.get("arrow_vega_lite_chart") or app.get("vega_lite_chart")
    lines = app.main.code[-1].value.splitlines()
    assert [line.split()[1] for line in lines] == ["run", "compare", "bisect", "triage"]
    assert shlex.split(lines[-1])[3].endswith(f"@{MACHINE}")
    assert app.dataframe[-1].value["id"].str.contains(SLOWER).all()
    assert "which is not here" in open_page(change="nothing").warning[0].value


def test_the_rules_stand_at_the_first_point_of_the_new_level(tree: Path) -> None:
    import data
    import judging

    from hostbench.report import causes, trend, trend_chart

    dashboard_page.judged(tree)
    for by, axis in dashboard_page.ALONG.items():
        table = judging.judged_table(tree, axis)
        series = table.series()
        case = next(one for one in series["case"] if one.startswith(SLOWER))
        points = trend.points(data.trend(tree, MACHINE, case), case, by, "seconds")
        own = table.events(ids=[f"{case}@{MACHINE}", f"machine:{MACHINE}"])
        changes = causes.marks(own, f"first_{by}")
        assert changes["x"].tolist() == points["x"].iloc[[25, 60]].tolist()
        assert changes["what"].tolist() == ["its machine", "this series"]
        levels = trend.levels(points, list(changes["x"]), 0.02).assign(series=case)
        assert levels["y"].pct_change().dropna().tolist() == pytest.approx([0.05, 0.10], abs=0.01)
        rules = changes.rename(columns={"what": "kind"})[["x", "kind"]].assign(said="a change")
        drawn = trend_chart.trend(
            points, levels, rules, {}, {case: "#000000"}, unit="seconds", x_title="x"
        )
        vega.check(drawn)
        dashes = [one["mark"].get("strokeDash") for one in drawn["layer"]]
        assert dashes[1:5] == [*([1, 0], [1, 0]), *([6, 4], [6, 4])]


def test_trend_tells_the_changes_of_a_series_and_of_its_machine(open_page) -> None:
    app = open_page("trend", machine=MACHINE, workload=SLOWER)
    changes = app.dataframe[0].value
    assert changes["what"].tolist() == ["its machine", "this series"]
    assert changes["cause"].tolist() == ["environment", "code"]
    assert "The smallest change visible here: 1.5%." in said(app)
    app = open_page("trend", machine=MACHINE, workload=dashboard_tree.NEW_VERSION)
    assert app.dataframe[0].value["state"].tolist() == ["old", "baseline reset"]


def test_what_somebody_said_is_seen_at_once_and_is_text(
    open_page, tree: Path, tmp_path: Path
) -> None:
    results = shutil.copytree(tree.parent, tmp_path / "copied") / tree.name
    ids = open_page(results=results, change=key_of(tree, "commit f054cbad"))
    for id in ids.dataframe[-1].value["id"]:
        line = next(one for one in ids.main.code[-1].value.splitlines() if " triage " in one)
        words = shlex.split(line)
        words[3] = id
        assert main([*words[1:], "--note", f"{HOSTILE} {MARKUP}"]) == EXIT_OK
    (results / "triage" / "half.txt").write_text(f"state: {HOSTILE}\n")
    app = open_page(results=results, change=key_of(tree, "commit f054cbad"))
    assert numbers(app)["fails now"] == 0 and numbers(app)["in triage"] == 1
    assert "Triage: investigating at +" in said(app) and f": {HOSTILE} {MARKUP}" in said(app)
    assert "about triage" in app.expander[0].label and "half.txt" in said(app)
    for kind in (app.markdown, app.subheader, app.caption):
        assert all(HOSTILE not in one.value and "[click]" not in one.value for one in kind)


def test_triage_is_done_on_the_page_where_that_is_allowed(
    open_page, tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = shutil.copytree(tree.parent, tmp_path / "copied") / tree.name
    key = key_of(tree, "commit f054cbad")
    assert not open_page(results=results, change=key).text_input
    monkeypatch.setattr(sys, "argv", ["app.py", "--allow-triage"])
    app = open_page(results=results, change=key)
    app.text_input[0].set_value("line 1\nline 2")
    next(one for one in app.button if one.label == "Write to triage").click().run()
    assert "It could not be written: note" in app.error[0].value.replace("\\", "")
    app.text_input[0].set_value("looked at")
    next(one for one in app.button if one.label == "Write to triage").click().run()
    assert not app.exception and numbers(app)["in triage"] == 1
    assert "looked at" in said(app) and len(list((results / "triage").glob("*.txt"))) == 2


def test_names_are_quoted_for_the_shell() -> None:
    from hostbench.report import causes

    case = f"transfer.host_to_device[a='; rm -rf ~ #&machine=other,b={HOSTILE}]"
    row: dict[Hashable, Any] = {
        "id": f"{case}@{MACHINE}",
        "commit": "abc",
        "case": case,
        "machine": MACHINE,
        "last_commit": "1" * 40,
        "first_commit": "2" * 40,
        "direction": "faster",
    }
    lines = causes.commands({**row}, Path("/a b")).splitlines()
    assert shlex.split(lines[0]) == ["hostbench", "run", "--case", case]
    words = shlex.split(lines[-1])
    assert words[3:5] == [f"{case}@{MACHINE}", "abc"]
    assert words[-4:] == ["--direction", "faster", "--results", "/a b"]
    assert causes.commands({**row, "id": "x\x15rm -rf ~\n@box"}, Path("r")) == ""
    (line,) = causes.commands({**row}, "s3://bucket/results").splitlines()
    assert line.startswith("hostbench compare ")


def test_nothing_to_show_is_a_sentence(open_page, tmp_path: Path) -> None:
    quiet = histories.write(tmp_path / "q", {**dashboard_tree.QUIET, "commits": 20})
    app = open_page(results=quiet)
    assert f"No change to show: {NUM} of {NUM} series are judged." in said(app)
    assert "fails now **0**" in app.get("button_group")[0].options
    results = histories.write(tmp_path / "s", {**dashboard_tree.QUIET, "commits": 4})
    app = open_page(results=results)
    assert "The usual reason: 4 points at most" in said(app)
    assert not app.get("button_group"), "no counts of what is not judged"
    assert "Not judged: 4 points at most" in said(open_page("trend", results, machine=MACHINE))
    archive.write(tmp_path / "one", dashboard_tree.gpu_run(7))
    assert "The usual reason: scratch: quick" in said(open_page(results=tmp_path / "one"))
    assert "Not judged: scratch: quick." in said(open_page("trend", tmp_path / "one"))
