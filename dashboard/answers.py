"""Answers on a page: a state, a headline, a chart, and the figures one click away."""

from collections.abc import Sequence
from typing import Literal

import pandas as pd
import parts
import streamlit as st
from words import plain

from hostbench.core.units import number_of
from hostbench.report.answer import Answer, Chart, Unanswered
from hostbench.report.charts import drawn

BADGES: dict[str, tuple[str, Literal["green", "red", "orange", "blue", "gray"]]] = {
    "yes": (":material/check_circle:", "green"),
    "no": (":material/cancel:", "red"),
    "partly": (":material/contrast:", "orange"),
    "figure": (":material/straighten:", "blue"),
    "undecided": (":material/help:", "gray"),
    "unavailable": (":material/visibility_off:", "gray"),
}
COLUMNS = {
    "shape": st.column_config.BarChartColumn(width="small", y_min=0),
    "question": st.column_config.Column(width=330),
    "verdict": st.column_config.Column(width=400),
}
"""How a table of answers is drawn."""
SAID = {"figure": "measured", "unavailable": "not here"}
"""States that a badge calls otherwise."""


def headline(answer: Answer) -> None:
    """The question, and its verdict with its state."""
    icon, color = BADGES[answer.state]
    said = _state(answer)
    if said == "one launch":
        color = "gray"
    st.markdown(f"**{plain(answer.question)}**")
    with st.container(horizontal=True, gap="small"):
        st.badge(said, icon=icon, color=color)
        st.markdown(plain(answer.verdict))
    if answer.state == "undecided":
        measured = [str(one) for one in answer.figures if one.value is not None]
        st.caption(plain("; ".join(measured[:3])))


def whole(answer: Answer, about: Sequence[str], machine: str) -> None:
    """The headline, the chart, its workload's trend, and the figures under it."""
    name = f"{answer.workload}-{answer.question}"
    with st.container(border=True):
        headline(answer)
        for note in answer.notes:
            st.caption(plain(note))
        if answer.chart is not None:
            st.vega_lite_chart(drawn(answer.chart, about), width="stretch")
        st.page_link(
            "views/trend.py",
            label=f"{answer.workload} in Trend",
            icon=":material/show_chart:",
            query_params={"machine": machine, "workload": answer.workload},
        )
        label = number_of(len(answer.figures), "figure")
        parts.folded(label, f"figures of {name}", lambda: _figures(answer, about, name))


def _figures(answer: Answer, about: Sequence[str], name: str) -> None:
    """As a table, and with the chart as files."""
    parts.table(table(answer))
    with st.container(horizontal=True):
        parts.save(table(answer), name)
        if answer.chart is not None:
            parts.save_chart(drawn(answer.chart, about), name, answer.question)


def table(answer: Answer) -> pd.DataFrame:
    """A row for each figure; the numbers are in base units for the CSV."""
    lines = [
        {
            "figure": one.label,
            "in words": str(one).removeprefix(one.label).strip(),
            "value": one.value,
            "unit": one.unit,
            "low": one.low,
            "high": one.high,
            "held against": one.ratio.to if one.ratio else None,
            "verdict": one.ratio.conclusion.verdict if one.ratio else None,
            "status": one.status,
            "reason": one.reason,
        }
        for one in answer.figures
    ]
    return pd.DataFrame(lines)


def listed(found: Sequence[Answer]) -> pd.DataFrame:
    """A row for each answer: its headline, and the shape of its chart."""
    rows = [
        {
            "family": one.family,
            "question": one.question,
            "state": _state(one),
            "shape": _shape(one.chart),
            "verdict": one.verdict,
            "figure": next((str(figure) for figure in one.figures if figure.value is not None), ""),
        }
        for one in found
    ]
    return pd.DataFrame(rows, columns=["family", "question", "state", "shape", "verdict", "figure"])


def _shape(chart: Chart | None) -> list[float]:
    """The heights of its points; a single one has no shape."""
    points = chart.points if chart else ()
    return [point.y for point in points] if len(points) > 1 else []


def _state(answer: Answer) -> str:
    if answer.state == "figure" and answer.launches == 1:
        return "one launch"
    return SAID.get(answer.state, answer.state)


def not_answered(untold: Unanswered) -> None:
    """The other questions, folded by their reason."""
    for why, questions in untold.items():
        with st.expander(f"{len(questions)} not answered: {plain(why)}"):
            st.markdown("\n".join(f"- {plain(text)}" for text in questions))
