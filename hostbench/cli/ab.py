"""`hostbench ab A [B]`: two codes, interleaved, and what became slower from A to B."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from shlex import quote
from typing import Any

from hostbench.cli import bisect
from hostbench.cli.compare import exit_code, of_stored
from hostbench.cli.measuring import Measured
from hostbench.cli.output import show_page, typed_again, warn, write_file
from hostbench.cli.two_codes import MeasuredSides, SideOptions, measure_sides
from hostbench.core.case import Case, as_typed
from hostbench.core.errors import EXIT_FAILED, HostbenchError, NothingMeasured
from hostbench.core.samples import MIN_LAUNCHES
from hostbench.core.units import format_duration, number_of
from hostbench.families import names as known_families
from hostbench.report.comparison import Compared, comment, comment_of_nothing, page
from hostbench.vcs.repo import about
from hostbench.vcs.side import WORKING_TREE, Side

_FEW = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class AbOptions(SideOptions):
    comment: Path | None = None
    bisect: bool = False
    threshold: float = 0.05
    all: bool = False
    format: str = "text"


def execute(**given: Any) -> int:
    """Measure, keep a run of each side, compare them. Exit codes are those of `compare`, but 4
    where a case failed or the run was interrupted; with --bisect those of `git bisect run`."""
    options = AbOptions(**given)
    if options.bisect:
        return bisect.judge_step(options, options.threshold)
    try:
        measured = measure_sides(options)
        both = _compared(options, measured)
    except (HostbenchError, KeyboardInterrupt) as error:  # else the comment before stays, and lies
        why = str(error) or "interrupted before anything was compared"
        nothing = isinstance(error, NothingMeasured | KeyboardInterrupt)
        answer = "Nothing measured" if nothing else "Failed"
        _write_comment(options, comment_of_nothing(answer, why, _about(options)))
        raise
    again = "hostbench compare " + " ".join(both.typed)
    again += f" --results {quote(options.results)}" if options.results else ""
    show_page(options.format, page(both, again, every=options.all))
    _write_comment(options, comment(both, _about(options, measured)))
    records = chain(*measured.measured.records)
    failed = any(record.status == "failed" for record in records)
    cut_off = measured.measured.end in ("interrupted", "device lost")
    return EXIT_FAILED if failed or cut_off else exit_code(both)


def _compared(options: AbOptions, measured: MeasuredSides) -> Compared:
    """The two runs that were kept, as `compare` has them, with what there is to say of them."""
    names = _called(measured.sides[0]), _called(measured.sides[1])
    remarks = [*measured.notes, *_remarks(options, names, measured.measured, measured.cases)]
    first, second = (f"run:{run_id}" for run_id in measured.measured.run_ids)
    try:
        return replace(of_stored((first, second), options.results), names=names, remarks=remarks)
    except NothingMeasured:  # every case was skipped on both sides
        for remark in remarks:
            warn(remark)
        raise


def _write_comment(options: AbOptions, text: str) -> None:
    if options.comment is not None:
        write_file(options.comment, text.encode())


def _about(options: AbOptions, both: MeasuredSides | None = None) -> list[str]:
    """What was compared, and how to do it again; as far as it is known."""
    words = [*map(quote, (options.a, *options.names))]
    words += [f"--case {quote(case)}" for case in options.case]
    words += [f"--budget {options.budget:g}s"] if options.budget else []
    more = typed_again(options, "quick", "launches", "device", "deadline")
    again = f"again: hostbench ab {' '.join(words)}{more}"
    if both is None:
        second = [name for name in options.names[:1] if name not in known_families()]
        return [f"A: {options.a}", f"B: {[*second, WORKING_TREE][0]}", again]
    sides = (
        f"{letter}: {_called(measured)}: {about(Path.cwd(), str(measured.code.commit))}"
        for letter, measured in zip("AB", both.sides, strict=True)
    )
    return [*sides, f"machine: {both.machine}", again]


def _called(side: Side) -> str:
    clean = ", tracked files unchanged" if side.name == WORKING_TREE else ""
    state = f", {side.code.scratch}" if side.code.scratch else clean
    return f"{side.name} ({str(side.code.commit)[:8]}{state})"


def _remarks(
    options: AbOptions, called: tuple[str, str], measured: Measured, cases: Sequence[Case]
) -> Iterator[str]:
    """What was not measured, where each side is kept, and whether it came to its end."""
    first, second = (
        {record.case: record.reason for record in records if record.status == "skipped"}
        for records in measured.records
    )
    for reason, num in Counter(first[case] for case in first if case in second).items():
        yield f"skipped on both sides: {num} of {len(cases)} cases: {reason}"
    num_launches = Counter(record.case for record in measured.records[0])
    without = {record.case for record in chain(*measured.records) if record.status != "ok"}
    few = [
        as_typed(str(case))
        for case in cases
        if num_launches[case] < MIN_LAUNCHES and case not in without
    ]
    if options.budget and few:
        named = few if options.all else few[:_FEW]
        more = f" and {len(few) - len(named)} more" * (len(few) > len(named))
        yield (
            f"{number_of(len(few), 'case')} did not fit into {format_duration(options.budget)} "
            f"({MIN_LAUNCHES} launches a side): {', '.join(named)}{more}"
        )
    for name, run_id in zip(called, measured.run_ids, strict=True):
        yield f"{name} is run:{run_id}"
    if measured.end != "complete":
        num = min(len({record.launch for record in records}) for records in measured.records)
        yield (
            f"{measured.end} in launch {num}: what was measured is kept, and judged if it is enough"
        )
