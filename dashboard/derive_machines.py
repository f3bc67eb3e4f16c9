"""Machines side by side: their age, what changed on them, how near their limits they come. No
streamlit."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from words import commit8, known

from hostbench.report.charts import BLUE, CROSS, ORANGE, Spec, field, layer, time_axis, titled
from hostbench.report.doctor import Diagnosis

STALE_AFTER = 1.5
"""Times a machine's usual pause between two runs."""


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
    ordered = times.sort_values()
    pauses = ordered.diff()
    usual = pauses[pauses > pd.Timedelta(0)].median()
    return not pd.isna(usual) and bool(now - ordered.iloc[-1] > STALE_AFTER * usual)


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


def health(
    listed: pd.DataFrame,
    changes: pd.DataFrame,
    verdicts: Mapping[str, Sequence[Diagnosis]],
) -> pd.DataFrame:
    """A row for each machine of `listed`: its newest run, since when it has its torch and its
    driver, where they changed (data.setup_changes), and the doctor's worst finding. Without a
    column of versions where no machine has one."""
    kept = ["machine", "newest run", "age", "stale", "failed", "torch", "driver"]
    found = listed[kept].copy()
    for name in ("torch", "driver"):
        own = changes[changes["fact"] == name].drop_duplicates("machine").set_index("machine")
        found[name] = [
            f"{now} since {own['since'][machine]:%Y-%m-%d}" if machine in own.index else now
            for machine, now in zip(found["machine"], found[name], strict=True)
        ]
    found = found[[name for name in kept if name not in ("torch", "driver") or found[name].any()]]
    return found.assign(doctor=[_worst(verdicts.get(name, ())) for name in found["machine"]])


def _worst(verdicts: Sequence[Diagnosis]) -> str:
    """What somebody should see to first."""
    if not verdicts:
        return "no facts stored"
    bad = [one for one in verdicts if one.level in ("broken", "warn")]
    if not bad:
        return "ok"
    more = f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
    return f"{bad[0].level}: {bad[0].text}{more}"


def timeline(runs: pd.DataFrame, changes: pd.DataFrame, colors: Mapping[str, str]) -> Spec:
    """The newest runs of each machine that something changed on (data.runs, data.setup_changes) as
    dots, and a diamond where it changed."""
    names = list(dict.fromkeys(changes["machine"]))
    own = runs[runs["machine"].isin(names) & runs["started_at"].notna()]
    own = own.groupby("machine", sort=False).head(_DOTS)
    dots = [
        {"machine": row["machine"], "at": _iso(row["started_at"]), "commit": commit8(row["commit"])}
        for row in own.to_dict("records")
    ]
    told: dict[tuple[str, str], list[str]] = {}
    for row in changes.to_dict("records"):
        said = f"{row['fact']}: {row['from']} -> {row['to']}"
        told.setdefault((row["machine"], _iso(row["since"])), []).append(said)
    diamonds = [
        {"machine": machine, "at": at, "said": _in_short(said)}
        for (machine, at), said in told.items()
    ]
    span = (own["started_at"].max() - own["started_at"].min()).total_seconds()
    x = field("at:T", title=None, axis=time_axis(1e3 * span), scale={"type": "utc"})
    y = field("machine:N", sort=names, title=None, axis={"labelLimit": 180, "ticks": False})
    shades = {"domain": names, "range": [colors[name] for name in names]}
    color = field("machine:N", scale=shades, legend=None)
    tip = [field("machine:N"), field("at:T", title="UTC", format="%Y-%m-%d %H:%M")]
    ran, moved = field("commit:N"), field("said:N", title="changed")
    layers = [
        layer(dots, "point", _RUN, x=x, y=y, color=color, tooltip=[*tip, ran]),
        layer(diamonds, "point", _CHANGE, x=x, y=y, color=color, tooltip=[*tip, moved]),
    ]
    return titled(layers, "", [], 28 * max(len(names), 2))


_RUN: Spec = {"filled": True, "size": 14, "opacity": 0.6}
_CHANGE: Spec = {"filled": True, "shape": "diamond", "size": 160, "opacity": 1}
_NAMED, _DOTS = 4, 300


def _iso(at: Any) -> str:
    return str(at.isoformat())


def _in_short(said: Sequence[str]) -> str:
    """What changed at one moment, the likeliest causes by name."""
    more = f"; {len(said) - _NAMED} more" if len(said) > _NAMED else ""
    return "; ".join(said[:_NAMED]) + more


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
    called = {"said": "rate"}
    shown = ("machine", "case", "said", "limit")
    tip = [field(f"{name}:N", title=called.get(name, name)) for name in shown]
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
