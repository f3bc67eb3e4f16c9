"""A loop of copies and computes: how much of what could be hidden is hidden."""

import charts_loops
import charts_overlap
import pandas as pd
import parts
import streamlit as st
from derive_loops import most, orderings, ratios, trips
from derive_overlap import WORDS, groups, pipelines, refusals, side_stream
from words import LEGEND, hardware, known, missing, only, plain, when

from hostbench.core import units
from hostbench.families.overlap.loops import NUM_BATCHES

COLUMNS = {
    "size": "batch",
    "memory": "memory",
    "what": "loop",
    "status": "status",
    "number": "median",
    "interval": "interval",
    "ideal": "ideal (a bound)",
    "efficiency": "efficiency (99 % interval)",
    "refused": "no efficiency, because",
    "asyncness": "asyncness",
    "launches": "launches",
    "reason": "reason",
    "flags": "flags",
}


def where_it_pays(rows: pd.DataFrame, about: list[str]) -> None:
    """The ratio sweep, and the orderings by time and by memory."""
    swept = ratios(rows)
    if len(swept):
        st.subheader("Where overlap pays: more or less compute per copy")
        title = f"Copy stream, {swept['memory'].iloc[0]} memory"
        st.altair_chart(charts_loops.ratio(swept, title, about), width="stretch")
        st.caption(
            "Blue: efficiency with its 99 % interval, 1 is the ideal (dashed). Pale bars: share of "
            f"the serial loop's time that is saved. Pays most: {plain(most(rows))}. With less or "
            "more compute there is less to hide, however well it hides."
        )
    ways = orderings(rows)
    if len(ways):
        st.subheader("Ways to keep copy and compute in order")
        left, right = st.columns(2)
        name = "seconds per loop (lower is better)"
        time = charts_loops.bars(ways, "seconds", name, "said", "Time of the loop", about)
        left.altair_chart(time, width="stretch")
        if ways["peak_mib"].notna().any():
            name, title = "MiB (lower is better)", "Most device memory held"
            chart = charts_loops.bars(ways, "peak_mib", name, "said_peak", title, about)
            right.altair_chart(chart, width="stretch")
        else:
            right.info("The peak of device memory is not known: the allocator told none.")


def there_and_back(rows: pd.DataFrame, about: list[str]) -> None:
    for one in trips(rows):
        st.subheader(f"Round trip: in, compute, out, {NUM_BATCHES} batches of {one.size}")
        title = f"The whole loop, {one.memory} memory"
        st.altair_chart(charts_loops.round_trip(one, title, about), width="stretch")
        st.markdown(plain(" ".join(one.words)))


st.title("Do copies hide behind compute?")
rows = parts.one_run("overlap")
found = pipelines(rows[rows["workload"] == "overlap.pipeline"])
made = groups(found)
if not made and rows["seconds"].isna().all():
    st.info("No loop of this run has a number. The reasons:")
    parts.beside_the_numbers(rows, "overlap")
    st.stop()

about = [hardware(rows), f"{only(rows, 'machine')} · {when(rows['started_at'].iloc[0])}"]
for nbytes in dict.fromkeys(group.nbytes for group in made):
    size = units.format_bytes(nbytes)
    same = [group for group in made if group.nbytes == nbytes]
    of_size = found[found["batch_bytes"] == nbytes]
    st.subheader(f"{NUM_BATCHES} batches of {size}")
    schedules = [name for name in WORDS if name in set(of_size["schedule"])]
    columns = st.columns(len(same) + 1)
    for column, group in zip(columns, same, strict=False):
        title = f"The whole loop, {group.memory} memory"
        chart = charts_overlap.bars(group, schedules, title, about)
        column.altair_chart(chart, width="stretch")
    with columns[-1]:
        if (of_size["efficiency"] + of_size["refused"]).any():
            chart = charts_overlap.efficiency(
                of_size, "How much of the possible gain was had", about
            )
            st.altair_chart(chart, width="stretch")
        else:
            st.info("No overlapped loop of this size has a valid number.")

for text in [*side_stream(found), *refusals(found)]:
    st.markdown(plain(text))
without = found.groupby("memory").filter(lambda of_memory: of_memory["seconds"].isna().all())
for memory, lacking in without.groupby("memory"):
    reasons = dict.fromkeys(known(one, "no reason stored") for one in lacking["reason"])
    st.markdown(plain(f"No number from {memory} memory: {'; '.join(reasons)}."))
st.caption(
    "Bar: median of the launch medians of the whole loop, end to end; line on it: its 99 % "
    "interval, from 8 launches on. Pale grey: one half of the work alone. Dashed line: the ideal "
    "with one copy engine, computed from the two halves; a bound, not a measurement. Efficiency = "
    "(serial - loop) / (serial - ideal) within each launch: 0 gains nothing, 1 reaches the bound, "
    "less than 0 is slower than serial; an interval that leaves the chart is written out. It is "
    "refused where noise hides the possible gain. The compute of a batch lasts as long as its copy "
    "from the same memory, so each memory has its own axis: compare the efficiency. A pale bar "
    f"with a cross failed its proof and counts for nothing. {LEGEND}"
)
where_it_pays(rows, about)
there_and_back(rows, about)
parts.beside_the_numbers(rows, "overlap")
st.subheader("Numbers")
ideals = {(group.nbytes, group.memory): group.ideal_s for group in made}
keys = zip(found["batch_bytes"], found["memory"], strict=True)
bounds = [ideals.get((int(nbytes), memory)) for nbytes, memory in keys]
found["ideal"] = [units.format_seconds(bound) if bound else "" for bound in bounds]
shown = found[list(COLUMNS)].assign(
    asyncness=["" if missing(one) else f"{one:.2f}" for one in found["asyncness"]]
)
parts.table(shown.rename(columns=COLUMNS), "overlap", found)
