"""`hostbench idle`: is the GPU idle, and why? From traces, or from a script that it records."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import join

from hostbench.cli.output import Reading, warn
from hostbench.cli.page import show_page
from hostbench.core.errors import (
    EXIT_NOTHING_MEASURED,
    EXIT_OK,
    DataError,
    NothingMeasured,
    UsageError,
)
from hostbench.core.units import number_of
from hostbench.idle.child import RecordedProcess, RecordedRun, recorded
from hostbench.idle.recording import RecordSettings
from hostbench.idle.summary import summary
from hostbench.idle.trace import Trace, read_trace
from hostbench.idle.words import advice_table, document, overhead, page

_ENDINGS = (".json", ".json.gz")


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleOptions:
    command: tuple[str, ...] = ()
    trace: tuple[Path, ...] = ()
    warmup: int = 5
    steps: int = 10
    seconds: float = 30.0
    stop: bool = False
    keep: Path | None = None
    format: str = "text"


def execute(options: IdleOptions) -> int:
    """Print the page. 0, 3 where no work of a GPU is seen, or what the script ended with."""
    if options.command and options.command[0].endswith(_ENDINGS):
        raise UsageError(
            f"a trace is named with --trace: hostbench idle --trace {options.command[0]}"
        )
    if bool(options.trace) == bool(options.command):
        raise UsageError(
            "say what to look at: `hostbench idle -- python SCRIPT`, or --trace FILE, and not both"
        )
    if options.trace:
        if replace(options, trace=(), format="text") != IdleOptions():
            raise UsageError(
                "--trace reads what was recorded: --warmup, --steps, --seconds, --stop and --keep "
                "go with a COMMAND"
            )
        return _show(options, options.trace)
    with recorded(
        options.command,
        lambda folder: RecordSettings(folder, options.warmup, options.steps, options.seconds),
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
            raise NothingMeasured(f"nothing was recorded: {_why_nothing(run, options.warmup)}")
        code = _show(options, run.traces, [each for each in run.processes if each.trace])
    return run.exit_code if failed else code


def _show(
    options: IdleOptions, files: Sequence[Path], processes: Sequence[RecordedProcess] = ()
) -> int:
    notes = [overhead(each.free_s, each.recorded_s) for each in processes]
    notes = [text for text in notes if text][:1]
    steps_s = [{"free_s": each.free_s, "recorded_s": each.recorded_s} for each in processes]
    report = summary(_read(files))
    show_page(
        options.format,
        lambda: [*page(report), *(notes if report.devices else ())],
        lambda: advice_table(report.advice),
        lambda: {**document(report), "recorded_steps": steps_s},
    )
    return EXIT_OK if report.devices else EXIT_NOTHING_MEASURED


def _read(paths: Sequence[Path]) -> list[Trace]:
    """Each once, and of a folder the traces in it: another file there is named in a warning, and
    left out. Raises UsageError, DataError."""
    traces: dict[Path, Trace] = {}
    with Reading() as reading:
        for path in paths:
            files = [path]
            if path.is_dir():
                files = sorted(each for each in path.iterdir() if each.name.endswith(_ENDINGS))
            for file in files:
                if file.resolve() in traces:
                    continue
                reading(file)
                try:
                    traces[file.resolve()] = read_trace(file)
                except DataError as error:
                    if file == path:
                        raise
                    warn(f"left out: {error}")
    if not traces:
        raise UsageError(f"no trace of PyTorch's profiler (.json or .json.gz) is in {paths[0]}")
    return list(traces.values())


def _why_nothing(run: RecordedRun, warmup: int) -> str:
    if not run.processes:
        return "no Python process of the command imported torch, or none ended by itself"
    errors = [each.error for each in run.processes if each.error]
    if errors:
        return errors[0]
    steps = max(each.steps for each in run.processes)
    if steps:
        return (
            f"it made {number_of(steps, 'step')} of an optimizer, and recording begins after "
            f"{warmup}: --warmup {max(0, steps // 2)}"
        )
    if not any(each.has_cuda for each in run.processes):
        return "torch sees no GPU here, and no optimizer made a step; idle time needs a GPU"
    return (
        "no optimizer made a step, and it ended within 20 s of CUDA's start: --warmup 0 records "
        "from the start"
    )
