"""The first screen: one page that says what was learnt, and nothing that the launches do not."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hostbench.core.case import AxisValue, Case
from hostbench.core.records import CaseRecord
from hostbench.report.screen import WIDTH, screen
from hostbench.store import archive
from hostbench.store.results import Results
from tests import golden
from tests.fakes.builders import FACTS, copy_case, create_case, failed, record, run, skipped
from tests.stored import read_tree

RESULTS = Path(__file__).parents[2] / "results"
NEXT = [("next", "hostbench report")]
LOAD = {"load_average_1min": 3.8, "num_usable_cores": 2, "num_logical_cores": 2}
BUSY = {**FACTS, "host": {**FACTS["host"], **LOAD}}
HOSTILE = "[red]it[/red]\x1b]0;broke\x07\n<b>"


def loop(trap: str, step_us: int = 10) -> Case:
    return Case("synchronization.loop", {"device": "cpu", "step_us": step_us, "trap": trap})


def timed(times: Mapping[Case, Sequence[float]]) -> list[CaseRecord]:
    """Seconds of each launch, by case."""
    return [
        record(case, launch, seconds)
        for case, launches in times.items()
        for launch, seconds in enumerate(launches)
    ]


def steady(seconds: float, num: int = 8) -> list[float]:
    return [seconds * (1 + 0.001 * launch) for launch in range(num)]


NEAR = [1.0, 1.01, 0.99, 1.02, 0.98, 1.03, 1.0, 0.97]
FAR = [1.0, 1.4, 0.8, 1.2, 0.7, 1.1, 1.0, 0.9]
WILD = [1.0, 14.0, 0.8, 120.0, 0.7, 1.1, 1.0, 0.9]


def screens(folder: Path) -> Iterator[str]:
    moved, direct = (create_case(place=place) for place in ("cpu_then_move", "direct"))
    habits = {
        loop("none"): steady(40e-6), loop("item"): steady(100e-6), loop("shape"): steady(40e-6),
        moved: steady(1e-3), direct: steady(4e-4),
    }  # fmt: skip
    yield from drawn("what costs and what pays", folder, timed(habits), scratch="quick")
    open_ones = {
        loop("none"): [40e-6 * n for n in NEAR],
        loop("item"): [40e-6 * n for n in reversed(NEAR)],
        loop("print"): [44e-6 * n for n in FAR],
    }
    yield from drawn("nothing is established", folder, timed(open_ones), facts=BUSY)
    few = {loop("none"): steady(40e-6, 1), loop("item"): steady(90e-6, 1)}
    yield from drawn("few launches", folder, timed(few), launches=1)
    surprise = record(
        copy_case(blocking=False),
        expected={"asynchronous": True},
        measurement={"end_to_end_s": [0.5], "findings": {"asynchronous": False}},
    )
    pinned = skipped(copy_case(memory="pinned"), "no pinned memory; it needs a GPU")
    records = [record(copy_case()), surprise, pinned, failed(create_case(), HOSTILE)]
    yield from drawn("what has no number", folder, records, launches=1)
    axes: dict[str, AxisValue] = {"device": "cpu", "num_ranks": 2, "operation": "all_reduce"}
    without = "this torch is built without mpi"
    by_mpi = [
        skipped(Case("collectives.operation", {**axes, "nbytes": nbytes}), why)
        for nbytes, why in ((4096, "odd"), (65536, without), (1 << 20, without))
    ]
    yield from drawn("cases that no question asks about", folder, by_mpi)
    yield from drawn("a skip that an answer names", folder, [record(copy_case()), pinned])
    facts = {**BUSY, "software": {**FACTS["software"], "torch": "2.13.0+" + "long" * 30}}
    longest = {loop("none"): WILD, loop("item"): WILD, loop("print"): [n * 1e5 for n in WILD]}
    scratch = "quick, " + "dirty" * 30
    yield from drawn("the longest text", folder, timed(longest), facts=facts, scratch=scratch)


def drawn(name: str, folder: Path, records: Sequence[CaseRecord], **changes: Any) -> Iterator[str]:
    archive.write(folder / name, run(records, **{"launches": 8, **changes}))
    tree = read_tree(folder / name)
    lines = screen(tree.runs[0], tree.frame, NEXT).splitlines()
    assert max(map(len, lines)) <= WIDTH and all(map(str.isprintable, lines))
    yield from (f"==== {name}", *lines)


def test_what_is_printed(tmp_path: Path) -> None:
    golden.check("screen", screens(tmp_path))


def test_every_stored_run_fits_on_one_page() -> None:
    history = Results(RESULTS)
    assert history.runs()
    for about in history.runs():
        rows = history.rows(about.machine, [about.run_id])
        lines = screen(history.run(about), rows, NEXT).splitlines()
        assert 8 < len(lines) <= 45
        assert max(map(len, lines)) <= WIDTH
        assert len(lines) == len(set(lines)) + lines.count("") - 1, "no line twice"
