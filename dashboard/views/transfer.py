"""What one copy costs: rate over size, and whether the call waits for it."""

import charts_family
import parts
import streamlit as st
from derive import copies
from words import DIRECTIONS, LEGEND, hardware, only

COLUMNS = (
    "direction size mode status rate number interval asyncness launches reason flags"
).split()

st.title("How fast is a copy, and does the call wait?")
rows = parts.one_run("transfer")
found = copies(rows[rows["workload"].isin(list(DIRECTIONS))])
numbers = found[found["seconds"].notna()]
if numbers.empty:
    st.info("No copy of this run has a number. The reasons:")
    parts.beside_the_numbers(rows, "transfer")
    st.stop()

about = [hardware(rows), f"{only(rows, 'machine')} · {numbers['when'].iloc[0]}"]
top = 1.08 * max(numbers["gb_per_s"].max(), numbers["rate_high"].fillna(0).max())
for column, (name, direction) in zip(st.columns(2), DIRECTIONS.items(), strict=True):
    one_way = numbers[numbers["workload"] == name]
    if len(one_way):
        title = f"Rate of one copy, {direction}"
        column.altair_chart(charts_family.rate(one_way, title, about, top), width="stretch")
    else:
        column.info(f"No number for {direction} in this run.")

with_call = numbers[numbers["asyncness"].notna()]
if with_call.empty:
    st.info("Asyncness needs the call's own clock, which only hostbench's archive holds.")
else:
    for column, (name, direction) in zip(st.columns(2), DIRECTIONS.items(), strict=True):
        one_way = with_call[with_call["workload"] == name]
        if len(one_way):
            title = f"Asyncness, {direction}"
            column.altair_chart(charts_family.asyncness(one_way, title, about), width="stretch")
st.caption(
    "Point: median of the launch medians; bar: its 99 % interval, from 8 launches on. End to end "
    "is the copy and one synchronize; call is the time until the copy's call returns; asyncness is "
    f"1 - call / end to end. A point with a cross failed its proof and counts for nothing. {LEGEND}"
)
parts.beside_the_numbers(rows, "transfer")
st.subheader("Numbers")
parts.table(found[COLUMNS].rename(columns={"number": "median"}), "transfer", rows)
