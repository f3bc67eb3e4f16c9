"""Two commits, machines, versions or runs: what is slower, faster, the same, undecided."""

import choose
import data
import parts
import pyarrow as pa
import stored
import streamlit as st
from derive_compare import (
    KINDS,
    MOST_DRAWN,
    NOT_SHOWN,
    counted,
    forest,
    geometric_mean,
    names,
)
from words import environment, named, plain

from hostbench.core.errors import HostbenchError
from hostbench.report.charts import Spec

ANY, CHANGED = "all machines", "slower or faster"

st.title("Compare")
folder = parts.opened()
runs = data.sides(folder)
left, first, second, right = st.columns([1.2, 2, 2, 1.6])
kinds = [kind for kind in KINDS if runs[kind].nunique() > 1] or ["commit"]
with left:
    kinds.append("run")
    drops = ("first", "second", "machine")
    kind = choose.one("kind", "Of", kinds, lambda one: KINDS.get(one, "runs"), drops=drops)
column = "run_id" if kind == "run" else kind
with right:
    machines = [ANY, *data.machines(folder)]
    machine = ANY if kind == "machine" else choose.one("machine", "Machine", machines)
some = runs if machine == ANY else runs[runs["machine"] == machine]
known = names(some, column)
if kind == "machine":
    known = [one for one in data.machines(folder) if one in known]
if len(known) < 2:
    parts.stop(f"There is one of {KINDS.get(kind, 'runs')} here: nothing to compare it with.")
said = named(some) if kind == "run" else {}
if kind == "commit":
    said = {one: str(one)[:8] for one in known}
elif kind == "environment":
    said = {one: environment(one, known) for one in known}


def called(one: str) -> str:
    return said.get(one, one)


choose_side = choose.one_of_many if kind in ("commit", "run") else choose.one
before = choose.asked("first", known)
newest = known  # the default of After is no commit that Before was asked for
if before in known and "second" not in st.query_params:
    newest = sorted(known, key=lambda one: one == before)
with second:
    b = choose_side("second", "After", newest, called)
if before == b:
    parts.stop(f"Before and After are the same, {called(b)}: choose another After.")
others = [one for one in known if one != b]
if kind == "machine":
    simulated = data.every_machine(folder).simulated
    others = [one for one in others if (one in simulated) == (b in simulated)]
if not others:
    parts.stop(f"No other machine is {'simulated' if b in simulated else 'measured'} as this one.")
with first:
    a = choose_side("first", "Before", others, called)
prefix = "" if kind == "commit" else f"{kind}:"
sides = f"{prefix}{a}", f"{prefix}{b}"
try:
    made = data.comparison(folder, sides, None if machine == ANY else machine)
except HostbenchError as error:
    parts.stop(plain(error))
found = made.found
number = counted(found)
mean = geometric_mean(found)
if not found:
    parts.stop("No series has numbers on both sides.")
both = {CHANGED: number["slower"] + number["faster"], **number}
both = {**both, "all": len(found)} if both[CHANGED] else {"all": len(found), **both}
wanted = choose.counted("verdict", "Verdict", both)
with st.container(horizontal=True, vertical_alignment="center"):
    if mean is not None:
        st.markdown(f"geometric mean of after / before **{mean:.3f}**", width="content")
for note in made.notes:
    st.caption(plain(note.replace("`", "")))
verdicts = {CHANGED: ("slower", "faster"), "all": tuple(number)}.get(wanted, (wanted,))
rows = made.rows
shown = rows[rows["verdict"].str.removesuffix("?").isin(verdicts)]
if shown.empty:
    st.info(f"No series is {wanted}.")
else:

    def drawn() -> tuple[Spec, pa.Table]:
        chart = forest(shown, [f"{called(a)} -> {called(b)}"])
        return chart, parts.packed(shown.drop(columns=NOT_SHOWN))

    more = f", the {MOST_DRAWN} largest of {len(shown)}" if len(shown) > MOST_DRAWN else ""
    st.subheader(f"Change of each series{more}")
    asked_for = "compare", *sides, machine, wanted
    chart, cells = stored.drawn(stored.now(folder), asked_for, drawn)
    st.vega_lite_chart(chart, width="stretch")
    with st.container(horizontal=True):
        parts.save_chart(chart, "compare", f"Change of each series: {wanted}{more}")
    percent = st.column_config.NumberColumn(format="percent")
    columns = dict.fromkeys(("change", "low", "high", "detectable"), percent)
    parts.packed_table(cells, columns)
    parts.save(rows, "compare")
st.caption(
    "Point: change of the time, hollow and with a ? where provisional; line: its 99 % interval. "
    "A verdict counts how many series were compared at once (docs/judgement.md). Detectable: half "
    "of the interval."
)
parts.folded(
    "As Markdown, for a pull request",
    "the markdown",
    lambda: st.code(made.markdown, language="markdown"),
)
