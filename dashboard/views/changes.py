"""A row for each commit or fact that moved numbers; of one of them picture, evidence, commands."""

from collections import Counter

import data
import pandas as pd
import parts
import streamlit as st
import words
from words import plain

from hostbench.core.units import number_of
from hostbench.judge.events import STATES
from hostbench.report.changes import (
    STATE_WORDS,
    causes,
    commands,
    entry_in_words,
    evidence_lines,
    table,
)
from hostbench.store import triage

ANY = "all"
TOP, HEIGHT, EACH_SIDE = 6, 300, 30
EVENTS = "series machine effect low high before_s after_s detects state committed_at".split()

store = data.opened()
names = parts.machines(store)
judged = data.judged(store)
series = [own for own in judged.series if own.machine in names]
if store.folder:
    triage.read(store.folder, lambda text: st.warning(plain(text)))
if not any(own.judged for own in series):
    parts.compare_now(store, parts.not_judged(series))
rows = causes(parts.events(judged, names))
if not rows:
    num = number_of(sum(own.judged for own in series), "series", "series")
    parts.empty(f"No change in {num} on these machines in this time.")
number = Counter(cause.worst.state for cause in rows)
states = [state for state in STATES if number[state]]
label = ", ".join(f"{STATE_WORDS[state]}: {number[state]}" for state in states)
wanted = parts.choice(label, [ANY, *states], "state", lambda name: STATE_WORDS.get(name, name))
rows = [cause for cause in rows if wanted in (ANY, cause.worst.state)]
by_key = {cause.key: cause for cause in rows}
asked = st.query_params.get("change", rows[0].key)
picked = by_key.get(asked, rows[0])
parts.changes(rows[:TOP], judged.series, picked.key)
others = rows[TOP : parts.MOST_LINKS]
if others:
    label = f"{len(rows) - TOP} more" + f", {len(others)} shown" * (len(rows) > parts.MOST_LINKS)
    listed = {"the others": lambda: parts.changes(others, judged.series, picked.key)}
    parts.shown(listed, "more", label)
if asked not in by_key:
    st.caption("The change of the link is not here: the first one is shown.")

worst = picked.worst
st.subheader(plain(f"{words.change(picked)} {picked.title}"), anchor=False)
where = f"{number_of(picked.num_series, 'series', 'series')} on {', '.join(picked.machines)}"
st.markdown(plain(f"{STATE_WORDS[worst.state]}, since {picked.since:%Y-%m-%d}, {where}"))
left, right = st.columns([3, 2])
with left:
    longest = max((own for own in series if own.group == worst.group), key=lambda own: own.points)
    case = worst.case or longest.case
    example = "" if worst.case else "the whole machine moved; drawn: "
    st.caption(plain(f"{worst.group}: {example}{words.case(case)}"))
    every = data.trend(store, worst.machine, case).query("group == @worst.group")
    every = every[every["committed_at"].notna()].sort_values("committed_at", kind="stable")
    start = int((every["committed_at"] < worst.first.committed_at).sum())
    near = every.iloc[max(0, start - EACH_SIDE) : start + EACH_SIDE]
    _, spec = data.trends(store, ((case, worst.group),), picked.key, [near], height=HEIGHT)
    point = parts.chart(spec, "around", f"{case}@{worst.group} before and after {picked.title}")
    if point:
        parts.go("runs", of=f"{point['run_id']}@{worst.machine}")
    parts.link("trend", "the whole series", case=case)
with right:
    if picked.num_series > 1:
        st.caption("Evidence for the largest change:")
    parts.listed(evidence_lines(worst))
    entries = Counter(entry_in_words(event) for event in picked.events if event.triage)
    for text, of_events in entries.items():
        share = f" ({of_events} of {len(picked.events)} events)"
        st.markdown(plain(text + share * (of_events < len(picked.events))))
    typed = commands(worst, store.folder or store.results).splitlines()
    st.markdown("\n\n".join(map(words.code, typed)))


def moved() -> None:
    """Every change that has this cause; a click leads to its series."""
    by_id = {event.id: event for event in picked.events}
    rows = pd.DataFrame(table(picked.events).rows)
    events = [by_id[name] for name in rows["series"]]
    cases = [words.case(event.case) or "the whole machine" for event in events]
    rows = rows.assign(series=cases, machine=[event.group for event in events])[EVENTS]
    row = parts.clicked(rows, "each", percent=("effect", "low", "high", "detects"))
    if row is not None and events[row].case:
        parts.go("trend", case=events[row].case)


parts.shown({"events": moved})
