"""The pages over a tree of another project, as asv writes it: two environments on one machine,
memory, a number in a unit of its own, names with commas, quotes, spaces and @."""

import json
from collections.abc import Hashable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from tests import dashboard_page
from tests.dashboard_page import said

on_the_path = dashboard_page.on_the_path

MACHINE = "my @box"
OLD, NEW = "virtualenv-py3.9-numpy1.21-six@2", "virtualenv-py3.10-numpy1.25-six@2"
TIME, MEMORY, TRACK = "sorting.time_sort", "sorting.peakmem_sort", "sorting.track_ratio"
COMMITS = 24
STEP = 12
DAY_MS = 86_400_000
VERSION = "ab" * 32
FIRST_MS = 1_600_000_000_000


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """In the old environment time_sort takes twice as long from commit STEP on; the files were
    made in one night, the newest commit first."""
    project = tmp_path_factory.mktemp("project")
    results = project / "results"
    (results / MACHINE).mkdir(parents=True)
    about = {
        TIME: {"param_names": ["order"], "unit": "seconds"},
        MEMORY: {"param_names": [], "unit": "bytes"},
        TRACK: {"param_names": [], "unit": "unit"},
    }
    _write(results / "benchmarks.json", {**about, "version": 2})
    _write(results / MACHINE / "machine.json", {"machine": MACHINE, "cpu": "C", "version": 1})
    for environment in (OLD, NEW):
        for place in range(COMMITS):
            _file(results / MACHINE, environment, place)
    return project


def _file(folder: Path, environment: str, place: int) -> None:
    commit = f"{place:08x}" + "a" * 32
    slow = 2 if environment == OLD and place >= STEP else 1
    seconds = [0.001 * slow * (1 + 0.001 * (place % 3)), None, float("nan")]
    started = FIRST_MS + 100 * DAY_MS - place * 1000
    data = {
        "commit_hash": commit,
        "env_name": environment,
        "date": FIRST_MS + place * DAY_MS,
        "requirements": {},
        "result_columns": ["result", "params", "version", "started_at"],
        "results": {
            TIME: [seconds, [["'a, b'", "'it\\'s'", "None"]], VERSION, started],
            MEMORY: [[150 << 20], [], VERSION, started],
            TRACK: [[1.5], [], VERSION, started],
        },
        "version": 2,
    }
    _write(folder / f"{commit[:8]}-{environment}.json", data)


def _write(path: Path, data: dict[str, Any]) -> None:
    path.write_text(json.dumps(data))


@pytest.fixture
def open_page(monkeypatch: pytest.MonkeyPatch, tree: Path):
    def opened(page: str, **query: str):
        app = dashboard_page.opened(monkeypatch, page, tree / "results", **query)
        assert not app.exception
        return app

    return opened


def test_an_environment_is_a_part_of_the_series(open_page) -> None:
    series = open_page("series").dataframe[0].value
    assert set(series["machine"]) == {f"{MACHINE}, py3.9 numpy1.21", f"{MACHINE}, py3.10 numpy1.25"}
    step = f"{TIME}[order=a, b]"
    where = f"{MACHINE}/{OLD}"
    app = open_page("trend", machine=where, case=step)
    assert f"Points: {COMMITS} measured" in said(app)
    (changes,) = (one.value for one in app.dataframe if "change" in one.value)
    assert changes["change"].tolist() == ["+100.0%"]
    app = open_page("trend", machine=f"{MACHINE}/{NEW}", case=step)
    assert f"Points: {COMMITS} measured" in said(app)
    assert not any("change" in one.value for one in app.dataframe)


def test_a_trend_stands_along_commits_and_says_nothing_of_launches(open_page) -> None:
    app = open_page("trend", machine=f"{MACHINE}/{OLD}", case=f"{TIME}[order=a, b]")
    assert app.radio(key="axis").value == "commit date"
    assert "launch" not in said(app) and "another project" not in said(app)
    assert all(one.key != "scratch" for one in app.toggle)
    failed = open_page("trend", machine=f"{MACHINE}/{OLD}", case=f"{TIME}[order=it's]")
    assert f"Points: {COMMITS} failed" in said(failed)


def test_memory_is_in_bytes_and_has_no_level_where_it_is_not_judged(open_page) -> None:
    app = open_page("trend", machine=f"{MACHINE}/{OLD}", case=f"{MEMORY}[]")
    (chart,) = app.get("arrow_vega_lite_chart") or app.get("vega_lite_chart")
    spec = json.loads(chart.proto.spec)
    assert "MiB" in json.dumps(spec) and "memory (lower is better)" in json.dumps(spec)
    assert not any(layer["mark"].get("strokeWidth") == 2.5 for layer in spec["layer"])
    newest = open_page("series", find="peakmem").dataframe[0].value
    assert set(newest["case"]) == {MEMORY} and set(newest["newest"]) == {"150MiB"}
    ratio = open_page("series", find="track").dataframe[0].value
    assert set(ratio["newest"]) == {"1.5"}
    assert set(ratio["why"]) == {"it is in no unit: only times are judged"}


def test_names_with_the_sign_before_a_machine_lead_where_they_say(open_page) -> None:
    run_id = open_page("runs").dataframe[0].value["run_id"][0]
    one = open_page("runs", run=f"{run_id}@{MACHINE}")
    assert not one.warning and one.subheader[0].value.endswith("six\\@2")
    series = open_page("series", find="peakmem")
    series.session_state["ticked in series"] = [f"{MEMORY}[]@{MACHINE}/{OLD}"]
    link = series.run().get("page_link")[0].proto
    assert parse_qs(link.query_string) == {"machine": [f"{MACHINE}/{OLD}"], "case": [f"{MEMORY}[]"]}


def test_a_change_leads_to_asvs_commands(open_page) -> None:
    app = open_page("changes")
    key = app.dataframe[0].value
    assert len(key) == 1 and key["change"].tolist() == ["+100.0%"]
    from hostbench.report import causes

    row: dict[Hashable, Any] = {
        "id": f"{TIME}[order=a, b]@{MACHINE}/{OLD}",
        "commit": "c" * 40,
        "case": f"{TIME}[order=a, b]",
        "machine": MACHINE,
        "last_commit": "1" * 40,
        "first_commit": "2" * 40,
        "direction": "slower",
    }
    lines = causes.commands({**row}, Path("r")).splitlines()
    two = "1" * 12, "2" * 12
    assert lines[0] == f"asv continuous {' '.join(two)} --bench '^sorting\\.time_sort$'"
    assert lines[1] == f"asv find {'..'.join(two)} '^sorting\\.time_sort$'"
    assert not any(line.startswith(("hostbench run", "hostbench bisect")) for line in lines)


def test_a_value_may_hold_commas() -> None:
    import words

    text = f"{TIME}[shape=(16, 16),order=a, b,mode=x=1]"
    assert words.case(text, TIME) == "shape=(16, 16), order=a, b, mode=x=1"


def test_environments_are_compared(open_page) -> None:
    app = open_page("compare", kind="environment", verdict="all")
    assert app.selectbox(key="second").options == ["py3.10 numpy1.25", "py3.9 numpy1.21"]
    table = app.dataframe[0].value
    assert table["series"].tolist() == [f"{TIME}[order=a, b]@{MACHINE}", f"{MEMORY}[]@{MACHINE}"]
    assert "no environment" not in said(app)


def test_what_cannot_be_told_apart_is_shown_all_the_same(open_page) -> None:
    app = open_page("compare", second=f"{0:08x}" + "a" * 32, first=f"{1:08x}" + "a" * 32)
    table = app.dataframe[0].value
    assert set(table["verdict"]) == {"undecided"} and len(table) == 4
    assert "with no time and no bytes are not judged" in said(app)


def test_a_run_of_asvs_names_its_environment_alone(open_page) -> None:
    table = open_page("runs", run=f"asv-00000000-{OLD}@{MACHINE}").dataframe[0].value
    assert set(table["kind"]) == {"asv: py3.9 numpy1.21", "asv: py3.10 numpy1.25"}
    assert not {"torch", "driver", "unexpected", "not measured"} & set(table)
