"""Series over their runs: a workload, its axes as pills, every machine that is chosen."""

from typing import Any

import data
import pandas as pd
import parts
import streamlit as st
import words

from hostbench.report import trend
from hostbench.report.changes import causes
from hostbench.report.charts import CLICKED
from hostbench.report.picture import picture_of

HELP = """Bar: 99% interval. Thick line: level between two changes; band: a change within it would
not be seen. Vertical: a change, of the series or its machine; grey: another torch, driver or
hardware. Hollow: scratch, never judged. On the axis a cross: failed, a tick: skipped."""


def dragged() -> tuple[pd.Timestamp, pd.Timestamp] | None:
    """The days in the address, which a drag puts there."""
    try:
        first, last = (pd.Timestamp(day, tz="UTC") for day in st.query_params["days"].split(","))
        return (first, last + pd.Timedelta(days=1)) if first <= last else None
    except (KeyError, ValueError, OverflowError):
        return None


store = data.opened()
names = sorted(parts.machines(store))
judged = data.judged(store)
every = pd.concat([data.series(store, name) for name in names], ignore_index=True)
if every.empty:
    parts.empty("No series of these machines is stored.", parts.REMEDY)

parts.check_link("case", set(every["case"]))
# the case of the link; else of what changed most, else that with the most points
steps = causes(event for event in parts.events(judged, names) if not event.is_reset)
changed = [event.case for cause in steps for event in cause.events]
longest = sorted(judged.series, key=lambda own: -own.points)
likely = [st.query_params.get("case", ""), *changed, *(own.case for own in longest)]
first = next(case for case in [*likely, *every["case"]] if case in set(every["case"]))
workloads = sorted(every["workload"].unique())
choices = st.container(horizontal=True, vertical_alignment="bottom")
index = workloads.index(first.partition("[")[0])
look: Any = {"index": index, "filter_mode": "contains", "width": 420}
workload = parts.select(choices, "Workload", workloads, "workload", **look)
here = every[every["workload"] == workload]
here = here.sort_values("has_number", ascending=False, kind="stable")
cases = {case: words.read(case).values for case in here["case"]}
shown = cases.get(first) or next(iter(cases.values()))
with choices:
    for axis in dict.fromkeys(axis for chosen in cases.values() for axis in chosen):
        values = {chosen[axis] for chosen in cases.values() if axis in chosen}
        if len(values) > 1:
            picked = parts.axis_values(picture_of(workload), axis, values, [shown[axis]])
            cases = {case: own for case, own in cases.items() if own.get(axis) in picked}
    by = parts.choice("X axis", list(data.DATES), "x")
    date = data.DATES[by]
    zoomed = dragged()
    if zoomed:
        parts.reset("All days", "days", "zoom_out_map")
    lines: dict[tuple[str, str], pd.DataFrame] = {}
    for case in cases:
        for name in names if len(lines) <= trend.MOST else ():
            stored = parts.within(data.trend(store, name, case), date)
            stored = stored[stored[date].between(*zoomed)] if zoomed else stored
            by_group = stored[stored[date].notna()].groupby("group", sort=False)
            lines |= {(case, str(group)): own for group, own in by_group}
    if not lines:
        parts.empty("No run of these choices: choose other values, machines or times.")
    unit = parts.choice("Unit", trend.units_of(list(lines.values())), "unit")
if len(lines) > trend.MOST:
    st.caption(f"The first {trend.MOST} series are drawn: choose fewer values.")
series = tuple(lines)[: trend.MOST]
times = f"{parts.time_range()}, {st.query_params.get('days')}"
drawn, spec = data.trends(store, series, times, list(lines.values()), unit, by)
points = pd.concat([line.points for line in drawn.values()], ignore_index=True)
key = f"trend {times}"  # another chart for other times, without the old drag


def zoom() -> None:
    """The days that were dragged over, in the address."""
    span = st.session_state[key]["selection"].get(trend.DAYS, {}).get("x")
    if span:
        st.query_params["days"] = ",".join(f"{pd.Timestamp(at, unit='ms'):%Y-%m-%d}" for at in span)


about = "Drag over days to see them alone; click a point for its run."
if len({case for case, _ in series}) == 1:
    about = f"{words.plain(words.case(series[0][0]))}. {about}"
total = sum(line.num_points for line in drawn.values())
if len(points) < total:
    about += f" {len(points):,} of {total:,} points drawn; zoom for all."
st.caption(about, help=HELP)
says = f"{workload} over time: {len(points)} points in {unit}"
clicked = parts.draw(spec, says, key=key, on_select=zoom, selection_mode=[CLICKED, trend.DAYS])
for point in clicked["selection"].get(CLICKED, ()):
    parts.go("runs", of=f"{point['run_id']}@{point['machine'].partition('/')[0]}")

ids = {*drawn, *(f"machine:{group}" for _, group in series)}
moved = causes(event for event in parts.events(judged, names) if event.id in ids)
points = points.assign(date=pd.to_datetime(points["x"], unit="ms", utc=True))
columns = "series date y low high kind text machine run_id".split()
in_words = dict.fromkeys(("y", "low", "high"), trend.UNITS[unit][1])
tables = {"points": lambda: parts.table(points[columns], in_words=in_words)}
if moved:
    tables["changes"] = lambda: parts.changes(moved[: parts.MOST_LINKS], judged.series)
parts.shown(tables)
