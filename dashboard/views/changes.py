"""What broke, where, since when, likely why, and what somebody has said of it."""

from collections.abc import Sequence
from typing import Literal

import choose
import pandas as pd
import parts
import streamlit as st
from derive_changes import (
    ALONG,
    FAILS,
    IN_TRIAGE,
    OLD,
    PROVISIONAL,
    commands,
    counts,
    evidence,
    heading,
    is_reset,
    listed,
    not_listed,
    nothing,
    table,
    triage_warnings,
)
from words import plain

from hostbench.report import changes, choice, event_words
from hostbench.report import table as report_table
from hostbench.report.judged import RECENT, ExplainedEvent
from hostbench.store.triage import STATES

SHOWN = 20  # so many causes are drawn at once
ALL = "all machines"
BADGES: dict[str, tuple[str, Literal["red", "orange", "blue", "gray"]]] = {
    FAILS: (":material/error:", "red"),
    PROVISIONAL: (":material/hourglass_top:", "orange"),
    IN_TRIAGE: (":material/person_check:", "blue"),
    OLD: (":material/history:", "gray"),
}
NOTHING_TO_DO: tuple[str, Literal["gray"]] = (":material/info:", "gray")


def badges(block: Sequence[ExplainedEvent]) -> None:
    """What the events of a block are, in words; how many of each where they differ."""
    found = {name: num for name, num in counts(block).items() if num}
    with st.container(horizontal=True, gap="small"):
        for name, num in found.items():
            icon, color = BADGES.get(name, NOTHING_TO_DO)
            of_many = f"{num} of {len(block)} " if num < len(block) else ""
            st.badge(f"{of_many}{name}", icon=icon, color=color)


def show(block: Sequence[ExplainedEvent], along: str) -> None:
    """One cause: what it is, the evidence, its series, and how to take it up."""
    with st.container(border=True):
        st.subheader(plain(heading(block)))
        badges(block)
        st.markdown(_listed(evidence(block)))
        parts.table(table(block, along))
        said = commands(block, folder)
        if said:
            with st.expander("Say what it is (triage)"):
                st.caption(f"Or, in place of investigating: {', '.join(STATES[:3])}.")
                st.code(said, language="bash", wrap_lines=True)


def part(blocks: list[list[ExplainedEvent]]) -> list[list[ExplainedEvent]]:
    """Those that are chosen of many; the first by default."""
    num = len(blocks)
    starts = [str(start) for start in range(1, num + 1, SHOWN)]
    begin = int(
        choose.one(
            "from",
            "Causes",
            starts,
            lambda start: f"{start} to {min(num, int(start) + SHOWN - 1)} of {num}",
        )
    )
    return blocks[begin - 1 : begin - 1 + SHOWN]


def lines(title: str, told: Sequence[str]) -> None:
    """Under a heading; many of them in part."""
    if told:
        st.subheader(title)
        st.markdown(_listed(told[:SHOWN]))
    if told[SHOWN:]:
        with st.expander(f"{len(told) - SHOWN} more"):
            st.markdown(_listed(told[SHOWN:]))


def _listed(told: Sequence[str]) -> str:
    return "\n".join(f"- {plain(text)}" for text in told)


st.title("What changed")
folder = parts.opened()
left, right = st.columns([2, 3])
with right, st.container(horizontal=True, vertical_alignment="bottom", gap="large"):
    along = choose.either("axis", "Judged along", list(ALONG))
    every = choose.yes("everything", "Everything", default=False)
axis = ALONG[along]
found = parts.changes(folder, axis)
names = sorted({own.grid.machine for own in found.judged})
with left:
    name = choose.one("machine", "Machine", [ALL, *names])
machine = None if name == ALL else name
parts.warnings(triage_warnings(found.triage, pd.Timestamp.now("UTC")), "about triage")

told = [one for one in found.told if machine in (None, one.found.grid.machine)]
shown = listed(told, every)
asked = choice.choose(found.judged, choice.Request.read([]), machine)
stopped = choice.stopped(asked)
failing = sum(one.status == "failed" and one.is_newest for one, _ in stopped)
if failing:
    st.warning(f"{failing} series that had numbers fail in their machine's newest run: see below.")
with st.container(horizontal=True):
    for title, number in counts(shown).items():
        st.metric(title, number, width=130, border=True)
if shown:
    blocks = event_words.by_cause(shown)
    if len(blocks) > SHOWN:
        blocks = part(blocks)
    for block in blocks:
        show(block, along)
    parts.save(pd.DataFrame(report_table.plain(changes.of_events(shown))), "changes")
else:
    st.info(plain(nothing(asked, axis)))
lines("Series that stopped", [event_words.stopped_in_words(*one) for one in stopped])
lines("Baseline resets", event_words.resets(one.found for one in told if is_reset(one)))
lines("What was judged", [*not_listed(told, shown), *event_words.summary(asked, axis)])
st.caption(
    f"Fails now: slower, confirmed, still there, begun within the machine's newest {RECENT} runs, "
    "and not in triage: `hostbench changes` ends with exit code 1. Provisional: from the last "
    "few points alone. In triage: an entry counts for it. Old: confirmed and still there, "
    "begun before those runs. What got faster, is over or was ended by a baseline reset asks for "
    "nothing. Change: of the time, so + is slower; smallest detectable: what 20 points of the "
    "series would confirm."
)
