"""Every page over each kind of results folder: nothing, a quick run, a history, another project's
asv tree, damaged and hostile files."""

import importlib
import json
import re
import shutil
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hostbench.core.case import AxisValue, Case
from hostbench.report import charts as vega
from hostbench.report import picture
from hostbench.report.blocks import Spec
from hostbench.store import archive, triage
from tests import dashboard_page
from tests.dashboard_page import PAGES, change_lines, charts, said, tables
from tests.fakes import builders, histories

if TYPE_CHECKING:
    from streamlit.testing.v1 import AppTest

on_the_path = dashboard_page.on_the_path

HOSTILE = "<script>alert(1)</script> [click](javascript:alert(1)) **bold** =1+1"
QUICK = "20261124T113000Z-1a2b3c4d-0009"
SLOWER = "transfer.host_to_device"
ASV_BOX, OLD, NEW = "my @box", "virtualenv-py3.9-six", "virtualenv-py3.10-six"
COMMITS, STEP, DAY_MS = 24, 12, 86_400_000


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A full run, and a newer quick one that skipped a case for a hostile reason."""
    results = tmp_path_factory.mktemp("quick")
    records = [
        one
        for family in ("transfer", "overlap", "allocation")
        for one in builders.simulated_records(family)
    ]
    for ranks in (2, 4, 8):
        for nbytes in (1 << 12, 1 << 20, 1 << 26):
            axes = {"device": "cuda", "num_ranks": ranks, "nbytes": nbytes}
            case = Case("collectives.all_reduce", axes)
            records.append(builders.record(case, 0, ranks * 1e-5 + nbytes / 1e10, nbytes=nbytes))
    archive.write(results, builders.run(records, facts=builders.GPU_FACTS, device="simulated"))
    copies = [
        builders.record(builders.copy_case(nbytes=nbytes, blocking=blocking), launch, seconds)
        for nbytes, seconds in ((1 << 12, 1e-5), (1 << 20, 1e-4), (1 << 26, 5e-3))
        for blocking in (True, False)
        for launch in range(2)
    ]
    odd = builders.skipped(builders.copy_case(memory="pinned"), HOSTILE)
    failed = builders.failed(builders.copy_case(nbytes=1 << 14), HOSTILE)
    about = {"run_id": QUICK, "started_at": "2026-11-24T11:30:00.000Z", "scratch": "quick"}
    archive.write(results, builders.run([*copies, odd, failed], profile="quick", **about))
    return results


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two machines whose copies to the device are 12 % slower from the 25th commit on; one has
    another driver from the 12th on."""
    names = ("simulated-gen5", "simulated-gen4")
    driver = {"fact": "nvml.driver", "value": "590.7", "effect": 0.05}
    story = {
        "seed": 3,
        "commits": 40,
        "series": 12,
        "machine": [{"name": name, "sigma": 0.004} for name in names],
        "event": [
            {"kind": "environment", "machine": names[0], "at": 12, **driver},
            {"kind": "code", "at": 25, "effect": 0.12, "series": SLOWER},
        ],
    }
    return histories.write(tmp_path_factory.mktemp("history"), story)


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As asv writes it: two environments on one machine, memory, a number without a unit, names
    with commas and quotes. In the old environment a benchmark takes twice as long from STEP on."""
    folder = tmp_path_factory.mktemp("project") / "results"
    (folder / ASV_BOX).mkdir(parents=True)
    about = {
        "sorting.time_sort": {"param_names": ["order"], "unit": "seconds"},
        "sorting.peakmem_sort": {"param_names": [], "unit": "bytes"},
        "sorting.track_ratio": {"param_names": [], "unit": "unit"},
        "version": 2,
    }
    (folder / "benchmarks.json").write_text(json.dumps(about))
    machine = {"machine": ASV_BOX, "cpu": "C", "version": 1}
    (folder / ASV_BOX / "machine.json").write_text(json.dumps(machine))
    for environment in (OLD, NEW):
        for index in range(COMMITS):
            slow = 2 if environment == OLD and index >= STEP else 1
            seconds = [0.001 * slow * (1 + 0.001 * (index % 3)), None]
            at, version = 1_600_000_000_000 + index * DAY_MS, "ab" * 32
            results = {
                "sorting.time_sort": [seconds, [["'a, b'", "'[it\\'s](x)'"]], version, at],
                "sorting.peakmem_sort": [[150 << 20], [], version, at],
                "sorting.track_ratio": [[1.5], [], version, at],
            }
            commit = f"{index:08x}" + "a" * 32
            data = {
                "commit_hash": commit,
                "env_name": environment,
                "date": at,
                "requirements": {},
                "result_columns": ["result", "params", "version", "started_at"],
                "results": results,
                "version": 2,
            }
            path = folder / ASV_BOX / f"{commit[:8]}-{environment}.json"
            path.write_text(json.dumps(data))
    return folder


@pytest.fixture
def open_page(monkeypatch: pytest.MonkeyPatch):
    def opened(page: str, results: Path, **query: str) -> "AppTest":
        app = dashboard_page.opened(monkeypatch, page, results, **query)
        assert not app.exception, app.exception
        no_markup(app)
        assert bool(charts(app)) is not bool(app.info), "it draws something, or says why not"
        return app

    return opened


@pytest.fixture
def data() -> Any:
    """The dashboard's own module, on whose path only these tests are."""
    return importlib.import_module("data")


def no_markup(app: "AppTest") -> None:
    """What comes from files stands on the page with every sign escaped."""
    assert not any(one.allow_html for one in app.markdown)
    for kind in (app.markdown, app.caption, app.info, app.subheader, app.warning):
        for one in kind:
            assert "<script>" not in one.value and "[click]" not in one.value


def test_without_a_result_the_command_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Before any page begins."""
    app = dashboard_page.opened(monkeypatch, "curves", tmp_path)
    assert not app.exception
    assert "No result is stored" in said(app) and "hostbench run --quick" in said(app)
    gone = dashboard_page.opened(monkeypatch, "curves", tmp_path / "nowhere")
    assert "no results folder" in said(gone) and "hostbench run --quick" in said(gone)


@pytest.mark.parametrize("page", PAGES)
def test_each_page_shows_a_quick_run(open_page, quick: Path, page: str) -> None:
    """Those of the other trees are opened below."""
    assert bool(open_page(page, quick).info) is (page in ("changes", "compare"))


def test_a_question_that_nothing_answers_is_no_choice(
    open_page, quick: Path, foreign: Path
) -> None:
    (workloads,) = [box for box in open_page("curves", foreign).selectbox if box.key == "workload"]
    assert len(workloads.options) > 1
    assert not [box for box in open_page("curves", quick).selectbox if box.key == "workload"]


def test_the_newest_run_comes_first_and_every_answer_names_its_run(open_page, quick: Path) -> None:
    app = open_page("overview", quick)
    assert any(re.search(r"quick, \d+ (min|h|days?) ago", one.value) for one in app.markdown)
    text = said(app)
    assert text.count("shelf, 2026-11-24 11:30, 1a2b3c4d, quick") == 2  # the head and its card
    assert text.count("shelf, 2026-11-21 12:00, 1a2b3c4d") == 3  # what it did not measure
    assert "a series needs 11 runs" in text


def test_a_card_says_what_its_picture_shows(open_page, history: Path) -> None:
    text = said(open_page("overview", history))
    (answer,) = re.findall(r"(.*)\n:small\[:gray\[H2D 1KiB pageable sync; dashed limit", text)
    assert re.fullmatch(r"pageable sync [.\d]+ GB/s\. At 1KiB\. *", answer)


def lines(spec: Spec) -> list[str]:
    """Each line of a picture, in the order of the legend."""
    return list(dict.fromkeys(point["series"] for point in spec["layer"][-1]["data"]["values"]))


def test_the_four_questions_are_curves(open_page, data: Any, quick: Path) -> None:
    import words

    store = data.Store(str(quick), data.signature(str(quick)))
    run = ("shelf", "20261121T120000Z-1a2b3c4d-0001")
    for name, ways in (("Copy", 12), ("Streams", 13), ("Create", 9), ("All-reduce", 3)):
        own = words.PICTURES[name]
        rows = data.rows_of_runs(store, (run,), (own.workload, *own.also))
        measure = picture.measures_of(own, rows)[0]
        x = own.x[0]
        spec = picture.chart(own, picture.drawn_rows(own, rows, x, measure), x, measure, 440)
        assert len(lines(spec)) == ways, name
        json.dumps(spec)
        assert spec["layer"][-1]["encoding"]["y"]["scale"]["type"] == "log"
        assert open_page("curves", quick, q=name, run="shelf, 2026-11-21 12:00, 1a2b3c4d")
    by_ranks = picture.drawn_rows(own, rows, "num_ranks", measure)  # of All-reduce
    spec = picture.chart(own, by_ranks, "num_ranks", measure, 440)
    assert lines(spec) == ["4KiB", "1MiB", "64MiB"]


def store_streams(results: Path, launches: Mapping[str, Sequence[float]]) -> None:
    """A run of `overlap.pipeline`: by schedule, the seconds of each launch."""
    axes: dict[str, AxisValue] = {"device": "cuda", "batch_bytes": 1 << 20, "memory": "pinned"}
    records = [
        builders.record(
            Case("overlap.pipeline", {**axes, "schedule": name}), launch, own, nbytes=8 << 20
        )
        for name, seconds in launches.items()
        for launch, own in enumerate(seconds)
    ]
    archive.write(results, builders.run(records))


def test_what_is_undecided_says_why_and_is_drawn_as_measured(open_page, tmp_path: Path) -> None:
    store_streams(tmp_path, {"serial": (4e-3, 4e-3), "copy_stream": (2e-3, 5e-3)})
    text = said(open_page("overview", tmp_path))
    assert "undecided: too few launches" in text
    (points,) = tables(open_page("curves", tmp_path, q="Streams", show="numbers"), "gb_per_s")
    assert len(points) == 2 and points["series"].is_unique


def test_one_size_of_streams_is_drawn_beside_the_ideal(open_page, tmp_path: Path) -> None:
    times = {"serial": 4e-3, "copy_stream": 2.2e-3, "copy_only": 2e-3, "compute_only": 2e-3}
    launches = {name: [own * (1 + n / 1000) for n in range(8)] for name, own in times.items()}
    store_streams(tmp_path, launches)
    text = said(open_page("overview", tmp_path))
    assert "hides " in text and "dashed ideal, " in text
    assert "dashed ideal, " in said(open_page("curves", tmp_path, q="Streams"))


def test_the_curve_of_a_quick_run_and_its_table(open_page, quick: Path) -> None:
    app = open_page("curves", quick, show="numbers")
    assert "pageable; shelf, 2026-11-24 11:30, 1a2b3c4d, quick" in said(app)
    assert [one.key for one in app.pills] == ["is-blocking"]
    (table,) = tables(app, "gb_per_s")
    assert len(table) == 6 and set(table["run"]) == {"2026-11-24 11:30, 1a2b3c4d, quick"}
    shown = app.dataframe[0].proto.arrow_data.styler.display_values
    assert b"5 ms" in shown and b"100 us" in shown and b" GB/s" in shown


def test_what_changed_and_where_it_leads(open_page, history: Path) -> None:
    app = open_page("changes", history)
    lines = change_lines(app)
    first, *others = lines
    assert re.match(r"\*\*up to \+1\d\.\d% commit .* :gray\[[▁-█]+\] .*fails now since", first), (
        first
    )
    assert "on simulated-gen" in first
    assert any("driver: 580.1 -> 590.7" in label for label in others)
    assert "most likely " in said(app) and "hostbench compare " in said(app)
    second = lines[others[0]]
    app.button(key=f"change {second}").click().run()
    assert app.query_params["change"] == second
    assert app.subheader[0].value.replace("\\", "") in others[0]
    app = open_page("changes", history, show="events")
    app.session_state["each"] = {"selection": {"cells": [[0, "series"]]}}
    app.run()
    assert app.title[0].value == "Trend" and app.query_params["case"].startswith(SLOWER)
    assert first in change_lines(open_page("overview", history))


def test_a_link_to_what_is_not_here_says_so(open_page, history: Path) -> None:
    assert "The change of the link is not here" in said(open_page("changes", history, change="x"))
    assert "The run of the link is not here" in said(open_page("runs", history, of="x@y"))
    links = {
        "overview": ("machine", "range"),
        "curves": ("q", "run", "show"),
        "changes": ("state",),
        "trend": ("case", "workload", "unit", "is-nbytes"),
        "compare": ("kind", "second"),
    }
    for page, key in ((page, key) for page, keys in links.items() for key in keys):
        assert "The link names gone, which is not here" in said(
            open_page(page, history, **{key: "gone"})
        )


def test_a_trend_opens_at_what_changed_most(open_page, history: Path) -> None:
    app = open_page("trend", history, show="points")
    assert app.selectbox(key="workload").value == SLOWER
    (points,) = tables(app, "kind")
    assert set(points["machine"]) == {"simulated-gen4", "simulated-gen5"} and set(
        points["kind"]
    ) == {"measured"}
    (commit, driver) = change_lines(open_page("trend", history, show="changes"))
    assert " commit " in commit and " driver: " in driver
    one = open_page("trend", history, show="points", machine="simulated-gen4", unit="GB/s")
    (rates,) = tables(one, "kind")
    assert set(rates["machine"]) == {"simulated-gen4"} and rates["y"].min() > points["y"].max()
    (chart,) = open_page("trend", history, machine="simulated-gen5").get("vega_lite_chart")
    spec = chart.proto.spec  # in the colour of the second of two
    assert vega.PALETTE[1] in spec and vega.PALETTE[0] not in spec


def test_choices_of_one_page_are_not_those_of_another(open_page, quick: Path) -> None:
    app = open_page("curves", quick, run="shelf, 2026-11-21 12:00, 1a2b3c4d")
    app.pills(key="is-memory").set_value(["pinned", "pageable"]).run()
    app.button_group(key="unit-Copy").set_value("time").run()
    app.button_group(key="q").set_value("All-reduce").run()
    assert app.button_group(key="unit-All-reduce").value == "bus GB/s"
    app.button_group(key="q").set_value("Copy").run()
    case = str(builders.copy_case(memory="pinned"))
    app.session_state["curves"] = {"selection": {vega.CLICKED: [{"case": case}]}}
    app.run()
    assert app.title[0].value == "Trend" and dict(app.query_params) == {"case": case}
    assert app.pills(key="is-memory").value == ["pinned"]


def test_machine_and_time_hold_on_every_page(open_page, history: Path) -> None:
    app = open_page("runs", history, show="every run")
    first = app.dataframe[0].value
    app.multiselect(key="machine").set_value(["simulated-gen5"])
    app.selectbox(key="range").set_value("7 days").run()
    few = app.dataframe[0].value
    assert len(first) == 80 and len(few) == 7 and set(few["machine"]) == {"simulated-gen5"}
    app.switch_page("views/trend.py").run()
    app.button_group(key="show").set_value("points").run()
    assert not app.exception
    (points,) = tables(app, "kind")
    assert len(points) == 7 * points["series"].nunique()


def test_an_entry_of_triage_is_noticed(open_page, data: Any, tmp_path: Path) -> None:
    entry = triage.Entry(series="a.b@c", since="1a2b3c4d" * 5, state="noise")
    signature = vars(data.signature)["__wrapped__"]
    before = signature(str(tmp_path))
    triage.put(tmp_path, entry)
    assert signature(str(tmp_path)) != before


def test_a_change_says_how_much_of_it_is_in_triage(
    open_page, data: Any, history: Path, tmp_path: Path
) -> None:
    results = shutil.copytree(history, tmp_path / "results")
    events = data.judged(data.Store(str(history), data.signature(str(history)))).events
    event = next(own for own in events if own.fails and own.case)
    triage.put(results, triage.Entry(series=event.id, since=event.commit, state="noise"))
    assert "triage: noise (1 of 4 events)" in said(open_page("changes", results))


def test_compare_opens_with_the_newest_run_against_the_level_before(
    open_page, data: Any, history: Path
) -> None:
    """The change is part of that level by now. Of two commits it is between them."""
    opened, markdown = {"show": "series"}, {"show": "Markdown for a pull request"}
    app = open_page("compare", history, **opened)
    assert app.selectbox(key="first").value == "level"
    (table,) = tables(app, "verdict")
    assert set(table["verdict"]) <= {"same", "undecided"} and len(table)
    (text,) = open_page("compare", history, **markdown).code
    assert not re.search(r"\| (slower|faster|same)", text.value)
    runs = data.runs(data.Store(str(history), data.signature(str(history))))
    commits = list(dict.fromkeys(runs["commit"]))
    two = {"first": commits[15][:8], "second": commits[14][:8]}
    app = open_page("compare", history, **two, **opened)
    assert "The link names" not in said(app)
    (table,) = tables(app, "verdict")
    slower = table[table["verdict"] == "slower"]["series"]
    assert len(slower) and slower.str.startswith("H2D ").all()
    (text,) = open_page("compare", history, **two, **markdown).code
    for verdict in ("slower", "faster"):
        assert text.value.count(f"| {verdict} |") == (table["verdict"] == verdict).sum()
    assert "are the same" in said(
        open_page("compare", history, first=commits[4][:8], second=commits[4][:8])
    )
    assert tables(open_page("compare", history, kind="machines", **opened), "verdict")


def test_a_run_says_what_failed_and_what_differs(
    open_page, data: Any, quick: Path, history: Path
) -> None:
    app = open_page("runs", quick, of=f"{QUICK}@shelf")
    (gaps,) = tables(app, "first case")
    assert list(gaps["status"]) == ["failed", "skipped"] and HOSTILE in gaps["reason"].iloc[0]
    runs = data.runs(data.Store(str(history), data.signature(str(history))))
    (upgraded,) = runs[runs["changed"] != ""].to_dict("records")
    assert upgraded["changed"] == "driver 580.1 -> 590.7"
    app = open_page("runs", history, of=f"{upgraded['run_id']}@{upgraded['machine']}")
    assert "- driver: 580.1 -> 590.7" in said(app)


def test_a_foreign_tree_needs_no_setup(open_page, data: Any, foreign: Path) -> None:
    case = "sorting.time_sort[order=a, b]"
    app = open_page("trend", foreign, case=case, show="points")
    assert set(app.pills(key="is-order").options) == {r"a\, b", r"\[it\'s\]\(x\)"}
    (points,) = tables(app, "kind")
    assert points["series"].nunique() == 2 and len(points) == 2 * COMMITS
    (change,) = change_lines(open_page("trend", foreign, case=case, show="changes"))
    assert change.startswith("**+100.0% ")
    app = open_page("changes", foreign)
    assert len(change_lines(app)) == 1 and "asv continuous " in said(app)
    cards = [own.proto.body for own in open_page("overview", foreign).get("html")]
    assert any("<img " in card for card in cards), "trends beside the dots of the runs"
    (runs,) = tables(open_page("runs", foreign, show="every run"), "run")
    assert runs["run"].is_unique and runs["run"].str.contains(OLD).sum() == COMMITS
    (compared,) = tables(open_page("compare", foreign, show="series"), "verdict")
    is_time = compared["series"].str.contains("sort")
    assert is_time.any() and set(compared["verdict"][~is_time]) == {"not judged"}
    store = data.Store(str(foreign), data.signature(str(foreign)))
    rows, *_ = data.comparison(store, ("level", f"{COMMITS - 1:08x}"), (ASV_BOX,))
    assert case in set(rows["case"]), "which a click leads to"


def test_what_measures_two_commits_of_another_project_is_asv(
    open_page, foreign: Path, quick: Path, tmp_path: Path
) -> None:
    one_run = shutil.copytree(
        foreign, tmp_path / "results", ignore=lambda _, names: {n for n in names if NEW in n}
    )
    for path in sorted(one_run.glob(f"*/*-{OLD}.json"))[1:]:
        path.unlink()
    for page in ("changes", "compare"):
        assert "asv continuous main HEAD" in said(open_page(page, one_run))
    assert "hostbench ab main" in said(open_page("changes", quick))


def test_names_are_short() -> None:
    import words

    case = "transfer.host_to_device[device=cuda,nbytes=16777216,memory=pinned,blocking=False]"
    assert words.case(case) == "H2D 16MiB pinned async"
    assert words.case("overlap.pipeline[batch_bytes=4194304,schedule=streams_2]") == (
        "pipeline 4MiB 2 streams"
    )
    odd = words.read("t[shape=(16, 16),order=a, b,mode=x=1]")
    assert odd.values == {"shape": "(16, 16)", "order": "a, b", "mode": "x=1"}
    schedules = sorted(
        ("streams_2", "copy_stream", "serial"),
        key=partial(picture.picture_of("overlap").order, "schedule"),
    )
    assert schedules == ["serial", "copy_stream", "streams_2"]


def test_a_case_that_one_environment_alone_has_is_drawn(
    open_page, data: Any, foreign: Path, tmp_path: Path
) -> None:
    shutil.copytree(foreign, tmp_path, dirs_exist_ok=True)
    for path in (tmp_path / ASV_BOX).glob(f"*-{NEW}.json"):
        stored = json.loads(path.read_text())
        del stored["results"]["sorting.time_sort"]
        path.write_text(json.dumps(stored))
    assert charts(open_page("changes", tmp_path)) == 1
    store = data.Store(str(tmp_path), data.signature(str(tmp_path)))
    (event,) = data.judged(store).events
    assert event.group == f"{ASV_BOX}/{OLD}"
    assert set(data.trend(store, ASV_BOX, event.case)["group"]) == {event.group}
