"""One family of one run: its questions with charts, what has no number and why, every case."""

import answers
import choose
import data
import parts
import pictures
import streamlit as st
from derive import hover
from words import LEGEND, device, hardware, only, plain, run, when

from hostbench import families
from hostbench.families import load

COLUMNS = "case status number interval rate asyncness launches reason flags".split()

st.title("What one family says")
folder = parts.opened()
found = data.runs(folder)
left, middle, right, last = st.columns([2, 2, 3, 2])
machines = data.machines(folder)
newest = data.newest_of(folder, machines[0])
latest = newest[newest["started_at"] == newest["started_at"].max()]
with left:
    came_to = set(latest["family"])
    order = sorted(families.names(), key=lambda one: one not in came_to)
    family = choose.one("family", "Family", order, drops=("run", "device", "trace"))
if family in families.broken():
    parts.stop(plain(families.broken()[family]))
having = [one for one in machines if family in set(data.newest_of(folder, one)["family"])]
with middle:
    order = [*having, *(one for one in machines if one not in having)]
    machine = choose.one("machine", "Machine", order, drops=("run", "device"))
newest = data.newest_of(folder, machine)
mine = found[found["machine"] == machine]
first = [str(one) for one in newest["run_id"][newest["family"] == family]]
names = {str(run_id): run(some) for run_id, some in mine.groupby("run_id", sort=False)}
order = [*first, *(name for name in names if name not in first)]
with right:
    run_id = choose.one("run", "Run", order, names.__getitem__, drops=("device",))
rows = data.rows_of(folder, machine, run_id)
rows = rows[(rows["family"] == family) & rows["workload"].isin(list(load((family,))))]
if rows.empty:
    st.info(plain(f"This run has no case of {family}."))
    st.markdown("Measure it:")
    st.code(f"hostbench run {family}", language="bash")
    st.stop()
with last:
    devices = [str(one) for one in dict.fromkeys(rows["device"].dropna())] or ["cpu"]
    chosen = choose.one("device", "Device", devices, device)
rows = rows[(rows["device"] == chosen) | rows["device"].isna()]

about = [hardware(rows), f"{machine} · {when(rows['started_at'].iloc[0])}"]
st.caption(plain(f"{' · '.join(about)} · torch {only(rows, 'torch')}"))
told, untold = answers.of_family(rows)
peers = data.peers_of(folder, machine)
shown = [answers.with_peers(one, peers) for one in told]
columns = st.columns(2)
for number, one in enumerate(shown):
    with columns[number % 2]:
        answers.whole(one, about, f"{family}-{number + 1}")
answers.not_answered(untold)
pictures.of_time(folder, machine, family, chosen)
parts.beside_the_numbers(rows, family)
st.subheader("Every case")
table = hover(rows)
table["asyncness"] = 1 - table["call_s"] / table["seconds"]
parts.table(table[COLUMNS].rename(columns={"number": "median"}), family, rows)
st.caption(
    "Point or bar: median of the launch medians; line on it: its 99 % interval, from 8 launches "
    "on. Crossed out: failed a proof, and counts for nothing. A winner or a factor is named only "
    f"where the launches establish it. {LEGEND}"
)
