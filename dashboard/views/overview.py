"""Which machines there are, what their newest run says, and the answer in words."""

import choose
import pandas as pd
import parts
import streamlit as st
from data import results_folder
from derive import (
    counts,
    newest_first,
    newest_of_family,
    run_table,
    surprises,
    without_number,
)
from words import commit8, hardware, known, missing, only, plain, run, when

from hostbench import families
from hostbench.report.answer import Answer, answers

FIRST = 7  # so many answers of a family are open on the page


def about(rows: pd.DataFrame, runs: pd.DataFrame) -> None:
    """What was measured, when, on what, of which commit."""
    first = rows.iloc[0]
    header = runs[runs["run_id"] == first["run_id"]]
    launches = "" if header.empty else f", {header['launches'].iloc[0]} launches"
    profile = f"profile {header['profile'].iloc[0]}{launches}" if len(header) else "asv's own file"
    versions = f"torch {only(rows, 'torch')}, driver {only(rows, 'driver', 'none')}"
    said = [when(first["started_at"]), f"commit {commit8(first['commit'])}", profile, versions]
    st.markdown("  ·  ".join(plain(text) for text in said))
    if not missing(first["scratch"]):
        reason = plain(first["scratch"])
        st.info(f"Scratch ({reason}): kept and shown, never judged.", icon=":material/edit_note:")
    if len(header) and not header["complete"].iloc[0]:
        st.info("This run is partial: it was interrupted, or it is still going on.")


def tiles(found: dict[str, int]) -> None:
    with st.container(horizontal=True):
        for name, number in found.items():
            st.metric(name, number, width=130, border=True)


def _sentences(found: list[Answer]) -> None:
    for one in found:
        st.markdown(f"**{plain(one.question)}**  \n{plain(one.text)}")


def answer(here: pd.DataFrame) -> None:
    """Per family its newest run's sentences, dated, and where to see them drawn."""
    told = {family: newest_of_family(here, family) for family in families.names()}
    said = {family: answers(rows) for family, rows in told.items() if len(rows)}
    if not said:
        st.info("This machine's runs hold none of hostbench's own workloads: nothing is answered.")
    for family, found in said.items():
        rows = told[family]
        with st.container(border=True):
            st.subheader(plain(family))
            st.caption(plain(f"{run(rows)}, {hardware(rows)}"))
            _sentences(found[:FIRST])
            if found[FIRST:]:
                with st.expander(f"{len(found) - FIRST} more about {plain(family)}"):
                    _sentences(found[FIRST:])
            view = {"machine": rows["machine"].iloc[0], "run": rows["run_id"].iloc[0]}
            st.page_link(
                f"views/{family}.py",
                label=f"{family}: charts and numbers",
                icon=":material/bar_chart:",
                query_params=view,
            )


st.title("What feeding the device costs here")
results = parts.results()
points = results.points

machine = choose.one("machine", "Machine", newest_first(points, "machine"))
here = points[points["machine"] == machine]
newest = here[here["run_id"] == newest_first(here, "run_id")[0]]

st.subheader(plain(hardware(newest)))
about(newest, results.runs)
tiles(counts(newest))
answer(here)

table = run_table(points, results.runs)
odd = pd.concat([newest[newest["status"].isin(["failed"])], surprises(newest)])
if len(odd):
    st.subheader("Failed and surprising")
    parts.table(odd[["case", "status", "reason", "flags"]].drop_duplicates(), "failed")
gaps = without_number(newest)
if len(gaps):
    with st.expander(f"{gaps['cases'].sum()} cases of this run have no valid number, and why"):
        parts.table(gaps, "without-number")

st.subheader("Machines")
real = table[table["device"] != "simulated"]
first_of_each = pd.concat([real, table]).drop_duplicates("machine")
kinds = {name: hardware(rows) for name, rows in points.groupby("machine")}
devices = first_of_each["machine"].map(kinds)
num_runs = first_of_each["machine"].map(table["machine"].value_counts())
machines = first_of_each.assign(hardware=devices, runs=num_runs)
columns = ["machine", "hardware", "runs", "started", "commit", "torch", "driver", "scratch"]
parts.table(machines[columns].rename(columns={"started": "newest run"}), "machines")
st.subheader("Runs")
parts.table(table, "runs")
st.caption(f"Results folder: {plain(known(results_folder()))}")
