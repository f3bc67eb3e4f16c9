"""What is known of a run without opening it, and its facts."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, ValidationError, convert

from hostbench.facts.record import Facts


class StoredFile(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is known of a stored file (an archive, a file of asv's) without opening it:
    the same in all its points, and of a run how it was measured."""

    file: str = ""
    """Its path, relative to the results folder."""
    size: int = 0
    changed_ns: int = 0
    """Time of its last change."""
    depends: str = ""
    """What asv's other files say of its points: where one of the three differs it is read again."""
    digest: str = ""
    """Of its bytes: the same in every clone."""
    warnings: list[str] = []
    """What is not shown of it, and why."""
    rows: int = 0
    machine: str = ""
    run_id: str = ""
    commit: str | None = None
    hardware: str | None = None
    torch: str | None = None
    driver: str | None = None
    scratch: str | None = None
    source: str | None = None
    first_us: int | None = None
    """When its first point began, in microseconds since the epoch."""
    started_at: str = ""
    """Of a run alone, as all that follows."""
    identity: dict[str, str] = {}
    """What makes it another machine (hostbench.facts.differences.identity)."""


def facts_of(stored: Any) -> Facts:
    """Stored facts that are odd say nothing; the run is shown all the same."""
    try:
        return convert(stored, Facts)
    except ValidationError:
        return {}


def facts_by_when(stored: Mapping[str, Any]) -> dict[str, Facts]:
    """`before`, `during`, ... -> the facts of a run."""
    return {when: facts_of(facts) for when, facts in stored.items()}
