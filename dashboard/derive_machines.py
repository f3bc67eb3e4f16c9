"""Machines side by side: their age, what changed on them, how near their limits they come. No
streamlit."""

import statistics
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import pandas as pd
from words import commit8, known

from hostbench.report.charts import BLUE, CROSS, ORANGE, Spec, field, layer, titled

STALE_AFTER = 1.5
"""Times a machine's usual pause between two runs."""
FACTS = ("torch", "driver", "hardware")


def listed(runs: pd.DataFrame, now: pd.Timestamp) -> pd.DataFrame:
    """A row for each machine of data.runs, the one with the newest run first."""
    rows = []
    for name, own in runs.groupby("machine", sort=False):
        first = own.iloc[0]
        times = own["started_at"].dropna()
        rows.append(
            {
                "machine": name,
                "newest run": first["started_at"],
                "age": age(now - first["started_at"]),
                "stale": "stale" if is_stale(times, now) else "",
                "runs": len(own),
                "commit": commit8(first["commit"]),
                "failed": int(first["failed"]),
                "hardware": known(first["hardware"], ""),
                "torch": known(first["torch"], ""),
                "driver": known(first["driver"], ""),
            }
        )
    found = pd.DataFrame(rows)
    return found.sort_values("newest run", ascending=False, kind="stable", ignore_index=True)


def is_stale(times: pd.Series, now: pd.Timestamp) -> bool:
    """Silent for longer than is usual between its runs; of a single run nobody knows."""
    seconds = sorted(one.timestamp() for one in times)
    pauses = [later - earlier for earlier, later in pairwise(seconds) if later > earlier]
    return bool(pauses) and now.timestamp() - seconds[-1] > STALE_AFTER * statistics.median(pauses)


def age(span: Any) -> str:
    """`3 h ago`, `12 days ago`."""
    if pd.isna(span):
        return "at an unknown time"
    minutes = span.total_seconds() / 60
    for size, unit in ((365 * 1440, "year"), (1440, "day"), (60, "h"), (1, "min")):
        if minutes >= size:
            num = int(minutes // size)
            return f"{num} {unit}{'s' * (num > 1 and unit in ('year', 'day'))} ago"
    return "just now"


def moved(runs: pd.DataFrame) -> pd.DataFrame:
    """When torch, the driver or the hardware changed on a machine: a row for each, the newest
    first. `runs` are those of one machine, in any order."""
    order = runs.sort_values("started_at", kind="stable")
    rows = []
    for name in FACTS:
        values = order[["started_at", "commit", name]].dropna(subset=[name])
        for before, after in pairwise(values.to_dict("records")):
            if before[name] != after[name]:
                change = f"{before[name]} -> {after[name]}"
                rows.append({"when": after["started_at"], "fact": name, "change": change})
    found = pd.DataFrame(rows, columns=["when", "fact", "change"])
    return found.sort_values("when", ascending=False, kind="stable", ignore_index=True)


def limits(rows: pd.DataFrame) -> pd.DataFrame:
    """Of each workload among rows of the tidy frame what comes nearest to its limit: `name`,
    `case`, `rate` and `top` in GB/s, `share` of it, the `limit` in words."""
    good = rows[(rows["status"] == "ok") & rows["ceiling_gb_per_s"].gt(0)]
    good = good.assign(share=good["gb_per_s"] / good["ceiling_gb_per_s"])
    best = good[good["share"].notna()].sort_values("share", ascending=False)
    best = best.drop_duplicates("workload")
    best = best.assign(
        rate=best["gb_per_s"],
        top=best["ceiling_gb_per_s"],
        limit=best["ceiling"].fillna("").astype(str),
        name=[str(one).rpartition(".")[2] for one in best["workload"]],
    )
    found: pd.DataFrame = best[["name", "case", "rate", "top", "share", "limit"]]
    return found.sort_values("name", ignore_index=True)


def reached(machines: Mapping[str, pd.DataFrame], colors: Mapping[str, str]) -> Spec:
    """What share of each limit each machine reaches; a point above 100 % is crossed out, for then
    the limit is another one than is known."""
    cells = [
        {**row, "machine": name, "said": f"{row['rate']:.3g} of {row['top']:.3g} GB/s"}
        for name, own in machines.items()
        for row in own.to_dict("records")
    ]
    names = list(machines)
    axis = {"format": "%", "tickCount": 6}
    domain = {"domain": [0, max(1.0, *(cell["share"] for cell in cells))], "nice": True}
    x = field("share:Q", title="share of the limit", scale=domain, axis=axis)
    y = field("name:N", title=None, axis={"labelLimit": 300, "ticks": False})
    shades = {"domain": names, "range": [colors[name] for name in names]}
    heading = {"orient": "top", "title": None, "columns": 2, "labelLimit": 280}
    color = field("machine:N", scale=shades, legend=heading)
    tip = [field(f"{name}:N", title=name) for name in ("machine", "case", "said", "limit")]
    within = [cell for cell in cells if cell["share"] <= 1]
    beyond = [cell for cell in cells if cell["share"] > 1]
    layers = [
        layer([{"share": 1.0}], "rule", {"color": BLUE, "strokeDash": [6, 4]}, x=x),
        layer(within, "point", {"filled": True, "size": 110, "opacity": 1}, x=x, y=y)
        | {"encoding": {"x": x, "y": y, "color": color, "tooltip": tip}},
    ]
    if beyond:
        look = {"shape": CROSS, "size": 120, "strokeWidth": 2.5, "color": ORANGE}
        layers.append(layer(beyond, "point", look, x=x, y=y, tooltip=tip))
    return titled(layers, "", [], 26 * max(len({cell["name"] for cell in cells}), 2) + 10)
