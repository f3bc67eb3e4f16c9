"""Every run, and what one of them was: facts, what differs, what has no number, proofs."""

from functools import partial

import choose
import data
import parts
import streamlit as st
from derive import without_number
from words import plain

from hostbench.families import declared

ANY = "all machines"

st.title("Runs")
folder = parts.opened()
machine = choose.one("machine", "Machine", [ANY, *data.machines(folder)], drops=("run",))
table, names = data.listed_runs(folder, None if machine == ANY else machine)
moment = st.column_config.DatetimeColumn(format="YYYY-MM-DD HH:mm", timezone="UTC")
chosen = choose.row("run", "one run", table, names, column_config={"started": moment})
parts.save(table, "runs")
if chosen is None:
    parts.end()

here = table.iloc[names.index(chosen)]
run_id, name = str(here["run_id"]), str(here["machine"])
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
    num = gaps.groupby("status", sort=False)["cases"].sum()
    counted = ", ".join(f"{num[status]} {status}" for status in num.index)
    st.markdown(f"**Without a valid number: {counted}**")
    parts.table(gaps, "run-without-number")
with st.container(horizontal=True):
    for family in dict.fromkeys(rows["family"][rows["workload"].map(declared).notna()]):
        st.page_link(
            "views/family.py",
            label=f"{family}: charts and numbers",
            icon=":material/bar_chart:",
            query_params={"family": family, "machine": name, "run": run_id},
        )
if one is None:
    st.caption("asv's own file: no facts, proofs or order are stored.")
    parts.end()
moved = int((one.facts["moved"] != "").sum())
parts.folded(
    f"{len(one.facts)} facts before, during and after the run; {moved} moved",
    "the facts",
    partial(parts.table, one.facts, "run-facts"),
)
parts.folded("Proofs", "the proofs", partial(parts.table, one.proofs, "run-proofs"))
st.subheader("The run as a file")
with st.container(horizontal=True):
    st.download_button(
        "JSON", one.document, f"{run_id}.json", "application/json", icon=":material/download:"
    )
    for number, path in enumerate(one.archives):
        st.download_button(
            "Archive" if number == 0 else f"Archive, part {number + 1}",
            partial(data.archive, folder, path),
            path.name,
            "application/octet-stream",
            icon=":material/download:",
            key=f"archive {number}",
            on_click="ignore",
        )
if not one.archives:
    st.caption("The archive lies where it was measured: a table at a URL has no files.")
