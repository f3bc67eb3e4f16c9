"""What stored JSON must look like before it is believed: types, ranges, and names fit for a path.

A file may have been edited, merged badly or cut; everything here raises ValueError.
"""

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from hostbench.core.clock import YEARS, epoch_s, is_storable

MAX_LAUNCHES = 10_000
_LAST_INT = 1 << 63
_STATUSES = ("ok", "skipped", "failed")

Check = Callable[[Any], bool]


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _LAST_INT


def _is_seconds(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and 0 <= value <= 1e300 and math.isfinite(value)


def _is_name(value: Any) -> bool:
    """Fit for one part of a path, and no pattern."""
    return (
        isinstance(value, str) and re.fullmatch(r"(?!\.)[^/\\*?\[\]\x00-\x1f]+", value) is not None
    )


def _is_time(value: Any) -> bool:
    if isinstance(value, str) and not is_storable(epoch_s(value)):
        raise ValueError(f"{value!r:.60} is not in {YEARS}")
    return isinstance(value, str)


def _is_commit(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch("[0-9a-f]{8,64}", value) is not None


def _is_axes(value: Any) -> bool:
    return _is_mapping_to(value, lambda one: isinstance(one, str | int) and not _is_huge(one))


def _is_huge(value: Any) -> bool:
    return isinstance(value, int) and abs(value) >= _LAST_INT


def _is_finding(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | str)


def _is_proof(value: Any) -> bool:
    words = ("passed", "unavailable", "failed")
    return isinstance(value, str) and value.partition(":")[0] in words


def _is_mapping_to(value: Any, check: Check) -> bool:
    return isinstance(value, Mapping) and all(check(one) for one in value.values())


def _none_or(check: Check) -> Check:
    return lambda value: value is None or check(value)


def _list_of(check: Check) -> Check:
    return lambda value: isinstance(value, list | tuple) and all(map(check, value))


_HEADER: dict[str, Check] = {
    "run_id": _is_name,
    "machine": _none_or(_is_name),
    "commit": _none_or(_is_commit),
    "committed_at": _none_or(_is_time),
    "scratch": _none_or(_is_text),
    "profile": _is_text,
    "launches": lambda value: _is_int(value) and 1 <= value <= MAX_LAUNCHES,
    "device": _is_text,
    "seed": lambda value: isinstance(value, int),
    "started_at": _is_time,
    "hostbench": _is_text,
    "planned": _list_of(_is_text),
    "resumes": _none_or(_is_name),
    "by": _is_text,
    "interleaved_with": _none_or(_is_name),
}
_RECORD: dict[str, Check] = {
    "version": _is_text,
    "launch": lambda value: _is_int(value) and value < MAX_LAUNCHES,
    "position": _is_int,
    "status": lambda value: value in _STATUSES,
    "reason": _none_or(_is_text),
    "started_at": _is_time,
    "seconds": _none_or(_is_seconds),
    "nbytes": _none_or(_is_int),
    "expected": lambda value: _is_mapping_to(value, lambda one: isinstance(one, bool)),
}
_MEASUREMENT: dict[str, Check] = {
    "end_to_end_s": _list_of(_is_seconds),
    "call_s": _list_of(_is_seconds),
    "device_s": _list_of(_is_seconds),
    "findings": lambda value: _is_mapping_to(value, _is_finding),
    "proofs": lambda value: _is_mapping_to(value, _is_proof),
    "memory": lambda value: _is_mapping_to(value, _is_int),
}


def check_header(header: Mapping[str, Any]) -> None:
    """A run's header, as its fields."""
    _check("header", header, _HEADER)


def check_record(record: Mapping[str, Any]) -> None:
    """One case in one launch, as `CaseRecord.to_json` writes it."""
    _check("case", record["case"], {"workload": _is_text, "axes": _is_axes})
    _check("record", record, _RECORD)
    measurement = record.get("measurement", {})
    if not isinstance(measurement, Mapping):
        raise ValueError(f"a measurement is no {measurement!r:.60}")
    _check("measurement", measurement, _MEASUREMENT)


def check_facts(facts: Any) -> None:
    """One set of facts: groups of named facts."""
    if not _is_mapping_to(facts, lambda group: isinstance(group, Mapping)):
        raise ValueError(f"facts are groups of facts, no {facts!r:.60}")


def check_finish(finish: Any) -> None:
    """How a run ended: text under every key, or None."""
    if not _is_mapping_to(finish, _none_or(_is_text)):
        raise ValueError(f"the finish is no {finish!r:.60}")


def check_archive(data: Mapping[str, Any]) -> None:
    """Everything in an archive beside its header and records."""
    if not _is_mapping_to(data["facts"], lambda _: True):
        raise ValueError(f"facts is no {data['facts']!r:.60}")
    for facts in data["facts"].values():
        check_facts(facts)
    if data["finish"] is not None:
        check_finish(data["finish"])
    rows = data["asv_rows"]
    if not _list_of(_list_of(lambda one: _is_text(one) or _is_int(one)))(rows):
        raise ValueError(f"asv_rows is no {rows!r:.60}")
    if not _list_of(_is_int)(data["damaged"]):
        raise ValueError(f"damaged is no {data['damaged']!r:.60}")


def _check(what: str, values: Any, checks: Mapping[str, Check]) -> None:
    if not isinstance(values, Mapping):
        raise ValueError(f"a {what} is no {values!r:.60}")
    for name, check in checks.items():
        if name in values and not check(values[name]):
            raise ValueError(f"{name} of the {what} cannot be {values[name]!r:.60}")
