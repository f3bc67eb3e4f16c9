"""The picture: whole as XML, with every span in its place, whatever the names are."""

import re
from typing import Any
from xml.etree import ElementTree

import pytest

from hostbench.core.lanes import KINDS, Lane, Span
from hostbench.timeline import picture
from hostbench.timeline.picture import MAX_LANES, MAX_SPANS, svg

_SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "a]]></text><script>alert(1)</script>\"' &\x00\x1b[2J\ud800\u202e\n"


def span(start_s: float, end_s: float, **more: Any) -> Span:
    return Span(**{"name": "mm", "kind": "compute", "start_s": start_s, "end_s": end_s, **more})


def lane(*spans: Span, name: str = "stream 1", place: str = "") -> Lane:
    return Lane(name=name, place=place, spans=spans)


def parsed(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(text)


def bars(text: str) -> list[ElementTree.Element]:
    return [one for one in parsed(text).iter(f"{_SVG}rect") if len(one)]


def tip(bar: ElementTree.Element) -> str:
    return bar[0].text or ""


def texts(text: str) -> list[str]:
    return ["".join(one.itertext()) for one in parsed(text).iter(f"{_SVG}text")]


def test_spans_lie_at_their_share_of_the_time() -> None:
    host = lane(span(2.0, 3.0, kind="call"), span(3.0, 6.0, kind="wait"), name="host")
    made = svg([host, lane(span(4.0, 6.0, nbytes=2048))], "a case")
    places = [(one.get("x"), one.get("width")) for one in bars(made)]
    assert places == [("0.0000%", "25.0000%"), ("25.0000%", "75.0000%"), ("50.0000%", "50.0000%")]
    first, waiting, computing = bars(made)
    assert first.get("y") == waiting.get("y") != computing.get("y")
    assert [tip(one) for one in bars(made)] == ["mm: 1 s", "mm: 3 s", "mm: 2 s, 2 KiB"]
    said = texts(made)
    assert {"a case", "host", "stream 1", "0", "1 s", "3 s"} <= {*said}
    assert {"waits 75%, in calls 25%", "busy 50%"} <= {*said}
    assert "time since the first start" in said


@pytest.mark.parametrize(
    ("name", "spans", "said"),
    [
        ("host", [span(0, 5, kind="load"), span(5, 8, kind="wait")], "waits 30%, waits for data"),
        ("thread 7", [span(0, 1, kind="wait"), span(5, 8, kind="call")], "waits 10%, in calls 30%"),
        ("torch", [span(0, 4, kind="op")], "in operations 40%"),
        ("host", [span(0, 4, kind="collective")], "in collectives 40%"),
        ("host", [], "no calls"),
        ("all streams", [], "idle"),
    ],
)
def test_each_lane_says_what_took_its_time(name: str, spans: list[Span], said: str) -> None:
    made = svg([lane(*spans, name=name)], "a case", window=(0.0, 10.0))
    assert any(text.startswith(said) for text in texts(made))


def test_waiting_for_data_is_hatched_the_other_way() -> None:
    made = svg([lane(span(0, 1, kind="wait"), span(1, 2, kind="load"), name="host")], "a case")
    assert [one.get("fill") for one in bars(made)] == ["url(#wait)", "url(#load)"]
    patterns = parsed(made).iter(f"{_SVG}pattern")
    slopes = [(one.get("id"), one.get("patternTransform")) for one in patterns]
    assert slopes == [("wait", "rotate(45)"), ("load", "rotate(-45)")]


def test_long_names_keep_what_tells_them_apart() -> None:
    places = [f"worker_process_of_the_training_on_host_node{n:03}.json GPU {n}" for n in range(2)]
    made = svg([lane(span(0, 1), name="stream 7", place=place) for place in places], "a")
    assert [said for said in texts(made) if "worker" in said] == [
        "worker_process_of_th\u2026_node000.json GPU 0",
        "worker_process_of_th\u2026_node001.json GPU 1",
    ]


def test_a_long_title_is_broken_behind_signs_and_stays_whole() -> None:
    name = "a_worker_process_of_the_training_on_host_node000.pt.trace.json.gz"
    made = svg([lane(span(0, 1))], f"{name}, {'x' * 90} short words")
    lines = [
        one.text or "" for one in parsed(made).iter(f"{_SVG}text") if one.get("class") == "title"
    ]
    assert lines[:2] == ["a_worker_process_of_the_training_on_host_", "node000.pt.trace.json.gz,"]
    assert max(map(len, lines)) <= 42
    assert "".join(lines[2:-1]).startswith("x" * 80) and lines[-1].endswith("short words")


def test_a_name_on_hatching_has_a_ground_of_its_own() -> None:
    made = svg([lane(span(0, 1, kind="wait"), span(1, 2, kind="call"))], "a case")
    named = [one.get("class") for one in parsed(made).iter(f"{_SVG}text") if one.text == "mm"]
    assert named == ["n on", "n"]


def test_the_legend_has_the_kinds_that_are_there() -> None:
    made = svg([lane(span(0, 1), span(1, 2, kind="H2D"))], "a case")
    assert [words for words in KINDS.values() if words in texts(made)] == [
        "copy to the device",
        "compute",
    ]


def test_text_from_anywhere_stays_text() -> None:
    named = span(0.0, 1.0, name=HOSTILE)
    made = svg([lane(named, name=HOSTILE, place=HOSTILE)], HOSTILE, [HOSTILE])
    root = parsed(made)
    tags = {one.tag.removeprefix(_SVG) for one in root.iter()}
    assert tags <= {"svg", "style", "defs", "pattern", "rect", "text", "title", "line"}
    assert "alert(1)" in tip(bars(made)[0])
    assert not re.search("[\x00-\x09\x0b-\x1f\ud800\u202e]", made)
    assert not any(name.startswith("on") for one in root.iter() for name in one.attrib)


def test_many_spans_are_merged_and_it_says_so() -> None:
    """Half of the time of each neighbourhood is idle, and 2 of 3 spans are copies."""
    kinds = ("H2D", "H2D", "compute")
    spans = [span(n, n + 0.5, kind=kinds[n % 3], nbytes=1) for n in range(30_000)]
    long = span(30_000.0, 60_000.0)
    made = svg([lane(*spans, long)], "a case")
    drawn = bars(made)
    assert 100 < len(drawn) <= MAX_SPANS
    merged = [one for one in drawn if "short spans" in tip(one)]
    assert {one.get("fill") for one in merged} == {picture._COLORS["H2D"]}
    assert {one.get("fill-opacity") for one in merged} <= {"0.35", "0.36", "0.37", "0.38"}
    assert tip(drawn[-1]) == "mm: 30000 s"  # what is long stands alone
    num = sum(int(tip(one).partition(" ")[0].replace(",", "")) for one in merged)
    assert num + len(drawn) - len(merged) == 30_001
    assert f"{num:,} short neighbours" in " ".join(texts(made))


def test_as_many_as_fit_are_all_drawn() -> None:
    made = svg([lane(*(span(n, n + 1) for n in range(MAX_SPANS)))], "a case")
    assert len(bars(made)) == MAX_SPANS
    assert "short" not in " ".join(texts(made))


def test_lanes_that_do_not_fit_are_said_to_be_left_out() -> None:
    made = svg([lane(span(0, 1), name=f"stream {n}") for n in range(90)], "a case")
    assert len(bars(made)) == MAX_LANES >= 8 * 8  # of eight ranks eight each
    assert f"Of 90 lanes the first {MAX_LANES} are drawn." in " ".join(texts(made))


@pytest.mark.parametrize("lanes", [[], [lane()], [lane(span(1.0, 1.0))]])
def test_nothing_or_no_time_at_all_is_drawn_too(lanes: list[Lane]) -> None:
    assert parsed(svg(lanes, "a case")).tag == f"{_SVG}svg"
    assert ("Nothing ran." in texts(svg(lanes, "a case"))) == (not any(one.spans for one in lanes))


@pytest.mark.parametrize("length_s", [3e-9, 4.7e-5, 1e-3, 0.5, 9.3, 86_400.0])
def test_the_axis_has_two_to_six_round_marks(length_s: float) -> None:
    marks = picture._ticks(length_s)
    assert 2 <= len(marks) <= 6
    assert marks[0] == 0 and marks[-1] <= length_s


def test_light_or_dark_as_the_screen_or_as_told() -> None:
    one = [lane(span(0, 1))]
    assert "prefers-color-scheme" in svg(one, "a")
    assert "prefers-color-scheme" not in svg(one, "a", scheme="dark")
    assert svg(one, "a", scheme="dark") != svg(one, "a", scheme="light")
