"""Every series: its value, recent change, noise, smallest detectable change. Rows go to Trend."""

from typing import Any

import choose
import data
import pandas as pd
import parts
import streamlit as st
from words import ONLY, case, group, plain

from hostbench.judge.grid import Along
from hostbench.report.causes import in_words as change_in_words
from hostbench.report.causes import stopped
from hostbench.report.overview import NUMBER, newest_number
from hostbench.report.trend import MOST

AXIS: Along = "commit"
ANY = "all"
MOST_ROWS = 500  # those that changed most; the CSV has all
COLUMNS = (
    "change_said sparkline case machine value_said changed_committed_at changed_said noise "
    "detectable points status why"
).split()
NAMES = {
    "value_said": "newest",
    "change_said": "in 20 runs",
    "changed_committed_at": "changed at",
    "changed_said": "by",
}


def in_words(rows: pd.DataFrame) -> list[str]:
    """`transfer.host_to_device cuda, 1KiB, pinned, blocking=True` of each."""
    pairs = zip(rows["case"], rows["workload"], strict=True)
    return [f"{name} {case(text, name)}".removesuffix(f" {ONLY}") for text, name in pairs]


st.title("Series")
folder = parts.opened()
series = parts.caused(folder, AXIS).series
left, middle, right = st.columns([1, 1, 2])
with left:
    machine = choose.one("machine", "Machine", [ANY, *sorted(series["machine"].unique())])
some = series if machine == ANY else series[series["machine"] == machine]
with middle:
    name = choose.one("workload", "Workload", [ANY, *sorted(some["workload"].unique())])
some = some if name == ANY else some[some["workload"] == name]
with right:
    text = choose.text("find", "Find", "words of a case, all of which must be there")
if text:  # as it is stored, or as it is shown
    words = text.lower().split()
    said = (some["id"] + " " + in_words(some)).str.lower()
    some = some[[all(word in one for word in words) for one in said]]
kinds = {
    ANY: some,
    "changed": some[some["change"].fillna(0.0) != 0.0],
    "stopped": stopped(some),
    "not judged": some[~some["judged"]],
}
wanted = choose.counted("show", "Show", {kind: len(own) for kind, own in kinds.items()})
shown = kinds[wanted].reset_index(drop=True)
if shown.empty:
    parts.stop("No series is like that.")
order = shown["change"].abs().fillna(-1.0).sort_values(ascending=False, kind="stable").index
num = len(shown)
shown = shown.loc[order].head(MOST_ROWS).reset_index(drop=True)
every = data.every_machine(folder).groups
shown = shown.assign(
    value_said=[newest_number(row) for row in shown[NUMBER].to_dict("records")],
    change_said=shown["change"].map(change_in_words),
    changed_said=shown["changed_effect"].map(change_in_words),
    case=in_words(shown),
    machine=[group(one, every) for one in shown["group"]],
)
percent = st.column_config.NumberColumn(format="percent", width="small")
columns = {
    "sparkline": st.column_config.LineChartColumn(width="small"),
    "noise": percent,
    "detectable": percent,
    "case": st.column_config.Column(width=385),
    "machine": st.column_config.Column(width=130),
    "newest": st.column_config.Column(width=75),
    "in 20 runs": st.column_config.Column(width=75),
    "changed at": st.column_config.DatetimeColumn(format="YYYY-MM-DD", timezone="UTC", width=90),
    "by": st.column_config.Column(width=65),
}
chosen = choose.passing_rows(
    "series",
    shown[COLUMNS].rename(columns=NAMES),
    list(shown["id"]),
    height=560 if len(shown) > 14 else "content",
    column_config=columns,
    selection_mode="multi-row",
)[:MOST]
with st.container(horizontal=True, vertical_alignment="center"):
    query: dict[str, Any] = {}
    if chosen:
        top = series[series["id"] == chosen[0]].iloc[0]
        query = {"machine": top["group"], "case": top["case"], "more": chosen[1:]}
    st.page_link(
        "views/trend.py",
        label="Show in Trend",
        icon=":material/show_chart:",
        disabled=not chosen,
        query_params=query,
    )
    parts.save(series.drop(columns="sparkline"), "series")
    first = f"The {MOST_ROWS} that changed most of {num:,}; find the others. " * (num > MOST_ROWS)
    level = f"Choose up to {MOST} rows. In 20 runs: the level now against that 20 runs ago."
    st.caption(plain(first + level))
