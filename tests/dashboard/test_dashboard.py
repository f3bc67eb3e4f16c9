"""The dashboard's pages run by streamlit's own AppTest, and the functions under them."""

import gzip
import itertools
import random
import re
import sys
from datetime import date
from pathlib import Path

import pandas as pd
import pytest
from msgspec.structs import replace
from streamlit.testing.v1 import AppTest

from hostbench.core.errors import UsageError
from hostbench.core.records import Finish
from hostbench.core.units import MIB
from hostbench.store import archive
from tests import dashboard_page, dashboard_tree
from tests.dashboard_page import said
from tests.dashboard_tree import (
    CPU_MACHINE,
    FOREIGN,
    GPU_MACHINE,
    HOSTILE,
    MARKUP,
    STRUCK,
    TREND,
)
from tests.fakes.builders import copy_case, record, run

FAMILIES = ("transfer", "allocation", "synchronization", "overlap", "loading", "collectives")
ABOUT_ALL = ("status", "series", "changes", "compare", "runs", "machines", "method")
"""Pages that need no machine's numbers."""
PAGES = (
    "status",
    "series",
    "changes",
    "trend",
    "compare",
    "runs",
    "machines",
    "understand",
    "method",
    "family",
)
on_the_path = dashboard_page.on_the_path


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return dashboard_tree.write(tmp_path_factory.mktemp("results"))


@pytest.fixture
def rows(tree: Path) -> pd.DataFrame:
    """Of one series, as its page has them."""
    import data

    return data.trend(tree, GPU_MACHINE, TREND)


@pytest.fixture
def open_page(monkeypatch: pytest.MonkeyPatch, tree: Path):
    def open_it(page: str, results: Path = tree, **query: str) -> AppTest:
        return dashboard_page.opened(monkeypatch, page, results, **query)

    return open_it


def charts(app: AppTest) -> int:
    return len(app.get("arrow_vega_lite_chart")) + len(app.get("vega_lite_chart"))


def text_is_never_markup(app: AppTest) -> None:
    """What comes from files stands on the page with every sign escaped."""
    assert not any(one.allow_html for one in app.markdown)
    for kind in (app.markdown, app.caption, app.info, app.subheader, app.warning):
        for one in kind:
            assert HOSTILE not in one.value
            assert "[click]" not in one.value


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("machine", [GPU_MACHINE, CPU_MACHINE, FOREIGN])
def test_every_page_shows_every_machine(open_page, page: str, machine: str) -> None:
    app = open_page(page, machine=machine, everything="yes")
    assert not app.exception
    text_is_never_markup(app)
    if machine == CPU_MACHINE and page not in ABOUT_ALL:  # too short a history
        boxes = [str(option) for box in app.selectbox for option in box.options]
        assert "cpu device, no GPU" in said(app) + "\n".join(boxes)
    if page in ("understand", *ABOUT_ALL) or (machine == FOREIGN and page != "trend"):
        return
    assert charts(app)
    assert app.query_params["machine"] in (machine, [machine])


def test_a_table_has_no_word_for_what_is_missing(open_page) -> None:
    tables = [one.value for one in (*open_page("runs").dataframe, *open_page("machines").dataframe)]
    texts = [one.select_dtypes(["object", "string"]) for one in tables]
    cells = {cell for one in texts for column in one for cell in one[column]}
    assert "" in cells and not cells & {"nan", "None", "NaT", "<NA>"}


def test_trend_shows_every_kind_of_point(open_page) -> None:
    app = open_page("trend", machine=GPU_MACHINE, workload=TREND.partition("[")[0], case=TREND)
    expected = "6 measured, 1 scratch (never judged), 1 failed (struck out), 1 skipped"
    assert expected in said(app)
    assert "1 point has no 99 % interval" in said(app)
    table = app.dataframe[0].value
    assert list(table["kind"]).count("failed (struck out)") == 1
    assert HOSTILE in table["said"][table["kind"] == "skipped"].iloc[0]


def test_points_of_few_launches_are_scratch_in_a_trend_too(open_page) -> None:
    case = STRUCK.replace("cuda", "cpu")
    wanted = {"machine": CPU_MACHINE, "workload": case.partition("[")[0], "case": case}
    text = said(open_page("trend", **wanted))
    assert "Points: 1 scratch (never judged). " in text
    assert "each run is scratch" in said(open_page("trend", **wanted, scratch="no"))


def test_trend_takes_its_view_from_the_url_and_writes_it_there(open_page) -> None:
    wanted = {"machine": GPU_MACHINE, "case": TREND, "axis": "commit date", "unit": "GB/s"}
    app = open_page("trend", **wanted, scratch="no")
    assert app.selectbox(key="case").value == TREND
    assert [radio.value for radio in app.radio] == ["commit date", "GB/s"]
    assert not app.toggle(key="scratch").value
    assert "scratch (never judged)" not in said(app)
    app.radio(key="axis").set_value("run time").run()
    assert app.query_params["axis"] in ("run time", ["run time"])
    assert app.query_params["case"] in (TREND, [TREND])


def test_the_address_alone_says_what_is_chosen(open_page) -> None:
    """A page that is visited writes nothing into it, and each choice is one entry more: Back takes
    the last one away, or leads away from the page."""
    app = open_page("trend", machine=GPU_MACHINE, case=TREND)
    assert set(app.query_params) == {"machine", "case"}
    app.radio(key="unit").set_value("GB/s").run()
    assert set(app.query_params) == {"machine", "case", "unit"}
    del app.query_params["unit"]
    assert app.run().radio(key="unit").value == "seconds"
    app.selectbox(key="machine").set_value(CPU_MACHINE).run()
    assert set(app.query_params) == {"machine"}, "the case is another machine's"


@pytest.mark.parametrize("page", ["runs", "trend"])
def test_the_link_is_there_even_where_a_page_ends_early(open_page, page: str) -> None:
    app = open_page(page, everything="yes", machine=GPU_MACHINE)
    assert not app.exception
    assert "everything=yes" in app.sidebar.code[0].value
    assert f"machine={GPU_MACHINE}" in app.sidebar.code[0].value


def test_a_link_to_what_is_gone_says_so(open_page) -> None:
    app = open_page("family", machine=f"no {MARKUP}")
    assert "which is not here" in app.warning[0].value
    assert app.selectbox(key="machine").value == GPU_MACHINE


def table(app: AppTest, column: str) -> pd.DataFrame:
    """The table of the page that has this column."""
    return next(one.value for one in app.dataframe if column in one.value)


def test_a_missing_and_an_empty_folder_are_messages(open_page, tmp_path: Path) -> None:
    pages = [page for page in PAGES if page != "method"]
    for page, folder in zip(pages, itertools.cycle((tmp_path / "none", tmp_path)), strict=False):
        app = open_page(page, folder)
        assert not app.exception
        assert app.code[0].value == "hostbench run --quick"
        assert str(folder) in said(app)


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One run that is whole, half of another one, and a machine's facts that are no JSON."""
    folder = tmp_path_factory.mktemp("damaged")
    archive.write(folder, dashboard_tree.gpu_run(0))
    half = folder / GPU_MACHINE / "runs" / "20261101T000000Z-half.json.gz"
    half.write_bytes(gzip.compress(b"{}" * 99)[:20])
    (folder / GPU_MACHINE / "machine.json").write_text("{")
    return folder


@pytest.mark.parametrize("page", [page for page in PAGES if page != "method"])
def test_damage_is_a_warning_and_one_run_is_shown(open_page, page: str, damaged: Path) -> None:
    app = open_page(page, damaged)
    assert not app.exception
    assert any("2 warnings" in one.label for one in app.expander)
    assert "half.json.gz is damaged" in said(app)
    if page == "runs":
        num = len(dashboard_tree.gpu_run(0).header.planned)
        assert app.dataframe[0].value["ok"].tolist() == [num]
    elif page == "compare":
        assert "nothing to compare" in said(app)
    elif page == "changes":
        assert "No change to show: 0 of" in said(app)
    else:
        assert app.dataframe or charts(app)


def test_new_files_are_seen(open_page, tmp_path: Path) -> None:
    archive.write(tmp_path, dashboard_tree.gpu_run(0))
    app = open_page("runs", tmp_path)
    assert len(app.dataframe[0].value) == 1
    archive.write(tmp_path, dashboard_tree.gpu_run(1))
    app.run()
    assert len(app.dataframe[0].value) == 2


def test_the_results_argument_comes_before_the_environment(monkeypatch, tmp_path: Path) -> None:
    import stored

    monkeypatch.setenv("HOSTBENCH_RESULTS", "elsewhere")
    assert stored.results_folder() == Path("elsewhere")
    monkeypatch.setattr(sys, "argv", ["app.py", "--results", str(tmp_path)])
    assert stored.results_folder() == tmp_path
    monkeypatch.setattr(sys, "argv", ["app.py"])
    monkeypatch.delenv("HOSTBENCH_RESULTS")
    assert stored.results_folder() == Path("results")


def test_a_line_ends_where_the_same_commit_is_measured_again(rows: pd.DataFrame) -> None:
    from hostbench.report import trend

    found = trend.points(rows, TREND, "started_at", "seconds")
    assert found["y"].isna().sum() == 1
    assert found["kind"].tolist()[2:4] == ["skipped", "failed (struck out)"]
    assert len(trend.again(found)) == 2
    assert trend.lines(found)["piece"].tolist() == [1, 1, 1, 2, 3, 3, 3]


def test_a_line_of_very_many_points_keeps_its_outline() -> None:
    from hostbench.report import trend

    noise = random.Random(1)
    num = 10_000
    found = pd.DataFrame(
        {
            "x": [float(at) for at in range(num)],
            "y": [noise.gauss(1, 0.1) for _ in range(num)],
            "kind": trend.KINDS[0],
        }
    )
    found.loc[4_321, "y"] = 9.0
    found.loc[77, "y"] = found.loc[5_000, "y"] = float("nan")
    found.loc[77, "kind"] = found.loc[5_000, "kind"] = trend.KINDS[3]
    drawn = trend.thinned(found, 400)
    assert 200 < len(drawn) <= 402
    assert {0, 77, 4_321, 5_000, num - 1} <= set(drawn.index)
    assert drawn["x"].is_monotonic_increasing
    assert drawn["y"].agg(["min", "max"]).tolist() == found["y"].agg(["min", "max"]).tolist()
    assert len(trend.thinned(found.head(400), 400)) == 400
    one_odd = found.assign(kind=["failed", *["measured"] * (len(found) - 1)])
    assert abs(len(trend.thinned(one_odd, 400)) - len(trend.thinned(one_odd.tail(-1), 400))) < 8


def test_a_new_version_breaks_the_line(rows: pd.DataFrame) -> None:
    from hostbench.report import trend

    rows["version"] = ["1"] * 5 + ["2"] * 4
    found = trend.points(rows, TREND, "committed_at", "GB/s")
    pieces = trend.lines(found)
    of_version = pieces.groupby("version")["piece"].agg(set)
    assert not of_version["1"] & of_version["2"]
    assert (found["low"].dropna() <= found["y"][found["low"].notna()]).all()


def test_units_limits_and_facts_of_a_trend(rows: pd.DataFrame) -> None:
    from hostbench.report import trend

    units = trend.choices([rows])
    assert units == ["seconds", "GB/s", "% of the limit", "% of the first level"]
    share = trend.points(rows, TREND, "started_at", "% of the limit")["y"].dropna()
    assert share.between(1, 100).all() and trend.limit(rows, "% of the limit") == 100.0
    level = trend.points(rows, TREND, "started_at", "% of the first level")["y"].dropna()
    assert level.between(50, 200).all()
    changed = [said for _, said in trend.facts_changed(rows, "started_at")]
    assert changed == ["driver 580.1 -> 590.7"]
    steps = trend.levels(trend.points(rows, TREND, "started_at", "seconds"), [], detectable=0.02)
    assert len(steps) == 1 and (steps["low"] < steps["y"]).all()


def test_several_series_stand_in_one_picture(open_page) -> None:
    other = TREND.replace("pinned", "pageable")
    app = open_page("trend", machine=GPU_MACHINE, case=TREND, more=f"{other}@{GPU_MACHINE}")
    assert not app.exception
    assert app.multiselect(key="more").value == [f"{other}@{GPU_MACHINE}"]
    (chart,) = app.get("arrow_vega_lite_chart") or app.get("vega_lite_chart")
    assert "pageable" in chart.proto.spec and "pinned" in chart.proto.spec
    app.multiselect(key="more").set_value([]).run()
    assert set(app.query_params) == {"machine", "case"}
    app = open_page("trend", machine=GPU_MACHINE, case=TREND, more=f"{TREND}@{CPU_MACHINE}")
    assert f"Nothing is stored of {CPU_MACHINE}: " in said(app)


@pytest.fixture(scope="module")
def alike(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two machines of one model, measured on days 0 to 4."""
    results = tmp_path_factory.mktemp("alike")
    for day in range(5):
        run = dashboard_tree.gpu_run(day)
        archive.write(results, run)
        archive.write(results, replace(run, header=replace(run.header, machine="toy-gpu-2")))
    return results


def test_a_point_that_was_clicked_is_forgotten_with_its_series(rows: pd.DataFrame) -> None:
    import derive_trend

    names = derive_trend.SeriesNames(groups=[GPU_MACHINE], models={}, machine=GPU_MACHINE)
    line = derive_trend.TrendLine(f"{TREND}@{GPU_MACHINE}", GPU_MACHINE)
    run_id = rows["run_id"].iloc[3]
    point = {"run_id": run_id, "series": names.series(line.series), "machine": GPU_MACHINE}
    found = derive_trend.clicked_row({line: rows}, names, [point])
    assert found is not None and (found["run_id"], found["machine"]) == (run_id, GPU_MACHINE)
    for other in ({"run_id": "gone"}, {"series": "another"}):
        assert derive_trend.clicked_row({line: rows}, names, [point | other]) is None


def test_a_folder_that_goes_while_a_page_is_drawn_is_a_message(open_page, monkeypatch) -> None:
    import data

    def gone(*_: object) -> None:
        raise UsageError("there is no results folder")

    monkeypatch.setattr(data, "every_machine", gone)
    app = open_page("trend")
    assert not app.exception and "there is no results folder" in said(app)


def test_a_model_is_a_line_for_each_of_its_machines(open_page, alike: Path) -> None:
    import data

    (model,) = data.every_machine(alike).models
    app = open_page("trend", alike, machine=model, case=TREND, unit="seconds")
    assert not app.exception
    assert sorted(data.every_machine(alike).models[model]) == [GPU_MACHINE, "toy-gpu-2"]
    assert "Points: 6 measured, 2 failed (struck out), 2 skipped" in said(app)
    assert "nothing is judged across machines" in said(app)
    points = table(app, "said")
    assert points["series"].nunique() == 1
    assert points.groupby("machine").size().tolist() == [5, 5]
    app = open_page("trend", alike, case=TREND, more=f"{TREND}@{model}")
    assert not app.exception and not app.warning
    assert "Points: 9 measured, 3 failed" in said(app)
    (chart,) = app.get("arrow_vega_lite_chart") or app.get("vega_lite_chart")
    assert (
        f'"{GPU_MACHINE}: cuda, ' in chart.proto.spec and "2 machines: cuda, " in chart.proto.spec
    )


def test_no_line_leads_from_one_machine_to_another(rows: pd.DataFrame) -> None:
    from hostbench.report import trend

    found = trend.points(rows, TREND, "started_at", "seconds")
    both = pd.concat([found, found.assign(machine="other")], ignore_index=True)
    pieces = trend.lines(both).groupby("piece")["machine"].nunique()
    assert set(pieces) == {1} and len(trend.again(both)) == 2 * len(trend.again(found))


def shown(app: AppTest) -> None:
    next(one for one in app.button if one.label == "Show").click().run()


def test_a_link_keeps_the_days_that_are_shown(open_page) -> None:
    wanted = {"machine": GPU_MACHINE, "case": TREND, "from": "2026-11-02", "to": "2026-11-04"}
    app = open_page("trend", **wanted)
    days = {one[:10] for one in re.findall("2026-11-0[0-9]", "".join(table(app, "said")["said"]))}
    assert days == {"2026-11-02", "2026-11-03", "2026-11-04"}
    app.date_input(key="to").set_value(date(2026, 11, 3))
    shown(app)
    assert set(app.query_params) == set(wanted) and len(table(app, "said")) == 2
    app.session_state["days"] = True
    app.run().date_input(key="from").set_value(date(2026, 11, 9))
    shown(app)
    assert "No point has its run time from 2026-11-09 to 2026-11-03" in said(app)
    app = open_page("trend", **{**wanted, "from": MARKUP, "to": "2030-01-01"})
    assert "which is no day" in app.warning[0].value and len(table(app, "said")) == 9
    assert "which is no day" in open_page("trend", **{"from": "20261102"}).warning[0].value
    assert "asks for to 2030-01-01, and there are points from " in app.warning[1].value


def test_a_spreadsheet_computes_no_cell() -> None:
    import words

    assert [words.no_formula(one) for one in ("=1+1", "@x", "a=1", -1.5)] == [
        *("'=1+1", "'@x"),
        *("a=1", -1.5),
    ]


def test_plain_leaves_no_markup() -> None:
    import words

    assert len(words.plain("x" * 10_000)) < 1100

    assert words.plain("a*b") == "a\\*b"
    addresses = words.plain("https://x.org www.x.org a@x.org case@box")
    assert not re.search(r"/x|\.x\.|@x", addresses) and addresses.endswith("case\\@box")
    assert words.plain("two\n\nlines") == "two lines"
    for sign in "<[`$:_*#~|!":
        assert f"\\{sign}" in words.plain(MARKUP + "`#~|!_")


def test_a_partial_run_is_never_preferred_to_a_whole_one(tmp_path: Path, open_page) -> None:
    """It is newer, and ended after one launch of ten: the page is about the whole one."""
    whole = run([record(copy_case(), n) for n in range(10)], launches=10, run_id="whole")
    cut = run(
        [record(copy_case(), seconds=9.0)],
        launches=10,
        run_id="cut",
        started_at="2026-11-22T12:00:00.000Z",
        finish=Finish(at="2026-11-22T12:05:00.000Z", status="interrupted"),
    )
    for one in (whole, cut):
        archive.write(tmp_path, one)
    import data

    assert data.newest_of(tmp_path, data.machines(tmp_path)[0])["run_id"].tolist() == ["whole"]
    for path in tmp_path.glob("*/runs/*whole*"):
        path.unlink()
    assert data.newest_of(tmp_path, data.machines(tmp_path)[0])["run_id"].tolist() == ["cut"]
    assert "1 of 10 launches, partial" in open_page("runs", tmp_path).dataframe[0].value["kind"][0]
    states = set(open_page("understand", tmp_path).dataframe[0].value["state"])
    assert "one launch" in states and "measured" not in states


def test_a_run_of_a_few_chosen_cases_does_not_stand_for_its_family(
    tmp_path: Path, open_page
) -> None:
    """As `ab --case` leaves behind, newer than the quick run of all."""
    cases = [copy_case(nbytes=MIB << size) for size in range(4)]
    wide = run([record(one, n) for one in cases for n in range(8)], launches=8, scratch="quick")
    chosen = run(
        [record(cases[0], n) for n in range(10)],
        launches=10,
        run_id="chosen",
        started_at="2026-11-22T12:00:00.000Z",
        by="hostbench ab",
    )
    for one in (wide, chosen):
        archive.write(tmp_path, one)
    import data

    assert data.newest_of(tmp_path, data.machines(tmp_path)[0])["ok"].tolist() == [4]


def test_a_simulated_run_is_never_the_default(tmp_path: Path, open_page) -> None:
    """It is newer than the measured one, and can still be chosen."""
    real = run([record(copy_case())], launches=1, run_id="real")
    started = "2026-11-22T12:00:00.000Z"
    pretend = run([record(copy_case())], run_id="pretend", device="simulated", started_at=started)
    for one in (real, pretend):
        archive.write(tmp_path, one)
    app = open_page("family", tmp_path)
    assert app.selectbox(key="run").value == "real"
