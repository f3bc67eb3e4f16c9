"""Every run, and what one of them was: facts, what differs, what has no number, proofs."""

import choose
import data
import parts
import streamlit as st
from derive import without_number
from derive_runs import listed
from words import plain

ANY = "all machines"
SHOWN_HEIGHT = 330

st.title("Runs")
folder = parts.opened()
runs = data.runs(folder)
machine = choose.one("machine", "Machine", [ANY, *data.machines(folder)], drops=("run",))
some = (runs if machine == ANY else runs[runs["machine"] == machine]).reset_index(drop=True)
table = listed(some)
names = [f"{row.run_id}@{row.machine}" for row in some.itertuples()]
moment = st.column_config.DatetimeColumn(format="YYYY-MM-DD HH:mm", timezone="UTC")
chosen = choose.row(
    "run", "one run", table, names, height=SHOWN_HEIGHT, column_config={"started": moment}
)
parts.save(table, "runs")
if chosen is None:
    st.stop()

run_id, _, name = chosen.partition("@")
here = some[(some["run_id"] == run_id) & (some["machine"] == name)].iloc[0]
st.subheader(plain(f"Run {run_id}"))
one = data.one_run(folder, name, run_id)
if one is not None:
    st.markdown("  ·  ".join(f"{plain(what)} **{plain(value)}**" for what, value in one.about))
    with st.container(border=True):
        if one.before is None:
            st.markdown(
                "The first run of this machine and device: nothing before it to differ from."
            )
        else:
            differs = [*one.lasting, *one.passing]
            said = "\n".join(f"- {plain(text)}" for text in differs)
            st.markdown(
                f"**What differs from the run before** ({plain(one.before)})\n\n"
                + (said or "No fact that may explain a change.")
            )
rows = data.rows_of(folder, name, run_id)
gaps = without_number(rows)
if len(gaps):
    st.markdown(f"**Without a valid number: {gaps['cases'].sum()} cases, and why**")
    parts.table(gaps, "run-without-number")
with st.container(horizontal=True):
    for family in dict.fromkeys(rows["family"].dropna()):
        st.page_link(
            "views/family.py",
            label=f"{family}: charts and numbers",
            icon=":material/bar_chart:",
            query_params={"family": family, "machine": name, "run": run_id},
        )
if one is None:
    st.caption("asv's own file: no facts, proofs or order are stored.")
    st.stop()
moved = int((one.facts["moved"] != "").sum())
with st.expander(f"{len(one.facts)} facts; {moved} moved during the run"):
    parts.table(one.facts, "run-facts")
with st.expander("Proofs"):
    parts.table(one.proofs, "run-proofs")
st.download_button(
    "JSON", one.document, f"{run_id}.json", "application/json", icon=":material/download:"
)
