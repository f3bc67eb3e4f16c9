"""Entry point: `hostbench dashboard`, or `streamlit run dashboard/app.py`."""

import streamlit as st

from hostbench.core.errors import INSTALL_TABLE, TABLE, HostbenchError

try:
    import parts
    import words
except ModuleNotFoundError as error:
    if error.name not in TABLE:
        raise
    st.error(f"{error.name} is missing, which reads what is stored: {INSTALL_TABLE}")
    st.stop()

PAGES = [
    st.Page("views/overview.py", title="Overview", default=True),
    st.Page("views/curves.py", title="Curves"),
    st.Page("views/changes.py", title="Changes"),
    st.Page("views/trend.py", title="Trend"),
    st.Page("views/compare.py", title="Compare"),
    st.Page("views/runs.py", title="Runs and machines"),
]
st.set_page_config(page_icon="⏱️", layout="wide")
bar = st.container(horizontal=True, vertical_alignment="bottom")
title = bar.container(width="content")
try:
    try:
        with bar:
            # Before the page is named: a filter adds itself to the address, which would be an entry
            # of the browser's history on the new page, too, and Back would lead there.
            parts.filters()
    finally:
        page = st.navigation(PAGES, position="top")
        st.set_page_config(page_title=f"{page.title} · hostbench")
        title.title(page.title, anchor=False)
    parts.head(page)
    page.run()
except (HostbenchError, OSError) as error:
    st.error(f"Nothing to show: {words.plain(error)}")
    st.code(parts.REMEDY, language=None)
    st.markdown("Results elsewhere: `hostbench dashboard --results DIR`")
