"""A picture for Vega-Lite, and as SVG."""

from typing import Any

import pytest

from hostbench.core.case import AxisValue
from hostbench.families.question import RATE, TIME, Measure, Picture, Row
from hostbench.report import charts
from hostbench.report.blocks import Spec
from hostbench.report.picture import chart
from tests.report.test_page import HOSTILE

SHARE = Measure("asyncness", "share", lambda row: row.call_s)
LIMIT: Any = {"ceiling_gb_per_s": 2.5, "ceiling": "PCIe"}


def row(seconds: float, nbytes: int = 1024, way: str = "a <b>", **more: Any) -> Row:
    axes: dict[str, AxisValue] = {"nbytes": nbytes, "way": way}
    known: dict[str, Any] = {"family": "own", "workload": "own.copy", "case": HOSTILE}
    rate = {"gb_per_s": 1 / seconds, "flags": HOSTILE, "device": "cpu", "status": "ok"}
    return Row(**{**known, **rate, "axes": axes, "seconds": seconds, **more})


def drawn(measure: Measure, *rows: Row) -> Spec:
    asked = Picture(choice="own", text="own", workload="own.copy")
    return chart(asked, rows, "nbytes", measure, 260)


BOXES = [
    row(1.0 + number, size, machine=name, ceiling=name, ceiling_gb_per_s=2.5 + number)
    for number, name in enumerate(("a", "b", "c", "d"))
    for size in (1024, 2048)
]
LINE = drawn(RATE, row(1.0, ci_low_s=0.9, ci_high_s=1.1, **LIMIT), row(2.0, 2048))
CHARTS = {
    "line": LINE,
    "lines of several machines": drawn(RATE, *BOXES),
    "log": drawn(TIME, row(1.0), row(2.0, 2048)),
    "tiny and huge": drawn(TIME, row(1e-15), row(1e15, 2048)),
    "bar": drawn(TIME, row(1.0, way="1", ci_low_s=0.9, ci_high_s=5.0), row(2.0, way="2")),
    "hostile": drawn(RATE, row(1.0, way=HOSTILE, **LIMIT), row(1.0, way="2")),
}


@pytest.mark.parametrize("name", CHARTS)
def test_a_chart_is_valid_and_becomes_svg(name: str) -> None:
    """Vega-Lite's schema knows it; vega draws it."""
    import altair  # takes as long as all of these tests

    spec = CHARTS[name]
    assert spec["layer"]
    altair.LayerChart.validate(spec)
    shown = charts.svg(spec)
    assert shown.startswith("<svg") and "<script" not in shown and "NaN" not in shown


def test_limits_are_dashed_and_said() -> None:
    marks = [layer["mark"]["type"] for layer in LINE["layer"]]
    assert marks == ["rule", "line", "rule", "point"]
    assert LINE["description"] == "a <b>; dashed limit from 1KiB on: PCIe, 2.5 GB/s"
    boxes = CHARTS["lines of several machines"]
    assert [own["limit"] for own in boxes["layer"][0]["data"]["values"]] == [2.5, 3.5, 4.5, 5.5]


def test_a_share_is_drawn_on_all_of_its_range() -> None:
    """Else 0.00007 stands at the top of the chart, as 1 would."""
    spec = drawn(SHARE, *(row(1.0, 2 << n, call_s=own) for n, own in enumerate((4e-5, 7e-5))))
    assert spec["layer"][-1]["encoding"]["y"]["scale"]["domain"] == [0, 1]
