"""A night's first line and its exit code, from the record alone."""

from typing import Any

import pytest

from hostbench.core.errors import EXIT_FAILED, EXIT_OK, EXIT_REGRESSION
from hostbench.judge.two_sides import Comparison
from hostbench.report.nightly import Tonight, answer, blocks
from hostbench.report.sides import Key
from hostbench.report.write import markdown, text
from hostbench.store.nights import NightCause
from tests.fakes.builders import copy_case, record, run

CASE = "steps.copies[device=cpu,way=to]"
RUN = run([record(copy_case(), launch) for launch in range(7)], launches=7)
QUIET = "No new change: 1 series measured; half of them would not show one under 1.0%"


def key(number: int) -> Key:
    return ("box", CASE if not number else f"{CASE}{number}", "1")


def one(verdict: Any, effect: float | None = None, why: str = "") -> Comparison:
    about: dict[str, Any] = {"num": (9, 1), "before": 1.0, "why": why, "cause": why}
    if effect is not None:
        about |= {"low": effect - 0.01, "high": effect + 0.01}
    return Comparison(verdict=verdict, effect=effect, **about)


HELD = {key(0): one("same", 0.0)}
SKIPPED, FAILED = ({key(1): one(verdict, why="gone")} for verdict in ("skipped", "failed"))


def night(*causes: NightCause, **more: Any) -> Tonight:
    moved = {key(index): one("slower", 0.2, why) for index, why in enumerate(causes)}
    return Tonight(**{"machine": "box", "run": RUN, "compared": HELD, "moved": moved, **more})


@pytest.mark.parametrize(
    ("tonight", "first", "code"),
    [
        (night(), f"{QUIET} [box]", EXIT_OK),
        (night("unexplained"), f"Unexplained: 1 series, {CASE} +20.0%", EXIT_OK),
        (
            night("code", "unexplained"),
            f"Slower: 1 series, {CASE} +20.0% (code); unexplained: 1",
            EXIT_REGRESSION,
        ),
        (night(compared=HELD | SKIPPED), f"Skipped: 1 series, {CASE}1 (gone) [box]", EXIT_OK),
        (night(new=["copies@box 1a2b"]), "Slower by history: 1 step", EXIT_REGRESSION),
        (
            night("code", compared=HELD | FAILED),
            f"Failed: 1 series, {CASE}1 (gone); slower: 1",
            EXIT_FAILED,
        ),
        (night(ended="broken off: full", code=EXIT_FAILED), "Broken off: full", EXIT_FAILED),
    ],
)
def test_the_first_line_is_the_answer(tonight: Tonight, first: str, code: int) -> None:
    assert answer(tonight).startswith(first)
    assert tonight.exit_code == code
    assert markdown(blocks(tonight)).split("\n")[0].startswith("## ")


def test_text_from_anywhere_is_neither_markup_nor_a_second_line() -> None:
    odd = "\x1b[31m<img src=x>\n## | `a` \x1b[0K\r"
    tonight = night("code", machine=odd, about=[odd], compared={key(1): one("failed", why=odd)})
    tonight.lists = {name: [odd] for name in tonight.lists}
    assert answer(tonight).isprintable()
    lines = markdown(blocks(tonight)).split("\n")
    assert all(line.isprintable() for line in lines)
    assert all("<img" not in line.replace(r"\<", "").partition("``")[0] for line in lines)
    assert all(line.isprintable() for line in text(blocks(tonight)).split("\n"))
