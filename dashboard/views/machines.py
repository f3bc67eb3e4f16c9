"""Machines side by side: age, verdicts, what changed on them, how near their limits they come."""

import data
import pandas as pd
import parts
import streamlit as st
from derive_machines import listed, reached, timeline
from words import colors, plain

LEVELS = {"broken": ":red[:material/error:]", "warn": ":orange[:material/warning:]"}
SHOWN = 10

st.title("Machines")
folder = parts.opened()
runs = data.runs(folder)
table = listed(runs, pd.Timestamp.now("UTC"))
moment = st.column_config.DatetimeColumn(format="YYYY-MM-DD HH:mm", timezone="UTC")
parts.table(table, "machines", columns={"newest run": moment})

names = list(table["machine"])
about = {name: data.machine(folder, name) for name in names[:SHOWN]}
if len(names) > SHOWN:
    st.caption(f"Below: the {SHOWN} with the newest runs, of {len(names)}.")
reaching = {name: one.limits for name, one in about.items() if len(one.limits)}
if reaching:
    st.subheader("How near their limits they come")
    drawn = reached(reaching, colors(names))
    st.vega_lite_chart(drawn, width="stretch")
    st.caption(
        "The best rate of each machine's newest runs as a share of what its link can carry. A "
        "cross: more than that, so the true limit is another one than is known."
    )
    with st.container(horizontal=True):
        parts.save_chart(drawn, "limits", "How near their limits the machines come")
changes = data.setup_changes(folder)
if len(changes):
    st.subheader("What changed on them")
    drawn = timeline(runs, changes, colors(names))
    st.vega_lite_chart(drawn, width="stretch")
    st.caption("A dot is a run; a diamond is the first run after something had changed.")
    order = ["since", "machine", "fact", "of", "from", "to"]
    parts.table(changes[order], columns={"since": moment})
    with st.container(horizontal=True):
        parts.save(changes[order], "machines-changed")
        parts.save_chart(drawn, "machines-changed", "What changed on the machines")
st.subheader("What looks wrong")
for name, one in about.items():
    with st.container(border=True):
        st.markdown(f"**{plain(name)}**  {plain(one.hardware)}")
        verdicts = data.doctors(folder)[name]
        if not verdicts:
            st.caption("No facts are stored: asv's own files, or older than facts.")
        for verdict in verdicts:
            icon = LEVELS.get(verdict.level, ":green[:material/check_circle:]")
            remedy = f" ({plain(verdict.remedy)})" if verdict.remedy else ""
            st.markdown(f"{icon} {plain(verdict.text)}{remedy}")
