"""Machines side by side: age, verdicts, what changed on them, how near their limits they come."""

import data
import pandas as pd
import parts
import streamlit as st
from derive_machines import listed, moved, reached
from words import colors, plain

from hostbench.core.units import number_of

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
    st.vega_lite_chart(reached(reaching, colors(names)), width="stretch")
    st.caption("The best rate of each machine's newest runs as a share of what its link can carry.")
for name, one in about.items():
    with st.container(border=True):
        st.markdown(f"**{plain(name)}**  {plain(one.hardware)}")
        if not one.verdicts:
            st.caption("No facts are stored: asv's own files, or older than facts.")
        for verdict in one.verdicts:
            icon = LEVELS.get(verdict.level, ":green[:material/check_circle:]")
            remedy = f" ({plain(verdict.remedy)})" if verdict.remedy else ""
            st.markdown(f"{icon} {plain(verdict.text)}{remedy}")
        changes = moved(runs[runs["machine"] == name])
        if len(changes):
            with st.expander(f"{number_of(len(changes), 'change')} of torch, driver or hardware"):
                parts.table(changes, f"changed-{name}", columns={"when": moment})
