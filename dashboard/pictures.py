"""Pictures of time on a page: what `hostbench trace` has kept of a family's cases.

The picture is drawn here, from the lanes that are stored, and shown as an image: no stored SVG and
no text of a trace becomes part of the page.
"""

import json

import choose
import data
import pandas as pd
import parts
import stored
import streamlit as st
from words import case, plain

from hostbench.report.reading import picture
from hostbench.store.traces import StoredTrace
from hostbench.timeline.picture import Scheme


def of_time(folder: stored.Place, machine: str, rows: pd.DataFrame) -> bool:
    """One reading of a case lane by lane, of the families and devices of these rows of the tidy
    frame; False where none is stored."""
    by_case: dict[str, StoredTrace] = {}
    for family in rows["family"].dropna().unique():
        stored, said = data.traces(folder, machine, str(family))
        parts.warnings(said, "while reading traces")
        devices = set(rows["device"])
        by_case |= {one.about.case: one for one in stored if one.about.device in devices}
    if not by_case:
        return False
    st.subheader("One reading, lane by lane")
    named = choose.one("trace", "Case", list(by_case), _in_words)
    _show(by_case[named])
    return True


def _in_words(text: str) -> str:
    workload = text.partition("[")[0]
    return f"{workload}: {case(text, workload, with_device=False)}"


def _show(trace: StoredTrace) -> None:
    scheme: Scheme = "dark" if st.context.theme.type == "dark" else "light"
    st.image(picture(trace, scheme), width="stretch")
    name = trace.about.case.partition("[")[0]
    at = trace.about.started_at[:16].replace("T", " ")
    said = f"Seen by hostbench trace at {at} UTC, in no run"
    st.caption(plain(f"{said}. Seeing costs time: these times are no results."))
    with st.container(horizontal=True):
        _save("SVG", picture(trace), f"{name}.svg", "image/svg+xml")
        _save("Perfetto", json.dumps(trace.document()), f"{name}.json", "application/json")


def _save(label: str, text: str, name: str, kind: str) -> None:
    st.download_button(label, text, name, kind, icon=":material/download:", key=f"time {name}")
