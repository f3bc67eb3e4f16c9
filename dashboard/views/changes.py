"""A row for each commit or fact that moved numbers; of one of them picture, evidence, commands."""

import data
import pandas as pd
import parts
import streamlit as st
import words
from words import plain

from hostbench.core.units import number_of
from hostbench.judge.events import STATES
from hostbench.report import causes as report
from hostbench.report import trend
from hostbench.store import triage

ANY = "all"
LOW, HEIGHT = 260, 300
EVENT = "id state change low high before_s after_s detectable first_commit first_run_id".split()

st.title("Changes", anchor=False)
store = parts.opened()
names = parts.machines(store)
found = data.judged(store)
series = found.series[found.series["machine"].isin(names)]
events = parts.within(found.events[found.events["machine"].isin(names)], "first_committed_at")
if store.folder:
    for text in report.triage_warnings(triage.read(store.folder), pd.Timestamp.now("UTC")):
        st.warning(plain(text))
gone = series[series["since_commit"].notna()]
if len(gone):
    with st.expander(f"{number_of(len(gone), 'series', 'series')} without a number since"):
        parts.table(gone[["id", "status", "since_commit", "since_committed_at"]], "stopped")
if not series["judged"].any():
    parts.empty(f"{parts.not_judged(series)} Two commits compared at once:", "hostbench ab main")
if events.empty:
    num = number_of(int(series["judged"].sum()), "series", "series")
    parts.empty(f"No change in {num} on these machines and days.")
number = {ANY: events["key"].nunique(), **report.counted(events)}
states = [ANY, *(state for state in STATES if number[state])]
wanted = parts.one(
    "State", states, "state", lambda state: f"{state} {number[state]}", label_visibility="collapsed"
)
rows = report.causes(events, found.series)
rows = rows if wanted == ANY else rows[rows["state"] == wanted]
keys = list(rows["key"])
height = LOW if len(rows) > 6 else "auto"
row = parts.clicked(parts.causes(rows), "changes", parts.CAUSE_COLUMNS, height=height)
if row is not None:
    st.query_params["change"] = keys[row]
picked = st.query_params.get("change", keys[0])
if picked not in keys:
    picked = keys[0]
    st.caption("The change of the link is not here: the first one is shown.")

own, about = events[events["key"] == picked], rows[rows["key"] == picked].iloc[0]
worst = report.worst_of(own)
st.subheader(plain(f"{words.change(about['size'])} {about['what']}"), anchor=False)
total = number_of(int(about["series"]), "series", "series")
where = f"{total} on {about['machines']}"
st.markdown(plain(f"{about['state']}, since {about['since']:%Y-%m-%d}, {where}"))
left, right = st.columns([3, 2])
with left:
    if worst["case"]:
        points = data.trend(store, worst["machine"], worst["case"])
        points = points[points["group"] == worst["group"]]
        st.caption(plain(f"{words.case(worst['case'])}, {worst['group']}"))
        spec = trend.around(points, worst, "commit", HEIGHT)
        says = f"{worst['id']} before and after {about['what']}"
        point = parts.chart(spec, "around", says, trend.POINT)
        if point:
            parts.go("runs", of=f"{point['run_id']}@{worst['machine']}")
        parts.link("trend", "all of this series", case=worst["case"])
    else:
        st.caption(f"All of {plain(worst['group'])} moved; it has no series of its own.")
with right:
    st.markdown("\n".join(f"- {plain(line)}" for line in worst["evidence"]))
    for text in dict.fromkeys(own["triage_said"].dropna()):
        st.markdown(f"Triage: {plain(text)}")
    st.code(report.commands(worst, store.folder or store.results), language="bash", wrap_lines=True)
with st.expander(number_of(len(own), "event")):
    table = own.assign(change=own["effect"].map(words.change))
    parts.table(table[EVENT], f"change-{picked}")
