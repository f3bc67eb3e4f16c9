"""The golden answers: what each question says of the simulated device, as tests/data/answers.txt
holds it. Its clock is exact: a figure that moves is another figure.

`python -m tests.answers` writes it anew: the yes to what has changed.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from msgspec.structs import replace

from hostbench.core.records import CaseRecord
from hostbench.report.questions import answers
from hostbench.report.rows import rows_of
from tests.fakes.builders import run, simulated_records
from tests.stored import frame_of

GOLDEN = Path(__file__).parent / "data" / "answers.txt"
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
            yield f"    {answer.state}: {answer.verdict}"
            yield from (f"    - {figure}" for figure in answer.figures)
            yield from (f"    {note}" for note in answer.notes)
            if (chart := answer.chart) is not None:
                yield f"    rules: {', '.join(f'{rule.low:.4g}' for rule in chart.rules)}".rstrip()
                for series in dict.fromkeys(point.series for point in chart.points):
                    own = (point for point in chart.points if point.series == series)
                    points = (f"{str(one.x).removesuffix('.0')} {one.y:.4g}" for one in own)
                    yield f"    {series}: {', '.join(points)}"


if __name__ == "__main__":
    GOLDEN.write_text("".join(f"{line}\n" for line in lines()))
