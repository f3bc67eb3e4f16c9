"""The first screen: one page that says what was learnt, and nothing that the launches do not."""

import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hostbench.core.case import AxisValue, Case
from hostbench.core.records import CaseRecord
from hostbench.report.screen import WIDTH, screen
from hostbench.store import archive
from hostbench.store.results import Results
from tests.fakes.builders import FACTS, copy_case, create_case, failed, record, run, skipped
from tests.stored import read_tree

RESULTS = Path(__file__).parents[2] / "results"
NEXT = [("next", "hostbench report")]
LOAD = {"load_average_1min": 3.8, "num_usable_cores": 2, "num_logical_cores": 2}
BUSY = {**FACTS, "host": {**FACTS["host"], **LOAD}}
HOSTILE = "[red]it[/red]\x1b]0;broke\x07\n<b>"


def loop(trap: str, step_us: int = 10) -> Case:
    return Case.of("synchronization.loop", {"device": "cpu", "step_us": step_us, "trap": trap})


def timed(times: Mapping[Case, Sequence[float]]) -> list[CaseRecord]:
    """Seconds of each launch, by case."""
    return [
        record(case, launch, seconds)
        for case, launches in times.items()
        for launch, seconds in enumerate(launches)
    ]


def steady(seconds: float, num: int = 8) -> list[float]:
    return [seconds * (1 + 0.001 * launch) for launch in range(num)]


def shown(folder: Path, records: Sequence[CaseRecord], **changes: Any) -> list[str]:
    archive.write(folder, run(records, **{"launches": 8, **changes}))
    tree = read_tree(folder)
    return screen(tree.runs[0], tree.frame, NEXT).splitlines()


def line_of(lines: Sequence[str], start: str) -> str:
    (line,) = [line for line in lines if line.strip().startswith(start)]
    return line


def test_what_costs_and_what_pays_comes_first_with_its_figures_below(tmp_path: Path) -> None:
    moved, direct = (create_case(place=place) for place in ("cpu_then_move", "direct"))
    times = {
        loop("none"): steady(40e-6),
        loop("item"): steady(100e-6),
        loop("shape"): steady(40e-6),
        moved: steady(1e-3),
        direct: steady(4e-4),
    }
    lines = shown(tmp_path, timed(times), scratch="quick")
    assert lines[0].startswith(
        "shelf · A Toy CPU · torch 2.13.0+cpu · no GPU: CPU threads stand in, not CUDA"
    )
    assert "8 launches" in lines[1] and lines[1].endswith("quick: not in the history")
    assert line_of(lines, "Costs most:").endswith(".item() per 10 us step 2.5x")
    assert line_of(lines, "Pays most:").endswith("zeros direct 2.5x")
    assert re.search(r"40\.\d -> 100 us +2\.5x slower \(2\.5-2\.5\)$", line_of(lines, ".item()"))
    assert re.search(r"same within 0 %$", line_of(lines, "t.shape"))
    assert re.search(r"moved 1 ms, direct 4\d\d us +direct 2\.5x faster", line_of(lines, "zeros"))


def test_what_is_not_established_says_how_large_it_may_be_or_why(tmp_path: Path) -> None:
    near = [1.0, 1.01, 0.99, 1.02, 0.98, 1.03, 1.0, 0.97]
    far = [1.0, 1.4, 0.8, 1.2, 0.7, 1.1, 1.0, 0.9]
    cases = {
        loop("none"): [40e-6 * n for n in near],
        loop("item"): [40e-6 * n for n in reversed(near)],
        loop("print"): [44e-6 * n for n in far],
    }
    lines = shown(tmp_path, timed(cases), facts=BUSY)
    assert "machine busy" in lines[1]
    assert line_of(lines, "busy").strip().startswith("busy           load 3.8: on a quiet machine")
    assert "No difference between two habits is established by these launches." in lines
    assert re.search(r"(no difference seen \(<\d %\)|same within \d %)$", line_of(lines, ".item()"))
    assert line_of(lines, "print(t)").endswith("undecided: launches vary 70 %, load 3.8")
    cases = {loop("none"): steady(40e-6, 1), loop("item"): steady(90e-6, 1)}
    lines = shown(tmp_path / "few", timed(cases), launches=1)
    assert line_of(lines, ".item()").endswith("undecided: too few launches")


def test_what_has_no_number_is_told_apart(tmp_path: Path) -> None:
    pinned = skipped(copy_case(memory="pinned"), "no pinned memory; it needs a GPU")
    surprise = record(
        copy_case(blocking=False),
        expected={"asynchronous": True},
        measurement={"end_to_end_s": [0.5], "findings": {"asynchronous": False}},
    )
    broken = failed(create_case(), HOSTILE)
    lines = shown(tmp_path, [record(copy_case()), surprise, pinned, broken], launches=1)
    assert line_of(lines, "needs a GPU").endswith("no pinned memory")
    assert line_of(lines, "unexpected").endswith("1 case did not do what is documented")
    text = " ".join(" ".join(lines).split())
    assert "[red]it[/red] ]0;broke <b>" in text and text.isprintable()


def test_cases_that_no_question_asks_about_say_why_they_were_skipped(tmp_path: Path) -> None:
    axes: dict[str, AxisValue] = {"device": "cpu", "num_ranks": 2, "operation": "all_reduce"}
    without = "this torch is built without mpi"
    by_mpi = [
        skipped(Case.of("collectives.operation", {**axes, "nbytes": nbytes}), why)
        for nbytes, why in ((4096, "odd"), (65536, without), (1 << 20, without))
    ]
    lines = shown(tmp_path / "mpi", by_mpi)
    assert line_of(lines, "skipped").split(maxsplit=1)[1] == f"3 cases: {without}"
    pinned = skipped(copy_case(memory="pinned"), "no pinned memory; it needs a GPU")
    told = shown(tmp_path / "told", [record(copy_case()), pinned], launches=1)
    assert line_of(told, "needs a GPU") and not any(one.startswith("skipped") for one in told)


def test_the_longest_text_stays_on_the_page(tmp_path: Path) -> None:
    facts = {
        **BUSY,
        "software": {**FACTS["software"], "torch": "2.13.0+" + "long" * 30},
        "during": {"host": {"foreign_cpu_share": 1.0}},
    }
    far = [1.0, 14.0, 0.8, 120.0, 0.7, 1.1, 1.0, 0.9]
    cases = {loop("none"): far, loop("item"): far, loop("print"): [n * 1e5 for n in far]}
    lines = shown(tmp_path, timed(cases), facts=facts, scratch="quick, " + "dirty" * 30)
    assert max(map(len, lines)) <= WIDTH
    assert "100000x slower" in line_of(lines, "print(t)")


def test_a_terminal_gets_colours_and_no_markup(tmp_path: Path) -> None:
    records = timed({loop("none"): steady(40e-6), loop("item"): steady(100e-6)})
    archive.write(tmp_path, run([*records, failed(create_case(), HOSTILE)], launches=8))
    tree = read_tree(tmp_path)

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    drawn = screen(tree.runs[0], tree.frame, NEXT, Terminal())
    plain = screen(tree.runs[0], tree.frame, NEXT)
    assert "\x1b[" in drawn and "[red]it[/red]" in drawn
    assert re.sub(r"\x1b\[[0-9;]*m", "", drawn) == plain


def test_every_stored_run_fits_on_one_page() -> None:
    history = Results(RESULTS)
    assert history.runs()
    for about in history.runs():
        lines = screen(
            history.run(about), history.rows(about.machine, [about.run_id]), NEXT
        ).splitlines()
        assert 8 < len(lines) <= 45
        assert max(map(len, lines)) <= WIDTH
        assert len(lines) == len(set(lines)) + lines.count("") - 1, "no line twice"
