"""Entry point: `hostbench dashboard`, or `streamlit run dashboard/app.py -- --results DIR`."""

import choose
import data
import streamlit as st

st.set_page_config(page_icon="⏱️", layout="wide", initial_sidebar_state=200)
data.begin()
understand = [st.Page("views/method.py", title="Method")]
if data.has_own():
    data.begin()
understand = [
    st.Page("views/understand.py", title="Questions"),
    st.Page("views/family.py", title="Families"),
    *understand,
]
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
        "Understand": understand,
    }
)
st.set_page_config(page_title=f"{page.title} · hostbench")
choose.begin()
page.run()
with st.sidebar.popover("Link", icon=":material/link:", type="tertiary"):
    st.code(choose.link(), language=None, wrap_lines=True)
