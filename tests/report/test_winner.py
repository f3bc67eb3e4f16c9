"""A winner is named only where the intervals do not touch."""

import math
from pathlib import Path
from typing import Any

import pytest

from hostbench.core.efficiency import Efficiency
from hostbench.report.answer import answers
from hostbench.report.overlap_ways import Ratio, pays_most
from hostbench.report.winner import differ, fastest
from hostbench.store import archive, frame
from hostbench.testing.builders import copy_case, record, run

NAMES = ("events", "record_stream", "a wait")


def row(seconds: float, half: float = math.nan) -> dict[str, Any]:
    return {"seconds": seconds, "ci_low_s": seconds - half, "ci_high_s": seconds + half}


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ([row(1.0, 0.001), row(1.01, 0.001), row(2.0, 0.1)], "events is fastest"),
        (
            [row(1.0, 0.01), row(1.02, 0.01), row(2.0, 0.1)],
            "no difference seen between events and record_stream, the fastest",
        ),
        ([row(1.0, 0.5), row(1.1, 0.5), row(1.2, 0.5)], "no difference seen"),
        ([row(1.0), row(1.03), row(2.0)], "events is fastest (no interval)"),
        ([row(1.0), row(1.01), row(1.02)], "no difference seen (no interval)"),
        (
            [row(1.0, 0.1), row(1.01), row(2.0)],
            "no difference seen between events and record_stream, the fastest (no interval)",
        ),
        ([row(1.0)], "only events has a number"),
    ],
)
def test_the_fastest_is_named_where_intervals_do_not_touch(
    rows: list[dict[str, Any]], text: str
) -> None:
    assert fastest(rows, NAMES[: len(rows)]) == text


def test_touching_intervals_do_not_differ() -> None:
    assert not differ(row(1.0, 0.5), row(2.0, 0.5))
    assert differ(row(1.0, 0.5), row(2.0, 0.25))


@pytest.mark.parametrize(
    ("pinned", "pageable", "start", "note"),
    [
        ([1.0] * 8, [2.0] * 8, "yes: ", "(2x)"),
        ([2.0] * 8, [1.0] * 8, "no: ", "(0.5x)"),
        ([1.0] * 8, [1.01] * 8, "no difference seen: ", "(1.01x)"),
        ([1.0, 3.0] * 4, [2.5] * 8, "no difference seen: ", "(1.25x)"),
        ([1.0], [1.01], "no difference seen: ", "(1.01x, no interval)"),
        ([1.0], [1.03], "yes: ", "(1.03x, no interval)"),
    ],
)
def test_pinned_pays_by_more_than_the_noise(
    tmp_path: Path, pinned: list[float], pageable: list[float], start: str, note: str
) -> None:
    records = [
        record(copy_case(device="cuda", memory=memory), launch, seconds)
        for memory, times in (("pinned", pinned), ("pageable", pageable))
        for launch, seconds in enumerate(times)
    ]
    archive.write(tmp_path, run(records, launches=len(pinned)))
    texts = {one.question: one.text for one in answers(frame.read(tmp_path).frame)}
    text = texts["Does pinned memory pay?"]
    assert text.startswith(start) and text.endswith(note)


def ratio(text: str, saved: float, half: float = math.nan) -> Ratio:
    return Ratio(
        text=text,
        compute_to_copy=1.0,
        memory="pinned",
        seconds=1 - saved,
        serial_s=1.0,
        num_launches=8,
        efficiency=Efficiency(share=None, low=None, high=None, ideal_s=None, refused="no"),
        saved_low=saved - half,
        saved_high=saved + half,
    )


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (
            [ratio("1:2", 0.40, 0.001), ratio("1:1", 0.41, 0.001)],
            "at 1:1, where it saves 41% of the serial loop's time",
        ),
        (
            [ratio("1:2", 0.40, 0.01), ratio("1:1", 0.41, 0.01)],
            "no difference seen: it saves at most 41% of the serial loop's time",
        ),
        (
            [ratio("1:4", 0.1), ratio("1:2", 0.40), ratio("1:1", 0.41)],
            "no difference seen between 1:2 and 1:1, where it saves most: 41% of the serial "
            "loop's time (no interval)",
        ),
    ],
)
def test_the_best_ratio_is_named_where_its_saving_stands_out(found: list[Ratio], text: str) -> None:
    assert pays_most(found) == text
