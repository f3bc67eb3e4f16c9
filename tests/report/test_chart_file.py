"""A chart as a file, drawn without a browser."""

import pytest

from hostbench.core.errors import HostbenchError
from hostbench.report.answer import Axis, Chart, Point
from hostbench.report.chart_file import chart_file
from hostbench.report.charts import drawn

SPEC = drawn(
    Chart(
        mark="bar",
        x=Axis(title=""),
        y=Axis(title="time", unit="s"),
        points=(Point(x="a\x00\x1b lane <b>", y=1.0),),
    )
)


def test_a_chart_is_kept_with_its_title_on_white() -> None:
    svg = chart_file(SPEC, "How\x07 fast & <i>far</i>?", "svg").decode()
    assert svg.startswith("<svg") and 'fill="white"' in svg
    assert "fast &amp; &lt;i&gt;far&lt;/i&gt;?" in svg and "lane &lt;b&gt;" in svg
    assert chart_file(SPEC, "x", "png").startswith(b"\x89PNG")


def test_what_cannot_be_drawn_says_so() -> None:
    with pytest.raises(HostbenchError, match="could not be drawn"):
        chart_file({**SPEC, "layer": "nothing"}, "x", "svg")
