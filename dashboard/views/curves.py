"""A question of the project as curves over machines and runs: choose, load, draw."""

from functools import partial
from typing import Any

import curves
import data
import pandas as pd
import parts
import streamlit as st
import words
from curves import QUESTIONS

from hostbench.families.question import Picture
from hostbench.report import charts

OTHER = "Other"
MOST_LINES = 16
SHOWN = [
    *("machine", "run", "case", "y", "seconds", "ci_low_s", "ci_high_s", "gb_per_s"),
    *("num_samples", "commit", "run_id"),
]

store = data.opened()
names = parts.machines(store)
known = pd.concat([data.series(store, name) for name in names])
sizes = [any(map(str.isdigit, words.axes(case).values())) for case in known["case"]]
known = known.assign(sizes=sizes).sort_values("sizes", ascending=False, kind="stable")
workloads = list(dict.fromkeys(known["workload"][known["has_number"]]))
if not workloads:
    parts.empty("No number is stored of these machines.", parts.REMEDY)
measured = [name for name, own in QUESTIONS.items() if not {*own.workloads}.isdisjoint(workloads)]
asked = parts.choice("Question", [*measured, OTHER], "q", label_visibility="collapsed")
choices = st.container(horizontal=True, vertical_alignment="bottom")
with choices:
    if asked == OTHER:
        look: Any = {"key": "workload", "bind": "query-params", "width": 420}
        workload = st.selectbox("Workload", workloads, **look)
        question = Picture(name=OTHER, title=workload, workloads=(workload,), x=())
    else:
        question = QUESTIONS[asked]
    having = parts.runs(store, question.workloads)
    keys = zip(having["machine"], having["run_id"], strict=True)
    named = {f"{key[0]}, {name}": key for key, name in zip(keys, having["name"], strict=True)}
    picked = st.multiselect(
        "Runs",
        list(named),
        key="run",
        bind="query-params",
        placeholder="the newest of each machine",
        max_selections=8,
        select_all=False,
        width=300,
    )
chosen = [named[name] for name in picked] or parts.newest(store, question.workloads)
if not chosen:
    family = question.workloads[0].partition(".")[0]
    parts.empty("No number of this is stored here. Measure it:", f"hostbench run {family}")
rows = data.prepared(store, tuple(chosen), question.workloads)
axes = curves.axes_of(rows)
numbers = rows[axes].apply(pd.to_numeric, errors="coerce").notna().any()
numeric = list(question.x) or [axis for axis in axes if numbers[axis]]
x_axes = [x for x in numeric if rows[x].nunique() > 1] or numeric[:1]
units = curves.units_of(rows, question)
if not x_axes or not units:
    parts.empty("No axis of this workload holds numbers: Trend shows it over time.")
with choices:
    x = parts.choice("X axis", x_axes, "x", lambda axis: words.plain(words.axis_name(axis)))
    unit = parts.choice("Unit", units, "unit")
    for axis in ("workload", *axes):
        values = sorted(rows[axis].dropna().unique(), key=partial(words.order, axis))
        if axis != x and len(values) > 1:
            usual = [value for value in values if value in question.usual.get(axis, values[:5])]
            picked_values = parts.axis_values(axis, values, usual or values[:1])
            rows = rows[rows[axis].isin(picked_values) | rows[axis].isna()]

st.caption(words.plain("; ".join(dict.fromkeys(rows["machine"] + ", " + rows["run"]))))
points = curves.lines(rows, x, unit)
if points.empty:
    parts.empty("No point has a number in this unit: choose another one.")
if points["way"].nunique() * points["where"].nunique() > MOST_LINES:
    st.caption(f"More than {MOST_LINES} lines: choose fewer values.")
spec = charts.drawn(curves.chart(points, x, unit), 440)
point = parts.chart(spec, "curves", f"{question.title}: {unit} by {x}")
if point:
    parts.go("trend", case=str(point["case"]))
st.caption(
    "Line on a point: 99 % interval. Click an entry of the legend to see it alone, a point for its "
    "trend. Sizes are binary (1MiB = 2^20 bytes), rates decimal (1 GB/s = 10^9 bytes/s)."
)
shown = points[SHOWN].rename(columns={"y": unit})
parts.folded("Numbers", "numbers", lambda: parts.table(shown))
