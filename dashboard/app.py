"""Entry point: `hostbench dashboard`, or `streamlit run dashboard/app.py -- --results DIR`."""

import choose
import streamlit as st

st.set_page_config(page_title="hostbench", page_icon="⏱️", layout="wide")
page = st.navigation(
    [
        st.Page("views/overview.py", title="Overview", default=True),
        st.Page("views/changes.py", title="Changes"),
        st.Page("views/trend.py", title="Trend"),
        st.Page("views/family.py", title="Families"),
    ],
    position="top",
)
with choose.in_the_url(page.url_path):
    page.run()
