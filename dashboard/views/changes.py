"""What broke, where, since when, likely why, and what somebody has said of it."""

from collections.abc import Sequence
from typing import Literal

import choose
import data
import pandas as pd
import parts
import streamlit as st
from derive_changes import (
    ALONG,
    FAILS,
    OLD,
    PROVISIONAL,
    TAKEN_UP,
    commands,
    counts,
    csv,
    evidence,
    heading,
    listed,
    standing,
    table,
    triage_warnings,
)
from words import plain

from hostbench.report import choice, event_words
from hostbench.report.choice import Wanted
from hostbench.report.choice import choose as choose_of
from hostbench.report.judged import RECENT, Told
from hostbench.store.triage import STATES

FIRST = 20  # so many causes are open on the page
ALL = "all machines"
BADGES: dict[str, tuple[str, Literal["red", "orange", "blue", "gray"]]] = {
    FAILS: (":material/error:", "red"),
    PROVISIONAL: (":material/hourglass_top:", "orange"),
    TAKEN_UP: (":material/person_check:", "blue"),
    OLD: (":material/history:", "gray"),
}


def badges(block: Sequence[Told]) -> None:
    """What the events of a block are, in words; how many of each where they differ."""
    found = {name: num for name, num in counts(block).items() if num}
    with st.container(horizontal=True, gap="small"):
        for name, num in found.items():
            icon, color = BADGES[name]
            of_many = f"{num} of {len(block)} " if num < len(block) else ""
            st.badge(f"{of_many}{name}", icon=icon, color=color)


def show(block: Sequence[Told], found: data.Changes, along: str) -> None:
    """One cause: what it is, the evidence, its series, and how to take it up."""
    with st.container(border=True):
        st.subheader(plain(heading(block, found.workloads)))
        badges(block)
        st.markdown("\n".join(f"- {plain(text)}" for text in evidence(block)))
        parts.linked(table(block, found.workloads, along))
        said = commands(block, data.results_folder())
        if said and any(standing(one) != TAKEN_UP for one in block):
            with st.expander("Say what it is (triage)"):
                st.caption(f"Or, in place of investigating: {', '.join(STATES[:3])}.")
                st.code(said, language="bash", wrap_lines=True)


def more(told: Sequence[Told], shown: Sequence[Told], asked: Sequence[choice.Chosen]) -> None:
    """Breaks, series without a number, what is not listed, and how much was judged."""
    steps = [one.found for one in told if one.found.change.kind != "break"]
    kept = {id(one.found) for one in shown}
    left = event_words.rest(one for one in steps if id(one) not in kept)
    groups = {
        "Series that stopped": [
            event_words.stopped_in_words(*one) for one in choice.stopped(asked)
        ],
        "Breaks": event_words.breaks(one.found for one in told if one.found.change.kind == "break"),
        "What was judged": [*([left] if left else []), *event_words.summary(asked, AXIS)],
    }
    for title, lines in groups.items():
        if lines:
            st.subheader(title)
            st.markdown("\n".join(f"- {plain(line)}" for line in lines))


def nothing(asked: Sequence[choice.Chosen]) -> str:
    """Why no change is shown, in a sentence."""
    grids = [one.judged.grid for one in asked]
    if not any(grid.cases for grid in grids):
        return event_words.no_run(grids)
    counted = [pair for one in asked for pair in one.counted()]
    short = event_words.unjudged([own for own, _ in counted], (points for _, points in counted))
    return short or f"no change to show: {event_words.summary(asked, AXIS)[0]}"


st.title("What changed")
left, right = st.columns([2, 3])
with right, st.container(horizontal=True, vertical_alignment="bottom", gap="large"):
    along = choose.either("axis", "Judged along", list(ALONG), page="changes")
    every = choose.yes("everything", "Everything", default=False)
AXIS = ALONG[along]
found = parts.changes(AXIS)
names = sorted({own.grid.machine for own in found.judged})
with left:
    name = choose.one("machine", "Machine", [ALL, *names], page="changes")
machine = None if name == ALL else name
parts.warnings(triage_warnings(found.triage, pd.Timestamp.now("UTC")), "about triage")

told = [one for one in found.told if machine in (None, one.found.grid.machine)]
shown = listed(told, every)
asked = choose_of(found.judged, Wanted.read([]), machine)
with st.container(horizontal=True):
    for title, number in counts(shown).items():
        st.metric(title, number, width=130, border=True)
if shown:
    blocks = event_words.by_cause(shown)
    if len(blocks) > FIRST and not choose.yes(
        "all", f"Show all {len(blocks)} causes, not only the first {FIRST}", default=False
    ):
        blocks = blocks[:FIRST]
    for block in blocks:
        show(block, found, along)
    parts.save(csv(shown), "changes")
else:
    sentence = nothing(asked)
    st.info(plain(sentence[0].upper() + sentence[1:] + "."))
more(told, shown, asked)
st.caption(
    f"Fails now: slower, confirmed, still there, begun within the machine's newest {RECENT} runs, "
    "and taken up by nobody: `hostbench changes` ends with exit code 1. Provisional: from the last "
    "few points alone. Taken up: an entry of triage counts for it. Old: confirmed and still there, "
    "begun before those runs. Change: of the time, so + is slower; smallest detectable: what 20 "
    "points of the series would confirm."
)
