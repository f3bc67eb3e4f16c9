"""Entry point: `hostbench dashboard`, or `streamlit run dashboard/app.py -- --results DIR`."""

import choose
import streamlit as st

st.set_page_config(page_icon="⏱️", layout="wide", initial_sidebar_state=200)
page = st.navigation(
    [
        st.Page("views/overview.py", title="Overview", default=True),
        st.Page("views/changes.py", title="Changes"),
        st.Page("views/trend.py", title="Trend"),
        st.Page("views/compare.py", title="Compare"),
        st.Page("views/runs.py", title="Runs"),
        st.Page("views/machines.py", title="Machines"),
        st.Page("views/family.py", title="Families"),
    ],
)
st.set_page_config(page_title=f"{page.title} · hostbench")
choose.begin()
page.run()
with st.sidebar.popover("Link", icon=":material/link:", type="tertiary"):
    st.code(choose.link(), language=None, wrap_lines=True)
