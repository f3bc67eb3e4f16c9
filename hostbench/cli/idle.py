"""`hostbench idle`: is the GPU idle, and why? From traces, or from a script that it records."""

from collections.abc import Sequence
from pathlib import Path
from shlex import join

from hostbench.cli.output import show_page, warn
from hostbench.core.errors import (
    EXIT_NOTHING_MEASURED,
    EXIT_OK,
    DataError,
    NothingMeasured,
    UsageError,
)
from hostbench.core.units import number_of
from hostbench.idle.child import recorded
from hostbench.idle.recording import RecordedProcess
from hostbench.idle.report import idle_report
from hostbench.idle.trace import Trace, read_trace
from hostbench.idle.words import advice_table, blocks
from hostbench.report.blocks import Page

_ENDINGS = (".json", ".json.gz")


def execute(
    *,
    command: tuple[str, ...],
    trace: tuple[Path, ...],
    warmup: int,
    steps: int,
    seconds: float,
    keep: Path | None,
    format: str,
) -> int:
    """Print the page. 0, 3 where no work of a GPU is seen, or what the script ended with."""
    if command and command[0].endswith(_ENDINGS):
        raise UsageError(f"a trace is named with --trace: hostbench idle --trace {command[0]}")
    if bool(trace) == bool(command):
        raise UsageError(
            "say what to look at: `hostbench idle -- python SCRIPT`, or --trace FILE, and not both"
        )
    if trace:
        return _show(format, trace)
    settings = {"warmup": warmup, "steps": steps, "seconds": seconds}
    with recorded(command, keep=keep, quiet=format != "text", **settings) as ended:
        exit_code, processes = ended
        if exit_code:
            warn(f"`{join(command)}` ended with exit code {exit_code}")
        traced = [process for process in processes if process.trace]
        if not traced:
            if exit_code:
                return exit_code
            raise NothingMeasured(f"nothing was recorded: {_why_nothing(processes, warmup)}")
        code = _show(format, [Path(str(process.trace)) for process in traced], traced)
    return exit_code or code


def _show(format: str, files: Sequence[Path], processes: Sequence[RecordedProcess] = ()) -> int:
    steps_s = [{"free_s": own.free_s, "recorded_s": own.recorded_s} for own in processes]
    report = idle_report(_read(files))
    page = Page(
        blocks=lambda: [*blocks(report, processes)],
        table=lambda: advice_table(report.advice),
        document=lambda: {**report.document(), "recorded_steps": steps_s},
    )
    show_page(format, page)
    return EXIT_OK if len(report.devices) else EXIT_NOTHING_MEASURED


def _read(paths: Sequence[Path]) -> list[Trace]:
    """Of a folder the traces in it: another file there is named in a warning, and left out. Raises
    UsageError, DataError."""
    traces = list[Trace]()
    for path in paths:
        if not path.is_dir():
            traces.append(read_trace(path))
            continue
        for file in sorted(file for file in path.iterdir() if file.name.endswith(_ENDINGS)):
            try:
                traces.append(read_trace(file))
            except (DataError, UsageError) as error:
                warn(f"left out: {error}")
    if not traces:
        raise UsageError(f"no trace of PyTorch's profiler (.json or .json.gz) is in {paths[0]}")
    return traces


def _why_nothing(processes: Sequence[RecordedProcess], warmup: int) -> str:
    if not processes:
        return "no Python process of the command imported torch, or none ended by itself"
    if errors := [process.error for process in processes if process.error]:
        return errors[0]
    steps = number_of(max(process.steps for process in processes), "step")
    return (
        f"it made {steps} of an optimizer, and recording begins after {warmup} (without any, 20 s "
        "after CUDA was started): --warmup 0 records from the start"
    )
