"""Every question of the host/device paradigm with a machine's verdict; a row leads to its chart."""

import answers
import choose
import data
import parts
import streamlit as st
from words import plain

st.title("Questions")
folder = parts.opened()
machine = choose.one("machine", "Machine", data.machines(folder))
found = data.answered(folder, machine)
if not found.told and not found.untold:
    parts.stop("This machine's runs hold none of hostbench's own workloads: nothing is answered.")
st.caption(plain(found.hardware))
table = answers.listed(found.told)
number = table["state"].value_counts().to_dict()
states = {"all": len(table), **{str(state): int(num) for state, num in number.items()}}
wanted = choose.counted("state", "State", states)
shown = table if wanted == "all" else table[table["state"] == wanted]
picked = parts.clickable(
    shown,
    "questions",
    answers.COLUMNS,
    height="content",
)
if picked is not None:
    family = str(shown["family"].iloc[picked])
    query = {"family": family, "machine": machine, "run": found.runs[family]}
    query["question"] = str(shown["question"].iloc[picked])
    label = plain(f"Chart and figures: {query['question']}")
    st.page_link("views/family.py", label=label, icon=":material/bar_chart:", query_params=query)
parts.save(shown.drop(columns="shape"), "questions")
st.caption("Click the box at the left of a row for a link to its chart and figures.")
answers.not_answered(found.untold)
