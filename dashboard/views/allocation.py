"""A new tensor: made on the CPU and moved, or made where it is used."""

import charts_family
import parts
import streamlit as st
from derive import decades, hover
from words import LEGEND, hardware, only

COLUMNS = "size fill place status number interval launches reason flags".split()

st.title("Create on the CPU and move, or create on the device?")
rows = parts.one_run("allocation")
found = hover(rows)
numbers = found[found["seconds"].notna()]
if numbers.empty:
    st.info("No allocation of this run has a number. The reasons:")
    parts.beside_the_numbers(rows, "allocation")
    st.stop()

about = [hardware(rows), f"{only(rows, 'machine')} · {numbers['when'].iloc[0]}"]
limits = decades(numbers["seconds"])
fills = list(dict.fromkeys(numbers["fill"]))
for column, fill in zip(st.columns(len(fills)), fills, strict=True):
    title = f"A new float32 tensor, torch.{fill}"
    chart = charts_family.two_places(numbers[numbers["fill"] == fill], title, about, limits)
    column.altair_chart(chart, width="stretch")
st.caption(
    "Bar: median of the launch medians, end to end: making the tensor, moving it, dropping the "
    "last one. The axis is logarithmic: read the times on the bars. A pale bar with a cross failed "
    f"its proof and counts for nothing. {LEGEND}"
)
parts.beside_the_numbers(rows, "allocation")
st.subheader("Numbers")
parts.table(found[COLUMNS].rename(columns={"number": "median"}), "allocation", rows)
