"""Up to six series over their runs, with every point that they have."""

import charts_series
import choose
import data
import pandas as pd
import parts
import streamlit as st
from charts_series import POINT
from derive_causes import how_judged, marks, with_causes
from derive_trend import (
    KINDS,
    MOST,
    choices,
    facts_changed,
    levels,
    limit,
    points,
    samples,
)
from words import LEGEND, case, colors, commit8, hardware, known, plain, question, when

from hostbench.core.units import format_seconds, number_of
from hostbench.judge.grid import Along
from hostbench.report.charts import PALETTE

ALONG: dict[str, Along] = {"run time": "run-time", "commit date": "commit"}
AXES = {"run time": "started_at", "commit date": "committed_at"}

st.title("Trend")
folder = parts.opened()
machines = data.machines(folder)
left, middle, right = st.columns([1, 1, 2])
with left:
    machine = choose.one(
        "machine", "Machine", machines, drops=("workload", "case", "more", "point")
    )
here = data.series(folder, machine)
linked = st.query_params.get("case", "").partition("[")[0]
names = sorted(dict.fromkeys(here["workload"]), key=lambda name: name != linked)
with middle:
    name = choose.one("workload", "Workload", names, drops=("case", "more", "point"))
here = here[here["workload"] == name].sort_values("has_number", ascending=False, kind="stable")
with right:
    first = choose.one(
        "case", "Case", list(here["case"]), lambda text: case(text, name), drops=("more", "point")
    )
asked = [one for one in st.query_params.get_all("more") if "@" in one]
others = [f"{one}@{machine}" for one in here["case"] if one != first]
others += [f"{first}@{one}" for one in machines if one != machine]
others += [one for one in asked if one not in others and one.rpartition("@")[2] in machines]


def called(series: str) -> str:
    text, _, where = series.rpartition("@")
    workload = text.partition("[")[0]
    said = case(text, workload) if workload == name else f"{workload} {case(text, workload)}"
    return said if where == machine else f"{where}: {said}"


more = choose.some("more", "Beside it", others, called, most=MOST - 1, drops=("point",))
st.caption(plain(question(name)))
rows = {}
for series in (f"{first}@{machine}", *more):
    text, _, where = series.rpartition("@")
    own = data.trend(folder, where, text)
    if len(own):
        rows[series] = own
if not rows:
    parts.stop("Nothing is stored of this series.")
with st.container(horizontal=True, vertical_alignment="bottom", gap="large"):
    by = choose.either("axis", "Along", list(AXES))
    units = choices(list(rows.values()))
    unit = choose.either("unit", "Number", units) if len(units) > 1 else units[0]
    if not choose.yes("scratch", "Scratch runs"):
        rows = {series: own[own["scratch"].isna()] for series, own in rows.items()}
found = {series: points(own, called(series), AXES[by], unit) for series, own in rows.items()}
found = {series: own for series, own in found.items() if len(own)}
if not found:
    parts.stop(f"No point to draw: each run is scratch (switch Scratch runs on) or has no {by}.")

table = parts.judged(folder, ALONG[by])
rules, shown, changes, judged = [], [], [], {}
for series, own in found.items():
    text, _, where = series.rpartition("@")
    mine = table.series(where)
    mine = mine[mine["case"] == text]
    judged[series] = mine.iloc[0].to_dict() if len(mine) else None
    events = marks(with_causes(table.events(where)), text, f"first_{AXES[by]}")
    changes.append(events.assign(series=called(series)))
    half = float("nan") if mine.empty else float(mine["detectable"].iloc[0])
    level = levels(own, list(events["x"][events["is_step"]]), None if pd.isna(half) else half)
    shown.append(level.assign(series=called(series)))
    for row in events.to_dict("records"):
        said = f"{called(series)}: {row['change']}, {row['since']}, {row['cause']}"
        rules.append({"x": row["x"], "kind": row["what"], "said": said})
    for x, said in facts_changed(rows[series], AXES[by]):
        rules.append({"x": x, "kind": "facts", "said": said})
every = pd.concat(found.values(), ignore_index=True)
shades = dict(zip(map(called, found), PALETTE, strict=False))
places = {one.rpartition("@")[2] for one in found}
if len(places) == len(found) > 1:
    of_machine = colors(machines)
    shades = {called(one): of_machine[one.rpartition("@")[2]] for one in found}
tops = {called(one): limit(rows[one], unit) for one in found}
chart = charts_series.trend(
    every,
    pd.concat(shown, ignore_index=True),
    pd.DataFrame(rules, columns=["x", "kind", "said"]).drop_duplicates(),
    {one: top for one, top in tops.items() if top is not None},
    shades,
    unit=unit,
    x_title=f"{by}, UTC",
)
st.caption(plain(" · ".join(dict.fromkeys(hardware(own) for own in rows.values()))))
clicked = st.vega_lite_chart(
    chart, width="stretch", on_select="rerun", selection_mode=[POINT], key="trend chart"
)
kinds = every["kind"].value_counts()
counted = ", ".join(f"{kinds[kind]} {kind}" for kind in KINDS if kind in kinds)
st.markdown(plain(f"Points: {counted}. Commits: {every['commit'].nunique()}."))
bare = int((every["y"].notna() & every["low"].isna()).sum())
if bare and unit != "value":
    st.caption(f"{bare} points have no 99 % interval: hostbench needs 8 launches for one.")

picked = clicked["selection"].get(POINT, [])
if picked:
    run_id, series = str(picked[0]["run_id"]), str(picked[0]["series"])
    named = next(one for one in found if called(one) == series)
    row = rows[named][rows[named]["run_id"] == run_id].iloc[-1].to_dict()
    with st.container(border=True):
        st.markdown(
            f"**{plain(when(row['started_at']))}**, commit `{commit8(row['commit'])}`, torch "
            f"{plain(known(row['torch'], 'unknown'))}, driver {plain(known(row['driver'], 'none'))}"
        )
        drawn = samples(row)
        if drawn:
            said = ", ".join(format_seconds(one) for one in sorted(drawn))
            st.caption(f"{number_of(len(drawn), 'launch', 'launches')}, the fastest first: {said}")
        st.page_link(
            "views/runs.py",
            label="this run: facts, proofs, what differs from the run before",
            icon=":material/assignment:",
            query_params={"run": f"{run_id}@{named.rpartition('@')[2]}"},
        )
else:
    st.caption("Click a point to see its run. Drag moves the picture, the wheel zooms in time.")
for one in found:
    said = how_judged(judged[one])
    st.caption(plain(f"{called(one)}: {said}" if len(found) > 1 else said))
told = pd.concat(changes, ignore_index=True)
if len(told):
    st.subheader("Changes")
    few = ["x", "is_step"] if len(found) > 1 else ["x", "is_step", "series"]
    parts.table(told.drop(columns=few), "trend-changes")
with st.expander("Every point"):
    listed = every.sort_values("x", ascending=False).drop(columns=["x", "version"])
    parts.table(listed)
parts.save(pd.concat(rows.values(), ignore_index=True), "trend")
st.caption(
    "Point: median of the launch medians; bar: its 99 % interval. Thick line: the level between "
    "two confirmed changes. Vertical lines: solid where this series changed, dashed where its "
    "machine did, dotted where torch, the driver or the hardware changed. A dashed line between "
    "points: the same commit again, so a step there is not the code's. A new version of the "
    f"workload breaks the line. {LEGEND}"
)
