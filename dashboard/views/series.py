"""Every series: its value, recent change, noise, smallest detectable change. Rows go to Trend."""

import choose
import parts
import streamlit as st
from derive_causes import in_words, stopped
from derive_trend import MOST
from words import plain

from hostbench.judge.grid import Along

AXIS: Along = "commit"
ANY = "all"
MOST_ROWS = 500
"""In the table, those that changed most; the CSV has all."""
COLUMNS = (
    "case machine value_said change_said sparkline changed_committed_at changed_said noise "
    "detectable points status why"
).split()
NAMES = {
    "value_said": "newest",
    "change_said": "in 20 runs",
    "changed_committed_at": "changed at",
    "changed_said": "by",
}

st.title("Series")
folder = parts.opened()
series = parts.caused(folder, AXIS).series
left, middle, right = st.columns([1, 1, 2])
with left:
    machine = choose.one("machine", "Machine", [ANY, *sorted(set(series["machine"]))])
some = series if machine == ANY else series[series["machine"] == machine]
with middle:
    name = choose.one("workload", "Workload", [ANY, *sorted(set(some["workload"]))])
some = some if name == ANY else some[some["workload"] == name]
with right:
    text = choose.text("find", "Find", "words of a case, all of which must be there")
for word in text.lower().split():
    some = some[some["id"].str.lower().str.contains(word, regex=False)]
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
shown = shown.assign(
    value_said=[parts.number(row) for row in shown.to_dict("records")],
    change_said=shown["change"].map(in_words),
    changed_said=shown["changed_effect"].map(in_words),
)
percent = st.column_config.NumberColumn(format="percent", width="small")
columns = {
    "sparkline": st.column_config.LineChartColumn(width="small"),
    "changed at": st.column_config.DatetimeColumn(format="YYYY-MM-DD", timezone="UTC"),
    "noise": percent,
    "detectable": percent,
    "case": st.column_config.Column(width=420),
}
picked = st.dataframe(
    shown[COLUMNS].rename(columns=NAMES),
    key="series rows",
    hide_index=True,
    width="stretch",
    height=560,
    column_config=columns,
    on_select="rerun",
    selection_mode="multi-row",
    placeholder="",
)["selection"]["rows"]
chosen = shown.iloc[[row for row in picked if row < len(shown)][:MOST]]
with st.container(horizontal=True, vertical_alignment="center"):
    if st.button("Show in Trend", disabled=chosen.empty, icon=":material/show_chart:"):
        first, *more = (f"{row.case}@{row.machine}" for row in chosen.itertuples())
        case, _, where = first.rpartition("@")
        query = {"machine": where, "case": case, "more": more}
        st.switch_page("views/trend.py", query_params=query)
    parts.save(series.drop(columns="sparkline"), "series")
    first = f"The {MOST_ROWS} that changed most of {num:,}; find the others. " * (num > MOST_ROWS)
    level = f"Choose up to {MOST} rows. In 20 runs: the level now against that 20 runs ago."
    st.caption(plain(first + level))
