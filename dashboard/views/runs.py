"""Every run as a dot, machines by days; of one run what differs, what has no number and why."""

from functools import partial
from typing import Any

import charts
import data
import pandas as pd
import parts
import streamlit as st
import words
from words import ago, plain

from hostbench.report.charts import CLICKED
from hostbench.report.doctor import findings

LEVELS = {"broken": ":red[:material/error:]", "warn": ":orange[:material/warning:]"}
COLUMNS = "machine name hardware torch driver ok failed skipped".split()
CASES = "case status seconds ci_low_s ci_high_s gb_per_s num_samples flags".split()
LIST = "every run"

store = data.opened()
runs = parts.runs(store)
keys = [f"{run}@{machine}" for run, machine in zip(runs["run_id"], runs["machine"], strict=True)]


def show(key: str) -> None:
    """The run that was clicked just now, in the address."""
    selection = st.session_state[key]["selection"]
    for dot in selection.get(CLICKED, ()):
        st.query_params["of"] = f"{dot['run_id']}@{dot['machine']}"
    for row, _ in selection.get("cells", ()):
        st.query_params["of"] = keys[row]


says, shown = f"{len(runs)} runs over time", partial(show, "dots")
parts.draw(charts.dots(runs), says, key="dots", on_select=shown, selection_mode=[CLICKED])
picked = st.query_params.get("of", keys[0])
if picked not in keys:
    picked = keys[0]
    st.caption("The run of the link is not here: the newest is shown.")

run = runs.iloc[keys.index(picked)]
machine, run_id = str(run["machine"]), str(run["run_id"])
known = run[[*data.FACTS]].dropna()
setup = [fact if name == "hardware" else f"{name} {fact}" for name, fact in known.items()]
num = f"{run['ok']} ok, {run['failed']} failed, {run['skipped']} skipped"
title = plain(f"{machine}, {run['name']}, {ago(run['started_at'])}")
st.markdown(f"### {title}\n\n{plain(', '.join(setup))}: {num}")
facts, differs = data.facts(store, machine, run_id)
doctor = []
for finding in findings(facts) if facts else ():
    text = ": ".join(filter(None, (finding.text, finding.remedy)))
    doctor.append(f"{LEVELS.get(finding.level, '')} {plain(text)}")
left, right = st.columns(2)
doctor = doctor or ["no facts of this run are stored"]
before = [*map(plain, differs)] or ["nothing known"]
left.markdown("\n- ".join(["**What the doctor says**\n", *doctor]))
right.markdown("\n- ".join(["**Differs from the run before**\n", *before]))

rows = data.rows(store, machine, run_id)
rows = rows.assign(case=rows["case"].map(words.case))
look: dict[str, Any] = {"on_select": partial(show, LIST), "selection_mode": "single-cell"}
table = runs[COLUMNS].rename(columns={"name": "run"})
tables: dict[str, Any] = {LIST: partial(parts.table, table, key=LIST, **look)}
tables["cases"] = partial(parts.table, rows[CASES])
gaps = rows[rows["status"] != "ok"]
if len(gaps):
    gaps = gaps.assign(reason=gaps["reason"].fillna("no reason stored").astype(str))
    groups = gaps.groupby(["status", "workload", "reason"], sort=False)["case"]
    reasons = groups.agg(["size", "first"]).set_axis(["cases", "first case"], axis=1).reset_index()
    reasons = reasons.sort_values("status", kind="stable")  # failed, not measured, skipped
    if (gaps["status"] != "skipped").any():
        parts.table(reasons)  # nobody has to ask for a failure
    else:
        tables["without a number"] = partial(parts.table, reasons)
stored = [
    (group, fact, f"{value:.4g}" if isinstance(value, float) else str(value))
    for group, own in facts.items()
    for fact, value in own.items()
]
if stored:
    lines = pd.DataFrame(stored, columns=["group", "fact", "value"])
    tables["facts"] = partial(parts.table, lines)
parts.shown(tables)
