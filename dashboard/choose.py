"""Choices that live in the address: it alone says what is chosen, so that a copied link restores
the view and Back undoes the last choice.

What is not in the address is the default: a page that is visited is one entry of the browser's
history, and each choice one more.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import pandas as pd
import streamlit as st
from words import plain

_LOW, _HIGH, _OF_ROW = 330, 600, 36
"""Pixels of a table and of its row."""
_CHOSEN = "all that is chosen on this page"
_DAYS = "days"
_COMMIT, _PART_OF_COMMIT = re.compile("[0-9a-f]{40}"), re.compile("[0-9a-f]{1,39}")
MOST_LISTED = 500
"""Options of a select box, the first ones: the browser takes long for thousands."""


def begin() -> None:
    """Before a page runs: nothing is chosen yet."""
    st.session_state[_CHOSEN] = []


def link() -> str:
    """The address of this view with every choice in it, also those that are the default today."""
    chosen = {key: text(st.session_state[key]) for key, text in st.session_state[_CHOSEN]}
    address = urlsplit(st.context.url or "")
    said = {name: st.query_params.get_all(name) for name in st.query_params}
    query = urlencode({**said, **chosen}, doseq=True, quote_via=quote)
    return address._replace(query=query, fragment="").geturl()


def one(
    key: str,
    label: str,
    options: Sequence[str],
    text: Callable[[str], str] = str,
    *,
    drops: Sequence[str] = (),
) -> str:
    """A select box; its first option is the default. Another choice takes the keys that it `drops`
    out of the address: what they named may not be there any more."""
    _set(key, options)
    changed = _write(key, str, drops)
    return str(st.selectbox(label, options, key=key, format_func=text, on_change=changed))


def one_of_many(
    key: str,
    label: str,
    options: Sequence[str],
    text: Callable[[str], str] = str,
    *,
    drops: Sequence[str] = (),
) -> str:
    """The same of commits or runs, of which the first MOST_LISTED are listed: another one is typed,
    by a part of its name that no other has. The address may name a commit by its beginning."""
    said, chosen = st.query_params.get(key), asked(key, options)
    if said and chosen is None:
        num = len(_begun(said, options))
        why = f"is how {num:,} begin: say more of it" if num else "is not here"
        st.warning(f"The link asks for {plain(key)} {plain(said)}, which {why}.")
    chosen = chosen or options[0]
    _hold(key, chosen)
    listed = list(dict.fromkeys((*options[:MOST_LISTED], chosen)))
    is_cut = len(listed) < len(options)

    def write() -> None:
        found = _typed(label, st.session_state[key], options, text)
        if found is not None:
            _put(key, found, drops)

    st.selectbox(
        label,
        listed,
        key=key,
        format_func=text,
        on_change=write,
        accept_new_options=is_cut,
        filter_mode="contains" if is_cut else "fuzzy",
        help=f"The first {len(listed):,} of {len(options):,} are listed. Type a part of another "
        "one's name (how a commit begins), and press Enter."
        if is_cut
        else None,
    )
    return chosen


def asked(key: str, options: Sequence[str]) -> str | None:
    """The option that the address names; a commit also by its beginning, where no other begins so.
    The name of a run may be how another one's begins, and says nothing of that."""
    said = st.query_params.get(key, "")
    alike = [said] if said in options else _begun(said, options)
    return alike[0] if len(alike) == 1 else None


def _begun(said: str, options: Sequence[str]) -> list[str]:
    """The commits that begin so."""
    part = said.strip().lower()
    if not _PART_OF_COMMIT.fullmatch(part):
        return []
    return [one for one in options if one.startswith(part) and _COMMIT.fullmatch(one)]


def _typed(label: str, said: str, options: Sequence[str], text: Callable[[str], str]) -> str | None:
    """The one commit that begins so, or the one run that has it in its name, or in what it is
    called here; None, with a word, where there is none or several: what was chosen stays."""
    if said in options:
        return said
    part = said.strip().lower()
    commits = _begun(said, options)
    alike = commits or [one for one in options if part in one.lower() or part in text(one).lower()]
    if len(alike) == 1:
        return alike[0]
    why = f"{len(alike):,} of them are called so, type more of it" if alike else "none is called so"
    st.toast(f"{label}: {plain(said)}: {why}.", duration="long")
    return None


def text(key: str, label: str, hint: str) -> str:
    """A field for words; empty by default."""
    _hold(key, st.query_params.get(key, ""))
    return str(st.text_input(label, key=key, placeholder=hint, on_change=_write(key, str)))


def some(
    key: str,
    label: str,
    options: Sequence[str],
    text: Callable[[str], str] = str,
    *,
    most: int,
    drops: Sequence[str] = (),
) -> list[str]:
    """Several at once; none by default. The address has the key once for each."""
    st.session_state[key] = _here(key, options)[:most]

    def write() -> None:
        _put(key, st.session_state[key], drops)

    chosen = st.multiselect(
        label, options, key=key, format_func=text, max_selections=most, on_change=write
    )
    return [str(one) for one in chosen]


def counted(key: str, label: str, numbers: Mapping[str, int]) -> str:
    """A few kinds side by side, each with how many there are of it; the first is the default."""
    _set(key, list(numbers))
    changed = _write(key, str)
    box = st.segmented_control(
        label,
        list(numbers),
        key=key,
        format_func=lambda name: f"{name} **{numbers[name]:,}**",
        on_change=changed,
        required=True,
        label_visibility="collapsed",
    )
    return str(box)


def row(key: str, label: str, rows: pd.DataFrame, names: Sequence[str], **look: Any) -> str | None:
    """A table, low where a row is chosen, for what follows is about it; a row that is clicked
    writes its name into the address. The name that is there."""
    most = _LOW if st.query_params.get(key) in names else _HIGH
    look["height"] = "content" if len(rows) * _OF_ROW < most else most
    said = some_rows(key, label, rows, names, selection_mode="single-row", **look)
    return said[0] if said else None


def some_rows(
    key: str, label: str, rows: pd.DataFrame, names: Sequence[str], **look: Any
) -> list[str]:
    """The same of several rows, which have the key once for each in the address."""

    def write(chosen: list[str]) -> None:
        if chosen:
            st.query_params[key] = chosen

    said = _here(key, names)
    _table(f"{key} row", rows, names, said, write, **look)
    st.caption(f"Click the box at the left of a row to see {label}.")
    return said


def passing_rows(key: str, rows: pd.DataFrame, names: Sequence[str], **look: Any) -> list[str]:
    """A table of which some rows are ticked for what follows, and not in the address: the names of
    those."""
    kept = f"ticked in {key}"

    def write(chosen: list[str]) -> None:
        st.session_state[kept] = chosen

    said = [one for one in st.session_state.get(kept, ()) if one in names]
    _table(f"{key} rows", rows, names, said, write, **look)
    return said


def _table(
    widget: str,
    rows: pd.DataFrame,
    names: Sequence[str],
    ticked: Sequence[str],
    write: Callable[[list[str]], None],
    **look: Any,
) -> None:
    """A table whose ticks stay with the names of its rows when these come in another order."""

    def changed() -> None:
        write([names[row] for row in st.session_state[widget].selection.rows])

    st.session_state[widget] = {"selection": {"rows": [names.index(one) for one in ticked]}}
    st.dataframe(
        rows,
        key=widget,
        hide_index=True,
        width="stretch",
        on_select=changed,
        placeholder="",
        **look,
    )


def _here(key: str, names: Sequence[str]) -> list[str]:
    """What the address says there, without what is not to be had, which a warning names."""
    said = st.query_params.get_all(key)
    gone = [one for one in said if one not in names]
    if gone:
        st.warning(f"The link asks for {plain(key)} {plain(', '.join(gone))}, which is not here.")
    return [one for one in said if one in names]


def either(key: str, label: str, options: Sequence[str]) -> str:
    """A few fixed options side by side; the first is the default."""
    _set(key, options)
    changed = _write(key, str)
    return str(st.radio(label, options, key=key, horizontal=True, on_change=changed))


def days(label: str, first: date, last: date) -> tuple[date, date]:
    """Two days between two, in the address as `from` and `to`, where both are one entry of the
    browser's history. The box that they are chosen in is drawn when it is opened."""
    since, until = _day("from", first, last, first), _day("to", first, last, last)
    with st.container(horizontal=True, vertical_alignment="center"):
        box = st.popover(label, icon=":material/date_range:", key=_DAYS, on_change="rerun")
        st.caption(f"{since} to {until}")
    if box.open:
        with (
            box,
            st.form("days asked for", border=False),
            st.container(horizontal=True, vertical_alignment="bottom"),  # a calendar opens below
        ):
            for key, name in (("from", "From"), ("to", "To")):
                st.date_input(
                    name,
                    min_value=first,
                    max_value=last,
                    key=key,
                    format="YYYY-MM-DD",
                    width=150,
                )
            st.form_submit_button("Show", on_click=_put_days)
    return since, until


def _put_days() -> None:
    st.query_params.update({key: str(st.session_state[key]) for key in ("from", "to")})
    st.session_state[_DAYS] = False


def _day(key: str, first: date, last: date, usual: date) -> date:
    said = st.query_params.get(key)
    try:
        asked = usual if said is None else datetime.strptime(said, "%Y-%m-%d").date()
    except ValueError:
        st.warning(f"The link asks for {plain(key)} {plain(said)}, which is no day as 2026-11-23.")
        asked = usual
    day = min(max(asked, first), last)
    if day != asked:
        st.warning(f"The link asks for {key} {asked}, and there are points from {first} to {last}.")
    _hold(key, day)
    return day


def yes(key: str, label: str, *, default: bool = True) -> bool:
    """A switch."""
    _set(key, ("yes", "no") if default else ("no", "yes"), lambda said: said == "yes", _yes_or_no)
    changed = _write(key, _yes_or_no)
    return bool(st.toggle(label, key=key, on_change=changed))


def _set(
    key: str,
    options: Sequence[str],
    value: Callable[[str], Any] = str,
    text: Callable[[Any], str] = str,
) -> None:
    """Set a widget to what the address says, else to the first option. `value` of an option is what
    the widget holds, `text` its way back."""
    said = st.query_params.get(key) or None
    if said is not None and said not in options:
        st.warning(f"The link asks for {plain(key)} {plain(said)}, which is not here.")
        said = None
    _hold(key, value(options[0] if said is None else said), text)


def _hold(key: str, value: Any, text: Callable[[Any], str] = str) -> None:
    """What a widget holds, and how the link says it."""
    st.session_state[key] = value
    st.session_state.setdefault(_CHOSEN, []).append((key, text))


def _yes_or_no(on: bool) -> str:
    return "yes" if on else "no"


def _write(key: str, text: Callable[[Any], str], drops: Sequence[str] = ()) -> Callable[[], None]:
    """Write a choice into the address, before the page runs again."""

    def write() -> None:
        _put(key, text(st.session_state[key]), drops)

    return write


def _put(key: str, value: str | Sequence[str], drops: Sequence[str]) -> None:
    """One entry of the browser's history, whatever it drops; what a widget of Streamlit's own
    keeps in the address stays."""
    gone: dict[str, Sequence[str]] = {name: () for name in drops if name in st.query_params}
    st.query_params.update({**gone, key: value})
