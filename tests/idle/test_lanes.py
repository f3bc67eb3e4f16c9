"""A stretch of traces as lanes and as a picture."""

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from hostbench.cli import main
from hostbench.core.errors import EXIT_OK, EXIT_USAGE, UsageError
from hostbench.core.lanes import Lane
from hostbench.idle.lanes import asked, lanes, stretch, together
from hostbench.idle.trace import read_trace
from tests.made_trace import D2H_PAGEABLE, H2D, MadeTrace


@pytest.fixture
def made() -> MadeTrace:
    """Three steps of 1 ms, from 100 us on."""
    made = MadeTrace(rank=0)
    for at in (100, 1100, 2100):
        made.note(f"ProfilerStep#{at}", (at, at + 1000))
        made.copy((at, at + 5), (at + 10, at + 60), H2D, 64)
        made.kernel((at + 6, at + 9), (at + 60, at + 400))
        made.kernel((at + 9, at + 12), (at + 70, at + 600), "ncclDevKernel_AllReduce", stream=20)
        made.copy((at + 20, at + 410), (at + 402, at + 405), D2H_PAGEABLE)
        made.sync((at + 411, at + 412))
    return made


def spans_us(lane: Lane) -> list[tuple[str, int, int]]:
    return [(each.kind, round(each.start_s * 1e6), round(each.end_s * 1e6)) for each in lane.spans]


def test_the_step_in_the_middle(made: MadeTrace, tmp_path: Path) -> None:
    traces = [read_trace(made.write(tmp_path / "trace.json"))]
    window = stretch(traces)
    assert window == pytest.approx((1e-3, 2e-3))
    host, first, second = lanes(traces, *window)
    assert [(lane.name, lane.place) for lane in (host, first, second)] == [
        ("host", ""),
        ("stream 7", "GPU 0"),
        ("stream 20", "GPU 0"),
    ]
    assert spans_us(host) == [
        ("call", 0, 5),
        ("call", 6, 9),
        ("call", 9, 12),
        ("wait", 20, 410),
        ("wait", 411, 412),
    ]
    assert spans_us(first) == [("H2D", 10, 60), ("compute", 60, 400), ("D2H", 402, 405)]
    assert first.spans[0].nbytes == 64
    assert spans_us(second) == [("collective", 70, 600)]


def test_what_reaches_out_of_the_stretch_is_cut(made: MadeTrace, tmp_path: Path) -> None:
    traces = [read_trace(made.write(tmp_path / "trace.json"))]
    *_, second = lanes(traces, 300e-6, 500e-6)
    assert spans_us(second) == [("collective", 0, 200)]


def test_what_was_asked_for_is_part_of_the_trace(made: MadeTrace, tmp_path: Path) -> None:
    traces = [read_trace(made.write(tmp_path / "trace.json"))]
    assert asked(traces, None, None) == pytest.approx((0, 3e-3))
    assert asked(traces, 1e-3, None) == pytest.approx((1e-3, 3e-3))
    assert asked(traces, None, 1e-3) == pytest.approx((0, 1e-3))
    with pytest.raises(UsageError, match=r"--from 50 is behind the end of the trace, .* 0\.003 s"):
        asked(traces, 50, None)
    with pytest.raises(UsageError, match=r"--to 0\.001 is not after --from 0\.002"):
        asked(traces, 2e-3, 1e-3)


def test_traces_of_other_times_are_told_apart(tmp_path: Path) -> None:
    traces = []
    for name, late in (("a", 0), ("b", 90), ("c", 5000), ("d", 5000)):
        made = MadeTrace()
        made.kernel((late, late + 5), (late + 20, late + 120))
        traces.append(read_trace(made.write(tmp_path / f"{name}.json")))
    first, others = together(traces)
    assert [[each.file[0] for each in side] for side in (first, others)] == [["a", "b"], ["c", "d"]]


def test_ranks_are_beside_each_other_by_their_clocks(tmp_path: Path) -> None:
    traces = []
    for rank, late in ((0, 0), (1, 250)):
        made = MadeTrace(rank)
        made.kernel((late + 10, late + 15), (late + 20, late + 120), device=rank)
        traces.append(read_trace(made.write(tmp_path / f"{rank}.json")))
    assert stretch(traces) == pytest.approx((0, 110e-6))
    drawn = {lane.place: spans_us(lane) for lane in lanes(traces, 0, 1)}
    assert drawn["rank 0 GPU 0"] == [("compute", 10, 110)]
    assert drawn["rank 1 GPU 1"] == [("compute", 260, 360)]
    assert drawn["rank 1"] == [("call", 250, 255)]


def test_ranks_whose_times_count_from_moments_of_their_own(tmp_path: Path) -> None:
    traces = []
    for rank, base_ns in ((0, 1_700_000_000_000_000_000), (1, 1_700_000_005_000_000_000)):
        made = MadeTrace(rank)
        made.facts["baseTimeNanoseconds"] = base_ns
        made.kernel((10, 15), (20, 6_000_000), device=rank)
        traces.append(read_trace(made.write(tmp_path / f"{rank}.json")))
    drawn = {lane.place: lane.spans[0].start_s for lane in lanes(traces, 0, 20) if lane.spans}
    assert drawn["rank 0 GPU 0"] == pytest.approx(10e-6)
    assert drawn["rank 1 GPU 1"] == pytest.approx(5 + 10e-6, abs=1e-6)


def test_the_command_draws(
    made: MadeTrace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hostile = "<script>alert(1)</script>\x1b]0;\x07&'\""
    made.kernel((1200, 1205), (1710, 1900), hostile)
    trace, drawn = str(made.write(tmp_path / "trace.json")), tmp_path / "trace.svg"
    assert main(["idle", "--trace", trace, "-o", str(drawn)]) == EXIT_OK
    assert f"picture: {drawn}" in capsys.readouterr().out
    text = drawn.read_text()
    assert "script" not in [
        each.tag.rpartition("}")[2] for each in ElementTree.fromstring(text).iter()
    ]
    assert "alert(1)" in text
    assert "from 0.001 s to 0.002 s" in text
    for part, said in (
        (["--from", "0.002", "--to", "0.001"], "--to 0.001 is not after --from 0.002"),
        (["--from", "50"], "--from 50 is behind the end of the trace, which has 0.003 s"),
    ):
        assert main(["idle", "--trace", trace, "-o", str(drawn), *part]) == EXIT_USAGE
        assert said in capsys.readouterr().err
    assert main(["idle", "--trace", trace, "-o", str(drawn), "--from", "0.0025"]) == EXIT_OK
    assert "from 0.0025 s to 0.003 s" in drawn.read_text()
    assert main(["idle", "--trace", trace, "-o", str(tmp_path / "no" / "a.svg")]) == EXIT_USAGE


def test_a_picture_of_traces_that_do_not_overlap_is_of_the_first(
    made: MadeTrace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    late = MadeTrace(rank=1)
    late.kernel((9e6, 9e6 + 5), (9e6 + 10, 9e6 + 20))
    files = [made.write(tmp_path / "early.json"), late.write(tmp_path / "late.json")]
    drawn = tmp_path / "both.svg"
    words = [word for file in files for word in ("--trace", str(file))]
    assert main(["idle", *words, "-o", str(drawn)]) == EXIT_OK
    said = capsys.readouterr()
    assert "2 GPUs: idle" in said.out
    assert "the picture is of 1 trace: late.json does not overlap in time with early" in said.err
    assert "late.json" not in drawn.read_text()


def test_a_trace_without_anything_to_draw(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = MadeTrace()
    made.op("aten::mm", (0, 10))
    trace = str(made.write(tmp_path / "trace.json"))
    assert main(["idle", "--trace", trace, "-o", str(tmp_path / "a.svg")]) == EXIT_USAGE
    assert "has nothing to draw" in capsys.readouterr().err
