"""What the pages share: filters that hold on all of them, choices, tables and charts to click."""

import shlex
from base64 import b64encode
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from html import escape
from typing import Any, NoReturn

import data
import pandas as pd
import streamlit as st
import words
from data import Store
from streamlit.runtime.scriptrunner import get_script_run_ctx

from hostbench.core.case import AxisValue
from hostbench.core.units import format_rate, format_seconds, number_of
from hostbench.families.question import Question, axis_name
from hostbench.judge.changepoint.detector import FEWEST_POINTS
from hostbench.judge.events import Event
from hostbench.judge.history import History, Series
from hostbench.report.blocks import Spec
from hostbench.report.changes import STATE_WORDS, Cause
from hostbench.report.charts import CLICKED, GREY, in_ink
from hostbench.report.page import DEVICES
from hostbench.report.sides import is_ours

REMEDY = "hostbench run --quick"
ANY_TIME = "all runs"
RANGES = {ANY_TIME: 36_500, "7 days": 7, "30 days": 30, "90 days": 90, "1 year": 365}
"""Days before the newest run."""
ON_ALL_PAGES = ("machine", "range")
"""Choices, by their keys; all others are forgotten with their page."""
MOST_MACHINES = 4
MOST_LINKS, MOST_USUAL = 60, 5
INKS = {"light": "#4b5563", "dark": "#c9ced6"}
"""Of a chart's texts, by theme: 7 times as light or dark as the page behind them."""
LEFT = "[class*=st-key-change-] button {justify-content: start; text-align: start}"
"""Of a button whose text has several lines, which streamlit centres."""
FEWEST_SPARKS = 8
"""Points of a small trend: fewer show nothing."""
TITLES = {"y": "number", "seconds": "time", "gb_per_s": "rate", "run_id": "run"}
TITLES |= {"num_samples": "launches", "effect": "change"}
"""Of columns of tables; of others their name, without a unit."""
TIMES = ("seconds", "ci_low_s", "ci_high_s", "before_s", "after_s")
IN_WORDS = {**dict.fromkeys(TIMES, format_seconds), "gb_per_s": format_rate}
"""Of columns of numbers."""
MOST_WORDED = 50_000
"""Cells of a table whose numbers are in words: of more it takes seconds."""


def head(page: st.Page) -> None:
    """What could not be read; the end of the page where no run is chosen, and where none is stored
    the one command that makes one.

    Before it shows another page, Streamlit makes an entry of the browser's history in which the
    page that is left has the choices of the other one: Back to it leads to what was left."""
    store, path, own, state = data.opened(), page.url_path, _choices(), st.session_state
    # tells Back to an entry without a choice from a link to the page
    is_back = getattr(get_script_run_ctx(), "is_history_navigation", False)
    before, chosen = state.get("page", path), state.get("choices", {})
    left = state.setdefault("left", {})
    if before != path:  # where a key is another choice
        # a link without a choice takes those of widgets out of that entry, no others
        if not is_back and (own or any(key in state for key in chosen)):
            left[before, str(own)] = chosen
        for key in {*map(str, state)} - {"left", *ON_ALL_PAGES}:
            del state[key]
    state["page"], state["choices"] = path, own
    if (own or is_back) and (path, str(own)) in left:
        st.switch_page(page, query_params=left[path, str(own)])
    if warnings := data.history(store).warnings:
        with st.expander(f"{len(warnings)} not readable; the rest is shown", icon="⚠️"):
            listed(warnings)
    if data.runs(store).empty:
        into = f" --results {shlex.quote(store.results)}" if store.folder else ""
        empty(f"No result is stored in {store.results} yet. Measure this machine:", REMEDY + into)
    if runs(store).empty:
        empty("No run is of these machines and this time: choose others above.")


def empty(why: str, command: str = "") -> NoReturn:
    """Why there is nothing to draw, the command that changes it, and the end of the page."""
    st.info(words.plain(why))
    if command:
        st.code(command, language=None, wrap_lines=True)
    st.stop()


def listed(lines: Sequence[str]) -> None:
    """Lines of text from files."""
    st.markdown("\n".join(f"- {words.plain(line)}" for line in lines))


def compare_now(store: Store, why: str) -> NoReturn:
    """Ends a page that has nothing to compare with what measures two commits: for another project
    asv does."""
    command = "hostbench ab main" if is_ours(data.runs(store)) else "asv continuous main HEAD"
    empty(f"{why} To compare two commits now:", command)


def not_judged(series: Sequence[Series]) -> str:
    longest = max((own.longest for own in series), default=0)
    return (
        f"Nothing is judged yet: a series needs {FEWEST_POINTS} runs that are neither quick nor "
        f"dirty; the longest has {longest}."
    )


def filters() -> None:
    """Machines and time, which hold on every page, and what device they are of."""
    store = data.opened()
    if data.runs(store).empty:
        return
    names = sorted(data.machines(store))
    check_link("machine", names)
    if len(names) > 1:
        look: Any = {"key": "machine", "bind": "query-params", "width": 340, "select_all": False}
        st.multiselect("Machines", names, placeholder="all machines", **look)
    select(st, "Time range", list(RANGES), "range", width=140)
    counts = data.history(store).counts
    devices = set(counts["device"][counts["machine"].isin(machines(store))].unique())
    labels = [text for device, text in DEVICES.items() if device in devices]
    if labels:
        st.markdown(" ".join(f":violet-badge[:material/info: {text}]" for text in labels))


def check_link(key: str, options: Collection[str]) -> None:
    """Say which choices of the address are not here: a widget forgets them in silence. Once it is
    there, the address is its own."""
    asked = st.query_params.get_all(key) if key not in st.session_state else ()
    if gone := [name for name in asked if name and name not in options]:
        st.caption(f"The link names {words.plain(', '.join(gone))}, which is not here.")


def machines(store: Store) -> list[str]:
    """Those that are chosen, else all; the one with the newest run first."""
    names, chosen = data.machines(store), st.session_state.get("machine")
    return [name for name in names if name in chosen] if chosen else names


def time_range() -> str:
    return st.session_state.get("range") or ANY_TIME


def range_start() -> pd.Timestamp:
    """The beginning of the time range that is chosen."""
    newest: pd.Timestamp = data.runs(data.opened())["started_at"].max()
    return newest - pd.Timedelta(days=RANGES[time_range()])


def within(rows: pd.DataFrame, column: str = "started_at") -> pd.DataFrame:
    """The rows of the time range that is chosen, and those without a date."""
    return rows[~(rows[column] < range_start())]


def events(judged: History, names: Sequence[str]) -> list[Event]:
    """Those of these machines and of the time that is chosen, and what fails now, whenever it
    began."""
    start = range_start()
    mine = (event for event in judged.events if event.machine in names)
    return [event for event in mine if event.fails or not event.first.committed_at < start]


def runs(store: Store, workloads: Sequence[str] = ()) -> pd.DataFrame:
    """Of the machines and the time that are chosen, the newest first; of some workloads those that
    have a number of their family."""
    every = data.runs(store)
    every = within(every[every["machine"].isin(machines(store))])
    families = {name.partition(".")[0] for name in workloads}
    return every[[not families or not families.isdisjoint(own) for own in every["families"]]]


def newest(store: Store, workloads: Sequence[str]) -> list[tuple[str, str]]:
    """(machine, run) of each machine's newest run with a number of one of these workloads, of
    MOST_MACHINES machines."""
    keys = list[tuple[str, str]]()
    for machine, own in runs(store, workloads).groupby("machine", sort=False):
        for run_id in own["run_id"] if len(keys) < MOST_MACHINES else ():
            if not data.measured(store, str(machine), run_id).isdisjoint(workloads):
                keys.append((str(machine), run_id))
                break
    return keys


@st.fragment(run_every="10s")
def refresh(shown: Store) -> None:
    """Draw the page again when a stored file has come, gone or been written."""
    if data.opened() != shown:
        st.rerun()


def select(box: Any, label: str, options: Sequence[str], key: str, **look: Any) -> str:
    """A choice of one of many, in the address."""
    check_link(key, [*map(look.get("format_func", str), options)])
    return str(box.selectbox(label, options, key=key, bind="query-params", **look))


def choice(
    label: str, options: Sequence[str], key: str, text: Callable[[str], str] = str, **look: Any
) -> str:
    """A choice in the address; the first option is the default. A single one is no choice. `text`
    of an option is drawn as Markdown."""
    check_link(key, [text(option) for option in options])
    if len(options) == 1:
        return options[0]
    look = {"default": options[0], "required": True, "bind": "query-params", **look}
    return str(st.segmented_control(label, options, key=key, format_func=text, **look))


def axis_values(
    asking: Question, axis: str, values: Iterable[AxisValue], usual: Collection[AxisValue]
) -> list[AxisValue]:
    """Values of an axis, as pills in the address; none is all. The `usual` ones are chosen at
    first, else the first of all."""
    ordered = sorted(values, key=partial(asking.order, axis))
    named = {asking.word(axis, value) or str(value): value for value in ordered}
    check_link(f"is-{axis}", [words.plain(name) for name in named])
    chosen = st.pills(
        words.plain(axis_name(axis)),
        list(named),
        selection_mode="multi",
        default=[name for name, own in named.items() if own in usual] or [*named][:MOST_USUAL],
        key=f"is-{axis}",
        bind="query-params",
        format_func=words.plain,  # drawn as Markdown
    )
    return [named[name] for name in chosen] or ordered


def go(page: str, **query: str) -> NoReturn:
    """To another page, with the machines and the time of this one."""
    st.switch_page(f"views/{page}.py", query_params=query)


def _choices() -> dict[str, list[str]]:
    """Of this page alone, in the address."""
    own = (key for key in st.query_params if key not in ON_ALL_PAGES)
    return {key: st.query_params.get_all(key) for key in own}


def link(page: str, label: str, **query: str) -> None:
    icon = ":material/show_chart:"
    st.page_link(f"views/{page}.py", label=label, icon=icon, query_params=query or None)


def reset(label: str, key: str, icon: str) -> None:
    """A button that takes a choice out of the address."""
    everything: dict[str, list[str]] = {key: []}
    look: Any = {"type": "tertiary", "icon": f":material/{icon}:"}
    st.button(label, on_click=st.query_params.update, args=(everything,), **look)


def shown(
    parts: Mapping[str, Callable[[], object]], key: str = "show", label: str = "Show"
) -> None:
    """What is drawn only when asked for, one at a time, which the address holds: a table that
    nobody reads would make the page half as slow again."""
    check_link(key, parts)
    asked = st.segmented_control(label, list(parts), key=key, bind="query-params")
    if asked:
        parts[asked]()


def clicked(rows: pd.DataFrame, key: str, **look: Any) -> int | None:
    """A table; the index of the row that was clicked just now, on whichever cell."""
    event = table(rows, key=key, on_select="rerun", selection_mode="single-cell", **look)
    cells = event["selection"]["cells"]
    return int(cells[0][0]) if cells and cells[0][0] < len(rows) else None


def table(
    rows: pd.DataFrame,
    percent: Sequence[str] = (),
    in_words: Mapping[str, Callable[[float], str]] = IN_WORDS,
    **look: Any,
) -> Any:
    """Without columns that hold nothing; no word for what is missing. Numbers in words are sorted
    as numbers."""
    rows = rows.dropna(axis="columns", how="all")
    texts = rows.select_dtypes(["object", "string"]).columns
    rows = rows.assign(**{str(name): rows[name].fillna("").astype(str) for name in texts})
    columns: dict[str, Any] = {
        str(name): str(name).removesuffix("_s").replace("_", " ") for name in rows
    }
    columns |= TITLES
    for name in map(str, rows.select_dtypes("float")):
        form = "percent" if name in percent else "%.4g"
        if name not in in_words:
            columns[name] = st.column_config.NumberColumn(columns[name], format=form)
    look |= {"column_config": columns, "placeholder": ""}
    forms: dict[Any, Any] = {name: form for name, form in in_words.items() if name in rows}
    is_worded = forms and rows.size < MOST_WORDED
    shown: Any = rows.style.format(forms, na_rep="") if is_worded else rows
    return st.dataframe(shown, hide_index=True, **look)


def draw(spec: Spec, says: str, **look: Any) -> Any:
    """A chart in the colours of the theme, described for who cannot see it."""
    spec = in_ink({**spec, "description": says}, ink())
    return st.vega_lite_chart(spec, width="stretch", **look)


def ink() -> str:
    """The colour of a chart's texts in the theme that is shown."""
    return INKS.get(st.context.theme.type or "", GREY)


def picture(svg: str, says: str) -> None:
    """What was drawn already, described for who cannot see it."""
    source = f"data:image/svg+xml;base64,{b64encode(svg.encode()).decode()}"
    look = "width: 100%; max-width: 24rem"
    st.html(f'<img src="{source}" alt="{escape(says)}" style="{look}">')


def chart(spec: Spec, key: str, says: str) -> Mapping[str, Any]:
    """What was clicked on a chart just now."""
    event = draw(spec, says, key=key, on_select="rerun", selection_mode=[CLICKED])
    picked = event["selection"].get(CLICKED) or [{}]
    return dict(picked[0])


def changes(causes: Sequence[Cause], series: Sequence[Series], picked: str = "") -> None:
    """A line for each cause, with the small trend of what it moved most; a click leads to all about
    it. The one that is shown already is `picked`."""
    st.html(f"<style>{LEFT}</style>")
    by_id = {own.id: own for own in series}
    for cause in causes:
        values, on = cause.sparkline(by_id), cause.machines
        blocks = f":gray[{words.spark(values)}]" if len(values) >= FEWEST_SPARKS else ""
        title = f"{words.change(cause)} {words.plain(cause.title)}".strip()
        what = [event.case.partition("[")[0] for event in cause.events if event.case]
        moved = number_of(cause.num_series, "series", "series")
        where = ", ".join(on) if len(on) < 3 else f"{len(on)} machines"
        since = f"{STATE_WORDS[cause.worst.state]} since {cause.since:%Y-%m-%d}"
        about = ", ".join([*what[:1], f"{moved} on {where}", since])
        label = f"**{title}** {blocks} :small[:gray[{words.plain(about)}]]"
        icon = f":material/{'arrow_forward' if cause.key == picked else 'show_chart'}:"
        if st.button(label, f"change {cause.key}", type="tertiary", icon=icon):
            go("changes", change=cause.key)
