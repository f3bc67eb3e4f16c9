"""The command: see the package's docstring."""

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from hostbench.core.errors import EXIT_FAILED, EXIT_NOTHING_MEASURED, EXIT_OK, EXIT_USAGE
from hostbench.gpu_check import report
from hostbench.gpu_check.checks import CHECKS, MACHINE
from hostbench.gpu_check.record import Result
from hostbench.gpu_check.runner import in_child, in_process, log_tail, run_all, write_answer

TOTAL_S = 570.0


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m hostbench.gpu_check", description=__doc__)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR")
    parser.add_argument("--only", metavar="CHECK", help="ask one check here (for the parent)")
    arguments = parser.parse_args(argv)
    folder: Path = arguments.output.resolve()
    if arguments.only:
        return _ask_one(folder, arguments.only)
    return _ask_all(folder)


def _ask_one(folder: Path, name: str) -> int:
    found = [check for check in (MACHINE, *CHECKS) if check.name == name]
    if not found:
        known = ", ".join(check.name for check in (MACHINE, *CHECKS))
        print(f"unknown check {name!r}; there are: {known}", file=sys.stderr)
        return EXIT_USAGE
    write_answer(folder, name, in_process(found[0], folder))
    return EXIT_OK


def _ask_all(folder: Path) -> int:
    start_s = time.monotonic()
    started_at = datetime.now(UTC).isoformat(timespec="seconds")
    with tempfile.TemporaryDirectory() as scratch:
        answer = in_child(MACHINE, Path(scratch), MACHINE.budget_s)
        log = log_tail(Path(scratch), MACHINE.name)
    if answer.status != "answered":
        print(f"gpu-check: nothing measured: {answer.text}")
        if answer.status == "failed":
            print(log, file=sys.stderr)
            return EXIT_FAILED
        return EXIT_NOTHING_MEASURED
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        print(f"gpu-check: cannot write to {folder}: {error}; choose another -o", file=sys.stderr)
        return EXIT_USAGE
    took_s = time.monotonic() - start_s
    results = [Result(name=MACHINE.name, question=MACHINE.question, answer=answer, seconds=took_s)]
    _show(results[0])
    for result in run_all(CHECKS, folder, start_s + TOTAL_S):
        results.append(result)
        _show(result)
        report.write(folder, started_at, results, complete=len(results) == 1 + len(CHECKS))
    print(f"report: {folder / 'report.md'}")
    return exit_code(results[1:])


def _show(result: Result) -> None:
    first = result.answer.text.partition("\n")[0]
    print(f"{result.name}: {result.answer.status} ({result.seconds:.0f} s): {first}", flush=True)


def exit_code(results: Sequence[Result]) -> int:
    """4 when a check failed, 3 when none was answered, else 0."""
    statuses = {result.answer.status for result in results}
    if "failed" in statuses:
        return EXIT_FAILED
    return EXIT_OK if "answered" in statuses else EXIT_NOTHING_MEASURED


if __name__ == "__main__":
    sys.exit(main())
