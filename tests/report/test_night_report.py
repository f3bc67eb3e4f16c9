"""A night's first line and its exit code, from the record alone."""

from typing import Any

import pytest

from hostbench.core.errors import EXIT_FAILED, EXIT_NOTHING_MEASURED, EXIT_OK, EXIT_REGRESSION
from hostbench.judge.events import Event
from hostbench.judge.night import NightCause
from hostbench.judge.two_sides import Comparison
from hostbench.report.nightly import Tonight, answer, blocks
from hostbench.report.write import markdown, text
from hostbench.store.nights import NightChange
from tests.fakes.builders import copy_case, record, run, skipped

CASE = "steps.copies[device=cpu,way=to]"
RUN = run([record(copy_case(), launch) for launch in range(7)], launches=7)
HELD = {
    (CASE, "1"): Comparison(verdict="same", effect=0.0, low=-0.01, high=0.01, num=(10, 10)),
}
QUIET = "No new change: 1 series measured, smallest detectable change 1.0% (median)"


def night(*causes: NightCause, lists: dict[str, list[str]] | None = None, **more: Any) -> Tonight:
    moved = [NightChange(case=CASE, version="1", cause=cause, effect=0.2) for cause in causes]
    made = Tonight(**{"machine": "box", "run": RUN, "held": HELD, "moved": moved, **more})
    made.lists |= lists or {}
    return made


@pytest.mark.parametrize(
    ("tonight", "first", "code"),
    [
        (night(), f"{QUIET} [box]", EXIT_OK),
        (night("unexplained"), f"Moved without a known cause: 1 series, {CASE} +20.0%", EXIT_OK),
        (night("disturbed"), f"Disturbed, not judged: 1 series, {CASE} +20.0%", EXIT_OK),
        (
            night("code", "unexplained"),
            f"Slower: 1 series, {CASE} +20.0% (code); moved without a known cause: 1",
            EXIT_REGRESSION,
        ),
        (night(lists={"skipped": ["a: needs 2 GPUs"]}), f"{QUIET}; 1 case skip", EXIT_OK),
        (night(new=[Event]), "Slower by history: 1 step", EXIT_REGRESSION),
        (night("code", lists={"failed": ["a: it broke"]}), "1 case failed; slower: 1", EXIT_FAILED),
        (night(ended="broken off: disk", code=EXIT_FAILED), "Broken off: disk [box]", EXIT_FAILED),
        (night(code=EXIT_NOTHING_MEASURED), "No new change", EXIT_NOTHING_MEASURED),
        (night(held={}), "First night on cpu: 1 series measured, nothing to compare with", EXIT_OK),
        (
            night(run=run([skipped(copy_case())])),
            "Not judged (no case has the 7 launches that it takes): 0 series measured",
            EXIT_OK,
        ),
    ],
)
def test_the_first_line_is_the_answer(tonight: Tonight, first: str, code: int) -> None:
    assert answer(tonight).startswith(first)
    assert tonight.exit_code == code
    assert markdown(blocks(tonight)).split("\n")[0].startswith("## ")


def test_text_from_anywhere_is_neither_markup_nor_a_second_line() -> None:
    odd = "\x1b[31m<img src=x>\n## | `a` \x1b[0K\r"
    tonight = night("code", machine=odd, about=[odd])
    tonight.lists = {name: [odd] for name in tonight.lists}
    assert answer(tonight).isprintable()
    lines = markdown(blocks(tonight)).split("\n")
    assert all(line.isprintable() and "<img" not in line.replace(r"\<", "") for line in lines)
    assert all(line.isprintable() for line in text(blocks(tonight)).split("\n"))
