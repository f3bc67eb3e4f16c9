"""Up to six series over their runs, with every point that they have: of a machine, or of each
machine of one hardware model."""

from dataclasses import replace
from datetime import timedelta

import choose
import data
import judging
import pandas as pd
import parts
import stored
import streamlit as st
from derive_trend import (
    MODEL,
    MOST_LIKE,
    Drawing,
    SeriesNames,
    TrendLine,
    clicked_row,
    drawing,
    found,
    told,
    within,
)
from words import LEGEND, case, commit8, hardware, known, only, plain, question, when

from hostbench.core.units import format_seconds, number_of
from hostbench.families import declared
from hostbench.judge.grid import Along
from hostbench.report import trend_chart
from hostbench.report.causes import how_judged
from hostbench.report.charts import Spec
from hostbench.report.trend import KINDS, MOST, choices, samples
from hostbench.report.trend_chart import POINT

ALONG: dict[str, Along] = {"run time": "run-time", "commit date": "commit"}
AXES = {"run time": "started_at", "commit date": "committed_at"}
_VERSIONS = ("torch", "driver")

st.title("Trend")
folder = parts.opened()
known_machines = data.every_machine(folder)
models = known_machines.models
names = SeriesNames(groups=known_machines.groups, models=models, machine="")
members = names.members()
left, middle, right = st.columns([1, 1, 2])
with left:
    drops = ("workload", "case", "more", "from", "to")
    machine = choose.one("machine", "Machine or model", list(members), names.place, drops=drops)
here = pd.concat([data.series(folder, one.partition("/")[0]) for one in members[machine]])
here = here.sort_values("has_number", ascending=False, kind="stable").drop_duplicates("case")
linked = st.query_params.get("case", "").partition("[")[0]
workloads = sorted(dict.fromkeys(here["workload"]), key=lambda name: name != linked)
with middle:
    name = choose.one("workload", "Workload", workloads, drops=("case", "more"))
cases = list(here["case"][here["workload"] == name])
with right:
    first = choose.one("case", "Case", cases, lambda text: case(text, name), drops=("more",))
asked = [one for one in st.query_params.get_all("more") if names.parted(one)[1]]
places = frozenset(names.parted(one)[1] for one in asked)
names = replace(names, machine=machine, workload=name, places=places)
others = [f"{one}@{machine}" for one in cases if one != first]
others += [f"{first}@{one}" for one in members if one != machine]
others += [one for one in asked if one not in others]
left, right = st.columns([2, 1], vertical_alignment="bottom")
with left:
    more = choose.some("more", "Beside it", others, names.series, most=MOST - 1)
if question(name):
    st.caption(plain(question(name)))
rows = {}
for series in (f"{first}@{machine}", *more):
    text, place = names.parted(series)
    for where in members[place]:
        own = data.trend(folder, where, text)
        if place in models:
            own = own[own["hardware"] == place.removeprefix(MODEL)]
        if len(own):
            rows[TrendLine(series, where)] = own
if not rows:
    parts.stop("Nothing is stored of this series.")
for series in sorted({f"{first}@{machine}", *more} - {line.series for line in rows}):
    st.info(plain(f"Nothing is stored of {names.series(series)}."))
with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
    ours = declared(name) is not None  # asv fills in old commits whenever it likes
    axis = choose.either("axis", "Along", list(AXES) if ours else [*reversed(AXES)])
    units = choices(list(rows.values()))
    unit = choose.either("unit", "Number", units) if len(units) > 1 else units[0]
    has_scratch = any(own["scratch"].notna().any() for own in rows.values())
    with_scratch = not has_scratch or choose.yes("scratch", "Scratch runs")
    if not with_scratch:
        rows = {line: own[own["scratch"].isna()] for line, own in rows.items()}
asked_for = *rows, machine, name, places, with_scratch, axis, unit
lines = stored.drawn(
    stored.now(folder),
    ("lines of trend", *asked_for),
    lambda: found(rows, names, AXES[axis], unit),
)
if not lines:
    parts.stop(f"No point to draw: each run is scratch (switch Scratch runs on) or has no {axis}.")
every = pd.concat(lines.values())
oldest, newest = (pd.Timestamp(at, unit="ms").date() for at in (every["x"].min(), every["x"].max()))
with right:
    since, until = choose.days("Days", oldest, newest)
start, end = (pd.Timestamp(day).value / 1e6 for day in (since, until + timedelta(days=1)))
if within(every, start, end).empty:
    parts.stop(f"No point has its {axis} from {since} to {until}.")

table = parts.judged(folder, ALONG[axis])
shown = list(dict.fromkeys(line.series for line in lines))
with_model = names.with_model(shown)


def picture() -> tuple[Drawing, Spec]:
    made = drawing(lines, rows, table, names, by=AXES[axis], unit=unit, start=start, end=end)
    drawn = made.points, made.levels, made.rules, made.limits, names.colors(shown)
    return made, trend_chart.trend(*drawn, unit=unit, x_title=f"{axis}, UTC")


def stored_rows() -> pd.DataFrame:
    """What is drawn, as the tidy frame has it."""
    every_row = pd.concat(rows.values(), ignore_index=True)
    return every_row[every_row["run_id"].isin(made.every["run_id"])]


state = judging.said_now(folder, ALONG[axis], table)
made, chart = stored.drawn(state, ("trend", *asked_for, start, end), picture)
about = dict.fromkeys(hardware(own) for own in rows.values())
if unit == "value":
    every_unit = dict.fromkeys(only(own, "unit") for own in rows.values())
    about |= dict.fromkeys(f"in {one}" if one != "unit" else "no unit" for one in every_unit)
st.caption(plain(" · ".join(about)))
if with_model:
    st.caption(
        f"A model: a line for each machine that has it ({MOST_LIKE} at most, those with the newest "
        "runs), all in one colour. Levels, changes and % of the first level are each machine's "
        "own: nothing is judged across machines. A limit is drawn where all have the same."
    )
clicked = st.vega_lite_chart(
    chart, width="stretch", on_select="rerun", selection_mode=[POINT], key="trend chart"
)
with st.container(horizontal=True):
    parts.save(stored_rows, "trend")
    title = f"{name} {case(first, name)}, {names.place(machine)}, {', '.join(about)}"
    parts.save_chart(chart, f"trend-{name}", title)
kinds = made.every["kind"].value_counts()
counted = ", ".join(f"{kinds[kind]} {kind}" for kind in KINDS if kind in kinds)
st.markdown(plain(f"Points: {counted}. Commits: {made.every['commit'].nunique()}."))
if len(made.points) < len(made.every):
    st.caption(
        f"Drawn are {len(made.points):,} of {len(made.every):,} points: of each stretch the first, "
        "the last, the lowest and the highest. Choose days to see more."
    )
bare = int((made.every["y"].notna() & made.every["low"].isna()).sum())
if bare and ours:
    has = "point has" if bare == 1 else "points have"
    st.caption(f"{bare} {has} no 99 % interval: hostbench needs 8 launches for one.")

row = clicked_row(rows, names, clicked["selection"].get(POINT, []))
if row:
    with st.container(border=True):
        st.markdown(
            f"**{plain(when(row['started_at']))}**, commit {plain(commit8(row['commit']))}"
            + "".join(f", {one} {plain(row[one])}" for one in _VERSIONS if known(row[one], ""))
        )
        each = samples(row)
        if each:
            said = ", ".join(format_seconds(one) for one in sorted(each))
            st.caption(f"{number_of(len(each), 'launch', 'launches')}, the fastest first: {said}")
        st.page_link(
            "views/runs.py",
            label="this run",
            icon=":material/assignment:",
            query_params={"run": f"{row['run_id']}@{row['machine']}"},
        )
else:
    st.caption("Click a point to see its run. Drag moves the picture, the wheel zooms in time.")
if len(made.changes):
    st.subheader("Changes")
    st.markdown("\n".join(f"- {plain(said)}" for said in told(made.changes, len(lines) > 1)))
    few = ["x", "is_step"] if len(lines) > 1 else ["x", "is_step", "series"]
    parts.folded(
        f"{number_of(len(made.changes), 'change')} as a table",
        "the changes",
        lambda: parts.table(made.changes.drop(columns=few), "trend-changes"),
    )
point = "seconds per step end to end, median of the launch medians" if ours else "asv's median"
st.caption(
    f"Point: {point}; bar: its 99 % interval. Thick line: the level between two confirmed changes; "
    "band: a change within it would not be seen. Vertical lines: solid where this series changed, "
    "dashed where its machine did, dotted where torch, the driver or the hardware changed. A "
    "dashed line between points: the same commit again, so a step there is not the code's. A new "
    f"version of the workload breaks the line. {LEGEND}"
)
if len(made.judged) == 1:
    st.caption(plain(how_judged(*made.judged.values())))
else:
    with st.expander("How small a change each could show"):
        said_of_each = [f"{one}: {how_judged(row)}" for one, row in made.judged.items()]
        st.markdown("\n".join(f"- {plain(said)}" for said in said_of_each))
few = ["x", "version"] if with_model else ["x", "version", "machine"]
parts.folded(
    "The points of the picture",
    "the points",
    lambda: parts.table(made.points.sort_values("x", ascending=False).drop(columns=few)),
)
