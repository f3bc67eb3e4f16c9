"""A series as the page Trend draws it."""

import json
from dataclasses import replace

import pandas as pd
import pytest

from hostbench.judge.grid import marked
from hostbench.report.charts import GREY
from hostbench.report.history import history_of
from hostbench.report.trend import SHARE, chart, trend, units_of
from hostbench.store.results import Results
from tests.fakes import history as histories
from tests.fakes.builders import copy_case
from tests.fakes.history import NightlyRun, nightly, sha

CASE, NUM, STEP = copy_case(), 300, 200
FAILING = 77


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    def level(case: int, run: NightlyRun) -> float | str:
        return "failed" if run.commit == FAILING else 1.2 if run.commit >= STEP else 1.0

    def driver(run: NightlyRun) -> str:
        return "590.2" if run.commit >= STEP // 2 else "580.1"

    folder = tmp_path_factory.mktemp("trend") / "results"
    histories.write(folder, nightly(NUM), level, cases=[CASE], driver=driver)
    return Results(folder)


def test_levels_changes_and_an_outline_of_many_points(results: Results) -> None:
    rows = marked(results.trend("shelf", str(CASE)))
    events = history_of(results).events
    assert units_of([rows])[0] == "time" and SHARE in units_of([rows])
    line = trend(rows, "a copy", SHARE, events=events, detectable=0.01, most=60)
    assert line.num_points == NUM and 30 < len(line.points) <= 90
    assert [level["y"] for level in line.levels] == pytest.approx([100, 120], rel=0.02)
    assert all(level["high"] == pytest.approx(1.01 * level["y"]) for level in line.levels)
    every = trend(rows, "a copy", SHARE, most=NUM).points
    assert line.points["y"].max() == every["y"].max() and line.points["y"].min() == every["y"].min()
    (failed,) = line.points[line.points["kind"] == "failed"].to_dict("records")
    assert pd.isna(failed["y"]) and "failed: " in failed["text"]
    labels = [rule["text"] for rule in line.rules]
    assert labels == [labels[0], "driver 580.1 -> 590.2"]
    assert labels[0].endswith(f"% {sha(STEP)[:8]}")


def test_a_chart_is_plain_json(results: Results) -> None:
    rows = marked(results.trend("shelf", str(CASE)))
    (event,) = history_of(results).events
    for spec in (
        chart([trend(rows.iloc[STEP - 30 :], "a", "time", events=[event])], "time", height=300),
        chart([trend(rows, name, "time", "started_at") for name in ("a", "b")], "time"),
        chart([trend(rows.head(1), "a", "time")], "time"),
    ):
        json.dumps(spec, allow_nan=False)
        names = [select["name"] for layer in spec["layer"] for select in layer.get("params", ())]
        assert names == ["clicked", "days"]


def test_the_largest_changes_have_a_label_over_the_chart_on_rows_of_their_own(
    results: Results,
) -> None:
    rows = marked(results.trend("shelf", str(CASE)))
    line = trend(rows, "a copy", "time")
    first, last = line.points["x"].iloc[[0, -1]]
    shares = (0.0, 0.05, 0.3, 0.35, 0.4, 0.98)
    every = [
        {"x": first + share * (last - first), "color": GREY, "text": str(share), "size": share}
        for share in shares
    ]
    spec = chart([replace(line, rules=every)], "time")
    rules = next(own for own in spec["layer"] if own["mark"]["type"] == "rule")
    assert {rule["text"] for rule in rules["data"]["values"]} == {*map(str, shares)}
    labels = [own for own in spec["layer"] if own["mark"]["type"] == "text"]
    texts = [own["data"]["values"][0]["text"] for own in labels]
    assert texts == ["0.98", "0.4", "0.35", "0.3"]
    assert [own["mark"]["align"] for own in labels] == ["right", "left", "left", "left"]
    assert len({own["mark"]["dy"] for own in labels}) == len(labels)
