"""What the pages share: opening the results, and a table with its CSV."""

import choose
import data
import pandas as pd
import streamlit as st
from derive import newest_first, of_family, surprises, without_number
from words import device, plain, run

from hostbench.errors import UsageError

REMEDY = "hostbench run --quick"
_WIDE = ("reason", "flags", "which", "no efficiency, because")


def results() -> data.Results:
    """The results, or a message with the remedy and the end of the page."""
    folder = data.results_folder()
    try:
        found = data.load(folder)
    except UsageError as error:
        st.error(f"Nothing to show: {plain(error)}")
        _remedy()
    _warnings(found.warnings)
    if found.points.empty:
        st.info(f"No result is stored in {plain(folder)} yet.")
        _remedy()
    return found


def _remedy() -> None:
    st.markdown("Measure this machine, in about two minutes:")
    st.code(REMEDY, language="bash")
    st.markdown("Results elsewhere: `hostbench dashboard --results DIR`")
    st.stop()


def _warnings(warnings: list[str]) -> None:
    if warnings:
        with st.expander(f"{len(warnings)} warning(s) while reading; the rest is shown"):
            for warning in warnings:
                st.markdown(plain(warning))


def stop(message: str) -> None:
    """Say why there is nothing to draw, and end the page."""
    st.info(message)
    st.stop()


def table(rows: pd.DataFrame, name: str, csv: pd.DataFrame | None = None) -> None:
    """A table with a button that saves it, or the fuller `csv`, as NAME.csv.

    Columns with nothing in them are not shown.
    """
    shown = _filled(rows)
    wide = {name: st.column_config.Column(width="large") for name in _WIDE if name in shown}
    st.dataframe(shown, hide_index=True, width="stretch", column_config=wide)
    _csv(rows if csv is None else csv, name)


def wrapped(rows: pd.DataFrame, name: str) -> None:
    """A table whose sentences break into lines, so that none is cut, with the same button."""
    shown = _filled(rows).map(plain)
    st.table(shown.set_index(shown.columns[0]))
    _csv(rows, name)


def _filled(rows: pd.DataFrame) -> pd.DataFrame:
    """Empty text for what is missing, without the columns that hold nothing."""
    shown = rows.copy()
    for column in shown.select_dtypes(["object", "string"]):
        shown[column] = ["" if pd.isna(value) else str(value) for value in shown[column]]
    empty = [column for column in shown if (shown[column].isna() | (shown[column] == "")).all()]
    return shown.drop(columns=empty)


def _csv(rows: pd.DataFrame, name: str) -> None:
    text = rows.to_csv(index=False)
    st.download_button("CSV", text, f"{name}.csv", "text/csv", icon=":material/download:", key=name)


def one_run(family: str) -> pd.DataFrame:
    """The family's rows of one machine, run and device, as chosen; the newest run by default."""
    rows = of_family(results().points, family)
    if rows.empty:
        stop(f"No {family} has been measured here yet. Measure it: `hostbench run {family}`")
    left, middle, right = st.columns([2, 3, 2])
    with left:
        machine = choose.one("machine", "Machine", newest_first(rows, "machine"))
    rows = rows[rows["machine"] == machine]
    names = {run_id: run(of_run) for run_id, of_run in rows.groupby("run_id")}
    with middle:
        run_id = choose.one("run", "Run", newest_first(rows, "run_id"), names.__getitem__)
    rows = rows[rows["run_id"] == run_id]
    with right:
        chosen = choose.one("device", "Device", list(dict.fromkeys(rows["device"])), device)
    return rows[rows["device"] == chosen]


def peers() -> pd.DataFrame:
    """Other tools' points of the chosen machine."""
    others = results().peers
    chosen: pd.DataFrame = others[others["machine"] == st.session_state.get("machine")]
    return chosen[
        (chosen["status"] == "ok") & chosen["gb_per_s"].notna() & chosen["nbytes"].notna()
    ]


def beside_the_numbers(rows: pd.DataFrame, name: str) -> None:
    """What has no valid number and why, what surprised, and the numbers themselves."""
    gaps = without_number(rows)
    if len(gaps):
        st.subheader("Without a valid number, and why")
        table(gaps, f"{name}-without-number")
    odd = surprises(rows)
    if len(odd):
        st.subheader("Surprises")
        table(odd[["case", "flags"]], f"{name}-surprises")
