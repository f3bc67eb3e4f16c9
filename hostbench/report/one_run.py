"""One run as small tables, for a page: what it was, its facts before and after, its proofs."""

from collections.abc import Mapping

import pandas as pd

from hostbench.core.clock import epoch_s
from hostbench.core.units import format_seconds
from hostbench.facts.causes import differences
from hostbench.facts.record import Fact, Facts
from hostbench.store.runs import WholeRun

WHEN = ("before", "during", "after")


def about(run: WholeRun) -> list[tuple[str, str]]:
    """(what, its value) of one run."""
    header = run.header
    said = [
        ("machine", header.machine or "not named yet"),
        ("began", f"{header.started_at[:16].replace('T', ' ')} UTC"),
        ("took", _took(run)),
        ("commit", header.commit or "no commit"),
        ("made by", header.by),
        ("profile", header.profile),
        ("launches", str(header.launches)),
        ("order", f"seed {header.seed}"),
        ("hostbench", header.hostbench),
    ]
    return [*said, *([("scratch", header.scratch)] if header.scratch else [])]


def _took(run: WholeRun) -> str:
    times = [epoch_s(record.started_at) for record in run.winners().values()]
    return format_seconds(max(times) - min(times)) if len(times) > 1 else "one measurement"


def facts(groups: Mapping[str, Facts]) -> pd.DataFrame:
    """A row for each fact: before the run, under load, after it, and whether it moved. `groups`:
    when -> facts, as History.facts gives them."""
    known = {when: groups.get(when, {}) for when in WHEN}
    names = {(group, name): None for own in known.values() for group in own for name in own[group]}
    moved: set[tuple[str, str]] = set()
    if known["after"]:
        changed = differences(known["before"], known["after"])
        moved = {(one.group, one.name) for one in changed}
    rows = [
        {
            "group": group,
            "fact": name,
            **{when: _text(own.get(group, {}).get(name)) for when, own in known.items()},
            "moved": "moved" if (group, name) in moved else "",
        }
        for group, name in names
    ]
    columns = ["group", "fact", *WHEN, "moved"]
    found = pd.DataFrame(rows, columns=columns)
    return found.sort_values(["moved"], ascending=False, kind="stable", ignore_index=True)


def _text(fact: Fact | None) -> str:
    return "" if fact is None else str(fact)


def proofs(run: WholeRun) -> pd.DataFrame:
    """A row for each proof and what it came to: how many cases, and the first reason."""
    reasons: dict[tuple[str, str], str] = {}
    cases: dict[tuple[str, str], set[str]] = {}
    for (case, _), record in run.winners().items():
        for name, text in record.measurement.proofs.items():
            state, _, why = text.partition(":")
            cases.setdefault((name, state), set()).add(str(case))
            reasons.setdefault((name, state), why.strip())
    rows = [
        {"proof": name, "state": state, "cases": len(own), "reason": reasons[name, state]}
        for (name, state), own in sorted(cases.items())
    ]
    return pd.DataFrame(rows, columns=["proof", "state", "cases", "reason"])
