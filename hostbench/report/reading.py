"""One reading of a case in words, as a table and as a picture."""

from collections.abc import Iterator

from hostbench.core.case import as_typed
from hostbench.core.lanes import KINDS, Interval, Lane, SpanKind, busy_s, extent
from hostbench.core.units import format_seconds, number_of
from hostbench.report.table import Cell, Column, Table
from hostbench.store.traces import StoredTrace
from hostbench.timeline import svg
from hostbench.timeline.picture import Scheme

_COLUMNS = (
    Column(title="lane", keys=("lane",)),
    Column(title="what", keys=("kind",)),
    Column(title="spans", keys=("spans",), right=True),
    Column(title="time", keys=("seconds",), right=True),
    Column(title="share", keys=("share",), right=True),
)


def picture(trace: StoredTrace, scheme: Scheme = "auto") -> str:
    """The SVG, which says of which case and hardware it is."""
    return svg(trace.lanes, as_typed(trace.about.case), about(trace), scheme=scheme)


def about(trace: StoredTrace) -> list[str]:
    """What it was seen on, and how long it took."""
    start_s, end_s = extent(trace.lanes)
    num, median_s = trace.about.num_steps, trace.about.median_s
    took = f"{number_of(num, 'step')}: {format_seconds(end_s - start_s)}"
    if median_s is not None:
        each = " a step" if num > 1 else ""
        took += f" (median of readings before: {format_seconds(median_s)}{each})"
    wrong = [f"The case failed: {trace.about.wrong}"] if trace.about.wrong else []
    return [trace.about.hardware, took, *wrong]


def table(lanes: tuple[Lane, ...], window: Interval) -> Table:
    """A row for each lane and kind of span: how many, and how much of the time that is shown. A
    lane without any has one row, which says so."""
    start_s, end_s = window
    rows = [row for lane in lanes for row in _rows(lane, end_s - start_s)]
    return Table(columns=_COLUMNS, rows=tuple(rows))


def _rows(lane: Lane, whole_s: float) -> Iterator[tuple[str | Cell, ...]]:
    name = f"{lane.place}: {lane.name}" if lane.place else lane.name
    if not lane.spans:
        yield name, Cell("nothing", ("nothing",)), *(Cell("0", (0,)),) * 2, Cell("0%", (0,))
    kind: SpanKind
    for kind, words in KINDS.items():
        spans = [span for span in lane.spans if span.kind == kind]
        if spans:
            seconds = busy_s(spans)
            share = seconds / whole_s if whole_s else 0.0
            yield (
                name,
                Cell(words, (kind,)),
                Cell(str(len(spans)), (len(spans),)),
                Cell(format_seconds(seconds), (seconds,)),
                Cell(f"{share:.0%}", (share,)),
            )
