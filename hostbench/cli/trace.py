"""`hostbench trace`: one reading of a case, or a stretch of somebody's trace, lane by lane."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec import to_builtins

from hostbench import __version__
from hostbench.cli.output import check_folder, warn, write_file
from hostbench.cli.page import show_page
from hostbench.cli.program import given, program
from hostbench.cli.run_setup import Measuring, Setup, set_up
from hostbench.cli.trace_files import in_short, read_traces
from hostbench.core.case import Case, Selector, as_typed, parse_selector, typed_value
from hostbench.core.errors import (
    EXIT_FAILED,
    EXIT_OK,
    BrokenError,
    NothingMeasured,
    UsageError,
)
from hostbench.core.lanes import Interval, Lane, extent
from hostbench.core.processes import become_subreaper
from hostbench.core.records import Launch, Outcome
from hostbench.core.units import format_seconds
from hostbench.device.simulated_file import MARK
from hostbench.facts.record import text_of
from hostbench.families import check_selects, load
from hostbench.idle.lanes import asked, lanes, step_of, together, whole_s
from hostbench.idle.trace import Trace
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
    trace: tuple[Path, ...] = ()
    from_s: float | None = None
    to_s: float | None = None
    step: int | None = None


def execute(options: TraceOptions) -> int:
    """Run the case, keep its trace, draw it; or draw a stretch of somebody's trace. Exit code 3
    where the case cannot run here, 4 where it failed: also with a trace that shows how."""
    if options.output is not None:
        check_folder(options.output)
    if options.trace:
        return _of_files(options)
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


def _of_files(options: TraceOptions) -> int:
    """A stretch of traces of PyTorch's profiler, as a picture and as a smaller trace."""
    if options.case:
        raise UsageError("a CASE or --trace FILE, not both")
    found = read_traces(options.trace)
    for warning in (warning for trace in found for warning in trace.warnings):
        warn(warning)
    _, others = together(found)
    if others:
        raise UsageError(
            f"{found[0].file} and {others[0].file} do not overlap in time, and cannot be put "
            "beside each other: give one at a time"
        )
    whole = whole_s(found)
    start_s, end_s = _window(options, found)
    part, shows = tuple(lanes(found, start_s, end_s)), (0.0, end_s - start_s)
    stem = found[0].file.removesuffix(".gz").removesuffix(".json")
    shown, drawn = _outputs(options.output or Path(f"{stem}.stretch"))
    start = format_seconds(start_s) if start_s else "0"
    said = f"from {start} to {format_seconds(end_s)} of {format_seconds(whole)}"
    files = [trace.file for trace in found]
    facts = {"files": files, "from_s": start_s, "to_s": end_s}
    _write_trace(shown, chrome_trace(part, facts, shows))
    title, since = in_short(found), f"{start} of the trace" if start_s else "the first event"
    drawing = svg(part, title, [said], window=shows, since=since)
    write_file(drawn, drawing.encode())
    _show(options, part, shows, [title, said], facts, (shown, drawn))
    return EXIT_OK


def _window(options: TraceOptions, found: Sequence[Trace]) -> Interval:
    """The stretch that was asked for, in seconds from the first event of all."""
    if options.step is not None:
        if (options.from_s, options.to_s) != (None, None):
            raise UsageError("--step is a stretch of its own: leave --from and --to out")
        return step_of(found, options.step)
    return asked(found, options.from_s, options.to_s)


def _tell(options: TraceOptions, trace: StoredTrace, shown: Path, drawn: Path) -> None:
    heads = [as_typed(trace.about.case), *about(trace)]
    dashboard = f"kept for the dashboard: `{program()} dashboard{given(options, 'results')}`"
    facts = to_builtins(trace.about)
    shows = extent(trace.lanes)
    _show(options, trace.lanes, shows, heads, facts, (shown, drawn), [dashboard])


def _show(
    options: TraceOptions,
    seen: tuple[Lane, ...],
    window: Interval,
    heads: Sequence[str],
    facts: Mapping[str, Any],
    files: tuple[Path, Path],
    ends: Sequence[str] = (),
) -> None:
    """The page of what was seen; `files` are the trace and the picture."""
    shown, drawn = files

    def parts() -> list[Part]:
        written = [f"trace: {shown} ({_OPEN})", f"picture: {drawn}", *ends]
        return [*heads, "", table(seen, window), "", *written]

    def document() -> dict[str, Any]:
        paths = {"trace": str(shown), "picture": str(drawn)}
        return {**facts, **paths, "lanes": to_builtins(seen)}

    show_page(options.format, parts, lambda: table(seen, window), document)
