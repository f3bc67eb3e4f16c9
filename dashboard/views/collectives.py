"""All-reduce: rate, scaling and time over ranks and bytes."""

import charts_collectives
import parts
import streamlit as st
from derive_collectives import all_reduces
from words import LEGEND, hardware, missing, only, plain

from hostbench.report.collectives import backend_of

COLUMNS = {
    "ranks": "ranks",
    "size": "size",
    "status": "status",
    "number": "median",
    "interval": "interval",
    "bus": "bus GB/s",
    "algorithm": "algorithm GB/s",
    "scaling": "scaling efficiency",
    "launches": "launches",
    "reason": "reason",
    "flags": "flags",
}

st.title("How does all-reduce scale?")
rows = parts.one_run("collectives")
found = all_reduces(rows)
numbers = found[found["seconds"].notna()]
if numbers.empty:
    st.info("No all-reduce of this run has a number. The reasons:")
    parts.beside_the_numbers(rows, "collectives")
    st.stop()

backend = backend_of(only(rows, "device"))
about = [
    f"{hardware(rows)} · all-reduce by {backend}",
    f"{only(rows, 'machine')} · {numbers['when'].iloc[0]}",
]
if numbers["hollow"].any():
    about.append("Hollow: oversubscribed, more ranks than cores.")
left, right = st.columns(2)
if numbers["bus"].notna().any():
    limits = charts_collectives.rate_limits(numbers)
    title = "Bus bandwidth over ranks"
    chart = charts_collectives.rate(found, "bus", title, about, limits)
    left.altair_chart(chart, width="stretch")
    title = "Algorithm bandwidth over ranks"
    chart = charts_collectives.rate(found, "algorithm", title, about, limits)
    right.altair_chart(chart, width="stretch")
    left, right = st.columns(2)
    if found["scaling"].notna().any():
        chart = charts_collectives.scaling(found, "Scaling efficiency over ranks", about)
        left.altair_chart(chart, width="stretch")
    else:
        left.info("No number of ranks above 1 has a valid number: no scaling efficiency.")
else:
    left.info(
        "No number of ranks above 1 has a number here, and one rank sends nothing: no bandwidth "
        "is defined, and no scaling."
    )
chart = charts_collectives.time(found, "Time of one all-reduce over bytes", about)
right.altair_chart(chart, width="stretch")

hollow = sorted(set(numbers["ranks"][numbers["hollow"]]))
if hollow:
    counts = " and ".join(str(num) for num in hollow)
    st.markdown(
        plain(
            f"Oversubscribed at {counts} ranks: this machine has fewer cores, so ranks wait for "
            "each other's turn. These numbers are real, but they are about sharing cores, not "
            "about links."
        )
    )
st.caption(
    f"Point: median of the launch medians of the slowest rank, by {backend}; bar: its 99 % "
    "interval, from 8 launches on. S: bytes of each rank's buffer, n: ranks, t: time. Algorithm "
    "bandwidth S/t; bus bandwidth S/t * 2(n-1)/n, what each link must carry (nccl-tests): one "
    "rank sends nothing, so at 1 rank neither is defined, and a time is all there is. Scaling "
    "efficiency: bus bandwidth over that of the fewest ranks measured, from 2 up; dashed line: "
    "more ranks cost no bandwidth. A point with a cross failed its proof and counts for nothing. "
    f"{LEGEND}"
)
parts.beside_the_numbers(rows, "collectives")
st.subheader("Numbers")
shown = found[list(COLUMNS)].assign(
    **{
        name: ["" if missing(number) else f"{number:.3g}" for number in found[name]]
        for name in ("bus", "algorithm", "scaling")
    }
)
parts.table(shown.rename(columns=COLUMNS), "collectives", found)
