"""Two commits, machines or runs: what is slower, faster, the same."""

from typing import Any

import charts
import data
import parts
import streamlit as st
from words import commit8, plain, when

from hostbench.core.units import number_of
from hostbench.judge.two_sides import LEVEL_RUNS
from hostbench.report.sides import LEVEL

KINDS = {"commits": "commit", "machines": "machine", "runs": "run"}
COLORS: Any = {"failed": "red", "slower": "orange", "faster": "blue"}
LEVEL_NAME = f"level of the runs before, {LEVEL_RUNS} at most"

store = data.opened()
names = parts.machines(store)
every = data.history(store).sides().iloc[::-1]
every = parts.within(every[every["machine"].isin(names)])
left, first_box, second_box = st.columns([1, 2, 2])
kinds = [name for name, kind in KINDS.items() if kind == "run" or every[kind].nunique() > 1]
kind = KINDS[parts.select(left, "Compare", kinds, "kind")]
known = every if kind == "run" else every[every["scratch"].isna()]
options = [str(side) for side in known["run_id" if kind == "run" else kind].dropna().unique()]
if len(options) < 2:
    why = f"Only one {kind} is stored here: there is nothing to compare it with."
    parts.compare_now(store, why)
stored = data.runs(store).drop_duplicates("run_id").set_index("run_id")
called = stored["machine"] + ", " + stored["name"]


def named(text: str) -> str:
    if text == LEVEL:
        return LEVEL_NAME
    return commit8(text) if kind == "commit" else called.get(text, text)


def side(box: st.delta_generator.DeltaGenerator, label: str, key: str, own: list[str]) -> str:
    chosen = parts.select(box, label, own, key, format_func=named, filter_mode="contains")
    return chosen if kind == "commit" or chosen == LEVEL else f"{kind}:{chosen}"


after = side(second_box, "After", "second", options)
levels = [] if kind == "machine" else [LEVEL]
before = side(first_box, "Before", "first", [*levels, *options[1:], options[0]])
if before == after:
    parts.empty("Before and after are the same: choose another one.")
rows, notes, markdown = data.comparison(store, (before, after), tuple(names))
if rows["change"].isna().all():
    parts.empty("No series has numbers on both sides.")
number = rows["verdict"].value_counts(sort=False)
badges = [f":{COLORS.get(name, 'gray')}-badge[{number[name]} {name}]" for name in number.index]
dates = every.drop_duplicates("commit").set_index("commit")["started_at"]
run_at = [f"{commit8(own)} was run {when(dates[own])}" for own in (before, after) if own in dates]
st.markdown(" ".join([*badges, f":small[:gray[{', '.join(run_at)}]]" * bool(run_at)]))
workload = st.query_params.get("of", "")
parts.check_link("of", {*rows["workload"]})
own, lane = rows[rows["workload"] == workload], "id"
if len(own):
    parts.reset(f"{plain(workload)}: back to all workloads", "of", "arrow_back")
    st.caption("Point: change of the time; line: 99% interval. Click a series for its trend.")
    if clicked := parts.chart(charts.by_series(own), "of series", "change of each series"):
        parts.go("trend", case=str(clicked["case"]))
else:
    own, lane = rows, "workload"
    st.caption(
        "Point: median change of the series that moved, else of all; line: their range. Click a "
        "workload for its series."
    )
    if clicked := parts.chart(charts.by_workload(rows), "of all", "change of each workload"):
        st.query_params["of"] = str(clicked["id"])
        st.rerun()
if (num := own[lane].nunique()) > charts.MOST_LANES:
    notes = [f"{charts.MOST_LANES} of {num} drawn, the worst first.", *notes]
if num := len(every) - len(known):
    notes = [*notes, f"{number_of(num, 'scratch run')} left out: choose runs to compare them."]
if notes:
    st.caption("  \n".join(plain(note.replace("`", "")) for note in notes))


def series() -> None:
    """All that is compared."""
    table = own.drop(columns=["workload", "id", "case"])
    row = parts.clicked(table, "each", percent=("change", "low", "high"))
    if row is not None:
        parts.go("trend", case=own["case"].iloc[row])


pull_request = "Markdown for a pull request"
parts.shown({"series": series, pull_request: lambda: st.code(markdown, None)})
