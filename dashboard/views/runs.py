"""Every run as a dot, machines by days; of one run what differs, what has no number and why."""

import charts
import data
import pandas as pd
import parts
import streamlit as st
from words import ago, plain

from hostbench.core.units import number_of
from hostbench.report.doctor import findings

LEVELS = {"broken": ":red[:material/error:]", "warn": ":orange[:material/warning:]"}
COLUMNS = "machine name hardware torch driver ok failed skipped".split()
CASES = "case status seconds ci_low_s ci_high_s gb_per_s num_samples flags".split()

store = data.opened()
runs = parts.runs(store)
if runs.empty:
    parts.empty("No run is of these machines and this time: choose others above.")
keys = [f"{run}@{machine}" for run, machine in zip(runs["run_id"], runs["machine"], strict=True)]
dot = parts.chart(charts.dots(runs), "runs", f"{len(runs)} runs over time")
if dot:
    st.query_params["of"] = f"{dot['run_id']}@{dot['machine']}"
table = runs[COLUMNS].rename(columns={"name": "run"})
row = parts.folded(number_of(len(runs), "run"), "list", lambda: parts.clicked(table, "every run"))
if row is not None:
    st.query_params["of"] = keys[row]
picked = st.query_params.get("of", keys[0])
if picked not in keys:
    picked = keys[0]
    st.caption("The run of the link is not here: the newest is shown.")

run = runs.iloc[keys.index(picked)]
machine, run_id = str(run["machine"]), str(run["run_id"])
st.subheader(plain(f"{machine}, {run['name']}, {ago(run['started_at'])}"), anchor=False)
known = run[[*data.FACTS]].dropna()
setup = [fact if name == "hardware" else f"{name} {fact}" for name, fact in known.items()]
num = f"{run['ok']} ok, {run['failed']} failed, {run['skipped']} skipped"
st.markdown(plain(f"{', '.join(setup)}: {num}"))
facts, differs = data.facts(store, machine, run_id)
left, right = st.columns(2)
with left:
    st.markdown("**What the doctor says**")
    if not facts:
        st.caption("No facts of this run are stored.")
    for finding in findings(facts) if facts else ():
        remedy = f": {finding.remedy}" if finding.remedy else ""
        st.markdown(f"{LEVELS.get(finding.level, '')} {plain(finding.text + remedy)}")
with right:
    st.markdown("**Differs from the run before**")
    every, same = data.runs(store), "nothing" if facts else "not known"
    is_first = run["started_at"] == every["started_at"][every["machine"] == machine].min()
    parts.listed(differs, "no run before" if is_first else same)


def answers() -> None:
    """What the run answers."""
    every = data.answers(store, machine, run_id)
    rows = [(answer.question, answer.state, answer.verdict) for answer in every]
    parts.table(pd.DataFrame(rows, columns=["question", "state", "verdict"]))


stored = [
    {"group": group, "fact": name, "value": str(fact)}
    for group, members in facts.items()
    for name, fact in members.items()
]
rows = data.rows(store, machine, run_id)
gaps = rows[rows["status"] != "ok"]
if len(gaps):
    gaps = gaps.assign(reason=gaps["reason"].fillna("no reason stored").astype(str))
    groups = gaps.groupby(["status", "workload", "reason"], sort=False)["case"]
    reasons = groups.agg(["size", "first"]).set_axis(["cases", "first case"], axis=1).reset_index()
    reasons = reasons.sort_values("status", kind="stable")  # failed, not measured, skipped
    is_bad = bool((gaps["status"] != "skipped").any())
    title = f"{number_of(len(gaps), 'case')} without a number, and why"
    parts.folded(title, "gaps", lambda: parts.table(reasons), is_open=is_bad)
parts.folded(number_of(len(rows), "case"), "cases", lambda: parts.table(rows[CASES]))
if run["source"] != "asv":
    parts.folded("Answers", "answers", answers)
if stored:
    parts.folded(number_of(len(stored), "fact"), "facts", lambda: parts.table(pd.DataFrame(stored)))
