"""The chart of an answer for Vega-Lite, and as SVG."""

from typing import Any, Literal

import pytest

from hostbench.core.units import MIB
from hostbench.report import charts
from hostbench.report.answer import Axis, Chart, Point, Rule
from tests.report.test_page import HOSTILE

POINTS = (
    Point(x=1024.0, y=1.0, series="a <b>", low=0.9, high=1.1, text=HOSTILE),
    Point(x=2048.0, y=2.0, series="a <b>", text="x"),
    Point(x=2048.0, y=1.5, series="", status="failed", text="x"),
)
RATE = Axis(title="GB/s", unit="GB/s", better="higher")
TIME = Axis(title="seconds", unit="s", is_log=True, better="lower")
SIZE = Axis(title="nbytes", unit="bytes", is_log=True)
RULES = (Rule(label="limit: PCIe", low=2.5), Rule(label="published", low=1.5, high=1.9))


def line(**changes: Any) -> Chart:
    fields: dict[str, Any] = {"mark": "line", "x": SIZE, "y": RATE, "points": POINTS}
    return Chart(**{**fields, **changes})


CHARTS = {
    "line": line(rules=RULES),
    "log": line(y=TIME),
    "log with zero": line(y=TIME, points=(Point(x=1.0, y=0.0), Point(x=2.0, y=1e-9))),
    "tiny and huge": line(y=TIME, points=(Point(x=1.0, y=1e-15), Point(x=2.0, y=1e15))),
    "all failed": line(points=(Point(x=1.0, y=1.0, status="failed"),)),
    "bar": line(
        mark="bar",
        x=Axis(title=""),
        y=Axis(title="seconds", unit="s"),
        points=tuple(
            Point(x=f"way {n}", y=p.y, low=p.low, high=p.high, status=p.status)
            for n, p in enumerate(POINTS)
        ),
        rules=(*RULES, Rule(label="third", low=0.1), Rule(label="fourth", low=0.2)),
    ),
    "hostile": line(mark="bar", points=(Point(x=HOSTILE, y=1.0, text=HOSTILE),)),
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


def test_a_failed_point_is_a_cross_and_on_no_line_and_limits_are_said_under_the_title() -> None:
    spec = charts.drawn(CHARTS["line"])
    layers = spec["layer"]
    marks = [layer["mark"]["type"] for layer in layers]
    assert marks == ["rule", "rect", "line", "rule", "point", "point"]
    assert layers[-1]["mark"]["shape"] == charts.CROSS
    held = [{row["status"] for row in layer["data"]["values"]} for layer in layers[-4:]]
    assert held == [{"ok"}, {"ok"}, {"ok"}, {"failed"}]
    assert spec["title"]["text"] == ["Dashed: limit: PCIe, 2.5 GB/s.", "Band: published."]


def test_a_share_is_drawn_on_all_of_its_range() -> None:
    """Else 0.00007 stands at the top of the chart, as 1 would."""
    points = tuple(Point(x=2.0**n, y=value) for n, value in enumerate((4e-5, 7e-5)))
    spec = charts.drawn(line(y=Axis(title="asyncness", unit="share"), points=points))
    assert spec["layer"][-1]["encoding"]["y"]["scale"]["domain"] == [0, 1]


@pytest.mark.parametrize("mark", ["line", "bar"])
def test_bytes_are_ticked_at_round_ones(mark: Literal["line", "bar"]) -> None:
    """Not at 1.90735MiB, which is 2,000,000 bytes."""
    points = tuple(Point(x=n, y=n * 3 * MIB) for n in (1.0, 4.0))
    spec = charts.drawn(line(mark=mark, y=Axis(title="peak", unit="bytes"), points=points))
    marks = spec["layer"][0 if mark == "bar" else -1]
    ticks = marks["encoding"]["x" if mark == "bar" else "y"]["axis"]["values"]
    assert 4 <= len(ticks) <= 10 and ticks[-1] >= 12 * MIB
    assert all(tick % MIB == 0 for tick in ticks)
