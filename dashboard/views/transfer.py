"""What one copy costs: rate over size, whether the call waits, and the other ways to copy."""

import charts_transfer
import choose
import pandas as pd
import parts
import streamlit as st
from derive import copies
from derive_transfer import WAYS, conversions, limits_of, line, top_rate, ways
from words import DIRECTIONS, LEGEND, hardware, only, plain

from hostbench.report.words import fit_in_words

COLUMNS = (
    "direction size mode status rate number interval asyncness launches reason flags"
).split()


def over_size(numbers: pd.DataFrame, others: pd.DataFrame, about: list[str]) -> None:
    """Both directions side by side, as a rate with its limits or as a time."""
    device = only(numbers, "device")
    others = others[others["workload"].isin(list(DIRECTIONS)) & (others["device"] == device)]
    top = top_rate(numbers, others)
    as_rate = choose.either("show", "Show", ["rate", "time"]) == "rate"
    said = []
    for column, (name, direction) in zip(st.columns(2), DIRECTIONS.items(), strict=True):
        one_way = numbers[numbers["workload"] == name]
        if one_way.empty:
            column.info(f"No number for {direction} in this run.")
            continue
        known, limits = line(one_way), limits_of(one_way)
        if as_rate:
            title, peers = f"Rate of one copy, {direction}", others[others["workload"] == name]
            lines = [*about, *limits.words]
            chart = charts_transfer.rate(one_way, peers, limits, known, title, lines, top)
        else:
            chart = charts_transfer.time(one_way, f"Time of one copy, {direction}", about)
        column.altair_chart(chart, width="stretch")
        if known:
            said.append(f"{direction}, {known.mode}: {fit_in_words(known.fit)}.")
    for text in said:
        st.markdown(plain(text))


def waiting(numbers: pd.DataFrame, about: list[str]) -> None:
    with_call = numbers[numbers["asyncness"].notna()]
    if with_call.empty:
        st.info("Asyncness needs the call's own clock, which only hostbench's archive holds.")
        return
    for column, (name, direction) in zip(st.columns(2), DIRECTIONS.items(), strict=True):
        one_way = with_call[with_call["workload"] == name]
        if len(one_way):
            title = f"Asyncness, {direction}"
            column.altair_chart(charts_transfer.asyncness(one_way, title, about), width="stretch")


def other_ways(rows: pd.DataFrame, about: list[str]) -> None:
    """A small chart of bars for each further workload, and what conversions really copied."""
    made = {workload: ways(rows, workload) for workload in WAYS}
    made = {workload: found for workload, found in made.items() if len(found)}
    if not made:
        return
    st.subheader("Other ways to copy")
    columns = st.columns(2)
    for place, (workload, found) in enumerate(made.items()):
        sizes = only(found, "size") if WAYS[workload][1] != ("nbytes",) else "by size"
        title = f"{WAYS[workload][0]}, {sizes}"
        with columns[place % 2]:
            st.altair_chart(charts_transfer.bars(found, title, about[:1]), width="stretch")
    st.caption(
        "Bar: median of the launch medians at the largest size, end to end; behind it the time and "
        "the bytes over the time. Orange pageable, blue pinned memory. Cold: the allocator's cache "
        "was emptied before; warm: it has a block. A pale bar with a cross failed its proof."
    )
    seen = conversions(rows)
    if len(seen):
        st.subheader("What conversions really copied")
        parts.wrapped(seen, "conversions")


st.title("How fast is a copy, and does the call wait?")
rows, others = parts.one_run("transfer"), parts.peers()
found = copies(rows[rows["workload"].isin(list(DIRECTIONS))])
numbers = found[found["seconds"].notna() & (found["seconds"] > 0)]
about = [hardware(rows), f"{only(rows, 'machine')} · {only(found, 'when', 'no plain copy')}"]
if numbers.empty:
    st.info("No copy of this run has a number. The reasons:")
else:
    over_size(numbers, others, about)
    waiting(numbers, about)
    st.caption(
        "Point: median of the launch medians; bar: its 99 % interval, from 8 launches on. End to "
        "end is the copy and one synchronize; call is the time until the copy's call returns; "
        "asyncness is 1 - call / end to end. Dashed green: the ceiling of the link; grey band: "
        "published figures for this hardware; star: nvbandwidth on this machine. Thin grey: "
        "seconds = latency + bytes / bandwidth, fitted to the relative errors; n1/2: the size with "
        "half of that bandwidth. A cross failed its proof and counts for nothing; a ring marks a "
        f"surprise, which is listed below. {LEGEND}"
    )
other_ways(rows, about)
parts.beside_the_numbers(rows, "transfer")
if len(numbers):
    st.subheader("Numbers")
    parts.table(found[COLUMNS].rename(columns={"number": "median"}), "transfer", rows)
