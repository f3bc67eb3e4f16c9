"""The pages Status and Series, and the functions under them."""

from collections.abc import Hashable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from tests import dashboard_page, dashboard_tree, vega
from tests.dashboard_page import said
from tests.dashboard_tree import CHANGED_MACHINE, SLOWER

on_the_path = dashboard_page.on_the_path


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return dashboard_tree.write_changes(tmp_path_factory.mktemp("changes"))


@pytest.fixture
def open_page(monkeypatch: pytest.MonkeyPatch, tree: Path):
    def open_it(page: str, **query: str) -> AppTest:
        return dashboard_page.opened(monkeypatch, page, tree, **query)

    return open_it


def test_the_status_is_one_sentence_tiles_a_heatmap_and_the_top_causes(open_page) -> None:
    app = open_page("status")
    assert not app.exception
    text = said(app)
    assert "1 cause fails on 1 machine, the newest since 2026-03-02; 9 of 9 series judged" in text
    links = {link.proto.label: link.proto.query_string for link in app.get("page_link")}
    assert links["**1** fail now"] == "state=fails+now" or "fails" in links["**1** fail now"]
    assert "**1** stale machine" in links and "**0** not judged" in links
    assert app.get("arrow_vega_lite_chart") or app.get("vega_lite_chart")
    top = app.dataframe[0].value
    assert top["state"].tolist() == ["fails now", "old", "faster"]
    assert top["cause"].tolist() == ["code", "environment", "code"]
    assert top["what"][1] == "driver: 580.1 -> 590.7" and top["series"].tolist() == [2, 9, 1]
    assert len(top["sparkline"][0]) == 40


def test_where_nothing_is_judged_no_tile_says_that_nothing_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    app = dashboard_page.opened(monkeypatch, "status", dashboard_tree.write(tmp_path))
    labels = [one.proto.label for one in app.get("page_link")]
    assert labels[:2] == ["**-** fail now", "**-** provisional"]


def test_every_series_is_found_and_leads_to_trend(open_page) -> None:
    app = open_page("series")
    table = app.dataframe[0].value
    assert len(table) == 9 and app.get("page_link")[0].proto.disabled
    assert len(open_page("series", find="host_to_device 1024").dataframe[0].value) == 1
    (small,) = open_page("series", find="host_to_device 1KiB,").dataframe[0].value["case"]
    assert "cuda, 1KiB, pageable" in small
    few = open_page("series", workload=SLOWER, machine=CHANGED_MACHINE).dataframe[0].value
    assert set(few["by"]) == {"+9.8%", "+10.0%"} and few["noise"].between(0.001, 0.01).all()
    assert "No series is like that" in said(open_page("series", show="stopped"))


def event(**more: Any) -> dict[Hashable, Any]:
    usual: dict[Hashable, Any] = {
        "id": "a.b[n=1]@box",
        "machine": "box",
        "group": "box",
        "moved": pd.NA,
        "case": "a.b[n=1]",
        "kind": "step",
        "status": "confirmed",
        "fails": True,
        "triage": None,
        "lapsed": "",
        "effect": 0.1,
        "why": "",
        "cause": "code",
        "evidence": ["no fact that counts differs", "landed: 1234abcd Wait; twice"],
        "first_commit": "1234abcd" * 5,
        "first_committed_at": pd.Timestamp("2026-03-02", tz="UTC"),
    }
    return usual | more


def test_a_cause_is_one_row_over_all_machines() -> None:
    from hostbench.report import causes

    events = causes.with_causes(
        pd.DataFrame(
            [
                event(),
                event(machine="other", id="a.b[n=1]@other", effect=0.3),
                event(id="faster@box", effect=-0.6, fails=False),
                event(cause="environment", evidence=["same", "torch: 2.1 -> 2.2"], fails=False),
                event(machine="other", cause="environment", evidence=["torch: 2.1 -> 2.2"]),
                event(effect=-0.2, fails=False, first_commit="f" * 40),
                event(kind="break", fails=False, why="version 1 -> 2", effect=float("nan")),
            ]
        )
    )
    ids = ["faster@box", "a.b[n=1]@other", "slow@other", "new@other"]
    drawn = [[2.0, 1.0], [1.0, 3.0], [60.0, 20.0], [9.0]]
    groups = ["box", "other", "other", "other"]
    series = pd.DataFrame({"id": ids, "sparkline": drawn, "group": groups})
    found = causes.causes(events, series)
    assert found["what"].tolist() == [
        "commit 1234abcd Wait",
        "torch: 2.1 -> 2.2",
        "commit ffffffff Wait",
        "version 1 -> 2",
    ]
    assert found["state"].tolist() == ["fails now", "fails now", "faster", "baseline reset"]
    assert found["machines"].tolist()[:2] == ["box, other", "box, other"]
    assert found["change"].tolist() == ["+30.0%", "+10.0%", "-20.0%", ""]
    assert found["sparkline"][0] == [1.0, 3.0]  # of the one that it is called after
    assert causes.worst_of(events[events["key"] == found["key"][0]])["effect"] == 0.3
    whole = causes.with_causes(pd.DataFrame([event(id="machine:other", case="", group="other")]))
    assert causes.causes(whole, series)["sparkline"][0] == [1.0, 1.0]  # the median of two
    assert causes.counted(events)["fails now"] == 2
    assert causes.in_words(228158.803) == "x228,160"
    assert causes.state(event(fails=False)) == "old"
    assert causes.state(event(fails=False, triage="accepted")) == "in triage"
    assert causes.state(event(fails=False, status="provisional")) == "provisional"


def test_the_heatmap_tells_not_judged_from_no_change() -> None:
    import charts_status

    series = pd.DataFrame(
        {
            "machine": ["new", "box", "box", "box"],
            "workload": ["a", "a", "a", "b"],
            "case": ["a[n=1]", "a[n=1]", "a[n=2]", "b"],
            "change": [float("nan"), 0.0, -0.5, 0.0],
        }
    )
    found = charts_status.arranged(charts_status.cells(series), ["box", "new"], {"new"})
    assert found["machine"].tolist() == ["box", "box", "new"]
    assert found["said"].tolist() == ["-50.0% of a[n=2]", "no change", "not judged"]
    assert found["shade"].tolist()[:2] == [-0.2, 0.0] and found["stale"].tolist() == [0, 0, 1]
    drawn = charts_status.heatmap(found)
    vega.check(drawn)
    (empty,) = (one for one in drawn["layer"][0]["data"]["values"] if one["machine"] == "new")
    assert empty["shade"] is None
