"""What the pages share: opening the results, and a table with its CSV."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, NoReturn

import data
import judging
import pandas as pd
import pyarrow as pa
import stored
import streamlit as st
from derive import unexpected, without_number
from streamlit.navigation.page import StreamlitPage
from words import no_formula, plain

from hostbench.core.errors import UsageError
from hostbench.core.units import number_of
from hostbench.judge.grid import Along
from hostbench.report.chart_file import Form, chart_file
from hostbench.report.charts import Spec
from hostbench.report.judged_table import JudgedTable, NotJudgedError

LOOKS_EVERY_S = 10
REMEDY = "hostbench run --quick"
_LONGEST = 80  # signs of a file's name
_FOR_A_FILE = re.compile(r"[^\w.-]+")
CAUSE_COLUMNS = {
    "sparkline": st.column_config.LineChartColumn(width="small"),
    "since": st.column_config.DatetimeColumn(format="YYYY-MM-DD", timezone="UTC", width="small"),
    "what": st.column_config.Column(width=300),
    "cause": st.column_config.Column(width=110),
}
"""How a table of causes is drawn."""
_CAUSE = ["state", "change", "sparkline", "what", "since", "cause", "series", "machines"]
_WIDE = ("reason", "flags", "which", "series")


def opened() -> stored.Place:
    """The results folder, after what could not be read of it; where it holds no run, a message with
    the remedy and the end of the page."""
    folder = stored.results_folder()
    try:
        is_empty = data.runs(folder).empty
    except UsageError as error:
        st.error(f"Nothing to show: {plain(error)}")
    else:
        warnings(stored.warnings(folder), "while reading")
        if not is_empty:
            return folder
        st.info(f"No result is stored in {plain(folder)} yet.")
    st.markdown("Measure this machine, in about two minutes:")
    st.code(REMEDY, language="bash")
    st.markdown("Results elsewhere: `hostbench dashboard --results DIR`")
    end()


def refresh() -> None:
    """A switch: with it on, a page that is open is drawn again when stored files have changed. It
    holds on all pages, is in the address of each, and is no entry of the browser's history."""
    if st.toggle("Refresh by itself", key="refresh", bind="query-params"):
        _redraw()


@st.fragment(run_every=LOOKS_EVERY_S)
def _redraw() -> None:
    if stored.is_outdated(stored.results_folder()):
        st.rerun()


def judged(folder: stored.Place, axis: Along) -> JudgedTable:
    """What was judged. While nothing is judged yet the page says how far that is, and ends; while
    it is judged anew, the page shows what was judged before, and says so."""
    table = judging.judged_table(folder, axis)
    if not table.is_fresh:
        _wait(folder, axis)
        try:
            table.machines()
        except NotJudgedError:
            end()
        st.caption("Below: as it was judged before the newest files came.")
    return table


def caused(folder: stored.Place, axis: Along) -> judging.Caused:
    """The same, event by event and cause by cause."""
    return judging.caused(folder, axis, judged(folder, axis))


@st.fragment(run_every=1)
def _wait(folder: stored.Place, axis: Along) -> None:
    stored.begin()
    try:
        is_fresh = judging.judged_table(folder, axis).is_fresh
    except UsageError:  # the page says so
        is_fresh = True
    if is_fresh:
        st.rerun()
    told = judging.how_far(folder, axis)
    if told.error:
        st.error(f"What is stored cannot be judged: {plain(told.error)}")
    else:
        st.info(f"Judging what is stored, once: {plain(told.said)} ...")


def folded(label: str, key: str, drawn: Callable[[], object]) -> None:
    """A box that is closed at first; what is in it is made and sent when it is opened."""
    box = st.expander(label, key=key, on_change="rerun")
    if box.open:
        with box:
            drawn()


def warnings(said: Sequence[str], where: str) -> None:
    if said:
        with st.expander(f"{number_of(len(said), 'warning')} {where}; the rest is shown"):
            for warning in said:
                st.markdown(plain(warning))


def stop(message: str) -> NoReturn:
    """Say why there is nothing to draw, and end the page."""
    st.info(message)
    end()


class EndOfPage(Exception):
    """A page has no more to say. st.stop would end what stands around the page, too."""


def end() -> NoReturn:
    """End the page here."""
    raise EndOfPage


def run(page: StreamlitPage) -> None:
    """The page, until its end or to where what was judged turns out to be damaged."""
    try:
        page.run()
    except EndOfPage:
        pass
    except NotJudgedError:
        st.warning("What was judged cannot be read: load the page again, and it is made anew.")
    except UsageError as error:  # since the page began
        st.error(f"Nothing to show: {plain(error)}")


def in_brief(causes: pd.DataFrame) -> pd.DataFrame:
    """Of hostbench.report.causes what fits a page; many machines as their number."""
    many = causes["machines"].str.count(", ") + 1
    said = causes["machines"].where(many < 3, many.map(str) + " machines")
    return causes.assign(machines=said)[_CAUSE]


def table(
    rows: pd.DataFrame,
    name: str = "",
    csv: pd.DataFrame | None = None,
    columns: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    """A table; with a name also a button that saves it, or the fuller `csv`, as NAME.csv.

    Columns with nothing in them are not shown. `columns`: how some of them are drawn.
    """
    packed_table(packed(rows), columns)
    if name:
        save(rows if csv is None else csv, name)


def packed_table(rows: pa.Table, columns: Mapping[str, Any]) -> None:
    """A table of what `packed` gave."""
    drawn: dict[str, Any] = {name: st.column_config.Column(width="large") for name in _WIDE}
    st.dataframe(rows, hide_index=True, width="stretch", column_config=drawn | dict(columns))


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


def packed(rows: pd.DataFrame) -> pa.Table:
    """As a table is sent: empty text for what is missing, without the columns that hold nothing."""
    texts = set(rows.select_dtypes(["object", "string"]))
    shown = {}
    for column in rows:
        cells: Any = rows[column]
        known = cells.notna()
        if column in texts:
            told = zip(cells.tolist(), known.tolist(), strict=True)
            cells = known = [str(cell) if is_known else "" for cell, is_known in told]
        if any(known):
            shown[column] = cells
    return pa.Table.from_pandas(pd.DataFrame(shown, index=rows.index), preserve_index=False)


def save(rows: pd.DataFrame | Callable[[], pd.DataFrame], name: str) -> None:
    """A button that saves the rows, or those that are made then, as NAME.csv when it is pressed."""
    _button("CSV", partial(_csv, rows), name, "text/csv")


def _csv(given: pd.DataFrame | Callable[[], pd.DataFrame]) -> str:
    """A text that a spreadsheet would take for a formula has an apostrophe before it."""
    rows = given if isinstance(given, pd.DataFrame) else given()
    texts = rows.select_dtypes(["object", "string", "category"])
    return rows.assign(**{str(name): texts[name].map(no_formula) for name in texts}).to_csv(
        index=False
    )


def save_chart(spec: Spec, name: str, title: str) -> None:
    """Two buttons that save a chart under a title as NAME.svg and NAME.png."""
    kinds: tuple[tuple[Form, str], ...] = (("svg", "image/svg+xml"), ("png", "image/png"))
    for form, kind in kinds:
        made = partial(chart_file, spec, title, form)
        _button(form.upper(), made, name, kind)


def _button(label: str, made: Callable[[], str | bytes], name: str, kind: str) -> None:
    """`label`: what the file's name ends with, too."""
    file = f"{_FOR_A_FILE.sub('-', name)[:_LONGEST]}.{label.lower()}"
    key, icon = f"{label} of {name}", ":material/download:"
    st.download_button(label, made, file, kind, icon=icon, key=key, on_click="ignore")


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
