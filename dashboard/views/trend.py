"""Series over their runs: a workload, its axes as pills, every machine that is chosen."""

import data
import pandas as pd
import parts
import streamlit as st
import words

from hostbench.report import trend
from hostbench.report.causes import MACHINE, SERIES
from hostbench.report.charts import PALETTE

DATES = {"commit date": "committed_at", "run time": "started_at"}

st.title("Trend", anchor=False)
store = parts.opened()
names = sorted(parts.machines(store))
judged = data.judged(store)
every = pd.concat([data.series(store, name) for name in names], ignore_index=True)
if every.empty:
    parts.empty("No series of these machines is stored.", parts.REMEDY)


def usual() -> str:
    """The case of the link; else of what changed most, else a time with the most points."""
    cases, rank = set(every["case"]), judged.causes["key"].tolist()
    events = judged.events[judged.events["machine"].isin(names)]
    events = events.assign(rank=events["key"].map(rank.index)).sort_values("rank", kind="stable")
    timed = judged.series.assign(timed=judged.series["unit"] == "seconds")
    longest = timed.sort_values(["points", "timed"], ascending=False, kind="stable")
    asked = [st.query_params.get("case", ""), *events["case"], *longest["case"], *every["case"]]
    return next(str(case) for case in asked if case in cases)


first = usual()
workloads = sorted(every["workload"].unique())
workload = st.selectbox(
    "Workload",
    workloads,
    index=workloads.index(first.partition("[")[0]),
    key="workload",
    bind="query-params",
    filter_mode="contains",
)
here = every[every["workload"] == workload]
here = here.sort_values("has_number", ascending=False, kind="stable")
cases = {case: words.axes(case) for case in here["case"]}
shown = cases.get(first) or next(iter(cases.values()))
with st.container(horizontal=True, vertical_alignment="bottom"):
    for axis in dict.fromkeys(axis for chosen in cases.values() for axis in chosen):
        values = list(dict.fromkeys(chosen[axis] for chosen in cases.values() if axis in chosen))
        if len(values) > 1:
            values.sort(key=words.order)
            some = parts.some(axis, values, [shown[axis]])
            cases = {case: chosen for case, chosen in cases.items() if chosen.get(axis) in some}
    by = parts.one("X axis", list(DATES), "x")
    date = DATES[by]
    lines: dict[tuple[str, str], pd.DataFrame] = {}
    for case in cases:
        for name in names if len(lines) <= trend.MOST else ():
            stored = parts.within(data.trend(store, name, case), date)
            stored = stored[(stored["status"] != "not measured") & stored[date].notna()]
            for group, own in stored.groupby("group", sort=False):
                lines[case, str(group)] = own
    if not lines:
        parts.empty("No run of these choices: choose other values, machines or days.")
    unit = parts.one("Unit", trend.choices(list(lines.values())), "unit")
if len(lines) > trend.MOST:
    st.caption(f"The first {trend.MOST} series are drawn: choose fewer values.")
is_one_machine = len({group for _, group in lines}) == 1
drawn, level_rows, rules, changes = [], [], [], []
limits, colors = {}, {}
for color, ((case, group), own) in zip(PALETTE[: trend.MOST], lines.items(), strict=False):
    name = words.case(case) if is_one_machine else f"{words.case(case)}, {group}"
    colors[name] = color
    line = trend.points(own, name, date, unit)
    drawn.append(
        trend.worded(
            trend.thinned(line, trend.MOST_DRAWN // min(trend.MOST, len(lines))), own, unit
        )
    )
    ids = (f"{case}@{group}", f"machine:{group}")
    events = judged.events[judged.events["id"].isin(ids)].assign(series=name)
    x = events[f"first_{date}"].astype("datetime64[ms, UTC]").astype("int64").astype("float64")
    events = events[x.between(line["x"].min(), line["x"].max())].assign(x=x)
    changes.append(events)
    for event in events.to_dict("records"):
        text = f"{words.change(event['effect'])} {str(event['what']).removeprefix('commit ')}"
        kind = SERIES if event["case"] else MACHINE
        rules.append({"x": event["x"], "kind": kind, "text": f"{name}: {text}", "label": text})
    for at, text in trend.facts_changed(own, date):
        rules.append({"x": at, "kind": "facts", "text": f"{group}: {text}", "label": text})
    about = judged.series[judged.series["id"] == ids[0]]
    if about["judged"].any():
        half = about["detectable"].dropna()
        steps = list(events["x"][events["status"] == "confirmed"])
        level = trend.levels(line, steps, float(half.iloc[0]) if len(half) else None)
        level_rows.append(level.assign(series=name))
    top = trend.limit(own, unit)
    if top is not None and top >= line["y"].max():  # one that is exceeded is no limit
        limits[name] = top
shown_points = pd.concat(drawn, ignore_index=True)
nothing = trend.levels(shown_points.head(0), [], None).assign(series="")
spec = trend.chart(
    shown_points,
    pd.concat(level_rows or [nothing], ignore_index=True),
    pd.DataFrame(rules, columns=["x", "kind", "text", "label"]).drop_duplicates("x"),
    limits,
    colors,
    unit=unit,
    x_title=f"{by}, UTC",
)


key = f"trend {st.session_state.get('days')}"  # another chart for other days, without the old drag


def zoom() -> None:
    """The days that were dragged over, which hold on every page."""
    span = st.session_state[key]["selection"].get(trend.DAYS, {}).get("x")
    if span:
        st.session_state["days"] = tuple(pd.Timestamp(at, unit="ms").date() for at in span)


with st.container(horizontal=True, vertical_alignment="center"):
    st.caption(
        "Drag over days to see them alone; click a point for its run.",
        help="Bar: 99 % interval. Thick line: level between two confirmed changes; band: a change "
        "within it would not be seen. Vertical: solid where the series changed, dashed where its "
        "machine did, dotted where torch, driver or hardware did. Hollow: scratch, never judged. "
        "Cross: failed. Tick on the axis: skipped.",
        width="content",
    )
    if st.session_state.get("days"):
        icon = ":material/zoom_out_map:"
        all_days = {"days": ()}
        st.button("All days", on_click=st.session_state.update, args=(all_days,), icon=icon)
clicked = st.vega_lite_chart(
    spec,
    key=key,
    on_select=zoom,
    selection_mode=[trend.POINT, trend.DAYS],
    alt=f"{workload} over time: {len(shown_points)} points in {unit}",
    width="stretch",
)
for point in clicked["selection"].get(trend.POINT, ()):
    machine = str(point["machine"]).partition("/")[0]
    parts.go("runs", of=f"{point['run_id']}@{machine}")
total = sum(len(own) for own in list(lines.values())[: trend.MOST])
if len(shown_points) < total:
    st.caption(f"{len(shown_points):,} of {total:,} points drawn; zoom for all.")

moved = pd.concat(changes, ignore_index=True)
moved = moved.sort_values("first_committed_at", ascending=False, kind="stable")
if len(moved):
    st.subheader("What changed", anchor=False)
    table = moved.assign(
        change=moved["effect"].map(words.change), since=moved["first_committed_at"]
    )
    table = table[["series", "change", "what", "since", "state", "cause"]]
    row = parts.clicked(table, "trend changes", parts.CAUSE_COLUMNS)
    if row is not None:
        parts.go("changes", change=str(moved["key"].iloc[row]))
mine = judged.series[judged.series["machine"].isin(names) & (judged.series["workload"] == workload)]
with st.expander(f"All {len(mine)} series of this workload"):
    numbers = ["points", "value", "unit", "change", "noise", "detectable", "status", "why"]
    parts.table(mine[["id", *numbers]], "series", ("change", "noise", "detectable"))
with st.expander("Points"):
    parts.table(shown_points.drop(columns=["x", "version"]), "trend")
