"""One series over its runs, with every point that it has: also skipped, failed and scratch."""

import charts_trend
import choose
import data
import parts
import streamlit as st
from charts_trend import KINDS, points
from derive_changes import ALONG
from derive_marks import how_judged, marks, of_series
from words import LEGEND, case, hardware, only, plain, question

AXES = {"run time": "started_at", "commit date": "committed_at"}
COLUMNS = (
    "when commit8 run_id status number interval rate launches torch driver version scratch "
    "source reason flags"
).split()

st.title("One series over time")
folder = parts.opened()

left, middle, right = st.columns(3)
with left:
    machine = choose.one("machine", "Machine", data.machines(folder), drops=("workload", "case"))
here = data.series(folder, machine)
names = list(dict.fromkeys(here["workload"]))
with middle:
    name = choose.one("workload", "Workload", names, drops=("case",))
here = here[here["workload"] == name].sort_values("has_number", ascending=False, kind="stable")
with right:
    series = choose.one("case", "Case", list(here["case"]), lambda text: case(text, name))
st.caption(plain(question(name)))
rows = data.trend(folder, machine, series)
with st.container(horizontal=True, vertical_alignment="bottom", gap="large"):
    by = choose.either("axis", "Horizontal axis", list(AXES))
    has_rate = rows["gb_per_s"].notna().any()
    unit = choose.either("unit", "Number", ["seconds", "GB/s"]) if has_rate else "seconds"
    if not choose.yes("scratch", "Scratch runs"):
        rows = rows[rows["scratch"].isna()]

if rows.empty:
    parts.stop("This series has only scratch runs. Switch them on, or choose another case.")
found = points(rows, by=AXES[by], as_rate=unit == "GB/s")
if found.empty:
    parts.stop(f"No run of this series has a {by}, or none came to this case.")

if unit == "GB/s":
    y_title = "GB/s (higher is better)"
elif found["seconds"].notna().any() or found["y"].isna().all():
    y_title = "seconds per step, end to end (lower is better)"
else:
    y_title = f"{only(found, 'unit', 'no unit')} (asv's rule: lower is better)"
judged = data.changes(folder, ALONG[by])
told = of_series(judged.told, judged.judged, machine, series)
changes = marks(told, AXES[by])
chart = charts_trend.trend(
    found,
    changes,
    f"{name}: {case(series, name, with_device=False)}",
    [f"{hardware(rows)} · {machine}"],
    f"{by}, UTC",
    y_title,
    in_seconds="seconds" in y_title,
)
st.vega_lite_chart(chart, width="stretch")

numbers = found[found["status"] == "ok"]
without = int(numbers["low"].isna().sum())
kinds = found["kind"].value_counts()
counted = [f"{kinds[kind]} {kind}" for kind in KINDS if kind in kinds]
left_out = len(rows) - len(found)
if left_out:
    counted.append(f"{left_out} not drawn (not measured, or no {by})")
st.markdown(plain(f"Points: {', '.join(counted)}. Commits: {found['commit'].nunique()}."))
if without:
    st.markdown(f"{without} of {len(numbers)} medians have no 99 % interval: it needs 8 launches.")
st.caption(
    "Point: median of the launch medians; bar: its 99 % interval. Dashed line: the same commit was "
    "measured again, so a step along it is the environment's, not the code's. A new version of the "
    f"workload breaks the line. {LEGEND}"
)
st.caption(plain(how_judged(judged.judged, machine, series)))
if len(changes):
    st.subheader("Changes")
    parts.table(changes.drop(columns="x"), "trend-changes")
    st.caption(
        "At the vertical lines: solid where this series changed, dashed where its machine did. "
        "Change: of the time, so + is slower. More on the page Changes."
    )
st.subheader("Every point")
shown = found.sort_values("started_at", ascending=False)
parts.table(shown[COLUMNS].rename(columns={"commit8": "commit", "number": "median"}), "trend", rows)
