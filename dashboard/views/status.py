"""The landing page: what fails, how every workload has moved on every machine, the top causes."""

import charts_status
import data
import pandas as pd
import parts
import streamlit as st
from charts_status import CELL
from derive_causes import FAILS, PROVISIONAL, counted, headline, stopped
from derive_machines import age, listed
from words import plain

from hostbench.judge.detector import FEWEST_POINTS
from hostbench.judge.grid import Along

AXIS: Along = "commit"
TOP = 5
MOMENT = "YYYY-MM-DD"

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

number = counted(events)
stale = set(machines["machine"][machines["stale"] != ""])
unjudged = int((~series["judged"]).sum())
tiles: tuple[tuple[str, str, str, dict[str, str]], ...] = (
    (f"**{number[FAILS]}** fail now", ":material/error:", "views/changes.py", {"state": FAILS}),
    (
        f"**{number[PROVISIONAL]}** provisional",
        ":material/help:",
        "views/changes.py",
        {"state": PROVISIONAL},
    ),
    (f"**{len(gone)}** stopped", ":material/block:", "views/series.py", {"show": "stopped"}),
    (
        f"**{len(stale)}** stale machine{'s' * (len(stale) != 1)}",
        ":material/schedule:",
        "views/machines.py",
        {},
    ),
    (f"**{unjudged}** not judged", ":material/rule:", "views/series.py", {"show": "not judged"}),
)
with st.container(horizontal=True, gap="medium"):
    for label, icon, page, query in tiles:
        with st.container(border=True, width="content", gap=None):
            st.page_link(page, label=label, icon=icon, query_params=query)

if not series["judged"].any():
    st.info(f"A series is judged from {FEWEST_POINTS} runs on, of those that may be.")
    if data.has_own():
        label = "What the newest runs answer"
        st.page_link("views/understand.py", label=label, icon=":material/quiz:")
elif len(series):
    cells = charts_status.arranged(found.cells, list(machines["machine"]), stale)
    clicked = st.vega_lite_chart(
        charts_status.heatmap(cells),
        width="stretch",
        on_select="rerun",
        selection_mode=[CELL],
        key="heatmap",
    )
    picked = clicked["selection"].get(CELL, [])
    if picked:
        query = {"machine": picked[0]["machine"], "workload": picked[0]["workload"]}
        st.switch_page("views/series.py", query_params=query)
    st.caption(
        "A cell is the series of one workload on one machine that moved most against the level 20 "
        "runs ago; hollow: not judged; ///: the machine has been silent for longer than is usual. "
        "Click a cell, or the box of a row, to see more."
    )
top = top[top["state"].isin((FAILS, PROVISIONAL, "in triage", "old", "faster"))].head(TOP)
if len(top):
    columns = {
        "sparkline": st.column_config.LineChartColumn(width="small"),
        "since": st.column_config.DatetimeColumn(format=MOMENT, timezone="UTC", width="small"),
        "what": st.column_config.Column(width="large"),
    }
    shown = top[["state", "change", "sparkline", "what", "since", "series", "machines", "cause"]]
    row = parts.clickable(shown, "top", columns, "content")
    if row is not None:
        st.switch_page("views/changes.py", query_params={"change": str(top["key"].iloc[row])})
st.subheader("Machines")
moment = st.column_config.DatetimeColumn(format="YYYY-MM-DD HH:mm", timezone="UTC")
parts.table(machines, "health", columns={"newest run": moment})
