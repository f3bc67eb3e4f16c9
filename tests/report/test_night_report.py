"""A night's first line and its exit code, from the record alone."""

from typing import Any

import pytest

from hostbench.core.errors import EXIT_FAILED, EXIT_NOTHING_MEASURED, EXIT_OK, EXIT_REGRESSION
from hostbench.judge.night import NightCause
from hostbench.judge.two_sides import Comparison
from hostbench.report.night_history import still_slower
from hostbench.report.nightly import MovedSeries, Night, answer, blocks, exit_code
from hostbench.report.write import markdown, text
from hostbench.store.nights import NightChange, StoredNight
from hostbench.store.triage import Entry

CASE = "steps.copies[device=cpu,way=to]"


def night(**more: Any) -> Night:
    usual: dict[str, Any] = {
        "machine": "box",
        "run_id": "20260301T020000Z-1a2b3c4d-0001",
        "commit": "1a2b3c4d",
        "counts": {"ok": 2},
        "enough": 2,
        "device": "cpu",
        "before": ("20260228T020000Z-1a2b3c4d-0001",),
        "compared": 2,
        "detectable": 0.01,
    }
    return Night(**usual | more)


def moved(cause: NightCause) -> MovedSeries:
    found = Comparison(
        verdict="slower", effect=0.2, low=0.19, high=0.21, num=(10, 10), why="", before=1, after=1.2
    )
    return MovedSeries(case=CASE, version="1", tonight=found, again=None, cause=cause)


@pytest.mark.parametrize(
    ("more", "first", "code"),
    [
        (
            {},
            "No new change: 2 series measured, smallest detectable change 1.0% (median) [box]",
            EXIT_OK,
        ),
        (
            {"compared": 0, "before": ()},
            "First night on cpu: 2 series measured, nothing to compare with yet [box]",
            EXIT_OK,
        ),
        ({"enough": 0}, "Not judged (no case has the 7 launches that it ", EXIT_NOTHING_MEASURED),
        ({"counts": {}, "enough": 0}, "Nothing measured: no case has", EXIT_NOTHING_MEASURED),
        ({"moved": (moved("gone"),)}, "No new change: 2 series measured, smallest", EXIT_OK),
        ({"moved": (moved("unexplained"),)}, "Nothing confirmed: moved without a known", EXIT_OK),
        (
            {"moved": (moved("code"), moved("undecided"))},
            f"Slower: 1 series, {CASE} +20.0% (code); moved without a known cause: 1",
            EXIT_REGRESSION,
        ),
        (
            {"skipped": (f"{CASE}: needs 2 GPUs, this machine has 1",)},
            "No new change: 2 series measured, smallest detectable change 1.0% (median); 1 case",
            EXIT_OK,
        ),
        ({"error": "disk", "error_code": EXIT_FAILED}, "Broken off: disk [box]", EXIT_FAILED),
    ],
)
def test_the_first_line_is_the_answer(more: dict[str, Any], first: str, code: int) -> None:
    found = night(**more)
    assert answer(found).startswith(first)
    assert exit_code(found) == code
    assert markdown(blocks(found)).split("\n")[0].startswith("## ")


def test_text_from_anywhere_is_neither_markup_nor_a_second_line() -> None:
    odd = "\x1b[31m<img src=x>\n## | `a` \x1b[0K\r"
    found = night(
        machine=odd,
        moved=(moved("code"),),
        landed=(odd,),
        skipped=(odd,),
        still=(odd,),
        failed=(odd,),
        broken=(odd,),
    )
    assert answer(found).isprintable()
    lines = markdown(blocks(found)).split("\n")
    assert all(line.isprintable() and "<img" not in line.replace(r"\<", "") for line in lines)
    assert all(line.isprintable() for line in text(blocks(found)).split("\n"))


def stored(day: int, *effects: float, cause: NightCause = "code") -> StoredNight:
    """A night whose one series moved so."""
    changes = (
        NightChange(case=CASE, version="1", effect=effect, cause=cause) for effect in effects
    )
    return StoredNight(
        run_id=f"202603{day:02d}T020000Z-1a2b3c4d-0001",
        machine="box",
        commit=f"{day:08x}",
        started_at=f"2026-03-{day:02d}T02:00:00Z",
        changes=tuple(changes),
    )


@pytest.mark.parametrize(
    ("effects", "expected"),
    [
        ((0.2,), f"{CASE} +20.0% since 2026-03-01"),
        ((0.2, -0.03), f"{CASE} +20.0% since 2026-03-01"),
        ((0.2, -0.1), None),
        ((1.0, -0.5), None),
        ((-0.3, 0.2), f"{CASE} +20.0% since 2026-03-02"),
        ((0.2, 0.3), f"{CASE} +30.0% since 2026-03-02"),
    ],
)
def test_still_slower_is_what_nobody_has_taken_back(
    effects: tuple[float, ...], expected: str | None
) -> None:
    known = [stored(day, effect) for day, effect in enumerate(effects, start=1)]
    assert still_slower(known, stored(9), ()) == ((expected,) if expected else ())


def test_what_is_in_triage_is_not_named_again() -> None:
    entry = Entry(
        series=f"{CASE}@box", since="00000001", direction="slower", state="accepted", effect=0.2
    )
    assert not still_slower([stored(1, 0.2)], stored(2), [entry])
    assert still_slower([stored(1, 0.5)], stored(2), [entry]), "it has outgrown the entry"
    assert still_slower([stored(3, 0.2)], stored(4), [entry]), "another night's"
