"""A night's first line and its exit code, from the record alone."""

from typing import Any

import pytest

from hostbench.core.errors import EXIT_FAILED, EXIT_NOTHING_MEASURED, EXIT_OK, EXIT_REGRESSION
from hostbench.judge.night import NightCause
from hostbench.judge.two_sides import Comparison
from hostbench.report.nightly import MovedSeries, Night, answer, blocks, exit_code, quiet
from hostbench.report.write import markdown, text
from hostbench.store.runs import WholeRun
from tests.fakes.builders import copy_case, record, run, skipped

CASE = "steps.copies[device=cpu,way=to]"
RUN = WholeRun(run([record(copy_case(), launch) for launch in range(7)], launches=7))
SLOWER = Comparison(
    verdict="slower", effect=0.2, low=0.19, high=0.21, num=(10, 10), why="", before=1, after=1.2
)


def night(*causes: NightCause, lists: dict[str, list[str]] | None = None, **more: Any) -> Night:
    moved = [MovedSeries(case=CASE, version="1", shown=SLOWER, cause=cause) for cause in causes]
    made = Night(machine="box", run=RUN, quiet="no new change", moved=moved, **more)
    made.lists |= lists or {}
    return made


@pytest.mark.parametrize(
    ("found", "first", "code"),
    [
        (night(), "No new change [box]", EXIT_OK),
        (night("gone"), "No new change [box]", EXIT_OK),
        (night("unexplained"), "Nothing confirmed: moved without a known", EXIT_OK),
        (night("disturbed"), f"Disturbed, not judged: 1 series, {CASE} +20.0%", EXIT_OK),
        (
            night("code", "undecided"),
            f"Slower: 1 series, {CASE} +20.0% (code); moved without a known cause: 1",
            EXIT_REGRESSION,
        ),
        (night(lists={"skipped": ["a: needs 2 GPUs"]}), "No new change; 1 case skip", EXIT_OK),
        (night(lists={"events": ["a +9%"]}), "Slower by history: 1 step", EXIT_REGRESSION),
        (night("code", lists={"failed": ["a: it broke"]}), "1 case failed; slower: 1", EXIT_FAILED),
        (night(ended="broken off: disk", code=EXIT_FAILED), "Broken off: disk [box]", EXIT_FAILED),
        (night(code=EXIT_NOTHING_MEASURED), "No new change", EXIT_NOTHING_MEASURED),
    ],
)
def test_the_first_line_is_the_answer(found: Night, first: str, code: int) -> None:
    assert answer(found).startswith(first)
    assert exit_code(found) == code
    assert markdown(blocks(found)).split("\n")[0].startswith("## ")


def test_a_quiet_night_says_how_much_it_can_tell() -> None:
    few, none = WholeRun(run([record(copy_case())])), WholeRun(run([skipped(copy_case())]))
    assert quiet(none, None) == "nothing measured: no case has a number"
    assert quiet(few, None).startswith("not judged (no case has the 7 launches that it takes): 1")
    assert quiet(RUN, None).startswith("first night on cpu: 1 series measured, nothing to compare")
    assert quiet(RUN, {}) == "1 series measured, nothing to compare with yet"
    told = "no new change: 1 series measured, smallest detectable change 1.0% (median)"
    assert quiet(RUN, {CASE: SLOWER}) == told


def test_text_from_anywhere_is_neither_markup_nor_a_second_line() -> None:
    odd = "\x1b[31m<img src=x>\n## | `a` \x1b[0K\r"
    found = night("code")
    found.machine, found.about = odd, [odd]
    found.lists = {name: [odd] for name in found.lists}
    assert answer(found).isprintable()
    lines = markdown(blocks(found)).split("\n")
    assert all(line.isprintable() and "<img" not in line.replace(r"\<", "") for line in lines)
    assert all(line.isprintable() for line in text(blocks(found)).split("\n"))
