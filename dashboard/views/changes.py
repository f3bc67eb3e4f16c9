"""What changed: a row for each commit or fact; of the chosen one evidence, picture, commands."""

from functools import partial

import choose
import data
import judging
import pandas as pd
import parts
import stored
import streamlit as st
from words import case, plain

from hostbench.core.errors import HostbenchError
from hostbench.core.units import number_of
from hostbench.judge.grid import Along
from hostbench.report import trend_chart
from hostbench.report.causes import (
    STATES,
    causes,
    commands,
    counted,
    filtered,
    in_words,
    nothing,
    stopped,
    triage_warnings,
    worst_of,
)
from hostbench.store.triage import STATES as TRIAGE_STATES

AXES: dict[str, Along] = {"commit date": "commit", "run time": "run-time"}
ANY = "all"
CHART_HEIGHT = 260
EVENT_COLUMNS = "id state change low high before_s after_s first_run first_commit".split()

st.title("Changes")
folder = parts.opened()
left, second, third, right = st.columns(4)
with right:
    axis = AXES[choose.one("axis", "Judged along", list(AXES), drops=("change",))]
found = parts.caused(folder, axis)
events, series = found.events, found.series
with left:
    machine = choose.one("machine", "Machine", [ANY, *sorted(series["machine"].unique())])
with second:
    names = sorted(one for one in events["family"].unique() if one)
    family = choose.one("family", "Family", [ANY, *names])
with third:
    cause = choose.one("cause", "Cause", [ANY, *sorted(events["cause"].unique())])
asked = [None if one == ANY else one for one in (machine, family, cause)]
events = filtered(events, *asked)
wanted = ANY
if series["judged"].any():  # a zero of what nobody has judged is no good news
    number = {name: num for name, num in counted(events).items() if num or name in STATES[:3]}
    wanted = choose.counted("state", "State", {ANY: events["key"].nunique(), **number})
rows = found.causes
if any(asked):
    rows = stored.drawn(found.said, ("causes", *asked), lambda: causes(events, series))
rows = rows if wanted == ANY else rows[rows["state"] == wanted].reset_index(drop=True)
parts.warnings(triage_warnings(judging.triage_of(folder), pd.Timestamp.now("UTC")), "about triage")
gone = stopped(series if machine == ANY else series[series["machine"] == machine])
if len(gone):
    st.page_link(
        "views/series.py",
        label=f"{number_of(len(gone), 'series', 'series')} stopped: the newest runs gave no number",
        icon=":material/block:",
        query_params={"show": "stopped"} | ({} if machine == ANY else {"machine": machine}),
    )
if rows.empty:
    parts.stop(plain(nothing(series)))
shown, keys = parts.in_brief(rows), list(rows["key"])
picked = choose.row("change", "its evidence", shown, keys, column_config=parts.CAUSE_COLUMNS)
parts.save(rows.drop(columns=["key", "size", "sparkline"]), "changes")
if picked is None:
    parts.end()

own = events[events["key"] == picked]
about = rows[rows["key"] == picked].iloc[0]
since = f"since {about['since']:%Y-%m-%d}"
st.subheader(plain(f"{about['state']}: {about['change']}, {about['what']}, {since}"))
worst = worst_of(own)
st.markdown("\n".join(f"- {plain(line)}" for line in worst["evidence"]))
for said in dict.fromkeys(own["triage_said"].dropna()):
    st.markdown(f"Triage: {plain(said)}")
if worst["case"]:
    points = data.trend(folder, worst["group"], worst["case"])
    named = f"{worst['workload']}: {case(worst['case'], worst['workload'])}"
    st.caption(plain(f"{named}, on {worst['group']}"))
    chart = trend_chart.around(points, worst, axis, CHART_HEIGHT)
    st.vega_lite_chart(chart, width="stretch")
    with st.container(horizontal=True, vertical_alignment="center"):
        st.page_link(
            "views/trend.py",
            label="all of this series in Trend",
            icon=":material/show_chart:",
            query_params={"machine": worst["group"], "case": worst["case"]},
        )
        parts.save_chart(chart, f"change-{picked}", f"{about['what']}: {named}, {worst['group']}")
else:
    st.page_link(
        "views/series.py",
        label="all series of this machine, which moved as a whole",
        icon=":material/show_chart:",
        query_params={"machine": str(worst["machine"])},
    )
if stored.allows_triage(folder):
    with st.form("triage", border=True):
        said_now = st.segmented_control("It is", TRIAGE_STATES, default=TRIAGE_STATES[-1])
        note = st.text_input("Note", max_chars=500)
        if st.form_submit_button("Write to triage") and said_now:
            try:
                judging.say_of(folder, own, said_now, note)
            except (OSError, HostbenchError) as error:
                st.error(f"It could not be written: {plain(error)}")
            else:
                st.rerun()
with st.expander("Reproduce, bisect, compare, and say what it is"):
    st.code(commands(worst, folder), language="bash", wrap_lines=True)
listed = own.assign(change=own["effect"].map(in_words))[EVENT_COLUMNS]
parts.folded(f"Its {len(own)} events", "its events", partial(parts.table, listed, "events"))
