"""`hostbench idle`: is the GPU idle, and why? From traces, or from a script that it records."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import join

from hostbench.cli.output import check_folder, show, warn, write_file
from hostbench.cli.page import show_page
from hostbench.cli.trace_files import in_short, looks_like_one, read_traces
from hostbench.core.errors import (
    EXIT_NOTHING_MEASURED,
    EXIT_OK,
    NothingMeasured,
    UsageError,
)
from hostbench.core.units import format_seconds, number_of
from hostbench.idle.child import RecordedProcess, RecordedRun, recorded
from hostbench.idle.lanes import asked, lanes, stretch, together
from hostbench.idle.recording import RecordSettings
from hostbench.idle.report import IdleReport
from hostbench.idle.summary import summary
from hostbench.idle.trace import Trace
from hostbench.idle.words import advice_table, document, headline, overhead, page
from hostbench.timeline import svg


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleOptions:
    command: tuple[str, ...] = ()
    trace: tuple[Path, ...] = ()
    warmup: int = 5
    steps: int = 10
    seconds: float = 30.0
    after: float = 20.0
    stacks: bool = False
    stop: bool = False
    keep: Path | None = None
    output: Path | None = None
    start: float | None = None
    end: float | None = None
    all: bool = False
    format: str = "text"


def execute(options: IdleOptions) -> int:
    """Print the page. 0, 3 where no work of a GPU is seen, or what the script ended with."""
    _check(options)
    if options.trace:
        return _show(options, options.trace)
    with recorded(
        options.command,
        lambda folder: _settings(options, folder),
        keep=options.keep,
        stop=options.stop,
        quiet=options.format != "text",
    ) as run:
        failed = run.exit_code and not run.was_stopped
        if failed:
            warn(f"`{join(options.command)}` ended with exit code {run.exit_code}")
        if not run.traces:
            if failed:
                return run.exit_code
            raise NothingMeasured(_why_nothing(run, options))
        code = _show(options, run.traces, [each for each in run.processes if each.trace])
    return run.exit_code if failed else code


def _check(options: IdleOptions) -> None:
    """Before the work, not after. Raises UsageError."""
    if options.command and looks_like_one(options.command[0]):
        traces = " ".join(f"--trace {each}" for each in (*options.trace, *options.command))
        raise UsageError(
            f"{options.command[0]} is no command; a trace is named with --trace, each with one of "
            f"its own: hostbench idle {traces}"
        )
    if bool(options.trace) == bool(options.command):
        raise UsageError(
            "say what to look at: `hostbench idle -- python SCRIPT`, or --trace FILE, and not both"
        )
    if options.output is None:
        if (options.start, options.end) != (None, None):
            raise UsageError("--from and --to are those of the picture: add -o FILE.svg")
        return
    if options.output.suffix not in ("", ".svg"):
        raise UsageError(f"the picture is an SVG: -o {options.output.with_suffix('.svg')}")
    check_folder(options.output)


def _show(
    options: IdleOptions, files: Sequence[Path], processes: Sequence[RecordedProcess] = ()
) -> int:
    notes = [overhead(each.free_s, each.recorded_s) for each in processes]
    notes = [text for text in notes if text][:1]
    steps_s = [{"free_s": each.free_s, "recorded_s": each.recorded_s} for each in processes]
    traces = read_traces(files)
    report = summary(traces)
    show_page(
        options.format,
        lambda: [*page(report, every=options.all), *notes],
        lambda: advice_table(report.advice),
        lambda: {**document(report), "recorded_steps": steps_s},
    )
    if options.output is not None:  # last: what cannot be drawn leaves the answer
        write_file(options.output, _picture(options, traces, report).encode())
        if options.format == "text":
            show(f"picture: {options.output}")
    return EXIT_OK if report.devices else EXIT_NOTHING_MEASURED


def _picture(options: IdleOptions, traces: Sequence[Trace], report: IdleReport) -> str:
    """The SVG of the stretch that was asked for, or of a step in the middle."""
    drawn, others = together(traces)
    if others:
        left = ", ".join(trace.file for trace in others)
        warn(
            f"the picture is of {number_of(len(drawn), 'trace')}: {left} does not overlap in time "
            f"with {drawn[0].file}; draw it by itself"
        )
    start_s, end_s = stretch(drawn)
    if (options.start, options.end) != (None, None):
        start_s, end_s = asked(drawn, options.start, options.end)
    about = [in_short(drawn), f"from {start_s:.6g} s to {end_s:.6g} s"]
    since = f"{format_seconds(start_s)} of the trace" if start_s else "the first event"
    seen, window = lanes(drawn, start_s, end_s), (0.0, end_s - start_s)
    return svg(seen, headline(report), about, window=window, since=since)


def _settings(options: IdleOptions, folder: str) -> RecordSettings:
    return RecordSettings(
        folder=folder,
        warmup=options.warmup,
        steps=options.steps,
        seconds=options.seconds,
        after_s=options.after,
        stacks=options.stacks,
    )


def _why_nothing(run: RecordedRun, options: IdleOptions) -> str:
    if not run.processes:
        return (
            "nothing was recorded: no Python process of the command imported torch, or none ended "
            "by itself"
        )
    errors = [each.error for each in run.processes if each.error]
    if errors:
        return f"nothing was recorded: {errors[0]}"
    steps = max(each.steps for each in run.processes)
    if steps:
        return (
            f"nothing was recorded: it made {number_of(steps, 'step')} of an optimizer, and "
            f"recording begins after {options.warmup}: --warmup {max(0, steps // 2)}"
        )
    if not any(each.has_cuda for each in run.processes):
        return (
            "nothing was recorded: torch sees no GPU here, and no optimizer made a step; idle time "
            "needs a GPU"
        )
    return (
        f"nothing was recorded: no optimizer made a step, and it ended within {options.after:g} s "
        "of CUDA's start: --warmup 0 records from the start"
    )
