"""Entry point: `hostbench dashboard`, or `streamlit run dashboard/app.py -- --results DIR`."""

import streamlit as st

page = st.navigation(
    [
        st.Page("views/overview.py", title="Overview", default=True),
        st.Page("views/changes.py", title="Changes"),
        st.Page("views/trend.py", title="Trend"),
        st.Page("views/family.py", title="Families"),
    ],
)
st.set_page_config(
    page_title=f"{page.title} · hostbench",
    page_icon="⏱️",
    layout="wide",
    initial_sidebar_state=200,
)
st.html("<style>.stMainBlockContainer {padding-top: 3rem; padding-bottom: 2rem}</style>")
page.run()
