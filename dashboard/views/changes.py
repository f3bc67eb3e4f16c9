"""What changed: a row for each commit or fact; of the chosen one evidence, picture, commands."""

import charts_series
import choose
import data
import pandas as pd
import parts
import streamlit as st
from derive_causes import (
    SERIES,
    STATES,
    causes,
    commands,
    counted,
    filtered,
    in_words,
    nothing,
    stopped,
    triage_warnings,
)
from derive_trend import choices, levels, points
from words import case, plain

from hostbench.core.errors import HostbenchError
from hostbench.core.units import number_of
from hostbench.judge.grid import Along
from hostbench.report.charts import ORANGE
from hostbench.store.triage import STATES as TRIAGE_STATES

AXES: dict[str, Along] = {"commit date": "commit", "run time": "run-time"}
DATES = {"commit": "first_committed_at", "run-time": "first_started_at"}
BY = {"commit": "committed_at", "run-time": "started_at"}
ANY = "all"
EVENT_COLUMNS = "id state change low high before_s after_s first_run first_commit".split()
SHOWN_HEIGHT = 330

st.title("Changes")
folder = parts.opened()
left, second, third, right = st.columns(4)
with right:
    axis = AXES[choose.one("axis", "Judged along", list(AXES), drops=("change",))]
found = parts.caused(folder, axis)
events, series = found.events, found.series
with left:
    machine = choose.one("machine", "Machine", [ANY, *sorted(set(series["machine"]))])
with second:
    names = sorted({one for one in events["family"] if one})
    family = choose.one("family", "Family", [ANY, *names])
with third:
    cause = choose.one("cause", "Cause", [ANY, *sorted(set(events["cause"]))])
asked = [None if one == ANY else one for one in (machine, family, cause)]
events = filtered(events, *asked)
number = {name: num for name, num in counted(events).items() if num or name in STATES[:3]}
wanted = choose.counted("state", "State", {ANY: events["key"].nunique(), **number})
rows = causes(events, series) if any(asked) else found.causes
rows = rows if wanted == ANY else rows[rows["state"] == wanted].reset_index(drop=True)
parts.warnings(triage_warnings(data.triage_of(folder), pd.Timestamp.now("UTC")), "about triage")
gone = stopped(series if machine == ANY else series[series["machine"] == machine])
if len(gone):
    st.page_link(
        "views/series.py",
        label=f"{number_of(len(gone), 'series', 'series')} without a number since",
        icon=":material/block:",
        query_params={"show": "stopped"},
    )
if rows.empty:
    parts.stop(plain(nothing(series)))
shown = rows[["state", "change", "sparkline", "what", "since", "series", "machines", "cause"]]
columns = {
    "sparkline": st.column_config.LineChartColumn(width="small"),
    "since": st.column_config.DatetimeColumn(format="YYYY-MM-DD", timezone="UTC", width="small"),
    "what": st.column_config.Column(width="large"),
}
height = SHOWN_HEIGHT if len(shown) > 8 else "content"
picked = choose.row(
    "change", "its evidence", shown, list(rows["key"]), height=height, column_config=columns
)
parts.save(shown.drop(columns="sparkline"), "changes")
if picked is None:
    st.stop()

own = events[events["key"] == picked]
about = rows[rows["key"] == picked].iloc[0]
st.subheader(plain(f"{about['what']}: {about['change']} {about['state']}"))
worst = own.loc[own["effect"].abs().sort_values(ascending=False).index].iloc[0]
st.markdown("\n".join(f"- {plain(line)}" for line in worst["evidence"]))
for said in dict.fromkeys(own["triage_said"].dropna()):
    st.markdown(f"Triage: {plain(said)}")
if worst["case"]:
    stored = data.trend(folder, worst["machine"], worst["case"])
    unit = choices([stored])[0]
    drawn = points(stored, worst["id"], BY[axis], unit)
    at = float(pd.Timestamp(worst[DATES[axis]]).value // 1_000_000)
    near = drawn.iloc[max(0, int((drawn["x"] < at).sum()) - 30) :].head(60)
    half = None if pd.isna(worst["detectable"]) else float(worst["detectable"])
    said = f"{in_words(worst['effect'])} from here on"
    rule = pd.DataFrame([{"x": at, "kind": SERIES, "said": said}])
    named = f"{worst['workload']}: {case(worst['case'], worst['workload'])}"
    st.caption(plain(f"{named}, on {worst['machine']}"))
    st.vega_lite_chart(
        charts_series.trend(
            near,
            levels(near, [at], half).assign(series=worst["id"]),
            rule,
            {},
            {worst["id"]: ORANGE},
            unit=unit,
            x_title="time, UTC",
        ),
        width="stretch",
    )
    st.page_link(
        "views/trend.py",
        label="all of this series in Trend",
        icon=":material/show_chart:",
        query_params={"machine": worst["machine"], "case": worst["case"]},
    )
if data.allows_triage(folder):
    with st.form("triage", border=True):
        said_now = st.segmented_control("It is", TRIAGE_STATES, default=TRIAGE_STATES[-1])
        note = st.text_input("Note", max_chars=500)
        if st.form_submit_button("Write to triage") and said_now:
            try:
                data.say_of(folder, own, said_now, note)
            except (OSError, HostbenchError) as error:
                st.error(f"It could not be written: {plain(error)}")
            else:
                st.rerun()
with st.expander("Reproduce, bisect, compare, and say what it is"):
    st.code(commands(worst.to_dict(), folder), language="bash", wrap_lines=True)
with st.expander(f"Its {len(own)} events"):
    listed = own.assign(change=own["effect"].map(in_words))
    parts.table(listed[EVENT_COLUMNS], "events")
