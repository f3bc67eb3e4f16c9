"""A question of the project as curves over machines and runs: choose, load, draw."""

from functools import partial

import data
import pandas as pd
import parts
import streamlit as st
import words

from hostbench.families.question import axis_name, in_unit
from hostbench.report import picture
from hostbench.report.answer import varying

OTHER = "Other"
HELP = """Line on a point: 99% interval. Sizes are binary (1MiB = 2^20 bytes), rates decimal
(1 GB/s = 10^9 bytes/s)."""
SHOWN = "machine run seconds ci_low_s ci_high_s gb_per_s num_samples".split()

store = data.opened()
names = parts.machines(store)
known = pd.concat([data.series(store, name) for name in names])
workloads = list(dict.fromkeys(known["workload"][known["has_number"]]))
if not workloads:
    parts.empty("No number is stored of these machines.", parts.REMEDY)
pictures = {
    name: own
    for name, own in words.PICTURES.items()
    if name == st.query_params.get("q") or not {own.workload, *own.also}.isdisjoint(workloads)
}
asked = parts.choice("Question", [*pictures, OTHER], "q", label_visibility="collapsed")
choices = st.container(horizontal=True, vertical_alignment="bottom")
with choices:
    if asked == OTHER:
        workload = parts.select(st, "Workload", workloads, "workload", width=420)
        question = picture.picture_of(workload)
    else:
        question = pictures[asked]
    about = (question.workload, *question.also)
    having = parts.runs(store, about)
    keys = zip(having["machine"], having["run_id"], strict=True)
    named = {f"{key[0]}, {name}": key for key, name in zip(keys, having["name"], strict=True)}
    parts.check_link("run", named)
    picked = st.multiselect(
        "Runs",
        list(named),
        key="run",
        bind="query-params",
        placeholder=f"the newest, of {parts.MOST_MACHINES} machines at most",
        max_selections=8,
        select_all=False,
        width=300,
    )
chosen = [named[name] for name in picked] or parts.newest(store, about)
if not chosen:
    family = question.workload.partition(".")[0]
    parts.empty("No number of this is stored here. Measure it:", f"hostbench run {family}")
rows = every = data.rows_of_runs(store, tuple(chosen), about)
x_axes = picture.x_axes(question, rows)
measures = {own.name: own for own in picture.measures_of(question, rows)}
if not measures:
    parts.empty("These runs hold no time of this workload: Trend shows what is stored.")
with choices:
    x = parts.choice("X axis", x_axes, "x", lambda axis: words.plain(axis_name(axis)))
    measure = measures[parts.choice("Unit", list(measures), f"unit-{asked}")]
    for axis in varying(rows):
        values = {row.axes[axis] for row in rows if axis in row.axes}
        if axis != x and len(values) > 1:
            shown = parts.axis_values(question, axis, values, question.usual.get(axis, ()))
            rows = [row for row in rows if row.axes.get(axis, shown[0]) in shown]

rows = picture.drawn_rows(question, rows, x, measure)
if not rows:
    parts.empty("No point has a number in this unit: choose another one.")
usual, ideal_s = frozenset(row.case for row in picture.few(question, every)), None
is_of_card = len(chosen) == 1 and not x and usual.issuperset(row.case for row in rows)
if "schedule" in question.usual and is_of_card:
    machine, run_id = chosen[0]
    ideal_s = data.ideal_s(data.answer(store, machine, run_id, question.workload, usual))
spec = picture.chart(question, rows, x, measure, 440, ideal_s)
how = "Click a point or bar for its trend, an entry of the legend to see it alone."
where = "; ".join(filter(None, (spec["description"], data.measured_in(rows))))
st.caption(f"{words.plain(where)}. {how}", help=HELP)
point = parts.chart(spec, "curves", f"{question.text}: {measure.name} by {x or 'case'}")
if point:
    parts.go("trend", case=str(point["case"]))


def numbers() -> None:
    """What is drawn, in figures."""
    table = pd.DataFrame([[getattr(row, name) for name in SHOWN] for row in rows], columns=SHOWN)
    table.insert(0, "series", [words.case(row.case) for row in rows])
    if measure.name not in ("GB/s", "time"):  # which have columns of their own
        table.insert(1, measure.name, [*map(measure.of(rows), rows)])
    parts.table(
        table, in_words=parts.IN_WORDS | {measure.name: partial(in_unit, unit=measure.unit)}
    )


parts.shown({"numbers": numbers})
