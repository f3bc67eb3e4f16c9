"""The page Changes and the marks on Trend, held against a history whose changes are known."""

import re
import shlex
import shutil
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from hostbench.cli import main
from hostbench.core.errors import EXIT_OK, EXIT_REGRESSION
from hostbench.report import event_words
from hostbench.report.judged import Explainer
from hostbench.store import archive
from tests import dashboard_page, dashboard_tree, vega
from tests.dashboard_page import said
from tests.dashboard_tree import CHANGED_MACHINE as MACHINE
from tests.dashboard_tree import HOSTILE, MARKUP, SLOWER

on_the_path = dashboard_page.on_the_path

NUM = dashboard_tree.CHANGES.series


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


def tiles(app: AppTest) -> dict[str, str]:
    return {tile.label: tile.value for tile in app.metric}


def headings(app: AppTest) -> list[str]:
    return [one.value.replace("\\", "") for one in app.subheader]


def found(results: Path, axis: Any = "commit") -> Any:
    import data

    dashboard_page.judged(results)
    return data.changes(results, axis)


def test_a_cause_is_a_block_and_the_machines_own_come_first(open_page, tree: Path) -> None:
    app = open_page()
    assert tiles(app) == {"fails now": "2", "provisional": "0", "in triage": "0", "old": "1"}
    machine, code, resets, judged = headings(app)
    assert machine.startswith(f"Likely the environment: machine {MACHINE}, +5.0%, since ")
    named = f"Likely the code: 2 series of {SLOWER} on {MACHINE}, "
    assert re.match(re.escape(named) + r"\+(9|10)\.\d% to \+(9|10)\.\d%, since ", code)
    assert (resets, judged) == ("Baseline resets", "What was judged")
    assert "driver: 580.1 -> 590.7" in said(app)
    assert "not listed: 1 faster" in said(app)
    of_machine, of_code = (one.value for one in app.dataframe)
    assert "trend" not in of_machine
    assert of_machine["state"].tolist() == ["confirmed, old"]
    assert of_machine["series"].tolist() == [f"the machine ({NUM} of {NUM} series)"]
    assert set(of_code["state"]) == {"confirmed, fails now"}
    assert all(one.startswith(f"{SLOWER}: cuda, ") for one in of_code["series"])


def test_the_page_lists_what_the_command_lists(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import derive_changes

    told = derive_changes.listed(found(tree).told, every=False)
    for form in ("text", "md"):
        assert main(["changes", "--results", str(tree), "--format", form]) == EXIT_REGRESSION
    lines = capsys.readouterr().out.splitlines()
    rows = [event_words.cells(one) for block in event_words.by_cause(told) for one in block]
    shown = [line.split() for line in lines if line.startswith(("confirmed", "provisional"))]
    assert len(rows) == len(shown) == 3
    for row, line in zip(rows, shown, strict=True):
        assert " ".join(row).split() == line


def test_what_is_saved_says_what_fails_and_in_which_run(tree: Path) -> None:
    import derive_changes

    from hostbench.report import changes
    from hostbench.report.table import plain

    told = derive_changes.listed(found(tree).told, every=False)
    rows = plain(changes.of_events(told))
    assert [row["fails"] for row in rows] == [
        one.fails for b in event_words.by_cause(told) for one in b
    ]
    assert {row["run_id"] for row in rows} == {one.found.first.run_id for one in told}


def test_the_view_is_in_the_url_and_begins_with_all_machines(open_page, tree: Path) -> None:
    app = open_page("trend")
    app.query_params.clear()  # as the browser's do with the page
    app.switch_page("views/changes.py").run()
    assert app.selectbox[0].value == "all machines"
    assert app.radio[0].value == "commit date"
    app = open_page(machine=MACHINE, axis="run time", everything="yes")
    assert (app.selectbox[0].value, app.radio[0].value) == (MACHINE, "run time")
    assert app.toggle[0].value
    assert len(headings(app)) == 5
    assert "not listed" not in said(app)
    assert "judged along the time of the runs" in said(app)
    app.toggle[0].set_value(False).run()
    assert app.query_params["everything"] in ("no", ["no"])
    assert len(headings(app)) == 4


def test_each_series_leads_to_its_trend(open_page) -> None:
    (link, _) = open_page(axis="run time").dataframe[1].value["trend"]
    assert urlsplit(link).path == "trend"
    view = {key: values[0] for key, values in parse_qs(urlsplit(link).query).items()}
    app = open_page("trend", **view)
    assert not app.warning
    assert [box.value for box in app.selectbox] == [MACHINE, SLOWER, view["case"]]
    assert app.radio[0].value == "run time"
    changes = app.dataframe[0].value
    assert changes["what"].tolist() == ["its machine", "this series"]
    assert changes["cause"].tolist() == ["environment", "code"]
    assert "The smallest change visible here: 1.5%." in said(app)


def test_the_rules_stand_at_the_first_point_of_the_new_level(tree: Path) -> None:
    import charts_series
    import data
    import derive_marks
    import derive_trend

    for by, axis in (("committed_at", "commit"), ("started_at", "run-time")):
        judged = found(tree, axis)
        case = next(case for case in judged.judged[0].grid.cases if case.startswith(SLOWER))
        told = derive_marks.of_series(judged.told, judged.judged, MACHINE, case)
        rows = data.trend(tree, MACHINE, case)
        points = derive_trend.points(rows, case, by, "seconds")
        changes = derive_marks.marks(told, by)
        assert changes["x"].tolist() == points["x"].iloc[[25, 60]].tolist()
        levels = derive_trend.levels(points, list(changes["x"]), 0.02).assign(series=case)
        assert levels["y"].pct_change().dropna().tolist() == pytest.approx([0.05, 0.10], abs=0.01)
        rules = changes.rename(columns={"what": "kind"})[["x", "kind"]].assign(said="a change")
        drawn = charts_series.trend(
            points, levels, rules, {}, {case: "#000000"}, unit="seconds", x_title="x"
        )
        vega.check(drawn)
        dashes = [one["mark"].get("strokeDash") for one in drawn["layer"]]
        assert dashes[1:5] == [*([1, 0], [1, 0]), *([6, 4], [6, 4])]


def test_a_break_is_told_on_trend_and_in_a_line(open_page) -> None:
    named = f"{dashboard_tree.NEW_VERSION}@{MACHINE}"
    assert f"baseline reset: {named}, version 1 -> 2" in said(open_page())
    app = open_page("trend", machine=MACHINE, workload=dashboard_tree.NEW_VERSION)
    changes = app.dataframe[0].value
    assert changes["state"].tolist() == ["confirmed, old", "baseline reset"]
    assert changes["evidence"].tolist()[1] == "version 1 -> 2"


def test_what_somebody_said_is_seen_at_once_and_is_text(
    open_page, tree: Path, tmp_path: Path
) -> None:
    results = shutil.copytree(tree.parent, tmp_path / "copied") / tree.name
    app = open_page(results=results)
    assert tiles(app)["fails now"] == "2"
    first, second = app.main.code[1].value.splitlines()
    assert main([*shlex.split(first)[1:], "--note", f"{HOSTILE} {MARKUP}"]) == EXIT_OK
    expired = [*shlex.split(app.main.code[0].value)[1:], "--until", "2026-03-31"]
    assert main(expired) == EXIT_OK
    (results / "triage" / "half.txt").write_text(f"state: {HOSTILE}\n")
    app.run()
    assert not app.exception
    assert tiles(app) == {"fails now": "1", "provisional": "0", "in triage": "1", "old": "1"}
    noted = re.escape(f": {HOSTILE} {MARKUP}")
    assert re.search(r"triage: investigating at \+(9|10)\.\d%" + noted, said(app))
    assert "expired" in app.dataframe[0].value["state"][0]
    assert "3 warnings about triage" in app.expander[0].label
    assert "half.txt" in said(app)
    assert "has expired: machine:simulated-a since" in said(app)
    for kind in (app.markdown, app.subheader, app.caption):
        assert all(HOSTILE not in one.value and "[click]" not in one.value for one in kind)
    assert second in app.main.code[-1].value


def test_names_are_quoted_for_the_shell_and_for_the_url(tree: Path) -> None:
    from dataclasses import replace

    import derive_changes

    told = next(one for one in found(tree).told if one.fails)
    grid = told.found.grid
    case = f"transfer.x[a='; rm -rf ~ #&machine=other,b={HOSTILE}]"
    odd = replace(
        told,
        found=replace(
            told.found,
            grid=replace(grid, cases=(case,) * len(grid.cases)),
            event=replace(told.found.event, id=f"{case}@{MACHINE}", direction="faster"),
        ),
    )
    (row,) = derive_changes.table([odd], "run time")["trend"]
    assert parse_qs(urlsplit(row).query)["case"] == [case]
    words = shlex.split(derive_changes.commands([odd], Path("/a b")))
    assert words[3:5] == [f"{case}@{MACHINE}", told.found.event.commit]
    assert words[-4:] == ["--direction", "faster", "--results", "/a b"]
    event = replace(odd.found.event, id="x\x15rm -rf ~\n@box")
    pasted = replace(odd, found=replace(odd.found, event=event))
    assert derive_changes.commands([pasted], Path("r")) == ""


def test_the_four_standings(tree: Path) -> None:
    from dataclasses import replace

    import derive_changes

    from hostbench.store.triage import Entry

    told = next(one for one in found(tree).told if one.fails)
    entry = Entry(series="a@b", since="1234567", direction="slower", state="noise")
    cases = {
        "fails now": told,
        "in triage": replace(told, triage=entry, fails=False),
        "old": replace(told, recent=False, fails=False),
        "provisional": replace(told, found=replace(told.found, status="provisional"), fails=False),
        "ended by a baseline reset": replace(
            told, found=replace(told.found, status="ended"), fails=False
        ),
    }
    for name, one in cases.items():
        assert derive_changes.standing(one) == name
    lapsed = replace(told, triage=entry, lapsed="outgrown")
    assert derive_changes.standing(lapsed) == "fails now"
    assert derive_changes.counts(cases.values()) == dict.fromkeys(cases, 1)
    assert derive_changes.counts([]) == dict.fromkeys(derive_changes.STANDINGS, 0)


def test_what_is_said_of_one_cause_is_said_once(tree: Path) -> None:
    """Entries that differ in their size alone, one of them outgrown."""
    from dataclasses import replace

    import derive_changes

    from hostbench.store.triage import Entry

    told = next(one for one in found(tree).told if one.fails)
    entry = Entry(series="a@b", since="1234567", direction="slower", state="accepted", effect=0.1)
    counts = replace(told, triage=entry, fails=False)
    outgrown = replace(told, triage=replace(entry, effect=0.02), lapsed="outgrown")
    (block,) = event_words.by_cause([outgrown, counts])
    assert derive_changes.evidence(block)[-1] == "triage: accepted"
    assert derive_changes.evidence([counts])[-1] == "triage: accepted at +10.0%"
    assert list(derive_changes.table(block, "run time")["triage"]) == [
        "accepted at +2.0% (outgrown)",
        "accepted at +10.0%",
    ]
    assert len(derive_changes.commands(block, Path("r")).splitlines()) == 1


def test_many_causes_are_drawn_in_parts(open_page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_words, "by_cause", lambda told: [[one] for one in [*told] * 12])
    app = open_page()
    assert len(app.dataframe) == 20
    assert app.selectbox[1].options == ["1 to 20 of 36", "21 to 36 of 36"]
    app.selectbox[1].set_value("21").run()
    assert len(app.dataframe) == 16
    assert app.query_params["from"] in ("21", ["21"])


def test_nothing_to_show_is_a_sentence(open_page, tmp_path: Path) -> None:
    from msgspec.structs import replace

    from hostbench.testing.histories import tree as trees

    quiet = trees.write(
        tmp_path / "q", replace(dashboard_tree.CHANGES, events=(), commits=20), git=False
    ).results
    assert f"No change to show: {NUM} series judged along commits" in said(open_page(results=quiet))
    short = replace(dashboard_tree.CHANGES, events=(), commits=4)
    results = trees.write(tmp_path / "s", short, git=False).results
    text = said(open_page(results=results))
    assert "Too few points to judge any series: the longest piece has 4, 11 are needed." in text
    assert "Not judged: 4 points at most" in said(open_page("trend", results, machine=MACHINE))
    scratch = dashboard_tree.gpu_run(7)
    num = len({one.case for one in scratch.records})
    archive.write(tmp_path / "one", scratch)
    text = said(open_page(results=tmp_path / "one"))
    assert f"No run that may be judged is stored: {num} points of scratch runs." in text
    text = said(open_page("trend", tmp_path / "one"))
    assert "Not judged: no point of it comes from a run that may be." in text


def test_what_was_judged_is_kept_until_a_file_changes(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = found(tree)
    monkeypatch.setattr(Explainer, "cause", lambda *_: pytest.fail("explained in the server"))
    assert found(tree) is first
    tomorrow = pd.Timestamp.now("UTC") + pd.Timedelta(days=1)
    monkeypatch.setattr(pd.Timestamp, "now", staticmethod(lambda *_: tomorrow))
    assert found(tree).told is not first.told
    assert found(tree).judged is first.judged
