"""`hostbench trace`: one reading of a case, or a stretch of somebody's trace, lane by lane."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec import to_builtins

from hostbench import __version__
from hostbench.cli.output import Reading, check_folder, warn, write_file
from hostbench.cli.page import show_page
from hostbench.cli.program import given, program
from hostbench.cli.run_setup import Measuring, Setup, set_up
from hostbench.core.case import Case, Selector, as_typed, parse_selector, typed_value
from hostbench.core.errors import (
    EXIT_FAILED,
    EXIT_OK,
    BrokenError,
    NothingMeasured,
    UsageError,
)
from hostbench.core.lanes import Lane
from hostbench.core.processes import become_subreaper
from hostbench.core.records import Launch, Outcome
from hostbench.core.units import format_seconds
from hostbench.device.simulated_file import MARK
from hostbench.facts.record import text_of
from hostbench.families import check_selects, load
from hostbench.idle.stretch import stretch
from hostbench.idle.trace import read_trace
from hostbench.report.reading import about, picture, table
from hostbench.report.table import Part
from hostbench.runner.launcher import Launcher
from hostbench.runner.plan import STANDARD, Plan, choose
from hostbench.store import traces
from hostbench.store.archive import packed
from hostbench.store.limits import gpu_name
from hostbench.store.traces import StoredTrace, TraceAbout
from hostbench.timeline import chrome_trace, svg

_DEADLINE_S = 60.0
_OPEN = "open it in https://ui.perfetto.dev or chrome://tracing"


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceOptions(Measuring):
    output: Path | None = None
    format: str = "text"
    trace: Path | None = None
    from_s: float | None = None
    to_s: float | None = None
    step: int | None = None


def execute(options: TraceOptions) -> int:
    """Run the case, keep its trace, draw it; or draw a stretch of somebody's trace. Exit code 3
    where the case cannot run here, 4 where it failed: also with a trace that shows how."""
    if options.output is not None:
        check_folder(options.output)
    if options.trace is not None:
        return _of_file(options, options.trace)
    if (options.from_s, options.to_s, options.step) != (None, None, None):
        raise UsageError("--from, --to and --step choose a part of --trace FILE, which is missing")
    selector = _selector(options.case)
    check_selects(selector, load(), "")
    become_subreaper()
    setup = set_up(options)
    case = _only(selector, setup)
    outcome = _run(case, setup, options.deadline or _DEADLINE_S)
    trace = StoredTrace(about=_about(case, setup, outcome), lanes=outcome.lanes)
    kept = traces.new_path(setup.results, trace.about)
    traces.write(kept, trace)
    drawn = kept.with_name(kept.name.removesuffix(traces.SUFFIX) + traces.PICTURE)
    shown = kept
    if options.output is not None:
        shown, drawn = _outputs(options.output)
        _write_trace(shown, trace.document())
    write_file(drawn, picture(trace).encode())
    _tell(options, trace, shown, drawn)
    if outcome.status == "failed":
        warn(f"{as_typed(str(case))} failed: {outcome.reason}")
        return EXIT_FAILED
    return EXIT_OK


def _selector(named: tuple[str, ...]) -> Selector:
    if len(named) != 1:
        raise UsageError(
            f"name one case, not {len(named)}: family.workload[axis=value,...], as `hostbench list "
            "--cases` prints it"
        )
    return parse_selector(named[0])


def _only(selector: Selector, setup: Setup) -> Case:
    """The one case that is selected on the device. Raises UsageError, which says what tells the
    cases apart where there are several."""
    cases = choose(setup.workloads, setup.device, selectors=[selector])
    if len(cases) == 1:
        return cases[0]
    if len({case.workload for case in cases}) > 1:
        names = ", ".join(dict.fromkeys(case.workload for case in cases))
        raise UsageError(f"{selector.text!r} selects {len(cases)} cases: name one of {names}")
    axes: dict[str, list[str]] = {}
    for case in cases:
        for axis, value in case.axes:
            said = typed_value(axis, value)
            if said not in axes.setdefault(axis, []):
                axes[axis].append(said)
    choices = "; ".join(
        f"{axis} is {', '.join(values)}" for axis, values in axes.items() if len(values) > 1
    )
    raise UsageError(
        f"{selector.text!r} selects {len(cases)} cases: name one, as "
        f"'{as_typed(str(cases[0]))}'; {choices}"
    )


def _run(case: Case, setup: Setup, deadline_s: float) -> Outcome:
    """The outcome with its lanes. Raises NothingMeasured or BrokenError where it has none."""
    stand_in = MARK if setup.device == MARK else None
    plan = Plan(profile=STANDARD, cases=(case,), stand_in=stand_in)
    ((variables, _),) = plan.workers((case.family,), 0)
    launch = Launch(
        family=case.family,
        settings={},
        device=stand_in,
        variables=variables,
        deadline_s=deadline_s,
        trace=True,
        cases=(case,),
    )
    with Launcher() as launcher:
        (outcome,) = launcher.run(launch)
    if outcome.status == "skipped":
        raise NothingMeasured(f"{as_typed(str(case))} cannot be traced here: {outcome.reason}")
    if not outcome.lanes:
        raise BrokenError(f"{as_typed(str(case))} failed: {outcome.reason}")
    return outcome


def _about(case: Case, setup: Setup, outcome: Outcome) -> TraceAbout:
    return TraceAbout(
        case=str(case),
        machine=setup.machine,
        hardware=_hardware(setup),
        device=setup.device,
        started_at=setup.now(),
        hostbench=__version__,
        torch=text_of(setup.facts, "software", "torch"),
        num_steps=outcome.num_steps,
        median_s=outcome.seconds,
        wrong=outcome.reason if outcome.status == "failed" else None,
    )


def _hardware(setup: Setup) -> str:
    gpu = gpu_name(setup.facts) if setup.device != "cpu" else None
    name = gpu or text_of(setup.facts, "host", "cpu_model") or "unknown hardware"
    if setup.device == "cpu":
        return f"{name}, cpu device, no GPU"
    is_simulated = setup.device == MARK and not name.startswith("Simulated")
    return f"Simulated, on {name}" if is_simulated else name


def _outputs(named: Path) -> tuple[Path, Path]:
    """The trace and the picture: FILE.json or FILE.json.gz, as FILE ends, and FILE.svg."""
    name = named.name
    ending = next((end for end in (".json.gz", ".json", ".svg") if name.endswith(end)), "")
    stem = name.removesuffix(ending)
    trace = f"{stem}{'.json.gz' if ending == '.json.gz' else '.json'}"
    return named.with_name(trace), named.with_name(f"{stem}.svg")


def _write_trace(path: Path, document: Mapping[str, Any]) -> None:
    is_packed = path.name.endswith(traces.SUFFIX)
    write_file(path, packed(document) if is_packed else json.dumps(document).encode())


def _of_file(options: TraceOptions, path: Path) -> int:
    """A stretch of a trace of PyTorch's profiler, as a picture and as a smaller trace."""
    if options.case:
        raise UsageError("a CASE or --trace FILE, not both")
    if options.step is not None and (options.from_s, options.to_s) != (None, None):
        raise UsageError("--step is a part of its own: leave --from and --to out")
    with Reading() as reading:
        found = read_trace(path, reading)
    for warning in found.warnings:
        warn(warning)
    part = stretch(found, options.from_s, options.to_s, options.step)
    stem = path.name.removesuffix(".gz").removesuffix(".json")
    shown, drawn = _outputs(options.output or Path(f"{stem}.stretch"))
    rank = "" if found.rank is None else f"rank {found.rank}, "
    start, end = format_seconds(part.from_s) if part.from_s else "0", format_seconds(part.to_s)
    said = f"{rank}from {start} to {end} of {format_seconds(part.whole_s)}"
    facts = {"file": found.file, "rank": found.rank, "from_s": part.from_s, "to_s": part.to_s}
    _write_trace(shown, chrome_trace(part.lanes, facts))
    window = part.from_s, part.to_s
    since = f"{start} of the trace" if part.from_s else "its first activity"
    drawing = svg(part.lanes, found.file, [said], window=window, since=since)
    write_file(drawn, drawing.encode())
    _show(options, part.lanes, [found.file, said], facts, (shown, drawn))
    return EXIT_OK


def _tell(options: TraceOptions, trace: StoredTrace, shown: Path, drawn: Path) -> None:
    heads = [as_typed(trace.about.case), *about(trace)]
    dashboard = f"kept for the dashboard: `{program()} dashboard{given(options, 'results')}`"
    facts = to_builtins(trace.about)
    _show(options, trace.lanes, heads, facts, (shown, drawn), [dashboard])


def _show(
    options: TraceOptions,
    lanes: tuple[Lane, ...],
    heads: Sequence[str],
    facts: Mapping[str, Any],
    files: tuple[Path, Path],
    ends: Sequence[str] = (),
) -> None:
    """The page of what was seen; `files` are the trace and the picture."""
    shown, drawn = files

    def parts() -> list[Part]:
        written = [f"trace: {shown} ({_OPEN})", f"picture: {drawn}", *ends]
        return [*heads, "", table(lanes), "", *written]

    def document() -> dict[str, Any]:
        paths = {"trace": str(shown), "picture": str(drawn)}
        return {**facts, **paths, "lanes": to_builtins(lanes)}

    show_page(options.format, parts, lambda: table(lanes), document)
