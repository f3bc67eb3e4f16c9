"""What the pages share: opening the results, and a table with its CSV."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import data
import pandas as pd
import streamlit as st
from derive import unexpected, without_number
from words import missing, no_formula, plain

from hostbench.core.errors import UsageError
from hostbench.core.units import format_seconds, number_of
from hostbench.judge.grid import Along
from hostbench.report.judged_table import JudgedTable, NotJudgedError

REMEDY = "hostbench run --quick"
_WIDE = ("reason", "flags", "which", "series")


def opened() -> data.Place:
    """The results folder, after what could not be read of it; where it holds no run, a message with
    the remedy and the end of the page."""
    folder = data.results_folder()
    try:
        is_empty = data.runs(folder).empty
    except UsageError as error:
        st.error(f"Nothing to show: {plain(error)}")
    else:
        warnings(data.warnings(folder), "while reading")
        if not is_empty:
            return folder
        st.info(f"No result is stored in {plain(folder)} yet.")
    st.markdown("Measure this machine, in about two minutes:")
    st.code(REMEDY, language="bash")
    st.markdown("Results elsewhere: `hostbench dashboard --results DIR`")
    st.stop()


def judged(folder: data.Place, axis: Along) -> JudgedTable:
    """What was judged. While nothing is judged yet the page says how far that is, and ends; while
    it is judged anew, the page shows what was judged before, and says so."""
    table = data.judged_table(folder, axis)
    if not table.is_fresh:
        _wait(folder, axis)
        try:
            table.machines()
        except NotJudgedError:
            st.stop()
        st.caption("Below: as it was judged before the newest files came.")
    return table


def caused(folder: data.Place, axis: Along) -> data.Caused:
    """The same, event by event and cause by cause."""
    return data.caused(folder, axis, judged(folder, axis))


@st.fragment(run_every=1)
def _wait(folder: data.Place, axis: Along) -> None:
    data.begin()
    if data.judged_table(folder, axis).is_fresh:
        st.rerun()
    told = data.judging_now(folder, axis)
    if told.error:
        st.error(f"What is stored cannot be judged: {plain(told.error)}")
    else:
        st.info(f"What is stored is being judged, once: {plain(told.said)}.")


def warnings(said: Sequence[str], where: str) -> None:
    if said:
        with st.expander(f"{number_of(len(said), 'warning')} {where}; the rest is shown"):
            for warning in said:
                st.markdown(plain(warning))


def stop(message: str) -> None:
    """Say why there is nothing to draw, and end the page."""
    st.info(message)
    st.stop()


def table(
    rows: pd.DataFrame,
    name: str = "",
    csv: pd.DataFrame | None = None,
    columns: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    """A table; with a name also a button that saves it, or the fuller `csv`, as NAME.csv.

    Columns with nothing in them are not shown. A column `trend` leads to that page. `columns`: how
    some of them are drawn.
    """
    drawn: dict[str, Any] = {name: st.column_config.Column(width="large") for name in _WIDE}
    drawn["trend"] = st.column_config.LinkColumn(width="small", display_text="open")
    drawn |= columns
    st.dataframe(_filled(rows), hide_index=True, width="stretch", column_config=drawn)
    if name:
        save(rows if csv is None else csv, name)


def clickable(
    rows: pd.DataFrame, key: str, columns: Mapping[str, Any], height: Any = "auto"
) -> int | None:
    """A table; the place of the row that was clicked just now."""
    chosen = st.dataframe(
        rows,
        key=f"rows of {key}",
        hide_index=True,
        width="stretch",
        height=height,
        column_config=dict(columns),
        on_select="rerun",
        selection_mode="single-row",
        placeholder="",
    )
    places = chosen["selection"]["rows"]
    return int(places[0]) if places and places[0] < len(rows) else None


def number(row: Mapping[Any, Any]) -> str:
    """The newest number of a row of JudgedTable.series, with its interval."""
    if missing(row["value"]):
        return ""
    if row["unit"] != "seconds":
        return f"{row['value']:.4g} {row['unit'] or ''}".strip()
    text = format_seconds(row["value"])
    if missing(row["low"]) or missing(row["high"]):
        return text
    return f"{text} ({format_seconds(row['low'])} to {format_seconds(row['high'])})"


def _filled(rows: pd.DataFrame) -> pd.DataFrame:
    """Empty text for what is missing, without the columns that hold nothing."""
    texts = set(rows.select_dtypes(["object", "string"]))
    shown = {}
    for column in rows:
        cells: Any = rows[column]
        known = cells.notna()
        if column in texts:
            cells = known = [str(c) if k else "" for c, k in zip(cells, known, strict=True)]
        if any(known):
            shown[column] = cells
    return pd.DataFrame(shown, index=rows.index)


def save(rows: pd.DataFrame, name: str) -> None:
    """A button that saves the rows as NAME.csv. A text that a spreadsheet would take for a formula
    has an apostrophe before it."""
    texts = rows.select_dtypes(["object", "string", "category"])
    text = rows.assign(**{str(name): texts[name].map(no_formula) for name in texts}).to_csv(
        index=False
    )
    st.download_button("CSV", text, f"{name}.csv", "text/csv", icon=":material/download:", key=name)


def beside_the_numbers(rows: pd.DataFrame, name: str) -> None:
    """What has no valid number and why, what was not expected, and the numbers themselves."""
    gaps = without_number(rows)
    if len(gaps):
        st.subheader("Without a valid number, and why")
        table(gaps, f"{name}-without-number")
    odd = unexpected(rows)
    if len(odd):
        st.subheader("Unexpected findings")
        table(odd[["case", "flags"]], f"{name}-unexpected")
