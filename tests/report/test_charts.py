"""A picture for Vega-Lite, and as SVG."""

from typing import Any

import pytest

from hostbench.report import charts
from hostbench.report.picture import Axis, Chart, Point
from tests.report.test_page import HOSTILE

RATE = Axis(title="GB/s", unit="GB/s", better="higher")
TIME = Axis(title="seconds", unit="s", is_log=True, better="lower")
SIZE = Axis(title="nbytes", unit="bytes", is_log=True)
LIMITS = {"limit: PCIe": 2.5, "limit: PCIe, gen4": 1.9, "third": 0.1, "fourth": 0.2}


def point(x: float | str, y: float, **about: Any) -> Point:
    fields: dict[str, Any] = {"low": None, "high": None, "series": "a <b>", "dash": ""}
    return Point(**{**fields, "text": HOSTILE, "about": {}, "x": x, "y": y, **about})


POINTS = (point(1024.0, 1.0, low=0.9, high=1.1), point(2048.0, 2.0))


def line(**changes: Any) -> Chart:
    fields: dict[str, Any] = {"mark": "line", "x": SIZE, "y": RATE, "points": POINTS}
    return Chart(**{**fields, "limits": {}, **changes})


CHARTS = {
    "line": line(limits=LIMITS),
    "log": line(y=TIME),
    "tiny and huge": line(y=TIME, points=(point(1.0, 1e-15), point(2.0, 1e15))),
    "bar": line(
        mark="bar",
        x=Axis(title=""),
        y=Axis(title="seconds", unit="s"),
        points=(point("way 1", 1.0, low=0.9, high=5.0), point("way 2", 2.0)),
        limits=LIMITS,
    ),
    "hostile": line(mark="bar", points=(point(HOSTILE, 1.0),)),
}


@pytest.mark.parametrize("name", CHARTS)
def test_a_chart_is_valid_and_becomes_svg(name: str) -> None:
    """Vega-Lite's schema knows it; vega draws it."""
    import altair  # takes as long as all of these tests

    spec = charts.drawn(CHARTS[name])
    assert spec["layer"]
    altair.LayerChart.validate(spec)
    shown = charts.svg(spec)
    assert shown.startswith("<svg") and "<script" not in shown and "NaN" not in shown


def test_limits_are_dashed_and_said_over_the_chart() -> None:
    spec = charts.drawn(CHARTS["line"])
    marks = [layer["mark"]["type"] for layer in spec["layer"]]
    assert marks == ["rule"] * 4 + ["line", "rule", "point"]
    assert spec["title"]["text"][0] == "Dashed: limit: PCIe, 2.5 GB/s."


def test_a_share_is_drawn_on_all_of_its_range() -> None:
    """Else 0.00007 stands at the top of the chart, as 1 would."""
    points = tuple(point(2.0**n, value) for n, value in enumerate((4e-5, 7e-5)))
    spec = charts.drawn(line(y=Axis(title="asyncness", unit="share"), points=points))
    assert spec["layer"][-1]["encoding"]["y"]["scale"]["domain"] == [0, 1]
