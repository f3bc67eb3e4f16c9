"""How hostbench measures, keeps and judges: the project's own pages."""

import choose
import streamlit as st
from documents import names, text, title

st.title("Method")
known = names()
if not known:
    st.info("The documentation is not installed beside this dashboard.")
    st.stop()
chosen = choose.one("doc", "Page", known, title)
st.markdown(text(chosen))
