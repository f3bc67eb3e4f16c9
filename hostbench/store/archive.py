"""The archive: the immutable record of one finished or interrupted run.

`results/<machine>/runs/<run_id>.json.gz`: asv's layout with only this run's cases, plus one key
`hostbench` with all that asv has no place for. asv ignores the name's ending.
"""

import errno
import itertools
import json
import math
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import convert, structs, to_builtins

from hostbench.core import files
from hostbench.core.asv_names import asv_name
from hostbench.core.case import AxisValue
from hostbench.core.clock import epoch_s
from hostbench.core.errors import DataError
from hostbench.core.files import (
    RefusedFileError,
    damaged,
    load_json,
    read_stored,
    unpack,
    write_atomic,
)
from hostbench.core.records import DAMAGE, FORMAT, Archived, CaseRecord, Run
from hostbench.core.samples import median, median_interval, quantile

SUFFIX = ".json.gz"
COLUMNS = (
    "result params version started_at duration stats_ci_99_a stats_ci_99_b stats_q_25 stats_q_75 "
    "stats_number stats_repeat samples profile"
).split()
"""asv's result columns, in asv's order."""


def path_of(results: Path, run: Run) -> Path:
    return results / str(run.header.machine) / "runs" / f"{run.header.run_id}{SUFFIX}"


def write(results: Path, run: Run, content: Mapping[str, Any] | None = None) -> Path:
    """Archive a run. An archive is never overwritten: the same run again is left as it is.

    `content` is the run's `content_of`, where it is known already.
    """
    path = path_of(results, run)
    if not path.exists():
        write_atomic(path, packed(content or content_of(run)))
    return path


def packed(content: Mapping[str, Any]) -> bytes:
    """An archive's bytes: the same for the same content, whatever the time and the Python."""
    text = json.dumps(content, separators=(",", ":")).encode()
    return zlib.compress(text, level=9, wbits=31)  # gzip, whose own module writes other headers


def read(path: Path) -> Archived:
    """Read an archive. Raises DataError that names the file when it is damaged."""
    try:
        return parse(path, read_stored(path, path.parents[2]))
    except OSError as error:
        raise DataError(damaged(path, error)) from error


def parse(path: Path, content: bytes) -> Archived:
    """The run in an archive's bytes; what a newer hostbench says besides is left out.

    Raises DataError, which names `path`, where there is none, or none that this hostbench can read.
    """
    try:
        data = load_json(unpack(content))["hostbench"]
        _check_format(path, data["format"])
        run = convert(data, Archived)
        if (num := len(run.header.planned)) > files.MAX_POINTS:
            limit = f"more than the {files.MAX_POINTS:,} that are read of a file"
            raise RefusedFileError(
                errno.EFBIG, f"it plans {num:,} cases, {limit}: keep it elsewhere"
            )
        return run
    except (OSError, *DAMAGE) as error:
        raise DataError(damaged(path, error)) from error


def _check_format(path: Path, number: Any) -> None:
    """Raises DataError for a format of a newer hostbench, ValueError for any other that is not
    ours."""
    if isinstance(number, int) and number > FORMAT:
        raise DataError(
            f"{path} was written by a newer hostbench (format {number!r:.20}, this one reads "
            f"{FORMAT}); update hostbench to read it"
        )
    if number != FORMAT:
        raise ValueError(f"format {number!r:.20}, this hostbench reads {FORMAT}")


def content_of(run: Run) -> dict[str, Any]:
    """What an archive holds: asv's layout, with nothing of an environment, and `hostbench`. Of a
    launch's samples five quantiles stay: all figures come from the launches' medians."""
    header = run.header
    committed_ms = int(epoch_s(header.committed_at) * 1000) if header.committed_at else None
    return {
        "commit_hash": header.commit,
        "env_name": None,
        "date": committed_ms,
        "params": {"machine": header.machine},
        "python": None,
        "requirements": {},
        "env_vars": {},
        "result_columns": list(COLUMNS),
        "results": _rows(run.records),
        "durations": {},
        "version": 2,
        "hostbench": to_builtins(structs.replace(run, records=tuple(map(_thinned, run.records)))),
    }


def _thinned(record: CaseRecord) -> CaseRecord:
    return structs.replace(record, measurement=record.measurement.thinned())


def _rows(records: Sequence[CaseRecord]) -> dict[str, list[Any]]:
    """asv's rows: one per benchmark, flat lists over the product of the parameters seen."""
    by_workload: dict[str, list[CaseRecord]] = {}
    for record in records:
        by_workload.setdefault(record.case.workload, []).append(record)
    rows = {}
    for workload, group in by_workload.items():
        medians: dict[tuple[AxisValue, ...], list[float]] = {}
        """None of a case that failed."""
        skipped: set[tuple[AxisValue, ...]] = set()
        for record in group:
            key = tuple(value for _, value in record.case.axes)
            own = medians.setdefault(key, [])
            if record.status == "ok" and record.seconds is not None:
                own.append(record.seconds)
            elif record.status == "skipped":
                skipped.add(key)
        params = [list(dict.fromkeys(values)) for values in zip(*medians, strict=True)]
        if math.prod(map(len, params)) > files.MAX_POINTS:
            continue  # nobody measured that; the records are all there
        product = list(itertools.product(*params))
        stats = [_stats(medians.get(key, [])) for key in product]
        is_absent = [key in skipped or key not in medians for key in product]
        started_ms = int(min(map(epoch_s, {record.started_at for record in group})) * 1000)
        rows[asv_name(workload)] = [
            [math.nan if no else stat[0] for no, stat in zip(is_absent, stats, strict=True)],
            [list(map(repr, values)) for values in params],
            group[0].version,
            started_ms,
            None,
            *[[stat[column] for stat in stats] for column in range(1, 7)],
            [medians.get(key) or None for key in product],
        ]
    return rows


def _stats(seconds: list[float]) -> tuple[Any, ...]:
    """(result, ci low, ci high, q25, q75, number, repeat); None where the case has no number."""
    if not seconds:
        return (None,) * 7
    low, high = median_interval(seconds)
    quartiles = quantile(seconds, 0.25), quantile(seconds, 0.75)
    return (median(seconds), low, high, *quartiles, 1, len(seconds))
