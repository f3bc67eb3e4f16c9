"""`hostbench trace`: one sample of a case as a Chrome trace."""

import json
from pathlib import Path

from hostbench import __version__
from hostbench.cli.measuring import Measuring, set_up
from hostbench.cli.output import show, warn, write_file
from hostbench.core.case import as_typed
from hostbench.core.clock import now
from hostbench.core.errors import EXIT_FAILED, EXIT_OK, BrokenError, NothingMeasured, UsageError
from hostbench.core.units import format_seconds, number_of
from hostbench.runner.launcher import Launcher
from hostbench.store.archive import packed


def execute(*, case: str, output: Path, device: str | None, deadline: float | None) -> int:
    """Run the case and write its trace. Exit code 3 where the case cannot run here, 4 where it
    failed: also with a trace that shows how."""
    if not output.name.endswith((".json", ".json.gz")):
        raise UsageError(f"the trace is JSON: -o {output}.json, or .json.gz to pack it")
    setup = set_up(Measuring(case=(case,), device=device, deadline=deadline), keeps=False)
    chosen = setup.only_case(case)
    typed = as_typed(str(chosen))
    (asked,) = setup.with_cases((chosen,)).plan.workers(0, trace=True)
    with Launcher() as launcher:
        records = [*launcher.run(asked)]
    timed, record = records[0], records[-1]  # without a trace, and with it
    if record.status == "skipped":
        raise NothingMeasured(f"{typed} cannot be traced here: {record.reason}")
    if not record.measurement.trace:
        raise BrokenError(f"{typed} failed: {record.reason}")
    about = {
        "case": str(chosen),
        "machine": setup.machine,
        "device": setup.device,
        "started_at": now(),
        "hostbench": __version__,
        "num_steps": record.measurement.num_steps,
        "median_s": timed.seconds,
    }
    document = {
        "displayTimeUnit": "ms",
        "otherData": about,
        "traceEvents": record.measurement.trace,
    }
    is_packed = output.suffix == ".gz"
    write_file(output, packed(document) if is_packed else json.dumps(document).encode())
    show(f"{typed} on the {setup.device} device of {setup.machine}")
    num_steps = number_of(record.measurement.num_steps or 0, "step")
    median = format_seconds(timed.seconds or 0.0)
    show(f"{num_steps} traced (median without a trace: {median} a step)")
    show(f"trace: {output} (open it in https://ui.perfetto.dev)")
    failed = [each.reason for each in (timed, record) if each.status == "failed"]
    if failed:
        warn(f"{typed} failed: {failed[0]}")
        return EXIT_FAILED
    return EXIT_OK
