"""The golden answers: what each question says of the simulated device, whose clock is exact, in
tests/data/answers.txt, and what each kind of question says of rows made by hand, in kinds.txt.

`python -m tests.answers` writes both anew: the yes to what has changed.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from msgspec.structs import replace

from hostbench.core.records import CaseRecord
from hostbench.report.answer import Answer
from hostbench.report.questions import answers, rows_of
from tests.fakes.builders import run, simulated_records
from tests.stored import frame_of

GOLDEN = Path(__file__).parent / "data" / "answers.txt"
KINDS = GOLDEN.with_name("kinds.txt")
FAMILIES = ("allocation", "loading", "overlap", "synchronization", "transfer")


@cache
def simulated(family: str) -> list[CaseRecord]:
    """One launch."""
    return simulated_records(family, launches=1)


def repeated(records: Sequence[CaseRecord], launches: int = 10) -> list[CaseRecord]:
    """The simulated clock is exact: a further launch says the same."""
    return [replace(one, launch=number) for number in range(launches) for one in records]


def lines() -> Iterator[str]:
    for family in FAMILIES:
        part = run(repeated(simulated(family)), launches=10, device="simulated")
        for answer in answers(rows_of(frame_of(part))):
            yield f"{family}: {answer.question}"
            yield from said(answer)
            if (chart := answer.chart) is not None:
                yield f"    rules: {', '.join(f'{rule.low:.4g}' for rule in chart.rules)}".rstrip()
                for series in dict.fromkeys(point.series for point in chart.points):
                    own = (point for point in chart.points if point.series == series)
                    points = (f"{str(one.x).removesuffix('.0')} {one.y:.4g}" for one in own)
                    yield f"    {series}: {', '.join(points)}"


def said(answer: Answer) -> Iterator[str]:
    yield f"    {answer.state}: {answer.verdict}"
    yield from (f"    - {figure}" for figure in answer.figures)
    yield from (f"    {note}" for note in answer.notes)


if __name__ == "__main__":
    from tests.report.test_kinds import lines as of_kinds

    for path, written in ((GOLDEN, lines()), (KINDS, of_kinds())):
        path.write_text("".join(f"{line}\n" for line in written))
