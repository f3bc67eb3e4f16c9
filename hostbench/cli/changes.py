"""`hostbench changes`: every step in every series, and each machine's own events."""

import sys
from argparse import Namespace
from pathlib import Path

from hostbench.errors import EXIT_OK, EXIT_REGRESSION, NothingMeasured, UsageError
from hostbench.judge import lines
from hostbench.judge.change import Options


def execute(args: Namespace) -> int:
    """Judge the series of --input and print their changes; 1 where one of them is slower."""
    if args.input is None:
        raise UsageError(
            "changes reads series from --input FILE for now (- for standard input), one a line: "
            + lines.EXAMPLE
        )
    series = _read(args.input)
    if not series:
        raise NothingMeasured(f"{_name(args.input)} has no series; one a line: {lines.EXAMPLE}")
    judged = list(lines.judge_lines(series, Options()))
    for id, judgement in judged:
        for change in judgement.changes:
            print(lines.written(id, change))
    if all(judgement.noise is None for _, judgement in judged[: len(series)]):
        longest = max(len(line.values) for line in series)
        raise NothingMeasured(
            f"too few points to judge any series: the longest has {longest}, 11 are needed"
        )
    slower = any(
        change.effect > 0 and change.kind == "step" and change.state == "confirmed"
        for _, judgement in judged
        for change in judgement.changes
    )
    return EXIT_REGRESSION if slower else EXIT_OK


def _name(path: Path) -> str:
    return "standard input" if str(path) == "-" else str(path)


def _read(path: Path) -> list[lines.Line]:
    try:
        if str(path) == "-":
            return lines.read(sys.stdin, _name(path))
        with path.open(encoding="utf-8") as file:
            return lines.read(file, _name(path))
    except UnicodeDecodeError:
        raise UsageError(f"{_name(path)} is not UTF-8 text; write it as UTF-8") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from None
