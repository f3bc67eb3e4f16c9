"""What the newest runs say, what changed, and which machines there are."""

from collections import Counter
from functools import partial

import charts
import data
import parts
import streamlit as st
import words
from words import ago, plain

from hostbench import families
from hostbench.core.units import number_of
from hostbench.families.question import Picture
from hostbench.judge.events import FAILS, FASTER, IN_TRIAGE, OLD, PROVISIONAL
from hostbench.judge.history import Series
from hostbench.report.changes import STATE_WORDS, causes
from hostbench.report.picture import few, picture_of

TOP, RECENT = 6, 30
LASTING = (FAILS, PROVISIONAL, IN_TRIAGE, OLD, FASTER)

store = data.opened()
names = parts.machines(store)
runs = parts.runs(store)
judged = data.judged(store)
series = [own for own in judged.series if own.machine in names]
changes = causes(parts.events(judged, names))
fails = [event for cause in changes for event in cause.events if event.fails]
number = Counter(cause.worst.state for cause in changes)
newest = runs.iloc[0]
badges = []
if fails:
    on = number_of(len({event.machine for event in fails}), "machine")
    since = f"{min(event.first.committed_at for event in fails):%Y-%m-%d}"
    badges.append(f":orange-badge[{number_of(number[FAILS], 'regression')} on {on} since {since}]")
elif any(own.judged for own in series):
    badges.append(":gray-badge[no new regression]")
for state in (PROVISIONAL, OLD):
    if number[state]:
        badges.append(f":gray-badge[{number[state]} {STATE_WORDS[state]}]")
failing = runs.drop_duplicates("machine").query("failed > 0")
if len(failing):
    cases, on = number_of(int(failing["failed"].sum()), "case"), ", ".join(failing["machine"])
    badges.append(f":red-badge[{cases} failed in the newest run of {plain(on)}]")
kind = plain(newest["scratch"]) if isinstance(newest["scratch"], str) else "newest run"
badges.append(f":blue-badge[{kind}, {ago(newest['started_at'])}]")
setup = plain(f"{newest['machine']}, {newest['name']}, {newest['hardware']}")
with st.container(horizontal=True, vertical_alignment="center"):
    st.markdown(f"{' '.join(badges)} :small[:gray[{setup}]]", width="stretch")
    if st.toggle("Auto-refresh", key="refresh", bind="query-params"):
        parts.refresh(store)


def card(picture: Picture) -> None:
    """A question: the answer of the newest run that has it, and its picture over the newest run of
    each machine."""
    workload, query = picture.workload, {"q": picture.choice}
    is_own = picture.choice not in words.PICTURES
    if is_own:  # a workload of a project
        query = {"q": "Other", "workload": workload}
    own = parts.newest(store, [workload])
    if own and picture.choice == next(iter(words.PICTURES)):
        query = {}  # a default leaves the address at once, which would be one more step back
    parts.link("curves", f"**{plain(picture.text)}**", **query)
    if not own:
        st.markdown(f"not measured here: `hostbench run {workload.partition('.')[0]}`")
        return
    drawn = few(picture, data.rows_of_runs(store, tuple(own), (workload,)))
    best = data.answer(store, *own[0], workload, frozenset(row.case for row in drawn))
    says = f"{best.headline()}. {best.at}" if best else "Too few cases for an answer."
    if best and (not best.shared or best.shared[0] in best.headline()):  # the size
        says = f"{best.headline()}."
    says = f"{best.question} {says}" if best and is_own else says
    ideal_s = data.ideal_s(best) if len(own) == 1 else None  # of one machine
    svg, description = data.small_picture(store, picture.choice, tuple(own), parts.ink(), ideal_s)
    where = data.measured_in(data.rows_of_runs(store, (own[0],), (workload,)))
    if len(names) > 1:
        where += f"; drawn: {len(own)} of {len(names)} machines"
    where = plain("; ".join(filter(None, (description, where))))
    st.markdown(f"{plain(says)}  \n:small[:gray[{where}]]")
    if svg:
        parts.picture(svg, f"{picture.text}: {says}")


def trend_card(own: Series) -> None:
    """A series over its runs."""
    rows = parts.within(data.trend(store, own.machine, own.case), "committed_at")
    rows = rows[(rows["group"] == own.group) & rows["committed_at"].notna()]
    name = words.workload(own.case.partition("[")[0])
    parts.link("trend", f"**{plain(name)}**", case=own.case)
    if rows.empty:
        st.caption("no run with a date")
        return
    svg = data.small_trend(store, (own.case, own.group), parts.time_range(), parts.ink(), rows)
    parts.picture(svg, f"{own.id}: {own.points} runs")
    st.caption(plain(f"{words.case(own.case)}, {own.machine}"))


pictures = [own for own in words.PICTURES.values() if own.has_card]
if not parts.newest(store, [own.workload for own in pictures]):  # a project's own workloads
    measured = data.measured(store, str(newest["machine"]), str(newest["run_id"]))
    known = (name for name in sorted(measured) if name.partition(".")[0] in families.known())
    pictures = [picture_of(workload) for workload in known]
cards = [partial(card, own) for own in pictures]
if not cards:  # another project's: of its workloads what changed, then what has the most runs
    ids = {event.id for event in judged.events}
    first = dict[str, Series]()
    for own in sorted(series, key=lambda own: (own.id not in ids, -own.points)):
        if own.points:
            first.setdefault(own.case.partition("[")[0], own)
    cards = [partial(trend_card, own) for own in first.values()]
for column, draw in zip(st.columns(min(4, max(2, len(cards)))), cards, strict=False):
    with column.container(border=True, height="stretch"):
        draw()

st.subheader("What changed", anchor=False)
lasting = [cause for cause in changes if cause.worst.state in LASTING]
parts.changes(lasting[:TOP], series)
if not lasting:
    is_judged = any(own.judged for own in series)
    st.caption("No change that lasts." if is_judged else parts.not_judged(series))

st.subheader("Machines", anchor=False)
st.caption(f"The newest {RECENT} runs of each machine at most; Runs and machines shows all.")
recent = charts.dots(runs.groupby("machine").head(RECENT))
if dot := parts.chart(recent, "machines", "the runs of each machine over time"):
    parts.go("runs", of=f"{dot['run_id']}@{dot['machine']}")
