"""One run rendered as text, Markdown, JSON and HTML, and one chart for Vega-Lite and as SVG."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Literal

import altair
import pandas as pd
import pytest
from msgspec import to_builtins

from hostbench.core.records import Run
from hostbench.core.units import MIB
from hostbench.families.question import Figure
from hostbench.report import charts
from hostbench.report.answer import Answer, Axis, Chart, Point, Rule
from hostbench.report.page import as_json, page
from hostbench.report.questions import answers, rows_of
from hostbench.report.write import WIDTH, text, write
from hostbench.store import archive
from tests.fakes.builders import copy_case, create_case, failed, record, run, skipped
from tests.report.test_page import HOSTILE
from tests.stored import read_tree

KEYS = {"family", "question", "state", "verdict", "figures", "notes", "text"}


def records(reason: str) -> list[Any]:
    made = [
        record(copy_case(device="cuda", nbytes=1 << power, memory=memory), launch, seconds)
        for power in (10, 28)
        for memory, seconds in (("pageable", 0.5), ("pinned", 0.1))
        for launch in range(8)
    ]
    for memory in ("pageable", "pinned"):
        case = copy_case(device="cuda", nbytes=1 << 28, memory=memory, blocking=False)
        made.append(failed(case, reason, seconds=0.3))
    made += [skipped(create_case(device="cuda", fill=fill), reason) for fill in ("zeros", "randn")]
    return made


def read(folder: Path, part: Run) -> tuple[pd.DataFrame, Run]:
    archive.write(folder, part)
    tree = read_tree(folder)
    return tree.frame, tree.runs[0]


def shown(one: tuple[pd.DataFrame, Run], form: str = "text") -> str:
    return write(page(*one), form)


@pytest.fixture
def hostile(tmp_path: Path) -> tuple[pd.DataFrame, Run]:
    facts = {"host": {"cpu_model": HOSTILE}, "software": {"torch": HOSTILE}}
    return read(tmp_path, run(records(HOSTILE), facts=facts, scratch=HOSTILE, device="cuda"))


@pytest.fixture
def plain(tmp_path: Path) -> tuple[pd.DataFrame, Run]:
    return read(tmp_path, run(records("no CUDA"), device="cuda"))


def test_text_and_markdown_say_question_verdict_and_figures(
    plain: tuple[pd.DataFrame, Run],
) -> None:
    lines = shown(plain).splitlines()
    at = lines.index("  Does pinned memory pay?")
    assert lines[at + 1 : at + 4] == [
        "      pinned is 5x faster than pageable",
        "          pageable 500 ms; pinned 100 ms (5x faster than pageable)",
        "          At 256MiB.",
    ]
    lines = shown(plain, "md").splitlines()
    at = lines.index("- **Does pinned memory pay?** pinned is 5x faster than pageable")
    assert lines[at + 1] == "  - pageable 500 ms"


def test_what_is_not_answered_is_one_line_for_each_reason(
    plain: tuple[pd.DataFrame, Run],
) -> None:
    for form in ("text", "md", "html"):
        words = shown(plain, form)
        assert words.count("Not answered (") == 2  # of two families
        assert words.count("or directly on the device?") == 2


def test_no_line_is_wider_than_a_terminal(hostile: tuple[pd.DataFrame, Run]) -> None:
    lines = text(answers(rows_of(hostile[0]))).splitlines()
    assert lines and max(map(len, lines)) <= WIDTH == 100
    assert all(line.isprintable() for line in lines)


def test_json_holds_the_records(plain: tuple[pd.DataFrame, Run]) -> None:
    found = answers(rows_of(plain[0]))
    again = json.loads(json.dumps(as_json(*plain), allow_nan=False))["answers"]
    assert [one["question"] for one in again] == [one.question for one in found]
    for said, answer in zip(again, found, strict=True):
        assert set(said) == KEYS
        assert all(said[name] == getattr(answer, name) for name in ("family", "state", "verdict"))
        assert said["notes"] == list(answer.notes)
        figures = [{**to_builtins(own), "text": str(own)} for own in answer.figures]
        assert said["figures"] == figures
    states = {one["question"]: one["state"] for one in again}
    assert states["Does pinned memory pay?"] == "yes"


class Tags(HTMLParser):
    """Elements and attributes of a page, as a browser reads them."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.attributes: set[tuple[str, str]] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.attributes.update((name, value or "") for name, value in attrs)


def test_html_stands_alone_and_runs_nothing(hostile: tuple[pd.DataFrame, Run]) -> None:
    document = shown(hostile, "html")
    tags = Tags()
    tags.feed(document)
    assert {"svg", "table", "code"} <= tags.names
    assert not tags.names & {"script", "img", "iframe", "link", "object", "embed", "a"}
    loads = {
        (name, value)
        for name, value in tags.attributes
        if name.startswith("on")
        or (name in ("src", "href", "xlink:href") and not value.startswith("#"))
        or "url(http" in value
    }
    assert not loads
    assert "@import" not in document
    assert not re.search(r"url\(\s*['\"]?http", document)


def test_an_answer_with_figures_is_shown_though_it_answers_nothing() -> None:
    figures = (Figure(label="a", value=1.0, unit="s"),)
    more = {"family": "f", "workload": "f.w", "verdict": "no link here", "state": "unavailable"}
    one = Answer(question="first?", figures=figures, **more)  # type: ignore[arg-type]
    other = Answer(question="second?", **more)  # type: ignore[arg-type]
    assert one.is_answered and not other.is_answered
    assert text([one]) == "  first?\n      no link here\n          a 1 s"


# charts

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
    chart = CHARTS[name]
    made = charts.drawn(chart)
    assert made["layer"]
    altair.LayerChart.validate(made)
    shown = charts.svg(charts.drawn(chart))
    assert shown.startswith("<svg") and "<script" not in shown and "NaN" not in shown


def test_a_failed_point_is_a_cross_and_on_no_line_and_limits_are_said_under_the_title() -> None:
    made = charts.drawn(CHARTS["line"])
    layers = made["layer"]
    marks = [layer["mark"]["type"] for layer in layers]
    assert marks == ["rule", "rect", "line", "rule", "point", "point"]
    assert layers[-1]["mark"]["shape"] == charts.CROSS
    held = [{row["status"] for row in layer["data"]["values"]} for layer in layers[-4:]]
    assert held == [{"ok"}, {"ok"}, {"ok"}, {"failed"}]
    assert made["title"]["text"] == ["Dashed: limit: PCIe, 2.5 GB/s.", "Band: published."]


def test_a_share_is_drawn_on_all_of_its_range() -> None:
    """Else 0.00007 stands at the top of the chart, as 1 would."""
    points = tuple(Point(x=2.0**n, y=value) for n, value in enumerate((4e-5, 7e-5)))
    made = charts.drawn(line(y=Axis(title="asyncness", unit="share"), points=points))
    assert made["layer"][-1]["encoding"]["y"]["scale"]["domain"] == [0, 1]


@pytest.mark.parametrize("mark", ["line", "bar"])
def test_bytes_are_ticked_at_round_ones(mark: Literal["line", "bar"]) -> None:
    """Not at 1.90735MiB, which is 2,000,000 bytes."""
    points = tuple(Point(x=n, y=n * 3 * MIB) for n in (1.0, 4.0))
    made = charts.drawn(line(mark=mark, y=Axis(title="peak", unit="bytes"), points=points))
    marks = made["layer"][0 if mark == "bar" else -1]
    ticks = marks["encoding"]["x" if mark == "bar" else "y"]["axis"]["values"]
    assert 4 <= len(ticks) <= 10 and ticks[-1] >= 12 * MIB
    assert all(tick % MIB == 0 for tick in ticks)
