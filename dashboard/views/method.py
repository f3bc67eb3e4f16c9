"""How hostbench measures, keeps and judges: the project's own pages."""

import choose
import parts
import streamlit as st
from documents import names, text, title

st.title("Method")
known = names()
if not known:
    parts.stop("The documentation is not installed beside this dashboard.")
chosen = choose.one("doc", "Page", known, title)
st.markdown(text(chosen))
