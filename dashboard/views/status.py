"""The landing page: what fails, how every workload has moved on every machine, the top causes."""

import charts_status
import data
import pandas as pd
import parts
import stored
import streamlit as st
from charts_status import CELL, NAMED
from derive_machines import age, health, listed
from words import plain

from hostbench.judge.grid import Along
from hostbench.report.causes import FAILS, PROVISIONAL, counted, headline, nothing, stopped

AXIS: Along = "commit"
TOP = 5
SEE = ":material/arrow_forward:"
WIDE = st.column_config.Column(width="large")

st.title("Status")
folder = parts.opened()
runs = data.runs(folder)
now = pd.Timestamp.now("UTC")
machines = listed(runs, now)
found = parts.caused(folder, AXIS)
series, events, top = found.series, found.events, found.causes
gone = stopped(series)
newest = age(now - runs["started_at"].max())
st.markdown(f"**{plain(headline(events, series, newest, len(gone)))}**")

number, is_judged = counted(events), bool(series["judged"].any())
fail, provisional = (number[one] if is_judged else "-" for one in (FAILS, PROVISIONAL))
stale = set(machines["machine"][machines["stale"] != ""])
unjudged = int((~series["judged"]).sum())
tiles: tuple[tuple[str, str, str, dict[str, str]], ...] = (
    (f"**{fail}** fail now", ":material/error:", "views/changes.py", {"state": FAILS}),
    (
        f"**{provisional}** provisional",
        ":material/help:",
        "views/changes.py",
        {"state": PROVISIONAL},
    ),
    (f"**{len(gone):,}** stopped", ":material/block:", "views/series.py", {"show": "stopped"}),
    (
        f"**{len(stale)}** stale machine{'s' * (len(stale) != 1)}",
        ":material/schedule:",
        "views/machines.py",
        {},
    ),
    (f"**{unjudged:,}** not judged", ":material/rule:", "views/series.py", {"show": "not judged"}),
)
with st.container(horizontal=True, gap="small"):
    for label, icon, page, query in tiles:
        with st.container(border=True, width="content", gap=None):
            st.page_link(page, label=label, icon=icon, query_params=query)

if not is_judged:
    st.info(plain(nothing(series)))
    if data.has_own():
        label = "What the newest runs answer"
        st.page_link("views/understand.py", label=label, icon=":material/quiz:")
elif len(series):
    order = tuple(machines["machine"])
    drawn = stored.drawn(
        found.said,
        ("heatmap", order, frozenset(stale)),
        lambda: charts_status.heatmap(charts_status.arranged(found.cells, order, stale)),
    )
    clicked = st.vega_lite_chart(
        drawn,
        width="stretch",
        on_select="rerun",
        selection_mode=[CELL],
        key="heatmap",
    )
    picked = clicked["selection"].get(CELL, [])
    if picked:
        query = {"machine": picked[0]["machine"], "workload": picked[0]["workload"]}
        label = plain(f"The series of {query['workload']} on {query['machine']}")
        st.page_link("views/series.py", label=label, icon=SEE, query_params=query)
    st.caption(
        "A cell is the series of one workload on one machine that moved most against the level 20 "
        "runs ago; hollow: not judged; ///: the machine has been silent for longer than is usual. "
        "Click a cell, or the box of a row, for a link to more."
        + " A pointer on a cell tells its workload."
        * (series["workload"].nunique() > NAMED)
    )
top = top[top["state"].isin((FAILS, PROVISIONAL, "in triage", "old", "faster"))].head(TOP)
if len(top):
    row = parts.clickable(parts.in_brief(top), "top", parts.CAUSE_COLUMNS, "content")
    if row is not None:
        query = {"change": str(top["key"].iloc[row])}
        label = plain(f"The evidence of {top['what'].iloc[row]}")
        st.page_link("views/changes.py", label=label, icon=SEE, query_params=query)
st.subheader("Machines")
moment = st.column_config.DatetimeColumn(format="YYYY-MM-DD HH:mm", timezone="UTC")
table = health(machines, data.setup_changes(folder), data.doctors(folder))
row = parts.clickable(table, "health", {"newest run": moment, "doctor": WIDE}, "content")
if row is not None:
    name = str(table["machine"].iloc[row])
    newest_run = runs["run_id"][runs["machine"] == name].iloc[0]
    query = {"run": f"{newest_run}@{name}"}
    label = plain(f"The newest run of {name}")
    st.page_link("views/runs.py", label=label, icon=SEE, query_params=query)
parts.save(table, "health")
if is_judged:
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption("The heatmap:", width="content")
        parts.save_chart(drawn, "status", "Change of each workload against the level 20 runs ago")
