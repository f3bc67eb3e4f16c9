"""How hostbench measures, keeps and judges: the project's own pages."""

import choose
import parts
import streamlit as st
from documents import names, sections, title

WHOLE = "the whole page"

st.title("Method")
known = names()
if not known:
    parts.stop("The documentation is not installed beside this dashboard.")
left, right = st.columns(2)
with left:
    chosen = choose.one("doc", "Page", known, title, drops=("section",))
of_page = sections(chosen)
asked = next(iter(of_page))
if len(of_page) > 1:
    with right:
        asked = choose.one("section", "Section", [*of_page, WHOLE])
st.markdown("".join(of_page.values()) if asked == WHOLE else of_page[asked])
