"""Which machines there are, what their newest run says, and the answers of each family."""

import answers
import choose
import data
import pandas as pd
import parts
import streamlit as st
from derive import run_table, unexpected, without_number
from words import commit8, hardware, known, launches, missing, only, plain, run, when

from hostbench import families
from hostbench.store.columns import STATUSES

FIRST = 4  # so many answers of a family are open on the page


def about(newest: pd.Series, rows: pd.DataFrame) -> None:
    """What was measured, when, on what, of which commit."""
    profile = "asv's own file"
    if not missing(newest["profile"]):
        profile = f"profile {newest['profile']}, {launches(newest)}"
    versions = f"torch {only(rows, 'torch')}, driver {only(rows, 'driver', 'none')}"
    commit = "no commit" if missing(newest["commit"]) else f"commit {commit8(newest['commit'])}"
    said = [when(newest["started_at"]), commit, profile, versions]
    st.markdown("  ·  ".join(plain(text) for text in said))
    if not missing(newest["scratch"]):
        reason = plain(newest["scratch"])
        st.info(f"Scratch ({reason}): kept and shown, never judged.", icon=":material/edit_note:")
    if not missing(newest["complete"]) and not newest["complete"]:
        st.info("This run is partial: it was interrupted, or it is still going on.")


def about_newer(other: pd.Series) -> None:
    """The newest run, where it is not the one that the page is about."""
    said = when(other["started_at"])
    if not missing(other["profile"]):
        said += f", profile {other['profile']}, {launches(other)}"
    st.caption(plain(f"The newest run is another one: {said}."))


def card(family: str, run_id: str) -> None:
    """A family's answers of its newest run, dated, and where to see them drawn."""
    rows = data.rows_of(folder, machine, run_id)
    rows = rows[rows["family"] == family]
    shown, untold = answers.of_family(rows)
    with st.container(border=True):
        st.subheader(plain(family))
        (own,) = (one for _, one in here[here["run_id"] == run_id].iterrows())
        count = "" if missing(own["launches"]) else f", {launches(own)}"
        st.caption(plain(f"{run(rows)}, {hardware(rows)}{count}"))
        for one in shown[:FIRST]:
            answers.headline(one)
        if shown[FIRST:]:
            with st.expander(f"{len(shown) - FIRST} more about {plain(family)}"):
                for one in shown[FIRST:]:
                    answers.headline(one)
        answers.not_answered(untold)
        if family in families.names():
            st.page_link(
                "views/family.py",
                label=f"{family}: charts and numbers",
                icon=":material/bar_chart:",
                query_params={"family": family, "machine": machine, "run": run_id},
            )


st.title("What feeding the device costs here")
folder = parts.opened()
runs = data.runs(folder)
machine = choose.one("machine", "Machine", data.machines(folder))
here = runs[runs["machine"] == machine]
by_family = data.newest_of(folder, machine)
named = by_family["run_id"].mode()  # the run that most families are shown of
shown = here[here["run_id"].isin(named)]
newest = (shown if len(shown) else here).iloc[0]
rows = data.rows_of(folder, machine, newest["run_id"])

st.subheader(plain(hardware(rows)))
about(newest, rows)
if newest["run_id"] != here["run_id"].iloc[0]:
    about_newer(here.iloc[0])
with st.container(horizontal=True):
    for name in (*STATUSES, "unexpected"):
        st.metric(name, int(newest[name]), width=130, border=True)
if by_family.empty:
    st.info("This machine's runs hold none of hostbench's own workloads: nothing is answered.")
newest_runs = dict(zip(by_family["family"], by_family["run_id"], strict=True))
for family in dict.fromkeys([*families.names(), *newest_runs]):
    if family in newest_runs:
        card(family, newest_runs[family])

odd = pd.concat([rows[rows["status"] == "failed"], unexpected(rows)])
if len(odd):
    st.subheader("Failed, and unexpected findings")
    parts.table(odd[["case", "status", "reason", "flags"]].drop_duplicates(), "failed")
gaps = without_number(rows)
if len(gaps):
    with st.expander(f"{gaps['cases'].sum()} cases of this run have no valid number, and why"):
        parts.table(gaps, "without-number")

table = run_table(runs)
st.subheader("Machines")
real = table[table["device"] != "simulated"]
first_of_each = pd.concat([real, table]).drop_duplicates("machine")
machines = first_of_each.assign(runs=first_of_each["machine"].map(table["machine"].value_counts()))
columns = ["machine", "hardware", "runs", "started", "commit", "torch", "driver", "scratch"]
parts.table(machines[columns].rename(columns={"started": "newest run"}), "machines")
st.subheader("Runs")
parts.table(table, "runs")
st.caption(f"Results folder: {plain(known(folder))}")
