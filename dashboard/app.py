"""Entry point: `hostbench dashboard`, or `streamlit run dashboard/app.py -- --results DIR`."""

from typing import Literal

import choose
import data
import parts
import stored
import streamlit as st

st.set_page_config(page_icon="⏱️", layout="wide", initial_sidebar_state=200)
stored.begin()
with st.spinner("Reading what is stored: the first time takes long ..."):
    ours: Literal["visible", "hidden"] = "visible" if data.has_own() else "hidden"
page = st.navigation(
    {
        "Watch": [
            st.Page("views/status.py", title="Status", default=True),
            st.Page("views/changes.py", title="Changes"),
        ],
        "Explore": [
            st.Page("views/series.py", title="Series"),
            st.Page("views/trend.py", title="Trend"),
            st.Page("views/compare.py", title="Compare"),
            st.Page("views/runs.py", title="Runs"),
            st.Page("views/machines.py", title="Machines"),
        ],
        "Understand": [
            st.Page("views/understand.py", title="Questions", visibility=ours),
            st.Page("views/family.py", title="Families", visibility=ours),
            st.Page("views/method.py", title="Method"),
        ],
    }
)
st.set_page_config(page_title=f"{page.title} · hostbench")
choose.begin()
with st.sidebar:
    parts.refresh()
parts.run(page)
with st.sidebar.popover("Link", icon=":material/link:", type="tertiary"):
    st.code(choose.link(), language=None, wrap_lines=True)
stored.end()
