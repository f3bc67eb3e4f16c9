"""One family of one run: its answers, those of them that are chosen with chart and figures, what
has no number and why, every case."""

import answers
import choose
import data
import parts
import streamlit as st
from derive import hover
from words import LEGEND, device, hardware, named, only, plain, when

from hostbench import families

DRAWN, MOST = 2, 8  # answers with a chart where none is chosen, and at most
SHOWN_HEIGHT = 330
COLUMNS = "case status number interval rate asyncness launches reason flags".split()

st.title("Families")
folder = parts.opened()
found = data.runs(folder)
left, middle, right, last = st.columns([2, 2, 3, 2])
machines = data.machines(folder)
newest = data.newest_of(folder, machines[0])
latest = newest[newest["started_at"] == newest["started_at"].max()]
with left:
    came_to = set(latest["family"])
    order = sorted(families.names(), key=lambda one: one not in came_to)
    family = choose.one("family", "Family", order, drops=("run", "device", "trace", "question"))
if family in families.broken():
    parts.stop(plain(families.broken()[family]))
having = [one for one in machines if (data.newest_of(folder, one)["family"] == family).any()]
with middle:
    order = [*having, *(one for one in machines if one not in having)]
    machine = choose.one("machine", "Machine", order, drops=("run", "device"))
newest = data.newest_of(folder, machine)
mine = found[found["machine"] == machine]
first = [str(one) for one in newest["run_id"][newest["family"] == family]]
names = named(mine)
order = [*first, *(name for name in names if name not in first)]
with right:
    run_id = choose.one_of_many(
        "run", "Run", order, lambda one: names.get(one, one), drops=("device",)
    )
by_device = data.family_run(folder, machine, run_id, family)
if not by_device:
    st.info(plain(f"This run has no case of {family}."))
    st.markdown("Measure it:")
    st.code(f"hostbench run {family}", language="bash")
    parts.end()
with last:
    rows, told, untold = by_device[choose.one("device", "Device", list(by_device), device)]

about = [hardware(rows), f"{machine} · {when(rows['started_at'].iloc[0])}"]
st.caption(plain(f"{' · '.join(about)} · torch {only(rows, 'torch')}"))
listed = answers.listed(told).drop(columns="family")
questions = list(listed["question"])
if told:
    asked = choose.some_rows(
        "question",
        f"its chart and figures; up to {MOST} rows",
        listed,
        questions,
        height=SHOWN_HEIGHT if len(told) > 8 else "content",
        selection_mode="multi-row",
        column_config=answers.COLUMNS,
    )
    parts.save(listed.drop(columns="shape"), f"{family}-answers")
    with_chart = [one.question for one in told if one.chart is not None]
    asked = asked or with_chart[:DRAWN] or questions
    columns = st.columns(2)
    for number, one in enumerate([one for one in told if one.question in asked][:MOST]):
        with columns[number % 2]:
            answers.whole(one, about, machine)
answers.not_answered(untold)
parts.beside_the_numbers(rows, family)


def every_case() -> None:
    table = hover(rows)
    table["asyncness"] = 1 - table["call_s"] / table["seconds"]
    parts.table(table[COLUMNS].rename(columns={"number": "median"}), family, rows)


parts.folded(f"Every case: {len(rows)}", "every case", every_case)
st.caption(
    "Point or bar: median of the launch medians; line on it: its 99 % interval, from 8 launches "
    "on. Crossed out: failed a proof, and counts for nothing. A winner or a factor is named only "
    f"where the launches establish it. {LEGEND}"
)
