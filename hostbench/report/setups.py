"""How a machine was set up over time, as small tables for a page."""

from collections.abc import Sequence

import pandas as pd

from hostbench.facts import spec
from hostbench.facts.differences import over_time
from hostbench.facts.record import Fact, Facts

COLUMNS = ("since", "fact", "of", "from", "to")


def changes(setups: Sequence[tuple[pd.Timestamp, Facts]]) -> pd.DataFrame:
    """A row for each fact that changed, the newest first, of one moment the likeliest cause first:
    COLUMNS. `since`: when the first run with the new value began; `of`: the groups that it changed
    in alike, as `gpu0, gpu1`. `setups`: of hostbench.store.results.Results.setups."""
    groups: dict[tuple[pd.Timestamp, str, str, str], list[str]] = {}
    for since, change in over_time(setups):
        key = since, change.name, _text(change.before), _text(change.after)
        groups.setdefault(key, []).append(change.group)
    rows = [
        (since, name, ", ".join(names), before, after)
        for (since, name, before, after), names in groups.items()
    ]
    rows.sort(key=lambda row: (-row[0].value, spec.cause(row[1]), row[1]))
    return pd.DataFrame(rows, columns=COLUMNS).astype({"since": "datetime64[us, UTC]"})


def _text(fact: Fact | None) -> str:
    """A variable that was not recorded was not set."""
    return "not set" if fact is None else str(fact)
