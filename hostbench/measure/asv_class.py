"""The class that asv discovers in place of a workload, and the cache that it reads.

asv calls a file's `setup_cache` once, which measures every launch there, and then reads the cases
one by one with `track_seconds`.
"""

import hashlib
from collections.abc import Iterable, Sequence, Set
from pathlib import Path
from typing import Any, ClassVar

from hostbench.core.case import AxisValue, Case
from hostbench.core.records import CaseRecord
from hostbench.measure.workload import Workload

Cache = dict[str, Any]


class Suite:
    """Base of every asv class: `setup` skips a case, `track_seconds` reads it."""

    declared: ClassVar[Workload]
    unknown: ClassVar[Set[str]]
    """Options of its declaration that this hostbench does not know."""
    unit = "seconds"
    timeout = 600.0

    def setup(self, cache: Cache | AxisValue, *values: AxisValue) -> None:
        """Skip what the installed commit lacks or this machine cannot do."""
        if not isinstance(cache, dict):  # asv has passed the first value in its place
            family = self.declared.family
            call = f"def setup_cache(): return suite.measure({family!r})"
            raise RuntimeError(f"{family}.py lacks its setup_cache, which measures: add `{call}`")
        entry = self._entry(cache, values)
        if entry["status"] == "skipped":
            raise NotImplementedError(entry["reason"])

    def track_seconds(self, cache: Cache, *values: AxisValue) -> dict[str, Any]:
        """The launch medians in seconds per step; none when this cache was read before."""
        entry = self._entry(cache, values)
        if entry["status"] == "failed":
            raise RuntimeError(entry["reason"])
        # asv reads a cache once per round; its folder is the working directory of each read
        text = f"{self.declared.name}{values!r}"
        try:
            Path(f"read-{hashlib.sha256(text.encode()).hexdigest()[:16]}").touch(exist_ok=False)
        except FileExistsError:
            return {"samples": [], "number": 1}
        return {"samples": entry["samples"], "number": 1}

    track_seconds.rounds = 2  # type: ignore[attr-defined]

    def _entry(self, cache: Cache, values: Sequence[AxisValue]) -> dict[str, Any]:
        work = self.declared
        case = Case.of(work.name, dict(zip(work.axes, values, strict=True)))
        entry: dict[str, Any] | None = cache["records"].get(case_key(case))
        if entry is None:
            raise NotImplementedError(
                cache.get("unknown")
                or f"{case} is not known at this commit, or this machine is measured as another "
                "device"
            )
        if entry["version"] != work.version:
            raise NotImplementedError(
                f"{work.name} has version {entry['version']} at this commit, not {work.version}"
            )
        return entry


def case_key(case: Case) -> str:
    """The case without the order of its axes, which may differ between commits."""
    return str(Case(case.workload, dict(sorted(case.axes))))


def summarize(records: Iterable[CaseRecord]) -> dict[str, dict[str, Any]]:
    """Records of many launches as a cache has them, an entry a case: status, reason, version,
    launch medians in seconds."""
    entries: dict[str, dict[str, Any]] = {}
    for record in records:
        entry = entries.setdefault(
            case_key(record.case),
            {"status": "ok", "reason": None, "version": record.version, "samples": []},
        )
        if record.status != "ok":
            entry["status"], entry["reason"] = record.status, record.reason
        elif record.seconds is not None:
            entry["samples"].append(record.seconds)
    return entries
