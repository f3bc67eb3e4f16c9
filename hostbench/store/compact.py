"""Making old archives smaller: the one thing that ever rewrites an archive.

What is judged stays: launch medians, facts, findings, proofs, and every row of the frame. What goes
is the spread inside each launch, of which quantiles stay, or the median alone.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hostbench.core.clock import epoch_s, now
from hostbench.core.errors import DataError, Warn
from hostbench.core.files import read_stored, unpack, write_atomic
from hostbench.core.records import CLOCKS, Run
from hostbench.core.samples import median
from hostbench.store import archive
from hostbench.store.runs import WholeRun
from hostbench.store.thin import quantiles

QUANTILES, MEDIAN = "quantiles", "median"
_DAY_S = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
    """One archive, rewritten or, in a dry run, as it would be."""

    path: Path
    before: int
    after: int


def compact(
    results: Path,
    warn: Warn,
    *,
    older_than_days: float,
    keep: int,
    kept: str = QUANTILES,
    dry_run: bool = False,
) -> Iterator[Compacted]:
    """Thin each archive that is older and not among its machine's newest `keep`.

    One that is damaged, or whose rows would change, is a warning and stays as it is.
    """
    limit_s = epoch_s(now()) - older_than_days * _DAY_S
    for folder in sorted(results.glob("*/runs")):
        paths = sorted(folder.glob(f"*{archive.SUFFIX}"))
        for path in paths[: max(0, len(paths) - keep)]:
            try:
                found = _one(path, limit_s, kept, dry_run)
            except DataError as error:
                warn(str(error))
                continue
            if found:
                yield found


def _one(path: Path, limit_s: float, kept: str, dry_run: bool) -> Compacted | None:
    run = archive.read(path)
    if epoch_s(run.header.started_at) > limit_s:
        return None
    raw = read_stored(path, path.parents[2])
    data = json.loads(unpack(raw))
    if _mark(data) in (kept, MEDIAN):
        return None
    _thin(data["hostbench"]["records"], kept)
    data["hostbench"]["compacted"] = {"kept": kept}  # no time: every clone writes the same bytes
    packed = archive.packed(data)
    if _results(archive.parse(path, packed)) != _results(run):
        raise DataError(f"{path}: thinning would change what it says; it stays as it is: report it")
    if len(packed) >= len(raw):
        return None
    if not dry_run:
        write_atomic(path, packed)
    return Compacted(path=path, before=len(raw), after=len(packed))


def is_same(path: Path, first: bytes, second: bytes) -> bool:
    """Whether two archives say the same but for how far each was compacted.

    Raises DataError, which names `path`, where one cannot be read.
    """
    for content in (first, second):
        archive.parse(path, content)
    both = [json.loads(unpack(content)) for content in (first, second)]
    marks = {_mark(data) for data in both}
    for data in both:
        for kept in marks - {None}:
            _thin(data["hostbench"]["records"], str(kept))
        data["hostbench"].pop("compacted", None)
    return archive.packed(both[0]) == archive.packed(both[1])


def _mark(data: Mapping[str, Any]) -> str | None:
    """What an archive that was compacted kept of its samples."""
    mark = data["hostbench"].get("compacted")
    kept = mark.get("kept") if isinstance(mark, dict) else None
    return kept if kept in (QUANTILES, MEDIAN) else None


def _thin(records: list[dict[str, Any]], kept: str) -> None:
    thinner = quantiles if kept == QUANTILES else _middle
    for record in records:
        measurement = record.get("measurement") or {}
        for clock in CLOCKS:
            if measurement.get(clock):
                measurement[clock] = thinner(measurement[clock])


def _middle(samples: Sequence[float]) -> list[float]:
    return [median(samples)]


def _results(run: Run) -> Any:
    return WholeRun(parts=(run,)).results(), run.header, run.facts, run.finish, run.asv_rows
