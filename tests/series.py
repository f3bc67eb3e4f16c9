"""The golden list: every series with its version and axes, as tests/data/series.txt holds it.

`python -m tests.series` writes it anew: the yes to what has changed.
"""

from collections.abc import Iterator
from pathlib import Path

from hostbench.families import load

GOLDEN = Path(__file__).parent / "data" / "series.txt"


def lines() -> Iterator[str]:
    for _, work in sorted(load().items()):
        yield f"{work.name} version {work.version}"
        for name, values in work.axes.items():
            yield f"    {name}: {', '.join(map(repr, values))}"


if __name__ == "__main__":
    GOLDEN.write_text("".join(f"{line}\n" for line in lines()))
